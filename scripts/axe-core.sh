#!/bin/sh
# Fetches axe-core, which the browser tests look at pages with, into the folder that is given. It is
# a tool of the tests: no part of the project. Quiet, and never an error: without npm, or a
# connection to its registry, those tests are skipped.
set -u
folder="${1:-.venv/share}"
[ -f "$folder/axe.min.js" ] && exit 0
command -v npm >/dev/null 2>&1 || exit 0
temporary="$(mktemp -d)"
if (cd "$temporary" && npm pack --silent axe-core@4.14.1 >/dev/null 2>&1 && tar xzf axe-core-*.tgz); then
    mkdir -p "$folder" && cp "$temporary/package/axe.min.js" "$folder/axe.min.js"
else
    echo "axe-core could not be fetched: the tests of accessibility are skipped" >&2
fi
rm -rf "$temporary"
exit 0
