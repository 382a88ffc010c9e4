#!/bin/sh
# quantize.sh WVGD SOURCE: other cells from the draws of one fit: masses, evaluations, a run directory that other commands read; errors leave nothing behind.
. "$(dirname "$0")/check.sh"

evaluations() { sed -n 's/^ "evaluations": \([0-9]*\),$/\1/p' "$1/run.json"; }
sums_to_one() { awk -F, 'NR > 1 { sum += $2 } END { exit !(sum > 1 - 1e-9 && sum < 1 + 1e-9) }' "$1/particles.csv"; }

expect 0 silence "$wvgd" fit mixture --data mixture.json --particles 4 --quiet --out run
before=$(evaluations run)
cp run/run.json before.json
for n in 2 3; do
    expect 0 anything "$wvgd" quantize run --particles $n --quiet
    cp stdout printed
    head -1 printed | grep -q "^mixture: 2 parameters, $n cells$" || complain "no summary of $n cells: $(head -1 printed)"
    [ "$(wc -l <run/cells-$n/particles.csv)" = $((n + 1)) ] || complain "cells-$n has not $n particles"
    sums_to_one run/cells-$n || complain "the masses of cells-$n do not sum to 1"
    grown=$(($(evaluations run/cells-$n) - before))
    [ $grown -gt 0 ] && [ $grown -lt 1000 ] || complain "cells-$n took $grown evaluations"
    grep -q "\"command\": \"wvgd quantize run --particles $n --quiet\"" run/cells-$n/run.json || complain "run.json of cells-$n has another command"
    grep -q "\"particles\": $n," run/cells-$n/run.json || complain "run.json of cells-$n has another number of particles"
    expect 0 silence "$wvgd" summary run/cells-$n
    cmp -s stdout printed || complain "quantize and summary print different things"
    expect 0 silence "$wvgd" sample run/cells-$n -n 20
    [ "$(grep -vc '^#' stdout)" = 21 ] || complain "sample of cells-$n gives no 20 draws"
    expect 0 'draws repeat' "$wvgd" sample run/cells-$n --resample -n 1000
    cmp -s stdout run/cells-$n/draws.csv || complain "sample --resample of cells-$n is not its draws.csv"
done
cmp -s run/run.json before.json || complain "quantize has changed the run that it reads"

# ---- other options, other directories ----------------------------------------------------------------------------------------
expect 0 anything "$wvgd" quantize run/ --particles 2 --cost lp --power 3 --family diag --quiet
grep -q '"cost": "lp"' run/cells-2-lp/run.json && grep -q '"power": 3' run/cells-2-lp/run.json && grep -q '"family": "diag"' run/cells-2-lp/run.json ||
    complain "run.json of cells-2-lp has other options"
expect 0 anything "$wvgd" quantize run/cells-3 --particles 2 --quiet --out again # the draws of the fit are still there
places() { awk -F, 'NR > 1 { printf "%.6f %.6f %.6f\n", $2, $14, $15 }' "$1/particles.csv" | sort; } # masses and particles, in whatever order
places run/cells-2 >wanted
places again | cmp -s - wanted || complain "cells of cells are not those of the fit"
expect 73 'again already holds a run: --overwrite replaces it$' "$wvgd" quantize run --particles 3 --out again
expect 0 anything "$wvgd" quantize run --particles 3 --quiet --out again --overwrite
cmp -s again/particles.csv run/cells-3/particles.csv || complain "--overwrite has not replaced the run"
[ -z "$(find . -name '*.next' -o -name '.*.wvgd-*' -o -name .wvgd-commit)" ] || complain "something is left of the run that was replaced"
printf 'a,b\n0,0\n4,1\n-3,5\n' >start.csv
expect 0 anything "$wvgd" fit mixture --data mixture.json --init start.csv --quiet --out placed
expect 0 anything "$wvgd" quantize placed --particles 2 --quiet
expect 0 silence "$wvgd" sample placed/cells-2 -n 5
expect 0 anything "$wvgd" fit mixture --data mixture.json --particles 2 --max-iter 3 --quiet --out short
expect 0 anything "$wvgd" quantize short --particles 3 --quiet
grep -q '"stop": "max_iter"' short/cells-3/run.json || complain "cells of a run that has not converged count as converged"
expect 0 silence "$wvgd" sample short/cells-3 -n 5

# Of a fit that a limit has ended: the cells are not made in haste, and have their bound.
expect 0 'raise --max-evaluations' "$wvgd" fit logistic --data "$source/data/iris.csv" --standardize --max-evaluations 700 --quiet --out limited
expect 0 'a limit stopped the fit that made the draws' "$wvgd" quantize limited --particles 4 --quiet
grep -qE '^PELBO +-[0-9]' stdout || complain "cells of a fit that a limit has ended have no bound: $(cat stdout)"

expect 0 anything "$wvgd" fit mixture --data mixture.json --particles 3 --repeat 2 --quiet --out twice
expect 0 anything "$wvgd" quantize twice --particles 2 --quiet # of the first fit, and nothing is fitted again
! grep -q '"repeat": {' twice/cells-2/run.json || complain "quantize has repeated the fits"

# ---- errors --------------------------------------------------------------------------------------------------------------------
expect 64 "particles is '0'" "$wvgd" quantize run --particles 0
expect 64 "particles is '99999': expected at most [0-9]+, the number of draws" "$wvgd" quantize run --particles 99999
expect 64 "cost is 'near': expected sqeuclid" "$wvgd" quantize run --particles 5 --cost near
expect 64 'cost functional needs a model with predictions' "$wvgd" quantize run --particles 5 --cost functional
expect 66 'nothing' "$wvgd" quantize nothing --particles 5
mkdir none
expect 66 'none is not a run directory' "$wvgd" quantize none --particles 5
expect 0 anything "$wvgd" svgd mixture --data mixture.json --particles 5 --max-iter 5 --quiet --out stein
expect 66 'stein has no checkpoint: a run of wvgd svgd has none' "$wvgd" quantize stein --particles 5
expect 73 'stein already holds a run: --overwrite replaces it$' "$wvgd" quantize run --particles 3 --out stein
expect 0 anything "$wvgd" fit mixture --data mixture.json --solver joint --max-iter 3 --particles 2 --quiet --out joint
expect 65 'used the joint solver: quantize needs a fit with --solver staged' "$wvgd" quantize joint --particles 5
mkdir damaged && cp run/run.json damaged && head -c 5000 run/checkpoint >damaged/checkpoint
expect 65 'damaged' "$wvgd" quantize damaged --particles 5
mv mixture.json away.json
expect 66 'cannot bound the new cells without the model and its data.*mixture.json' "$wvgd" quantize run --particles 5
echo '{"weights": [1], "means": [[0, 0]], "sds": [[1, 1]]}' >mixture.json
expect 75 'mixture.json has changed' "$wvgd" quantize run --particles 5
mv away.json mixture.json
[ -z "$(find . -name 'cells-5*' -o -name 'cells-0' -o -name 'cells-99999')" ] || complain "an error leaves a directory"
finish
