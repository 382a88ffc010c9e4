#!/bin/sh
# words.sh WVGD SOURCE: what people write who do not know the program yet, and whether they are told what to do.
. "$(dirname "$0")/check.sh"

# ---- commands, models and options of other names -----------------------------------------------------------------------------
expect 64 'logistic is a model, not a command: write wvgd fit logistic$' "$wvgd" logistic --data x.csv
expect 64 'x.csv is a file, not a command: write wvgd fit MODEL --data x.csv' "$wvgd" x.csv
expect 64 "unknown command 'draw': use wvgd sample DIR" "$wvgd" draw run
for command in score evaluate; do
    expect 64 "unknown command '$command': scores are not available yet" "$wvgd" $command run
done
expect 64 'unknown model "logit": did you mean logistic\?' "$wvgd" fit logit --out run
expect 64 'unknown model "regression": did you mean linear \(a numeric target\) or logistic \(two labels\)\?' "$wvgd" fit regression --out run
expect 64 'unknown model "linear_regression": did you mean linear\?' "$wvgd" fit linear_regression --out run
expect 64 "cost is 'euclidean': expected .*: did you mean sqeuclid\?" "$wvgd" fit mixture --data mixture.json --cost euclidean --out run
expect 64 "family is 'diagonal': expected .*: did you mean diag\?" "$wvgd" fit mixture --data mixture.json --family diagonal --out run
expect 64 "family is 'ful': expected .*: did you mean full\?" "$wvgd" fit mixture --data mixture.json --family ful --out run
expect 64 'sample: unknown option --n: did you mean -n, --draws\?' "$wvgd" sample run --n 100
expect 64 'fit: unknown option --step: it is an option of wvgd svgd$' "$wvgd" fit mixture --step 0.1 --out run
expect 64 'svgd: unknown option --solver: it is an option of wvgd fit$' "$wvgd" svgd mixture --solver joint --out run
for option in max-iterations iters; do
    expect 64 "unknown option --$option: did you mean --max-iter\?" "$wvgd" fit mixture --$option 10 --out run
done
expect 64 'unknown option --output: did you mean -o, --out or --output-draws\?' "$wvgd" fit mixture --data mixture.json --output run
expect 64 'unknown option --features: all columns except the target are features; --ignore A,B' "$wvgd" fit linear --features a,b --out run
expect 64 'unknown option --random-state: did you mean --seed\?' "$wvgd" fit mixture --random-state 3 --out run
expect 64 'unknown option --sep: the fields of a CSV file are separated by commas$' "$wvgd" fit linear --sep ';' --out run
expect 64 'unknown option --chains: there are no chains; --repeat R' "$wvgd" fit linear --chains 4 --out run
expect 64 'unknown option --frobnicate: see wvgd sample --help$' "$wvgd" sample run --frobnicate
expect 64 'unknown option --frobnicate: see wvgd fit --help-all$' "$wvgd" fit mixture --frobnicate
expect 64 'unknown option --n: ' "$wvgd" fit linear --data x.csv --n 5 --out run # not --no-intercept
for line in 'logistic --data x.csv --ignore age, income' '--ignore age, income logistic --data x.csv'; do
    expect 64 "unexpected argument 'income': write a list without a blank after the comma" "$wvgd" fit $line --out run
done
for value in true yes False; do
    expect 64 "fit: --standardize takes no value: remove '$value'" "$wvgd" fit logistic --standardize $value --data x.csv --out run
done

# ---- draws to a file, and a page ---------------------------------------------------------------------------------------------
"$wvgd" fit mixture --data mixture.json --particles 2 --quiet --out run >/dev/null || complain "no run"
expect 0 silence "$wvgd" sample run -n 5 --out mine.csv
expect 73 'mine.csv exists: --overwrite replaces it' "$wvgd" sample run -n 6 --out mine.csv
[ "$(grep -vc '^#' mine.csv)" = 6 ] || complain "a file was replaced without --overwrite"
expect 0 silence "$wvgd" sample run -n 6 --overwrite --out mine.csv
[ "$(grep -vc '^#' mine.csv)" = 7 ] || complain "--overwrite does not replace the file"
: >empty.csv
expect 0 silence "$wvgd" sample run -n 6 --out empty.csv # as mktemp makes one
expect 73 "sample: --out is 'run', which is a directory: expected a file name" "$wvgd" sample run --out run
finish
