#!/bin/sh
# compare.sh WVGD SOURCE: runs side by side: the columns, the order, JSON, and runs that are refused.
. "$(dirname "$0")/check.sh"

printf 'a,b,y\n' >table.csv
for i in $(seq 30); do
    echo "$i $(((i * 7) % 11))" | awk '{printf "%g,%g,%g\n", $1 / 10, $2, 0.5 * $1 / 10 + ($1 * 13 % 7) / 7}' >>table.csv
done
fit() { # OUT OPTION...
    out=$1
    shift
    "$wvgd" fit linear --prior-sd 1 --particles 1 --quiet --out "$out" "$@" >/dev/null 2>stderr || complain "no run $out: $(cat stderr)"
}
fit all --data table.csv
fit less --data table.csv --ignore a
expect 0 silence "$wvgd" compare less all
[ "$(wc -l <stdout)" = 3 ] || complain "not a line for each run: $(cat stdout)"
[ "$(head -1 stdout | tr -s ' ')" = 'run log_evidence se difference difference_se bayes_factor probability reliable' ] || complain "the columns: $(head -1 stdout)"
sed -n 2p stdout | grep -qE '^all +-[0-9.]+ +[0-9.e-]+ +0\.0000 +0 +1 +[01]\.[0-9]+ +yes$' || complain "the best run: $(sed -n 2p stdout)"
sed -n 3p stdout | grep -qE '^less .* -[0-9.]+ +[0-9.e-]+ +[0-9.e-]+ +0\.[0-9]+ +yes$' || complain "the other run: $(sed -n 3p stdout)"
expect 0 silence "$wvgd" compare less all --json
tr -d ' \n' <stdout | grep -qE '^\[\{"run":"all","log_evidence":-[0-9.]+,"se":[0-9.e-]+,"difference":0.0,"difference_se":0.0,"bayes_factor":1.0,"probability":[0-9.]+,"reliable":true\},\{"run":"less",' || complain "JSON: $(cat stdout)"
fit wide --data table.csv --prior-sd 4
expect 0 'the priors of all and wide differ: ' "$wvgd" compare all wide

fit raw --data table.csv --prior-sd 3 # the same numbers, but of other columns
fit per_sd --data table.csv --prior-sd 3 --standardize
expect 0 'the priors of raw and per_sd differ: ' "$wvgd" compare raw per_sd
expect 0 'prior-data conflict' "$wvgd" fit linear --data table.csv --prior-sd 0.001 --quiet --out tight
sed -n '/^Verdict: no problems detected in the computation; see the warnings below$/p' stdout | grep -q . || complain "the verdict does not lead to the warnings: $(grep Verdict stdout)"
expect 0 'the prior of tight contradicts its data, which lowers its evidence: wvgd summary tight says how' "$wvgd" compare all tight

fit narrow --data table.csv --prior 'a=normal(0, 3)' # what the first run lacks, others may differ in
expect 0 'the priors of all and narrow differ: a$' "$wvgd" compare less all narrow

# The same response from another file, other values, other rows.
cut -d, -f2,3 table.csv >columns.csv
fit columns --data columns.csv
expect 0 anything "$wvgd" compare all columns
grep -q '^columns' stdout || complain "another file with the same response is refused"
head -20 table.csv >fewer.csv
fit fewer --data fewer.csv
expect 65 'all and fewer explain different data.* one has 30 values of "y", the other 19 values of "y": fit both to the same rows' "$wvgd" compare all fewer
fit other --data table.csv --target b
expect 65 'explain different data.*30 values of "b"' "$wvgd" compare all other
[ ! -s stdout ] || complain "a comparison that is refused prints something"

# What has no evidence, and what is not a run.
"$wvgd" svgd linear --data table.csv --max-iter 5 --particles 2 --quiet --out stein >/dev/null 2>&1
expect 65 'stein has no estimate of the evidence, because SVGD gives none' "$wvgd" compare all stein
expect 66 'nowhere does not exist' "$wvgd" compare all nowhere
expect 64 'compare: found 1 run directory, expected at least two' "$wvgd" compare all
expect 64 'compare: found 0 run directories' "$wvgd" compare
sed 's/"response_sha256"/"response_hash"/; s/"sha256": "./"sha256": "x/' all/run.json >changed && mkdir unknown && mv changed unknown/run.json
expect 0 'all and all have the same log evidence: they are the same fit or cells of it, or ' "$wvgd" compare all all
expect 0 'cannot see whether all runs explain the same data' "$wvgd" compare all unknown
expect 0 anything "$wvgd" fit linear --data table.csv --prior-sd 1 --solver joint --max-iter 3 --quiet --out bad
expect 0 'bad is unreliable, so its rank here may be wrong' "$wvgd" compare all bad

# run.json: data.
tr -d ' \n' <all/run.json | grep -q '"data":{"file":"[^"]*/table.csv","sha256":"'"$(sha256sum <table.csv | cut -d' ' -f1)"'","rows":30,"dropped":0,"response":"y","response_sha256":"' || complain "run.json has no data: $(tr -d ' \n' <all/run.json | grep -o '"data":{[^}]*}')"
finish
