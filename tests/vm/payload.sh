#!/bin/bash
# Runs inside the guest, as root: the package as people use it (where there is one to
# ship), then the end-to-end suites as an ordinary user. The processor may be emulated, so
# everything is given more time.
status=0
if [ -e ship ]; then ./ship || status=1; fi
mapfile -t filters <filters
[ -n "${filters[0]}" ] || filters=(escape)
uname -r
export SJAIL_TEST_BINARIES=$PWD SJAIL_TEST_PATIENCE=10
./e2e --as user "${filters[@]}" || status=1
exit $status
