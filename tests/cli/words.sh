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
expect 64 "family is 'poisson': expected diag.full.lowrank, the covariance of components: the family of a glm is --likelihood poisson\$" "$wvgd" fit glm --family poisson --out run
expect 64 "unexpected argument '.*': put a formula in quotes" "$wvgd" fit glm --formula y ~ x --out run
expect 64 "unexpected argument 'new.csv': expected one DIR, and --data FILE for the new rows" "$wvgd" predict run new.csv
expect 64 'model.c is source code, not a model: compile it to a shared object' "$wvgd" fit model.c --out run
expect 64 "unknown command 'anova': use wvgd compare DIR DIR" "$wvgd" anova run
expect 64 'fit: unknown option --step: it is an option of wvgd svgd$' "$wvgd" fit mixture --step 0.1 --out run
expect 64 'svgd: unknown option --solver: it is an option of wvgd fit$' "$wvgd" svgd mixture --solver joint --out run
for option in max-iterations iters; do
    expect 64 "unknown option --$option: did you mean --max-iter\?" "$wvgd" fit mixture --$option 10 --out run
done
expect 64 'unknown option --output: did you mean -o, --out or --output-draws\?' "$wvgd" fit mixture --data mixture.json --output run
expect 64 'unknown option --random-state: did you mean --seed\?' "$wvgd" fit mixture --random-state 3 --out run
expect 64 'unknown option --sep: --delimiter C says what separates the fields of a CSV file$' "$wvgd" fit linear --sep ';' --out run
expect 64 'unknown option --chains: a fit needs no chains; --repeat R' "$wvgd" fit linear --chains 4 --out run
expect 64 'unknown option --nlive: there are no live points; --evidence-se sets the precision$' "$wvgd" fit mixture --nlive 500 --out run
expect 64 'summary: unknown option --format: did you mean --json\?' "$wvgd" summary run --format json
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
expect 73 'cannot create nowhere/mine.csv: its directory does not exist$' "$wvgd" sample run --out nowhere/mine.csv

