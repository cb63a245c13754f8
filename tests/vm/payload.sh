#!/bin/bash
# Runs inside the guest, as root: the end-to-end suites as an ordinary user.
# The processor is emulated, so everything is given more time.
mapfile -t filters <filters
[ -n "${filters[0]}" ] || filters=()
uname -r
export SJAIL_TEST_BINARIES=$PWD SJAIL_TEST_PATIENCE=10
exec ./e2e --as user "${filters[@]}"
