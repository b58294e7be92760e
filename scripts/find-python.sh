#!/bin/sh
# Prints a Python of 3.11 or later that can make a virtual environment, or nothing.
# With --explain it says on stderr what was found and what to do.
set -u
works='import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))'

if [ "${1:-}" = "--explain" ]; then
    {
        echo "understudy needs Python 3.11 or later, with the venv module."
        echo "Found: $(python3 --version 2>&1 || echo 'no python3 at all')."
        echo "On Debian or Ubuntu: apt-get install python3 python3-venv"
    } >&2
    exit 1
fi
for name in python3 python3.11 python3.12 python3.13 python3.14; do
    if "$name" -c "$works" >/dev/null 2>&1; then
        echo "$name"
        exit 0
    fi
done
