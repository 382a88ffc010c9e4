#!/bin/bash
# stan.sh WVGD SOURCE: wvgd stan and stan-compile as far as they need no Stan: what they say when things are missing, and a BridgeStan that is a Makefile which copies a
# hand-written object. What needs Stan itself is in stan_debian.sh.
. "$(dirname "$0")/check.sh"
export XDG_CACHE_HOME=$tmp/cache TMPDIR=$tmp/work
unset BRIDGESTAN WVGD_STAN_DIR
mkdir work nowhere
cat >normal.stan <<'END'
parameters { real mu; real<lower=0> sigma; }
model { mu ~ normal(1, 2); sigma ~ lognormal(0, 0.5); }
END

# ---- without a toolchain -----------------------------------------------------------------------------------------------------------
expect 69 'no toolchain for Stan programs' env PATH="$tmp/nowhere" "$wvgd" stan --doctor
for word in "Rscript  *missing: Debian package r-base-core" "rstan  *missing" "make  *missing" "g++  *missing" BRIDGESTAN "apt-get install.*r-cran-rstan" "Cache: $tmp/cache/wvgd/stan"; do
    grep -q -- "$word" stdout || complain "--doctor does not say '$word': $(cat stdout)"
done
expect 69 'missing: Rscript, rstan, .*wvgd stan --doctor' env PATH="$tmp/nowhere" "$wvgd" stan normal.stan --out run
expect 69 'is not a BridgeStan directory: it has no Makefile' "$wvgd" stan normal.stan --bridgestan nowhere --out run
expect 69 'not complete; missing: its directory' "$wvgd" stan normal.stan --toolchain bridgestan --out run
expect 69 'warning: cannot use BRIDGESTAN' env PATH="$tmp/nowhere" BRIDGESTAN=nothing "$wvgd" stan normal.stan --out run
expect 69 anything env PATH="$tmp/nowhere" WVGD_STAN_DIR="$tmp/nowhere" "$wvgd" stan --doctor
grep -q 'shim of wvgd *missing' stdout || complain "--doctor does not miss the shim: $(cat stdout)"
grep -q -e 'Jansson *missing' -e apt-get stdout && complain "--doctor misses packages that it could not look for: $(cat stdout)"

# ---- wrong command lines -------------------------------------------------------------------------------------------------------------
expect 64 'PROGRAM.stan is missing' "$wvgd" stan --out run
expect 64 'PROGRAM.stan is missing' "$wvgd" stan-compile
expect 64 'stan: --out DIR is missing' "$wvgd" stan normal.stan
expect 64 "toolchain is 'gcc': expected auto.bridgestan.rstan" "$wvgd" stan normal.stan --toolchain gcc --out run
expect 64 "particles is '0'" "$wvgd" stan normal.stan --particles 0 --out run
expect 64 'unknown option --standardize' "$wvgd" stan normal.stan --standardize --out run
expect 64 'model.so is already compiled: use wvgd fit model.so' "$wvgd" stan model.so --out run
expect 64 'normal.stan is a Stan program: use wvgd stan normal.stan' "$wvgd" fit normal.stan
expect 64 './normal.stan is a Stan program: use wvgd stan' "$wvgd" fit ./normal.stan --out run
expect 66 'cannot open nothing.stan' "$wvgd" stan nothing.stan --out run
expect 66 'cannot open nothing.json' "$wvgd" stan normal.stan --data nothing.json --out run
expect 66 'found a directory' "$wvgd" stan-compile nowhere
touch empty.stan
expect 65 'empty.stan is empty' "$wvgd" stan empty.stan --out run
head -c 100 /dev/zero >zero.stan
expect 65 'zero.stan:1: found a NUL byte' "$wvgd" stan zero.stan --out run
echo '#include "not there.stan"' >includes.stan
expect 66 'includes.stan:1: cannot find the included file not there.stan' "$wvgd" stan includes.stan --out run
echo '#include itself.stan' >itself.stan
expect 65 'itself.stan:1: too many files' "$wvgd" stan itself.stan --out run
mkdir full && touch full/letter
expect 73 'full is not empty' "$wvgd" stan normal.stan --out full
[ ! -e run ] || complain "something wrong has left a directory"

# ---- a BridgeStan of our own -----------------------------------------------------------------------------------------------------------
objects=$(dirname "$wvgd")/tests
if [ ! -e "$objects/fake_stan_threads.so" ] || ! command -v make >/dev/null; then
    echo "skipped: no fake_stan_threads.so in $objects, or no make"
    finish
    exit
