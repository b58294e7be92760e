#!/usr/bin/env bash
# Measures embedding, decoding, diffusion sampling and the training of a judge, and prints a table.
#   scripts/gpu_check.sh                          on the GPU
#   scripts/gpu_check.sh --device cpu --tiny      on the processor, at toy size
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-.venv/bin/python}" -m benchmarks gpu_check "$@"
