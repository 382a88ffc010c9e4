#!/bin/sh
# predict.sh WVGD SOURCE: predictions from a run directory: the same as by hand from draws.csv, files that lack something,
# outputs that appear whole or not at all.
. "$(dirname "$0")/check.sh"

printf 'id,a,b,y\n' >table.csv
printf 'id,b,a\n' >new.csv
for i in $(seq 30); do
    echo "$i" | awk '{printf "%d,%g,%g,%g\n", $1, $1 / 10, $1 * 7 % 11, 0.5 * $1 / 10 + ($1 * 13 % 7) / 7}' >>table.csv
    echo "$i" | awk '{printf "x%d,%g,%g\n", $1, $1 % 5, $1 / 7}' >>new.csv
done
"$wvgd" fit linear --data table.csv --ignore id --standardize --prior-sd 1 --output-draws 200 --seed 5 --quiet --out run >/dev/null 2>&1 || complain "no run"
expect 0 silence "$wvgd" predict run --data new.csv
[ "$(head -1 stdout)" = 'mean,sd,q5,q50,q95,lower,upper' ] || complain "the columns: $(head -1 stdout)"
[ "$(wc -l <stdout)" = 31 ] || complain "not a line for each row: $(wc -l <stdout)"
cp stdout once

# The mean of row 3 from draws.csv; columns of the new file are in another order.
mean() { tr -d ' \n' <run/run.json | sed -E "s/.*\"standardized\":\{[^}]*\"$1\":\[([^,]*),([^]]*)\].*/\\$2/"; }
by_hand=$(grep -v '^#' run/draws.csv | awk -F, -v ma="$(mean mean 1)" -v mb="$(mean mean 2)" -v sa="$(mean sd 1)" -v sb="$(mean sd 2)" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { sum += $at["a"] * (3 / 7 - ma) / sa + $at["b"] * (3 - mb) / sb + $at["intercept"]; n++ }
    END { printf "%.5f", sum / n }')
[ "$(sed -n 4p once | awk -F, '{printf "%.5f", $1}')" = "$by_hand" ] || complain "the mean of row 3 is $(sed -n 4p once), by hand $by_hand"
awk -F, 'NR > 1 && !($6 < $3 && $3 < $4 && $4 < $5 && $5 < $7 && $2 > 0)' once | grep -q . && complain "quantiles out of order"

# Files.
expect 0 silence "$wvgd" predict run --data new.csv --out out.csv
cmp -s once out.csv || complain "--out writes something else"
expect 73 'out.csv exists: --overwrite replaces it' "$wvgd" predict run --data new.csv --out out.csv
expect 0 silence "$wvgd" predict run --data new.csv --out out.csv --overwrite --draws 50
cmp -s once out.csv && complain "--draws has no effect"
expect 73 'is a file of a run and would be overwritten' "$wvgd" predict run --data new.csv --out run/draws.csv
expect 66 'nothing.csv' "$wvgd" predict run --data nothing.csv --out none.csv
expect 64 'predict: --data FILE is missing' "$wvgd" predict run
expect 64 'predict: DIR is missing' "$wvgd" predict --data new.csv
printf 'id\n1\n' >less.csv
"$wvgd" predict run --data less.csv --out none.csv >stdout 2>stderr
[ $? = 65 ] || complain "missing columns are not refused"
grep -q 'less.csv:1: there is no column "a"' stderr && grep -q 'less.csv:1: there is no column "b"' stderr || complain "missing columns: $(cat stderr)"
printf 'a,b\n1,2\n3,\nfoo,4\n' >bad.csv
"$wvgd" predict run --data bad.csv --out none.csv >stdout 2>stderr
[ $? = 65 ] || complain "fields that are no numbers are not refused"
grep -q 'bad.csv:4: column a: found "foo"' stderr && grep -q 'bad.csv:3: column b: found an empty field' stderr || complain "bad fields: $(cat stderr)"
[ ! -e none.csv ] || complain "a prediction that fails leaves a file"

# Models that predict in another way, or not at all; runs that are unreliable.
printf 't,y\n' >series.csv
for i in $(seq 12); do
    echo "$i" | awk '{printf "%g,%g\n", $1 / 2, sin($1)}' >>series.csv
done
"$wvgd" fit gp --data series.csv --particles 1 --max-iter 3 --quiet --out gp >/dev/null 2>&1 || complain "no run gp"
printf 't\n0.25\n7\n' >times.csv
expect 0 'the run in gp is unreliable' "$wvgd" predict gp --data times.csv --draws 20
[ "$(wc -l <stdout)" = 3 ] || complain "gp: $(cat stdout)"
echo >>series.csv && echo '9,9' >>series.csv
expect 75 'predictions of a gp need the data of its run: .*series.csv has changed' "$wvgd" predict gp --data times.csv
"$wvgd" fit mixture --data mixture.json --particles 2 --quiet --out mix >/dev/null 2>&1
expect 65 'mixture, makes no predictions' "$wvgd" predict mix --data new.csv

# Categories and booleans are encoded as in the fit: the mean of a row by hand, and levels that the fit has not seen.
echo 'id;plan;active;y' >mixed.csv
for i in $(seq 30); do
    echo "$i" | awk '{split("b a c", p, " "); printf "%d;%s;%s;%g\n", $1, p[$1 % 3 + 1], $1 % 2 ? "yes" : "No", $1 % 3 + ($1 * 13 % 7) / 7}' >>mixed.csv
done
"$wvgd" fit linear --data mixed.csv --ignore id --prior-sd 1 --output-draws 200 --quiet --out mixed >/dev/null 2>&1 || complain "no run mixed"
printf 'active;plan\nyes;c\nno;a\n' >rows.csv
expect 0 silence "$wvgd" predict mixed --data rows.csv
by_hand=$(grep -v '^#' mixed/draws.csv | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { sum += $at["plan[c]"] + $at["active"] + $at["intercept"]; n++ } END { printf "%.5f", sum / n }')
[ "$(sed -n 2p stdout | awk -F, '{printf "%.5f", $1}')" = "$by_hand" ] || complain "categories: $(cat stdout), by hand $by_hand"
printf 'active;plan\nyes;gold\nno;a\n' >rows.csv
expect 65 'rows.csv:2: column plan: found "gold", expected a level that the model was fitted with: "a", "b", "c"$' "$wvgd" predict mixed --data rows.csv
echo '31;;yes;1' >>mixed.csv
"$wvgd" fit linear --data mixed.csv --ignore id --missing drop --prior-sd 1 --quiet --out dropped >stdout 2>/dev/null || complain "no run dropped"
grep -q 'target y; 30 rows (1 dropped), 3 features' stdout || complain "dropped rows: $(sed -n 2p stdout)"
printf 'active\nyes\n' >rows.csv
expect 65 'there is no column "plan", which the model was fitted with$' "$wvgd" predict mixed --data rows.csv
finish