# ---- runs that go on, and other cells ----------------------------------------------------------------------------------------
expect 64 'give either --resume or --overwrite, not both' "$wvgd" fit --resume run --overwrite
expect 64 'give either --resume or --out, not both: a resumed run stays in its directory' "$wvgd" fit --resume run --out other
expect 66 'nowhere does not exist: expected a run directory, the --out of a fit' "$wvgd" fit --resume nowhere
expect 66 'nowhere does not exist: expected a run directory, the --out of a fit' "$wvgd" predict nowhere --data mixture.json
mkdir none
expect 66 'none is not a run directory: it has neither run.json nor checkpoint' "$wvgd" fit --resume none
expect 0 anything "$wvgd" fit mixture --data mixture.json --max-iter 2 --quiet --out two
grep -q 'not converged within 2 iterations (9 with those of the search and the final draws), ' stdout || complain "what are 9 iterations? $(head -2 stdout)"
expect 0 'the limit --max-iter 2 is already reached: a higher one continues the run' "$wvgd" fit --resume two
expect 64 "max-iter is '1', but the run in two has ended because of its limit of 2: expected more" "$wvgd" fit --resume two --max-iter 1
expect 0 silence "$wvgd" fit --resume two --max-iter 100 --quiet
expect 0 'max-evaluations has no effect: the run has converged' "$wvgd" fit --resume two --max-evaluations 10
! grep -q 'more than --max-evaluations' stderr || complain "a limit that has no effect is said to be exceeded"
expect 0 'model has no effect: this run needs no model' "$wvgd" sample two --model nothing.so -n 2
expect 0 'starts .* led to modes .*: let the fit converge first' "$wvgd" fit mixture --data mixture.json --max-evaluations 100 --quiet --out little
grep -q 'raise --max-evaluations' stderr || complain "a fit that a limit has ended is not to be resumed: $(cat stderr)"
! grep -E -- '--(starts|particles)' stderr || complain "what cannot change in a resumed fit is to be changed"
expect 0 anything "$wvgd" fit mixture --data mixture.json --solver joint --max-iter 1 --quiet --overwrite --out two
grep -q 'within 1 iteration[ ,]' stdout && grep -q 'within 1 iteration:' stderr || complain "one iteration is several: $(head -2 stdout) $(cat stderr)"
expect 73 'mixture.json is a file, expected a directory or nothing: choose another --out' "$wvgd" fit mixture --data mixture.json --out mixture.json
expect 66 "cannot open nothing.json: no such file in the working directory, $tmp" "$wvgd" fit mixture --data nothing.json --out x
expect 66 'standard input is not supported' "$wvgd" fit mixture --data - --out x
objects=$(dirname "$wvgd")/tests
cp "$objects/plugin.so" "$objects/failing.so" "$objects/empty.so" .
expect 0 silence "$wvgd" fit ./plugin.so --config 3 --particles 2 --quiet --out plugged
expect 75 'run with your permissions: give --model MODEL.so, or load .* with --trust-model' "$wvgd" quantize plugged --particles 3
expect 75 'failing.so has changed since the run began, or is another file: expected the model of the run; for another, fit again$' "$wvgd" quantize plugged --particles 3 --model ./failing.so
expect 65 'the model of the run, ./plugin.so, makes no predictions' "$wvgd" predict plugged --data mixture.json
expect 75 'run with your permissions: name it again after --resume DIR, or load .* with --trust-model' "$wvgd" fit --resume plugged
expect 0 anything "$wvgd" fit ./plugin.so --config 3 --estimator score --max-iter 3 --particles 2 --quiet --out score
expect 65 'the run in score used the joint solver: quantize needs a fit with --solver staged' "$wvgd" quantize score --particles 3
expect 0 'warning: --config: there is no file nope.json: the model gets' "$wvgd" fit ./failing.so --config nope.json --quiet --out misspelt
expect 66 'nope.json' "$wvgd" svgd mixture --config nope.json --out x
echo '{"model": "mixture", "data": "mixture.json", "max-iter": 5, "particles": 4}' >config.json
expect 0 anything "$wvgd" svgd --config config.json --quiet --out stein
grep -q '"particles": 4' stein/run.json || complain "svgd does not read --config"

