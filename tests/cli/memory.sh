#!/bin/sh
# memory.sh WVGD SOURCE: with little memory every command works or says that there is none; none waits for ever, none crashes. Also: no thread of BLAS, and the environment of the user.
. "$(dirname "$0")/check.sh"
unset OPENBLAS_NUM_THREADS

# limited KILOBYTES COMMAND...: 0, or a code and a line that says why (127: of the dynamic linker).
limited() {
    kilobytes=$1
    shift
    (
        ulimit -v "$kilobytes" && exec timeout 300 "$@"
    ) >stdout 2>stderr
    code=$?
    case $code in
    0) return ;;
    70 | 71) grep -qE '^wvgd: .*(no|not enough) memory' stderr && return ;;
    127) grep -q 'error while loading shared libraries' stderr && return ;;
    esac
    complain "exit code $code with $kilobytes KB: $*: $(head -c 300 stderr)"
}

if nm -D "$wvgd" 2>/dev/null | grep -q asan || (ulimit -v 400000 && ! "$wvgd" --version >stdout 2>&1); then
    echo "skipped: the program does not start with 400 MB of address space"
    exit 77
fi
cp "$source/data/cancer.csv" .
"$wvgd" fit linear --data cancer.csv --out run --quiet >stdout 2>stderr || complain "no run: $(cat stderr)"
at=40000
while [ $at -le 400000 ]; do
    limited $at "$wvgd" --version
    limited $at "$wvgd" fit linear --data cancer.csv --out "small.$at" --quiet
    at=$((at + 20000))
done
for at in 60000 100000 160000 220000 280000 340000 400000; do
    limited $at "$wvgd" options
    limited $at "$wvgd" summary run
    limited $at "$wvgd" sample run -n 10 --out "draws.$at"
    limited $at "$wvgd" quantize run --particles 3 --out "cells.$at" --quiet
    limited $at "$wvgd" report run --out "report.$at"
    limited $at "$wvgd" fit mixture --data mixture.json --threads 1 --out "one.$at" --quiet
    limited $at "$wvgd" svgd mixture --data mixture.json --max-iter 5 --out "svgd.$at" --quiet
done

# the environment that the program lends to BLAS is given back, whatever stands in it
for environment in '' 'A=1' 'A=1 B=2' 'OPENBLAS_NUM_THREADS=7 A=1' 'A=1 OPENBLAS_NUM_THREADS=7 B=2'; do
    # shellcheck disable=SC2086
    expect 0 silence env -i $environment "$wvgd" --version
done
finish
