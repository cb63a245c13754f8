#!/bin/bash
# Runs inside the guest, as root: README.md word for word and the package as people use it
# (where there is one to ship), then the end-to-end suites as an ordinary user. The processor
# may be emulated, so everything is given more time.
status=0
# What two newcomers have in front of them: a clone, and the packages made from it.
if [ -e readme ] && [ "${VM_BOOT:-1}" = 1 ]; then
    for user in alice bob; do
        install -d -o $user -g $user /home/$user/sjail
        tar -C /home/$user/sjail -xf clone.tar
        install -D -t /home/$user/sjail/target/package sjail_*.deb sjail-*.tar.gz
        chown -R $user: /home/$user/sjail
    done
    echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
    # shellcheck disable=SC2046 # a word, or none
    ./readme $([ ! -e short ] || echo --short) || touch /out/readme-failed
    rm /etc/sudoers.d/alice
fi
[ ! -e /out/readme-failed ] || status=1
if [ -e short ]; then ./ship --short || status=1; exit $status; fi
if [ -e ship ]; then ./ship || status=1; fi
mapfile -t filters <filters
[ -n "${filters[0]}" ] || filters=(escape)
echo "== sjail doctor, Linux $(uname -r)"
user-login alice "$PWD/sjail" doctor
export SJAIL_TEST_BINARIES=$PWD SJAIL_TEST_PATIENCE=10
./e2e --as user "${filters[@]}" || status=1
exit $status
