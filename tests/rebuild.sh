#!/bin/sh
# rebuild.sh CMAKE SOURCE BUILD TESTS OPTION...: builds SOURCE in BUILD with the options, then runs the tests labelled TESTS ("none": none).
set -eu
cmake=$1 source=$2 build=$3 tests=$4
shift 4
jobs=$(getconf _NPROCESSORS_ONLN)
"$cmake" -S "$source" -B "$build" "$@"
"$cmake" --build "$build" --parallel "$jobs"
[ "$tests" = none ] || "$(dirname "$cmake")/ctest" --test-dir "$build" -L "^$tests\$" --no-tests=error --output-on-failure -j "$jobs"