# ---- files -------------------------------------------------------------------------------------------------------------------
table() { # PATTERN TEXT [OPTION...]
    printf "$2" >table.csv
    pattern=$1
    shift 2
    expect 65 "$pattern" "$wvgd" fit logistic --data table.csv "$@" --out wrong
}
table 'table.csv:1: column 1 has no name: if the first field is a row name, write the file without row names \(R: row.names = FALSE, pandas: index = False\)' ',a,y\n1,2,0\n2,3,1\n'
table 'table.csv:2: found 3 fields, expected 2 as in the header: if the first field is a row name, write' 'a,y\n1,2,0\n2,3,1\n'
table 'column a: found "1,5", expected a number with a decimal point' '"a";"y"\n1,5;0\n2,5;1\n'
table 'table.csv:1: fields seem to be separated by commas, not by semicolons: leave out --delimiter' 'a,y\n1,0\n2,1\n' --delimiter ';'
table 'fields are separated by blanks, expected commas, semicolons or tabs' 'a y\n1 0\n2 1\n'
table 'column 2: another column has the name "a", too: rename one of them' 'a,a,y\n1,2,0\n2,3,1\n'
table 'found the number 1, expected a header with column names: write one as the first line' '1,0\n2,1\n'
table 'table.csv:1: column intercept: the model logistic has a parameter of that name itself: rename the column, or leave it out with --ignore intercept' 'intercept,y\n1,0\n2,1\n3,0\n'
table 'table.csv looks like a gzip file, expected UTF-8 text: unpack it first' '\037\213\010\000'
table 'table.csv looks like an Excel or zip file, expected UTF-8 text: save it as CSV' 'PK\003\004\000'
expect 65 'mixture.json looks like JSON, expected CSV \(wvgd models shows what each model takes\)' "$wvgd" fit logistic --data mixture.json --out wrong
json() { # PATTERN TEXT
    echo "$2" >wrong.json
    expect 65 "$1" "$wvgd" fit mixture --data wrong.json --out wrong
}
json "wrong.json:1:44: invalid JSON: found a comma before '}': remove it" '{"weights": [1], "means": [0], "sds": [1], }'
json "invalid JSON: found a comma before ']': remove it" '{"weights": [1,], "means": [0], "sds": [1]}'
json 'wrong.json is not JSON: it begins with "a,b", expected an object' 'a,b'
json 'unknown key "foo": expected "weights", "means", "sds" or "covs"' '{"foo": 1}'
json 'weights\[0\]: found -0.7, expected a number above 0' '{"weights": [-0.7], "means": [0], "sds": [1]}'
printf 'a,b,c\n1,2,3\n' >start.csv
expect 65 'start.csv has 3 columns, expected 2: one for each parameter, z.1, z.2$' "$wvgd" fit mixture --data mixture.json --init start.csv --out wrong
printf 'a,b\n1,2\n' >start.csv
expect 65 'start.csv has 1 row, expected 3: one for each of --particles 3' "$wvgd" fit mixture --data mixture.json --init start.csv --particles 3 --out wrong
printf 'a,y\n1,0\n2,1\n3,1\n' >two.csv
expect 64 "prior-sd is '0': expected a number above 0$" "$wvgd" fit logistic --data two.csv --prior-sd 0 --out wrong
expect 64 "prior-sd is '1,2': expected one number, such as 1.2" "$wvgd" fit logistic --data two.csv --prior-sd 1,2 --out wrong
expect 64 "prior-sds is '1,0.5,1,-1': the fourth value is -1, expected four numbers above 0" "$wvgd" fit gp --data two.csv --prior-sds 1,0.5,1,-1 --out wrong
expect 0 'shard has no effect without wvgd-mpi' "$wvgd" fit logistic --data two.csv --shard rows --out shares
expect 0 'the response has only two values, and the likelihood is poisson: did you mean --likelihood bernoulli' \
    "$wvgd" fit glm --data two.csv --formula 'y ~ a' --likelihood poisson --out counts

