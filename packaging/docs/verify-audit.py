#!/usr/bin/env python3
"""Recomputes the chain of an sjail audit log: python3 verify-audit.py audit.db [HEADS…]

HEADS are files with lines `sjail-head-1 SEQ HASH …`, from the journal or another machine; without
any, audit.head beside the log. Shares no code with sjail. The signatures of checkpoints and heads
need an Ed25519 library; that each names a record of the chain is checked here.
"""
import hashlib
import os
import re
import sqlite3
import sys

FIELDS = (
    "seq time event id command argv cwd user agent session risk reasons decision rule approver policy "
    "isolation exit signal duration usage output_head output_tail detail"
).split()


def main(path, *files):
    # Before the log: that may grow meanwhile.
    files = files or (os.path.join(os.path.dirname(path), "audit.head"),)
    heads = [head for file in files for head in re.findall(r"sjail-head-1 (\d+) ([0-9a-f]{64})", open(file).read())]
    log = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    pruned = log.execute("select through, hash from pruned order by through desc limit 1").fetchone()
    last, prev = (pruned[0], pruned[1]) if pruned else (None, bytes(32))
    hashes = {}
    for row in log.execute(f"select {', '.join(FIELDS)}, prev, hash from record order by seq"):
        *values, claimed_prev, claimed = row
        seq = values[0]
        if last is not None and seq <= last and pruned and seq <= pruned[0]:
            continue  # on its way out
        if last is not None and seq != last + 1:
            return f"records {last + 1} to {seq - 1} are missing"
        if claimed_prev != prev:
            return f"record {seq} does not follow the one before it"
        text = b"sjail-audit-1\n"
        for name, value in [("prev", prev.hex()), *zip(FIELDS, values)]:
            if value is not None:
                value = str(value).encode()
                text += b"%s %d\n%s\n" % (name.encode(), len(value), value)
        if hashlib.sha256(text).digest() != claimed:
            return f"record {seq} was changed"
        last, prev = seq, claimed
        hashes[seq] = claimed
    signed = 0
    heads = [(int(seq), bytes.fromhex(digest)) for seq, digest in heads]
    for seq, digest in [*log.execute("select seq, hash from checkpoint"), *heads]:
        if seq in hashes and hashes[seq] != digest:
            return f"the signed head at {seq} was made of another log"
        if last is None or seq > last:
            return f"a signed head says that the log went to {seq}, but it ends at {last}"
        signed += 1
    print(f"{len(hashes)} records, the chain holds, {signed} signed heads agree with it")
    return None


if __name__ == "__main__":
    problem = main(*sys.argv[1:])
    if problem:
        sys.exit(f"{sys.argv[1]}: {problem}")