fi
mkdir bridgestan
cat >bridgestan/Makefile <<END
# Each compilation leaves a line in \`log\`. A program that speaks of sleep, failure, nothing or error has it.
%_model.so: %.stan
	@echo "\$* \$(STAN_THREADS)" >>log
	@if grep -q sleep \$<; then sleep 30; fi
	@if grep -q failure \$<; then echo "first line"; echo "cannot find -lsomething" >&2; exit 3; fi
	@if grep -q syntax \$<; then printf "Syntax error in '\$<', line 2, column 6 to column 7, parsing error:\\\\n   -----------\\\\n    2:  wrong\\\\n   -----------\\\\nIll-formed thing.\\\\n" >&2; exit 1; fi
	@if ! grep -q nothing \$<; then cp $objects/fake_stan_threads.so \$@; fi
END
export BRIDGESTAN=$tmp/bridgestan
compiled() { wc -l <bridgestan/log; }
expect 0 silence "$wvgd" stan --doctor
grep -q 'BridgeStan: works' stdout || complain "--doctor does not find BridgeStan: $(cat stdout)"
expect 73 'set XDG_CACHE_HOME or HOME' env -u HOME XDG_CACHE_HOME=relative "$wvgd" stan normal.stan --out run
[ ! -e run ] || complain "a program that could not be kept has left a directory"

mkdir program && cp normal.stan program
fit=("$wvgd" stan program/normal.stan --particles 2)
expect 0 'compiling program/normal.stan \(about 40 s' "${fit[@]}" --threads 1 --out first
grep -q '^program/normal.stan: 2 parameters' stdout || complain "the summary does not name the program: $(head -1 stdout)"
[ "$(ls program)" = normal.stan ] || complain "something was written beside the program: $(ls program)"
grep -q '/normal true$' bridgestan/log || complain "make was not asked for threads: $(cat bridgestan/log)"
grep -v '^#' first/draws.csv | head -1 | grep -q ',mu,sigma,ratio,draw$' || complain "draws.csv has not the program's names"
grep -v '^#' first/draws.csv | sed -n 2p | grep -q ',2$' || complain "generated quantities do not begin with the seed"
expect 0 anything "${fit[@]}" --threads 2 --quiet --out second
same_but_times first second
[ "$(compiled)" = 1 ] || complain "compiled again: $(cat bridgestan/log)"
expect 0 "draws repeat" "$wvgd" sample first --resample -n 1000 --trust-model
cmp -s stdout first/draws.csv || complain "generated quantities differ in sample --resample"
[ -z "$(ls work)" ] || complain "the temporary directory is not empty: $(ls work)"
echo '// more' >>program/normal.stan
expect 0 anything "${fit[@]}" --quiet --overwrite --out second
[ "$(compiled)" = 2 ] || complain "a changed program was not compiled again"

# stan-compile, and names with everything in them
expect 0 silence "$wvgd" stan-compile program/normal.stan
[ -e "$(cat stdout)" ] || complain "stan-compile prints no path: $(cat stdout)"
mkdir "a b;\$(touch pwned)'\"" && cp normal.stan "a b;\$(touch pwned)'\"/1 *& \$HOME.stan"
expect 0 silence env XDG_CACHE_HOME="$tmp/my \$cache" "$wvgd" stan-compile -q "a b;\$(touch pwned)'\"/1 *& \$HOME.stan" -o "a b;\$(touch pwned)'\"/it is.so"
cmp -s "a b;\$(touch pwned)'\"/it is.so" "$objects/fake_stan_threads.so" || complain "stan-compile -o has not written the object"
[ ! -e pwned ] || complain "a file name was run by a shell"
expect 73 'cannot create' "$wvgd" stan-compile program/normal.stan -o nowhere/deep/x.so

