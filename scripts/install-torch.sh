#!/bin/sh
# Installs the pinned PyTorch with the given pip, and on Linux never the build that brings gigabytes
# of CUDA: a CPU wheel that pip's own settings already offer, else one from PyTorch's CPU index.
# For a GPU, install the build you want into .venv afterwards.
set -eu
pip=$1
pin=$(grep '^torch==' constraints.txt)

if [ "$(uname -s)" = "Linux" ] &&
    ! "$pip" install --quiet --dry-run --no-deps --report - "$pin" 2>/dev/null | grep -q '"version": "[^"]*+cpu"'; then
    exec "$pip" install --quiet --extra-index-url https://download.pytorch.org/whl/cpu "$pin+cpu"
fi
exec "$pip" install --quiet "$pin"
