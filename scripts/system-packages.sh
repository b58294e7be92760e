#!/bin/sh
# Installs what the demonstration and the tests like to find on Debian or Ubuntu: Fashion-MNIST, a
# PostgreSQL server for the ledger's tests, a browser for those of pages, and venv. Quiet, and never
# an error: without apt-get or the rights to use it, the demonstration takes its images from the hub
# and those tests are skipped.
set -u
command -v apt-get >/dev/null 2>&1 || exit 0

wanted=""
[ -d /usr/share/datasets/fashion-mnist ] || wanted="$wanted dataset-fashion-mnist"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$wanted postgresql"
command -v chromium >/dev/null 2>&1 || wanted="$wanted chromium"
[ -n "$(scripts/find-python.sh)" ] || wanted="$wanted python3 python3-venv"
[ -n "$wanted" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    root="env"
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    root="sudo -n env"
else
    echo "not installed, for want of root:$wanted" >&2
    exit 0
fi

apt="$root DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
echo "installing with apt-get:$wanted"
$apt update >/dev/null 2>&1
for package in $wanted; do # one at a time: a name that one release lacks must not stop the others
    $apt install --yes --no-install-recommends "$package" >/dev/null 2>&1 ||
        echo "apt-get could not install $package; going on without it" >&2
done
exit 0
