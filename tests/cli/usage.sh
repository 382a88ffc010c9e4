#!/bin/sh
# usage.sh WVGD SOURCE: wrong command lines and wrong files: exit codes and messages, and nothing left behind.
. "$(dirname "$0")/check.sh"

# ---- what works ------------------------------------------------------------------------------------------------------------
expect 0 silence "$wvgd" --version
grep -qE '^wvgd [0-9]+\.[0-9]+\.[0-9]+$' stdout || complain "--version prints $(cat stdout)"
for command in '' fit summary sample models options; do
    expect 0 silence "$wvgd" $command --help
    grep -q 'Usage: wvgd' stdout || complain "no usage in $command --help"
    [ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "$command --help has lines beyond 100 columns"
done
expect 0 silence "$wvgd" models
grep -q '^mixture ' stdout || complain "models does not list mixture"
expect 0 silence "$wvgd" options
grep -q -- '--particles' stdout || complain "options does not list --particles"

# ---- what does not ---------------------------------------------------------------------------------------------------------
expect 64 'a command is missing' "$wvgd"
expect 64 "no command 'fti': did you mean fit" "$wvgd" fti
expect 64 "no command 'frobnicate'" "$wvgd" frobnicate
expect 64 'no option --frob before' "$wvgd" --frob
expect 64 'no option --particels: did you mean --particles' "$wvgd" fit mixture --particels 3 --out run
expect 64 'no option --frobnicate' "$wvgd" fit mixture --frobnicate --out run
expect 64 'no option -z' "$wvgd" fit mixture -z --out run
expect 64 '--max may mean several' "$wvgd" fit mixture --max 3 --out run
expect 64 '--particles needs a value' "$wvgd" fit mixture --out run --particles
expect 64 '--quiet is a flag' "$wvgd" fit mixture --quiet=yes --out run
expect 64 'MODEL is missing' "$wvgd" fit --out run
expect 64 '--out DIR is missing' "$wvgd" fit mixture --data mixture.json
expect 64 'one word too many' "$wvgd" fit mixture logistic --out run
expect 64 "particles is '0': expected 1\.\.100000" "$wvgd" fit mixture --data mixture.json --particles 0 --out run
expect 64 "particles is 'many'" "$wvgd" fit mixture --data mixture.json --particles many --out run
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
expect 64 'exclude each other' "$wvgd" sample run --resample --weighted
expect 64 "draws is '0'" "$wvgd" sample run -n 0
expect 64 '--generate' "$wvgd" --generate poem

expect 66 'nothing.json' "$wvgd" fit mixture --data nothing.json --out run
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
config 65 'quiet is a flag' '{"model": "mixture", "quiet": 3}'
config 65 'expected a text' '{"model": "mixture", "particles": [3]}'
config 64 "particles is '-3'" '{"model": "mixture", "data": "mixture.json", "particles": -3}'
config 64 'MODEL is missing' '{"particles": 3}'
[ ! -e run ] || complain "a directory was left behind by runs that could not begin"

echo '{"model": "mixture", "data": "mixture.json", "max_iter": 3, "particles": 4, "seed": "18446744073709551615", "quiet": true, "standardize": false}' >config.json
expect 0 'not converged' "$wvgd" fit --config config.json --particles 2 --out run
grep -q '"particles": 2,' run/run.json || complain "the command line does not win over --config"
grep -q '"max-iter": 3,' run/run.json || complain "max_iter of --config is lost"
grep -q '"seed": "18446744073709551615",' run/run.json || complain "the largest seed is not kept"

# ---- places for output -----------------------------------------------------------------------------------------------------
expect 73 'holds a run already' "$wvgd" fit mixture --data mixture.json --out run
mkdir full && touch full/letter
expect 73 'not empty and not the directory of a run' "$wvgd" fit mixture --data mixture.json --overwrite --out full
touch file
expect 73 'file' "$wvgd" fit mixture --data mixture.json --out file
expect 73 'a/b' "$wvgd" fit mixture --data mixture.json --out a/b
expect 73 '/proc' "$wvgd" fit mixture --data mixture.json --out /proc/wvgd
[ "$(ls full)" = letter ] || complain "something was written to a directory that is not ours"
expect 0 'not converged' "$wvgd" fit mixture --data mixture.json --max-iter 3 --overwrite --out run
expect 64 'cannot change' "$wvgd" fit --resume run --particles 3
expect 64 'takes the model from the run' "$wvgd" fit mixture --resume run
mkdir none
expect 75 'no checkpoint' "$wvgd" fit --resume none
echo nonsense >none/checkpoint
expect 75 'too short' "$wvgd" fit --resume none
expect 66 'has not ended' "$wvgd" summary none
expect 65 'too short' "$wvgd" sample none
head -c 1000 run/checkpoint >none/checkpoint
expect 75 'damaged' "$wvgd" fit --resume none
finish