# ---- what goes wrong --------------------------------------------------------------------------------------------------------------------
program() { # NAME LINE...: a program of these lines
    file=$1
    shift
    printf '%s\n' "$@" >"$file"
}
program failing.stan '// failure'
expect 70 'failing.stan: make in BridgeStan failed with status 2' "$wvgd" stan failing.stan --out run
grep -q '^    .*cannot find -lsomething' stderr || complain "the compiler's last lines are not shown: $(cat stderr)"
program nothing_comes.stan '// nothing'
expect 70 'did not create nothing_comes_model.so' "$wvgd" stan nothing_comes.stan --out run
program wrong.stan '// syntax' 'model { real x[3]; }'
expect 65 'wrong.stan:2:6: Stan rejects the program: Ill-formed thing. This looks like old Stan syntax: .*line 2' "$wvgd" stan wrong.stan --out run
program part.stan '// a line' 'wrong'
program outer.stan '#include part.stan' '// syntax'
expect 65 'part.stan:2:6: Stan rejects' "$wvgd" stan outer.stan --out run
grep -q '^     *2:  wrong' stderr || complain "Stan's own text is not shown: $(cat stderr)"
cp "$objects/empty.so" bridgestan/empty.so
sed -i "s|cp .*/fake_stan_threads.so|cp empty.so|" bridgestan/Makefile
program other.stan '// other'
expect 65 'exports neither wvgd_model_open nor bs_model_construct' "$wvgd" stan other.stan --out run
sed -i "s|cp empty.so|cp $objects/fake_stan_threads.so|" bridgestan/Makefile
echo '{"fail": 1}' >fail.json
expect 65 'normal.stan: .*variable does not exist: y' "${fit[@]}" --data fail.json --out run
[ ! -e run ] || complain "a program that was refused has left a directory"
echo damaged >"$(find cache -name 'normal-*.so' | head -1)"
expect 0 anything "${fit[@]}" --overwrite --out second

# ---- at the same time, and cancelled --------------------------------------------------------------------------------------------------------
program parallel.stan '// parallel'
for i in 1 2 3; do
    "$wvgd" stan-compile -q parallel.stan >"path$i" 2>&1 &
done
wait
cmp -s path1 path2 && cmp -s path2 path3 && cmp -s "$(cat path1)" "$objects/fake_stan_threads.so" || complain "three at once: $(cat path1 path2 path3)"
before=$(find cache | sort)
for signal in TERM INT; do
    program "slow$signal.stan" '// sleep'
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$wvgd" stan "slow$signal.stan" --out run >stdout 2>stderr &
    process=$!
    until_seen $process grep -q "slow$signal" bridgestan/log
    kill -$signal $process
    wait $process
    code=$?
    [ $code = 130 ] || complain "exit code $code after SIG$signal: $(cat stderr)"
    grep -q 'interrupted while' stderr || complain "no word about SIG$signal: $(cat stderr)"
    [ -z "$(ls work)" ] && [ ! -e run ] || complain "SIG$signal has left $(ls -d work/* run 2>/dev/null)"
done
[ "$(find cache | sort)" = "$before" ] || complain "a cancelled compilation has left files in the cache: $(find cache)"

# ---- going on ----------------------------------------------------------------------------------------------------------------------------------
expect 0 anything "${fit[@]}" --max-seconds 0.0001 --threads 1 --quiet --out limited
expect 75 'needs its model, which is code.*program/normal.stan with --trust-model' "$wvgd" stan --resume limited --quiet --max-seconds 0
cp -r limited named
expect 0 anything "$wvgd" fit --resume limited --quiet --max-seconds 0 --trust-model
expect 0 anything "$wvgd" stan --resume named program/normal.stan --quiet --max-seconds 0
expect 0 anything "${fit[@]}" --max-iter 2000 --quiet --out whole
same_but_times whole limited
same_but_times whole named
expect 0 anything "${fit[@]}" --max-seconds 0.0001 --quiet --overwrite --out limited
rm -r cache
expect 66 'compiled model of .*program/normal.stan is no longer in the cache .*wvgd stan-compile' "$wvgd" fit --resume limited --quiet --trust-model
expect 66 'no longer in the cache' "$wvgd" sample limited -n 3 --trust-model
expect 0 silence "$wvgd" sample limited -n 3
expect 64 'normal.stan is a Stan program: wvgd stan-compile' "$wvgd" fit --resume limited --quiet program/normal.stan
expect 0 anything "$wvgd" stan --resume limited program/normal.stan --quiet --max-seconds 0 # compiles it again
same_but_times whole limited
rm -r cache
echo '// other' >>program/normal.stan
expect 75 'normal.stan has changed since the run began' "$wvgd" fit --resume limited --quiet --trust-model

# ---- the cache ------------------------------------------------------------------------------------------------------------------------------------
mkdir -p cache/wvgd/stan && chmod 777 cache/wvgd/stan
expect 73 'other users can write to the cache' "$wvgd" stan-compile normal.stan
rm -r cache && touch cache
expect 73 'cannot create the cache directory' "$wvgd" stan-compile normal.stan
finish
