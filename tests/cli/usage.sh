#!/bin/sh
# usage.sh WVGD SOURCE: wrong command lines and wrong files: exit codes and messages, and nothing left behind.
. "$(dirname "$0")/check.sh"

# ---- what works ------------------------------------------------------------------------------------------------------------
expect 0 silence "$wvgd" --version
grep -qE '^wvgd [0-9]+\.[0-9]+\.[0-9]+$' stdout || complain "--version prints $(cat stdout)"
for command in '' fit summary sample quantize predict compare models options stan stan-compile; do
    expect 0 silence "$wvgd" $command --help
    grep -q 'Usage: wvgd' stdout || complain "no usage in $command --help"
    [ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "$command --help has lines beyond 100 columns"
done
# At any width options begin in column 3 or 7, and no line but an example is longer than the page.
for command in fit stan svgd quantize sample; do
    for width in 60 61 67 72 73 79 80 99 120 200; do
        page=$((width < 100 ? width : 100))
        expect 0 silence env COLUMNS=$width "$wvgd" $command --help-all
        [ -z "$(sed '/^Examples:/,$d' stdout | awk -v page=$page 'length > page')" ] || complain "$command --help-all is wider than $width columns"
        grep -q '^ *$' stdout && [ -n "$(grep '^ \+$' stdout)" ] && complain "$command --help-all has a line of blanks at $width columns"
        [ "$(grep -c '^  \(-.,\|   \) --' stdout)" = "$(sed '/^Examples:/,$d' stdout | grep -c '^ *\(-., \)\?--[a-z-]*\(=\|  \|$\)')" ] || complain "$command --help-all at $width columns has options out of line"
    done
done
expect 0 silence "$wvgd" fit --help
[ "$(grep -c '^  .* --' stdout)" -lt 30 ] || complain "fit --help shows more than the basic options"
grep -q 'wvgd fit --help-all' stdout || complain "fit --help does not name --help-all"
expect 0 silence "$wvgd" fit --help-all
"$wvgd" options | sed -n 's/^ .*--\([a-z-]*\).*/\1/p' | while read -r name; do
    grep -q -- "--$name" stdout || echo "$name"
done >unlisted
[ ! -s unlisted ] || complain "fit --help-all lacks $(cat unlisted)"
for command in fit summary models; do
    expect 0 silence "$wvgd" $command -h
    grep -q "Usage: wvgd $command" stdout || complain "no usage in $command -h"
done
expect 0 silence "$wvgd" fit --help
cp stdout help.txt
for word in help --help; do
    expect 0 silence "$wvgd" $word fit
    cmp -s stdout help.txt || complain "wvgd $word fit does not print the help of fit"
done
expect 0 silence "$wvgd" help
grep -q '^Commands' stdout || complain "wvgd help does not list the commands"
expect 64 "unknown command 'fti': did you mean fit" "$wvgd" help fti
expect 0 silence "$wvgd" models
grep -q '^mixture ' stdout || complain "models does not list mixture"
expect 0 silence "$wvgd" models logistic
grep -q -- '--standardize ' stdout && ! grep -q -e '^mixture' -e --formula stdout || complain "models logistic lists others, or not its options"
expect 0 silence "$wvgd" models mixture
grep -q 'Model options' stdout && complain "models mixture has a heading and no option"
expect 0 silence "$wvgd" models ./banana.so
grep -q '^PATH.so ' stdout || complain "models ./banana.so does not describe shared objects"
expect 0 silence "$wvgd" options particles
[ "$(grep -c -- ' --' stdout)" = 1 ] || complain "options particles does not list one option"
expect 0 silence "$wvgd" options
grep -q -- '--particles N$' stdout || complain "options does not list --particles"
grep -q -- '--tol X$' stdout || complain "options does not list --tol as a real number"
grep -q -- '  -o, --out DIR$' stdout || complain "options does not list -o"
grep -q -- '--cost sqeuclid.*|functional$' stdout || complain "options does not list the cost functional"

# ---- what does not ---------------------------------------------------------------------------------------------------------
expect 64 'no command given' "$wvgd"
expect 64 "unknown command 'fti': did you mean fit" "$wvgd" fti
expect 64 "unknown command 'frobnicate'" "$wvgd" frobnicate
expect 64 'use wvgd report' "$wvgd" plot run
expect 64 'use wvgd fit' "$wvgd" run mixture
expect 64 'not available yet' "$wvgd" batch run
expect 64 'unknown option --frob before' "$wvgd" --frob
expect 64 'unknown option --particels: did you mean --particles' "$wvgd" fit mixture --particels 3 --out run
expect 64 'unknown option --resume: it is an option of wvgd fit' "$wvgd" svgd --resume run
expect 64 'unknown option --frobnicate' "$wvgd" fit mixture --frobnicate --out run
expect 64 'unknown option --iterations: did you mean --max-iter' "$wvgd" fit mixture --iterations 9 --out run
expect 64 'unknown model "x": expected' "$wvgd" models x
expect 64 "models: unexpected argument 'linear': expected one MODEL" "$wvgd" models logistic linear
expect 64 'unknown option --particels: did you mean --particles' "$wvgd" options particels
expect 64 'unknown option --prior-scale: did you mean --prior-sd' "$wvgd" fit logistic --prior-scale 2 --out run
expect 64 'use wvgd summary' "$wvgd" posterior run
expect 66 'nowhere does not exist: expected a run directory' "$wvgd" summary nowhere
expect 66 'nowhere does not exist: expected a run directory' "$wvgd" sample nowhere
expect 66 'mixture.json is not a directory: expected a run directory' "$wvgd" summary mixture.json
expect 73 'cannot create no/where/run: the directory no/where/ does not exist' "$wvgd" fit mixture --data mixture.json --out no/where/run
printf 'x,y\n1,2\n2,3\n3,4\n' >numbers.csv
expect 65 'because it is the target: name another with --target' "$wvgd" fit logistic --data numbers.csv --out run
expect 65 'numbers.csv is not JSON: it begins with "x,y' "$wvgd" fit mixture --data numbers.csv --out run
expect 64 'unknown option -z' "$wvgd" fit mixture -z --out run
expect 64 '--max is ambiguous: did you mean --max-' "$wvgd" fit mixture --max 3 --out run
expect 64 '--particles needs a value' "$wvgd" fit mixture --out run --particles
expect 64 '--data needs a value: expected FILE, found the option --target' "$wvgd" fit logistic --data --target x --out run
expect 64 '^wvgd: fit: -o needs a value' "$wvgd" fit mixture --data mixture.json -o --quiet
expect 64 '--prior-s is ambiguous: did you mean --prior-sd or --prior-sds\?' "$wvgd" fit gp --prior-s 1 --out run
expect 64 '--prior does not apply to the model gp, only to linear, glm' "$wvgd" fit gp --data two.csv --prior 1 --out run
expect 64 'mixture.json is a data file, not a model: write MODEL --data mixture.json' "$wvgd" fit mixture.json --out run
expect 64 'is a data file' "$wvgd" fit ./mixture.json --out run
expect 64 "unexpected argument 'mixture.json': expected one MODEL, and --data FILE" "$wvgd" fit mixture mixture.json --out run
expect 64 "repeat is '2.5': expected a whole number" "$wvgd" fit mixture --data mixture.json --repeat 2.5 --out run
expect 64 "particles is '2.5': expected a whole number" "$wvgd" fit mixture --data mixture.json --particles 2.5 --out run
expect 64 '--quiet takes no value' "$wvgd" fit mixture --quiet=yes --out run
expect 64 'MODEL is missing' "$wvgd" fit --out run
expect 64 '--out DIR is missing' "$wvgd" fit mixture --data mixture.json
expect 64 "unexpected argument 'logistic'" "$wvgd" fit mixture logistic --out run
expect 64 "--particles is '0': expected a whole number, 1\.\.100000" "$wvgd" fit mixture --data mixture.json --particles 0 --out run
expect 64 "particles is 'many'" "$wvgd" fit mixture --data mixture.json --particles many --out run
expect 64 "particles is '0x10'" "$wvgd" fit mixture --data mixture.json --particles 0x10 --out run
for option in particles threads tol checkpoint-every output-draws; do
    for value in ' 5' '5 ' 0x5 5,0 inf; do
        expect 64 "$option is '$value': expected" "$wvgd" fit mixture --data mixture.json --$option "$value" --out run
    done
done
expect 64 "init is 'zero': expected explore.prior.normal.FILE.csv" "$wvgd" fit mixture --data mixture.json --init zero --out run
expect 64 'mixture has no prior' "$wvgd" fit mixture --data mixture.json --init prior --out run
expect 64 "cost is 'callback': expected .*functional" "$wvgd" fit mixture --data mixture.json --cost callback --out run
expect 64 'cost functional needs a model with predictions' "$wvgd" fit mixture --data mixture.json --cost functional --out run
printf 'a,y\n1,0\n2,1\n3,1\n' >two.csv
expect 64 "prior-sd is '1e-320': expected a number between 1e-150 and 1e150$" "$wvgd" fit logistic --data two.csv --prior-sd 1e-320 --out run
expect 64 "prior-sd is '-0.1'" "$wvgd" fit logistic --data two.csv --prior-sd=-0.1 --out run
printf 'name,a,y\nx,1,0\ny,2,1\nz,3,1\n' >named.csv
expect 64 '--ignore is given twice' "$wvgd" fit logistic --data named.csv --ignore name --ignore other --out run
expect 65 'column name: found "x", expected a number or a category, but' "$wvgd" fit logistic --data named.csv --out run
printf 'name,b,y\nx,1,0\ny,?,1\nz,3,1\n' >odd.csv # all problems of all columns, a line each
"$wvgd" fit logistic --data odd.csv --out run 2>stderr && complain "a table with text in two columns is taken"
[ "$(cut -d: -f1-4 stderr | tr '\n' ' ')" = 'wvgd: odd.csv:3: column b wvgd: odd.csv:2: column name wvgd: --missing drop leaves out 1 of 3 rows, and --ignore name leaves out the column that cannot be used ' ] || complain "two columns with problems are told as $(cat stderr)"
"$wvgd" fit logistic --data odd.csv --ignore p,q --out run 2>stderr && complain "columns that are not there can be ignored"
[ "$(grep -c '^wvgd: odd.csv:1: there is no column "[pq]"' stderr)" = 2 ] || complain "two unknown columns are told as $(cat stderr)"
expect 64 "family is 'round': expected diag.full" "$wvgd" fit mixture --data mixture.json --family round --out run
expect 64 "threads is '0'" "$wvgd" fit mixture --data mixture.json --threads 0 --out run
expect 64 "threads is '1.5'" "$wvgd" fit mixture --data mixture.json --threads 1.5 --out run
expect 64 "checkpoint-every is '-1'" "$wvgd" fit mixture --data mixture.json --checkpoint-every=-1 --out run
expect 64 "output-draws is 'nan'" "$wvgd" fit mixture --data mixture.json --output-draws nan --out run
expect 64 "seed is '-1'" "$wvgd" fit mixture --data mixture.json --seed=-1 --out run
expect 64 'moddel' "$wvgd" fit moddel --data mixture.json --out run
expect 64 'reparam works with' "$wvgd" fit mixture --data mixture.json --estimator reparam --family lowrank --out run
expect 64 'DIR is missing' "$wvgd" summary
expect 64 'DIR is missing' "$wvgd" sample
expect 64 'give either .* not both' "$wvgd" sample run --resample --weighted
expect 64 'give either .* not both' "$wvgd" sample run --from ensemble --weighted
expect 64 'give either .* not both' "$wvgd" sample run --from ensemble --resample
expect 64 "from is 'prior': expected posterior.ensemble" "$wvgd" sample run --from prior
expect 64 "draws is '0'" "$wvgd" sample run -n 0
expect 64 'DIR is missing' "$wvgd" quantize --particles 3
expect 64 'particles N is missing' "$wvgd" quantize run
expect 64 '--generate' "$wvgd" --generate poem

expect 66 'nothing.json' "$wvgd" fit mixture --data nothing.json --out run
expect 65 '^wvgd: ./two.csv:1: there is no column "z": expected a or y$' "$wvgd" fit logistic --data ./two.csv --target z --out run # the path as it was given
expect 66 'nothing.csv' "$wvgd" fit mixture --data mixture.json --init nothing.csv --out run
expect 66 'nothing' "$wvgd" summary nothing
expect 66 'nothing' "$wvgd" sample nothing
expect 66 'nothing' "$wvgd" fit --resume nothing
expect 66 'nothing.json' "$wvgd" fit mixture --config nothing.json --out run
echo '{"weights": [1], "means": [[0, 0]]' >broken.json
expect 65 'broken.json' "$wvgd" fit mixture --data broken.json --out run

# ---- --config --------------------------------------------------------------------------------------------------------------
config() { # CODE PATTERN JSON
    echo "$3" >config.json
    expect "$1" "$2" "$wvgd" fit --config config.json --out run
}
config 65 'config.json.*particels.*did you mean particles' '{"model": "mixture", "particels": 3}'
config 65 'config.json:2:' '{"model": "mixture",'
config 65 'an object' '[1]'
config 65 'an array of 1, expected an object' '[1]'
config 65 'option quiet: found 3, expected true or false' '{"model": "mixture", "quiet": 3}'
config 65 'option particles: found an array of 1, expected a text or a number' '{"model": "mixture", "particles": [3]}'
config 65 'option particles: found true, expected a text or a number' '{"model": "mixture", "particles": true}'
config 65 'option model: found 3, expected a text' '{"model": 3}'
config 65 'option max-iter appears twice' '{"model": "mixture", "max_iter": 2, "max-iter": 4}'
config 65 'option resume is allowed on the command line only' '{"model": "mixture", "resume": "x"}'
config 65 'option config is allowed on the command line only' '{"model": "mixture", "config": "x"}'
config 65 "seed is '18446744073709551616'" '{"model": "mixture", "data": "mixture.json", "seed": 18446744073709551616}'
config 66 "data is 'nothing.csv', which does not exist: .*working directory, $tmp" '{"model": "mixture", "data": "nothing.csv"}'
config 66 "init is 'nothing.csv', which does not exist" '{"model": "mixture", "data": "mixture.json", "init": "nothing.csv"}'
config 65 "particles is '-3'" '{"model": "mixture", "data": "mixture.json", "particles": -3}'
config 64 'MODEL is missing' '{"particles": 3}'
[ ! -e run ] || complain "a directory was left behind by runs that could not begin"

echo '{"model": "mixture", "data": "mixture.json", "max_iter": 3, "particles": 4, "seed": 18446744073709551615, "target": null, "quiet": true, "standardize": false}' >config.json
expect 0 'not converged' "$wvgd" fit --config config.json --solver joint --particles 2 --out run
grep -q '"particles": 2,' run/run.json || complain "the command line does not win over --config"
grep -q '"max-iter": 3,' run/run.json || complain "max_iter of --config is lost"
grep -q '"seed": "18446744073709551615",' run/run.json || complain "the largest seed is not kept"
expect 0 'not converged' "$wvgd" fit --config run/run.json --quiet --out again # a run.json is a --config that repeats the run
same_but_times run again
expect 0 'not converged' "$wvgd" fit --config run/run.json --seed 5 --quiet --out again --overwrite
grep -q '"seed": 5,' again/run.json || complain "the command line does not win over a run.json"
echo '{"overwrite": true}' >config.json
expect 0 'not converged' "$wvgd" fit mixture --data mixture.json --config config.json --solver joint --max-iter 3 --quiet --out again # a flag in a file counts

# ---- options without effect -----------------------------------------------------------------------------------------------
expect 0 'warning: --rank has no effect with --family full: it needs --family lowrank' "$wvgd" fit mixture --data mixture.json --rank 2 --quiet --out unused
expect 0 'warning: --draws has no effect with --solver staged' "$wvgd" fit mixture --data mixture.json --draws 50 --quiet --overwrite --out unused
expect 0 'warning: --power has no effect with --cost l1: it needs --cost lp' "$wvgd" fit mixture --data mixture.json --cost l1 --power 1.5 --quiet --overwrite --out unused
expect 0 'warning: --components has no effect with --solver joint' "$wvgd" fit mixture --data mixture.json --estimator score --components 9 --max-iter 3 --quiet --overwrite --out unused
expect 0 silence "$wvgd" fit mixture --data mixture.json --cost lp --power 2 --quiet --overwrite --out unused
expect 0 silence "$wvgd" fit --config unused/run.json --quiet --overwrite --out unused2 # a run.json names all options
expect 0 'warning: the run has [0-9]+ final draws, not 9999999: all of them are written' "$wvgd" sample unused --weighted -n 9999999
expect 0 'results are in unused; next: wvgd report unused' "$wvgd" fit mixture --data mixture.json --overwrite --out unused

# ---- what is wrong is said in order: model, options, data, and the place for output last ------------------------------------
touch file
expect 64 'unknown model' "$wvgd" fit mixtur --data nothing.json --particles 0 --out file
expect 64 'particles' "$wvgd" fit mixture --data nothing.json --particles 0 --out file
expect 66 'nothing.json' "$wvgd" fit mixture --data nothing.json --out file
expect 66 'nothing.json' "$wvgd" fit mixture --data nothing.json
expect 73 'file' "$wvgd" fit mixture --data mixture.json --out file
rm file

# ---- places for output -----------------------------------------------------------------------------------------------------
expect 73 'run already holds a run: --overwrite replaces it, wvgd fit --resume run continues it' "$wvgd" fit mixture --data mixture.json --out run
mkdir full && touch full/letter
expect 73 'not empty and is not a run directory' "$wvgd" fit mixture --data mixture.json --overwrite --out full
touch file
expect 73 'file' "$wvgd" fit mixture --data mixture.json --out file
expect 73 'a/b' "$wvgd" fit mixture --data mixture.json --out a/b
expect 73 '/proc' "$wvgd" fit mixture --data mixture.json --out /proc/wvgd
[ "$(ls full)" = letter ] || complain "something was written to a directory that is not ours"
ln -s nowhere dangling
expect 73 'dangling is a broken link' "$wvgd" fit mixture --data mixture.json --out dangling
cp -r run odd && rm odd/run.json && mkdir odd/run.json
expect 73 'odd/run.json is a directory' "$wvgd" fit mixture --data mixture.json --overwrite --out odd
[ -s odd/checkpoint ] || complain "a run was damaged by one that could not begin"
expect 0 'not converged' "$wvgd" fit mixture --data mixture.json --solver joint --max-iter 3 --overwrite --out run
! ls run | grep -q next || complain "files of the run that was replaced are left: $(ls run)"
for file in draws.csv checkpoint result checkpoint.next; do
    expect 73 'is a file of a run' "$wvgd" sample run -n 5 --out run/$file
done
(cd run && "$wvgd" sample . -n 5 --out draws.csv 2>/dev/null) && complain "draws.csv of the run was overwritten"
expect 0 silence "$wvgd" sample run -n 5 --out run/mine.csv
rm run/mine.csv
expect 64 'cannot change' "$wvgd" fit --resume run --particles 3
expect 64 "model of the run in run is mixture, not 'logistic'" "$wvgd" fit logistic --resume run
mkdir none
expect 66 'none is not a run directory' "$wvgd" summary none
expect 66 'none is not a run directory' "$wvgd" sample none
expect 66 'none is not a run directory' "$wvgd" fit --resume none
echo nonsense >none/checkpoint
expect 75 'too few for a checkpoint' "$wvgd" fit --resume none
expect 66 'has not finished' "$wvgd" summary none
expect 65 'too few for a checkpoint' "$wvgd" sample none
head -c 1000 run/checkpoint >none/checkpoint
expect 75 'damaged' "$wvgd" fit --resume none
finish