# ---- tables that are hardly what was meant -------------------------------------------------------------------------------------
table 'found an empty field, expected a value in every row \(2 of 3 have none\): --missing drop leaves out 2 of 3 rows; --ignore a leaves out the column instead$' 'a,b,y\n1,1,0\n,2,1\nNA,3,1\n'
table 'column y: found "NA", expected a value in every row \(1 of 3 have none\): --missing drop leaves out 1 of 3 rows$' 'a,y\n1,0\n2,1\n3,NA\n'
table 'found "red", expected a number or a category, but the column has a different text in every row \(an identifier\?\): --ignore a leaves out the column' 'a,y\nred,0\n2,1\n'
table 'found "red", expected a number, or a category with five rows for each of its levels: --ignore a leaves out the column$' 'a,y\nred,0\nred,1\n2,1\n'
table '^wvgd: table.csv:1: found a comment, expected a header: leave out the lines that begin with #$' '# by hand\na,y\n1,0\n2,1\n'
table 'table.csv:3: found 1 field, expected 2 as in the header: comment lines are no part of a table' 'a,y\n1,0\n# more\n2,1\n'
table 'table.csv:1: found sep=;, which is a note for one program only: leave out this line$' 'sep=;\na;y\n1;0\n2;1\n'
table 'table.csv:2: found 3 fields, expected 2 as in the header: if lines end with a delimiter, leave it out' 'a,y\n1,0,\n2,1,\n'
table 'table.csv:1: column 3 has no name: write one, or leave out the delimiter at the end of every line$' 'a,y,\n1,0,\n2,1,\n'
table 'table.csv: column a has no value in any row: --ignore a leaves out the column$' 'a,b,y\n,1,0\n,2,1\n' --missing drop
table 'column a: found "\$1.20", expected a number without a unit: --ignore a leaves out the column$' 'a,y\n$1.20,0\n$3.1,1\n$2,0\n'
table 'column a: found "none", expected a number, as in 3 of 4 rows' 'a,y\n1,0\n2,1\nnone,1\n4,0\n'
table 'column a: found "u.x0Av", expected a category with a name without control characters: --ignore a' 'a,y\n"u\nv",0\nw,1\n"u\nv",0\nw,1\nw,0\nw,1\nw,0\nw,1\nw,0\nw,1\n'
table 'column 1: found "gr.xF6n", expected a name in UTF-8: save the file as UTF-8$' 'gr\366n,y\n1,0\n2,1\n'
{ # as many columns as can go wrong: each is named
    seq -s, -f 'column_number_%02g' 1 14 && seq 30 | while read -r i; do seq -s, -f "P%02g-$i" 1 13 | tr -d '\n' && echo ",$((i % 2))"; done
} >wide.csv
"$wvgd" fit logistic --data wide.csv --out wrong 2>stderr && complain "a table of identifiers is taken"
for i in $(seq -w 13); do grep -q "column_number_$i" stderr || complain "column $i is not named: $(cat stderr)"; done
[ "$(tail -1 stderr)" = "wvgd: --ignore $(seq -s, -f 'column_number_%02g' 1 13) leaves out the columns" ] || complain "no way out: $(tail -1 stderr)"
table 'found "1/2/24", expected a number or a category, not a date' 'a,y\n1/2/24,0\n13/2/24,1\n'
table 'found "09:30", expected a number or a category, but the column has a different text in every row' 'a,y\n09:30,0\n10:45,1\n'
table 'found "2020-01-31", expected a number or a category, not a date .*: --ignore a leaves out the column$' 'a,y\n2020-01-31,0\n2020-02-01,1\n'
table 'found "z", expected two different values \("x" and "y" so far\), because it is the target: name another with --target, or recode this one to two values$' 'a,k\n1,x\n2,y\n3,z\n'
table 'found "well", expected two .*, or write each label in one case only' 'a,k\n1,ill\n2,Well\n3,well\n'
table 'every row has the same value "Yes", expected two different ones' 'a,k\n1,Yes\n2,y\n3,yes\n'
table 'every row has the same value "1", expected two different ones' 'a,k\n1,1\n2,1\n3,1\n'
table 'column b: found "5", expected two .*, because it became the target when y was ignored: name another with --target, or use the model linear, which takes numbers$' 'a,b,y\n1,2,0\n2,1,1\n3,5,1\n' --ignore y
printf 'a,y\n1,no\n2,yes\n' >table.csv
expect 65 'column y: found "no", expected a number, because it is the target: name another with --target, or use the model logistic, which takes two labels$' "$wvgd" fit linear --data table.csv --out wrong
printf 'a,b,y\n1,2,0\n2,1,1\n3,5,1\n4,4,0\n5,2,1\n' >table.csv
expect 0 'the target y has only the values 0 and 1: did you mean the model logistic\?' "$wvgd" fit linear --data table.csv --max-seconds 5 --out meant
expect 0 'the target is b, because the last column is ignored: --target names another one' "$wvgd" fit linear --data table.csv --ignore y --overwrite --out meant
expect 0 anything "$wvgd" fit linear --data table.csv --ignore y --quiet --overwrite --out meant
! grep -q 'target is' stderr || complain "--quiet does not silence hints"
expect 0 anything "$wvgd" fit linear --data table.csv --ignore y --target b --overwrite --out meant
! grep -q 'target is' stderr || complain "a target that was named is called moved"
printf 'a,one,y\n1,7,sick\n2,7,Sick\n3,7,Sick\n4,7,sick\n5,7,Sick\n' >table.csv
expect 0 'warning: the labels "Sick" and "sick" of the target y differ only in case' "$wvgd" fit logistic --data table.csv --quiet --overwrite --out meant
grep -q 'warning: column one is constant: its weight only reflects the prior; --ignore one leaves it out' stderr || complain "a constant column is not named: $(cat stderr)"
expect 0 'warning: column one is constant' "$wvgd" svgd logistic --data table.csv --particles 5 --max-iter 20 --quiet --overwrite --out meant
awk 'BEGIN { print "user,x,y"; for (i = 0; i < 10000; i++) print 100000 + i "," i * 7 % 11 / 11 "," (i * i % 13 < 6) }' >table.csv
expect 0 anything "$wvgd" fit logistic --data table.csv --quiet --overwrite --out meant # a column near 1e5 beside one near 1
grep -q 'nan' stdout && complain "NaN in a sentence: $(grep nan stdout)"
grep -q 'led to 1 mode' stdout || complain "the mode of columns of uneven scale is not found: $(grep starts stdout)"
awk 'BEGIN { print "x,spend"; srand(1); for (i = 0; i < 40; i++) print i / 10 "," 40000 + 100 * i + 8000 * rand() }' >table.csv
expect 0 "warning: prior-data conflict: the mean of spend is [0-9.e+]+, but the prior expects it between .* leave out --prior-sd for priors scaled to the data, or try --prior-sd 5e\\+04" "$wvgd" fit linear --data table.csv --prior-sd 1 --quiet --overwrite --out meant
expect 0 anything "$wvgd" fit linear --data table.csv --quiet --overwrite --out meant
grep -q conflict stderr && complain "priors scaled to the data conflict with them"
expect 0 anything "$wvgd" fit linear --data table.csv --prior-sd 5e4 --quiet --overwrite --out meant
! grep -q 'prior decides' stderr || complain "a wide prior is said to decide: $(cat stderr)"

