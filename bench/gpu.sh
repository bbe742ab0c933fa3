#!/bin/sh
# Builds the engine in a checkout, for the Python that is there, and runs bench/gpu.py: everything on a GPU in one call.
set -e
cd "$(dirname "$0")/.."
cmake -S . -B build -G Ninja -DPython_EXECUTABLE="$(command -v python3)" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=4
cmake --build build
PYTHONPATH="$PWD/rewrite:$PYTHONPATH" exec python3 bench/gpu.py "$@"
