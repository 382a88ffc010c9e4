#!/bin/sh
# svgd.sh WVGD SOURCE: wvgd svgd: its files, its summary, options, and what is refused.
. "$(dirname "$0")/check.sh"
data=$source/data

expect 0 silence "$wvgd" svgd mixture --data mixture.json --particles 40 --quiet --out run --threads 1
cp stdout summary.txt
for word in 'mixture: 2 parameters, 40 particles' '^converged after' 'no log evidence: SVGD does not estimate it' 'bandwidth .*leave-one-out' '^z.1 ' 'Verdict: unreliable'; do
    grep -qE "$word" summary.txt || complain "the summary lacks '$word': $(cat summary.txt)"
done
for file in run.json particles.csv trace.csv draws.csv; do
    [ -s run/$file ] || complain "there is no run/$file"
done
[ -z "$(ls run | grep -v -e run.json -e particles.csv -e trace.csv -e draws.csv)" ] || complain "more files than expected: $(ls run)"
[ "$(head -1 run/particles.csv)" = 'particle,weight,log_p,z.1,z.2' ] || complain "head of particles.csv: $(head -1 run/particles.csv)"
[ "$(wc -l <run/particles.csv)" = 41 ] || complain "rows of particles.csv"
[ "$(grep -vc '^#' run/draws.csv)" = 41 ] || complain "rows of draws.csv"
[ "$(head -1 run/trace.csv)" = 'iteration,evaluations,seconds,mean_log_p,bandwidth,force' ] || complain "head of trace.csv"
grep -q 'NaN' run/draws.csv && complain "draws.csv has values that are no numbers"

# The summary once more, and what a run of SVGD cannot do.
expect 0 silence "$wvgd" summary run
cmp -s stdout summary.txt || complain "wvgd summary differs from what wvgd svgd printed"
expect 0 silence "$wvgd" summary run --json
expect 1 'SVGD gives no log evidence' "$wvgd" summary run --check
expect 75 'has no checkpoint|no checkpoint|cannot' "$wvgd" fit --resume run

# The same bits on any number of threads, and from the same seed; other bits from another.
without_seconds() {
    cut -d, -f1,2,4- "$1/trace.csv"
    cat "$1/particles.csv" "$1/draws.csv"
}
expect 0 silence "$wvgd" svgd mixture --data mixture.json --particles 40 -q --out threads --threads 3
without_seconds run >one
without_seconds threads >other
cmp -s one other || complain "results depend on the number of threads"
expect 0 silence "$wvgd" svgd mixture --data mixture.json --particles 40 -q --out seed --seed 2
cmp -s run/particles.csv seed/particles.csv && complain "results do not depend on the seed"

# Starts from a file; one dimension: the bandwidth by quadrature; options of the model; Adam; limits.
printf 'z.1,z.2\n0,0\n1,1\n2,-1\n' >start.csv
expect 0 anything "$wvgd" svgd mixture --data mixture.json --init start.csv -q --out start --kde-bandwidth 0.3 --bandwidth 2
grep -q 'bandwidth 0.3 (given)' stdout || complain "the density's bandwidth is not the one given: $(cat stdout)"
[ "$(wc -l <start/particles.csv)" = 4 ] || complain "three particles were given"
echo '{"weights": [1, 1], "means": [-1, 2], "sds": [0.5, 1]}' >line.json
expect 0 silence "$wvgd" svgd mixture --data line.json -q --out line
grep -q '"chosen": "quadrature"' line/run.json || complain "in one dimension the bandwidth is not chosen by quadrature"
expect 0 'still moving' "$wvgd" svgd logistic --data "$data/iris.csv" --standardize --optimizer adam --step 0.1 --max-iter 50 -q --out iris
grep -q '"stop": "max_iter"' iris/run.json || complain "50 steps are not all"
expect 0 anything "$wvgd" svgd logistic --data "$data/iris.csv" --standardize --tol 0 --max-iter 100000000 --max-seconds 0.2 -q --out time
grep -q '"stop": "time_up"' time/run.json || complain "the limit in seconds does not hold"
expect 0 'have not moved' "$wvgd" svgd logistic --data "$data/iris.csv" --standardize --particles 2000 --max-seconds 1e-5 -q --out none # seen inside the first step
grep -q '"iterations": 0,' none/run.json && grep -q '"stop": "time_up"' none/run.json || complain "the limit in seconds is not seen inside a step"

# Refused, with nothing left behind.
expect 64 'MODEL is missing' "$wvgd" svgd --out x
expect 64 '--out DIR is missing' "$wvgd" svgd mixture --data mixture.json
expect 64 "optimizer is 'sgd': expected adam\|adagrad" "$wvgd" svgd mixture --data mixture.json --optimizer sgd --out x
expect 64 "step is '0': expected" "$wvgd" svgd mixture --data mixture.json --step 0 --out x
expect 64 "bandwidth is 'mean': expected median or a number" "$wvgd" svgd mixture --data mixture.json --bandwidth mean --out x
expect 64 "particles is '0': expected a whole number, 1..100000" "$wvgd" svgd mixture --data mixture.json --particles 0 --out x
expect 64 "init is 'here'" "$wvgd" svgd mixture --data mixture.json --init here --out x
expect 64 'did you mean --particles' "$wvgd" svgd mixture --data mixture.json --particle-s 3 --out x
expect 66 'nowhere.json' "$wvgd" svgd mixture --data nowhere.json --out x
expect 65 'start.csv has 3 rows, expected 5' "$wvgd" svgd mixture --data mixture.json --particles 5 --init start.csv --out x
printf 'z.1,z.2\n1e308,0\n-1e308,0\n' >far.csv
expect 70 'diverged' "$wvgd" svgd mixture --data mixture.json --init far.csv -q --out x
[ ! -e x ] || complain "a run that was refused has left x"
expect 73 'run' "$wvgd" svgd mixture --data mixture.json --out run
expect 0 anything "$wvgd" svgd mixture --data mixture.json --overwrite -q --out run
finish