# ---- long summaries, and more draws than there are -----------------------------------------------------------------------------
expect 0 anything "$wvgd" fit mixture --data mixture.json --particles 60 --quiet --overwrite --out meant
expect 0 silence "$wvgd" summary meant
sed -n '/^particle /,/^mass/p' stdout >rows
[ "$(grep -c '^[0-9]' rows)" = 20 ] && grep -q '^... and 40 more: wvgd summary meant --all shows all of them' stdout || complain "summary does not show 20 of 60 particles: $(cat stdout)"
[ "$(grep '^[0-9]' rows | awk '{ print $2 }')" = "$(grep '^[0-9]' rows | awk '{ print $2 }' | sort -rn)" ] || complain "particles are not those of greatest mass: $(cat rows)"
expect 0 silence "$wvgd" summary meant --all
[ "$(sed -n '/^particle /,/^mass/p' stdout | grep -c '^[0-9]')" = 60 ] || complain "summary --all does not show all particles"
expect 0 'draws repeat: the run has only [0-9]+ final draws, with an ESS of [0-9]+; those of --from ensemble never repeat' "$wvgd" sample meant -n 90000 --out many.csv
expect 0 silence "$wvgd" sample meant -n 90000 --from ensemble --out ensemble.csv

# ---- models that fail --------------------------------------------------------------------------------------------------------
expect 70 './failing.so: failing: log_density returned 7 in batch 3, expected 0 \(for a point without density set log_p to -INFINITY' "$wvgd" fit ./failing.so --config third --quiet --out failed
expect 65 'neither wvgd_model_open nor bs_model_construct \(is the function misspelt, static, or C\+\+ without extern "C"\?\)' "$wvgd" fit ./empty.so --out failed
expect 70 'NaN or infinite at all [0-9]+ points tried: check the model; the first NaN or infinite value was at z.1 = ' "$wvgd" fit ./failing.so --config nan --quiet --out failed
expect 0 'the first NaN or infinite density or gradient was at z.1 = ' "$wvgd" fit ./failing.so --config hole --quiet --out hole
[ "$(cat stdout stderr | tr '\n' ' ' | grep -o 'points had a NaN' | wc -l)" -le 2 ] || complain "NaNs are counted more than once: $(cat stdout)"
finish
