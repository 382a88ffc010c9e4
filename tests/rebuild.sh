#!/bin/sh
# rebuild.sh CMAKE SOURCE BUILD TESTS OPTION...: builds SOURCE in BUILD with the options, then runs the tests labelled TESTS ("none": none). Skipped (77) where programs with sanitizers do not run.
set -eu
cmake=$1 source=$2 build=$3 tests=$4
shift 4
# Sanitizers need what some containers do not allow. Without leaks they need less.
compiler=cc sanitizers=
for option; do
    case $option in
    -DCMAKE_C_COMPILER=*) compiler=${option#*=} ;;
    -DWVGD_SANITIZE=*) sanitizers=$(echo "${option#*=}" | tr ';' ',') ;;
    esac
done
if [ -n "$sanitizers" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo '#include <stdlib.h>
int main(void) { char *p = malloc(9); if (!p) return 1; p[0] = 0; int code = p[0]; free(p); return code; }' >"$work/probe.c"
    if ! "$compiler" -fsanitize="$sanitizers" -no-pie -o "$work/probe" "$work/probe.c" 2>"$work/why" || ! LSAN_OPTIONS=detect_leaks=0 "$work/probe" 2>"$work/why"; then
        echo "skipped: programs with -fsanitize=$sanitizers do not run here: $(grep -v '^=*$' "$work/why" | head -1)"
        exit 77
    fi
    if ! "$work/probe" 2>"$work/why"; then
        echo "leaks are not looked for: $(grep -v '^=*$' "$work/why" | head -1)"
        export LSAN_OPTIONS=detect_leaks=0
    fi
fi
jobs=$(getconf _NPROCESSORS_ONLN)
"$cmake" -S "$source" -B "$build" "$@"
"$cmake" --build "$build" --parallel "$jobs"
[ "$tests" = none ] || "$(dirname "$cmake")/ctest" --test-dir "$build" -L "^$tests\$" --no-tests=error --output-on-failure -j "$jobs"
