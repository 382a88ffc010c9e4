#!/bin/bash
# kill.sh WVGD SOURCE: every command that writes, killed at each of its calls that change a file or a directory (kill_at.so), and at random: what was there is whole, or the new files are; the next
# writer succeeds, and nothing is left of the one that was killed.
. "$(dirname "$0")/check.sh"
shim=$(dirname "$wvgd")/tests/kill_at.so
export XDG_CACHE_HOME=$tmp/cache KILL_PROGRAM="${wvgd##*/}" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
all_kills=0 all_random=0

# ---- what a directory holds --------------------------------------------------------------------------------------------------------
# A run without times, and draws from its state; or nothing, where no run has ended.
content_of_run() {
    [ -e "$1/run.json" ] || return 0
    sed -E -e '/"(total|model|engine)": [0-9.e+-]+,?$/d' -e '/"(command|threads|checkpoint-every|max-seconds)":/d' -e 's/,$//' "$1/run.json"
    cut -d, -f1,2,4- "$1/trace.csv"
    cat "$1/draws.csv" "$1/particles.csv"
    if [ -e "$1/history.csv" ]; then
        cat "$1/history.csv"
        "$wvgd" sample "$1" -n 5 || echo "no draws"
    fi
    ls "$1" | grep -v 'checkpoint.next'
}
# Files that do not depend on each other: NAME and content, a line each.
content_of_files() {
    (cd "$1" 2>/dev/null && find . -type f ! -name '.?*' -exec cksum {} + | sort)
}

# holds KIND: the directory `area` has what `start` has, or what `new` has. Of files that do not depend on each other each may be one or the other.
holds() {
    "content_of_$1" area >now 2>&1
    if [ "$1" = files ]; then
        sort -u old.txt new.txt | comm -23 now - >strange
        [ ! -s strange ]
    else
        cmp -s now old.txt || cmp -s now new.txt
    fi
}

leftovers() { find area -name '.?*' -o -name '*.next'; }

# after_kill KIND WHERE COMMAND...: what a killed command has left, then the next command.
after_kill() {
    kind=$1 where=$2
    shift 2
    if [ "$kind" = run ] && { [ -e area/run.json ] || [ -e area/.wvgd-commit ]; }; then
        "$wvgd" summary area >stdout 2>stderr || complain "$where: no summary: $(cat stderr)"
    fi
    holds "$kind" || complain "$where: neither the old files nor the new ones: $(ls -A area) $(diff now new.txt | head -5)"
    if [ -e area/checkpoint.next ] || { [ -e area/checkpoint ] && [ ! -e area/run.json ]; }; then
        set -- "$wvgd" fit --resume area --trust-model --quiet
    elif [ "$kind" = run ] && [ "$2$3" != fit--resume ]; then
        set -- "$@" --overwrite
    fi
    "$@" >stdout 2>stderr || complain "$where: the next command fails: $*: $(cat stderr)"
    "content_of_$kind" area >now 2>&1
    cmp -s now new.txt || complain "$where: other results: $* $(diff now new.txt | head -5)"
    [ -z "$(leftovers)" ] || complain "$where: left: $(leftovers)"
}

put_start() {
    rm -rf area
    [ ! -e start ] || cp -r start area
}

# at_random KILLS COMMAND...: at any time of its life
RANDOM=7
at_random() {
    wanted=$1 random_kills=0
    shift
    for round in $(seq $((5 * wanted))); do
        ((random_kills < wanted)) || break
        put_start
        "$@" >stdout 2>stderr &
        process=$!
        sleep "$(printf '%d.%03d' $((RANDOM % lasts / 1000)) $((RANDOM % lasts % 1000)))"
        kill -9 $process 2>/dev/null
        wait $process 2>/dev/null
        code=$?
        case $code in
        137) random_kills=$((random_kills + 1)) ;;
        0) ;;
        *) complain "$name: exit code $code: $(cat stderr)" ;;
        esac
        after_kill "$kind" "$name, killed at random ($round)" "$@"
    done
}

# attack NAME KIND COMMAND...: COMMAND writes to `area`, which begins as `start`.
attack() {
    name=$1 kind=$2
    shift 2
    put_start
    rm -f kill_count
    begun=$(date +%s%N)
    KILL_COUNT=$tmp/kill_count LD_PRELOAD=$shim "$@" >stdout 2>stderr || complain "$name: $(cat stderr)"
    lasts=$((($(date +%s%N) - begun) / 1000000))
    "content_of_$kind" start >old.txt 2>&1
    "content_of_$kind" area >new.txt 2>&1
    ! cmp -s old.txt new.txt || complain "$name: nothing has changed"
    kills=$(cat kill_count)
    [ "$kills" -ge 3 ] || complain "$name: only $kills calls"
    for k in $(seq 1 $(((kills + 39) / 40)) "$kills"); do # all of them, or some forty of those of many checkpoints
        put_start
        KILL_AT=$k LD_PRELOAD=$shim "$@" >stdout 2>stderr &
        wait $! 2>/dev/null # in the background, so that the shell says nothing
        [ $? = 137 ] || complain "$name: not killed at call $k: $(cat stderr)"
        after_kill "$kind" "$name, call $k" "$@"
    done
    at_random 8 "$@"
    done=$(seq 1 $(((kills + 39) / 40)) "$kills" | wc -l)
    all_kills=$((all_kills + done + random_kills)) all_random=$((all_random + random_kills))
    echo "$name: $done kills at $kills calls, $random_kills at random"
}

# ---- runs --------------------------------------------------------------------------------------------------------------------------
mixture=(mixture --data mixture.json --quiet)
few=("$wvgd" fit "${mixture[@]}" --solver joint --output-draws 20)
"${few[@]}" --particles 2 --max-iter 4 --out limited >stdout 2>stderr || complain "$(cat stderr)"
"${few[@]}" --particles 3 --max-iter 3 --out other >stdout 2>stderr || complain "$(cat stderr)"
"$wvgd" fit "${mixture[@]}" --particles 3 --output-draws 20 --out converged >stdout 2>stderr || complain "$(cat stderr)"
begin_with() {
    rm -rf start
    [ -z "${1:-}" ] || cp -r "$1" start
}

begin_with
attack "fit" run "$wvgd" fit "${mixture[@]}" --particles 3 --output-draws 20 --out area
attack "fit with checkpoints" run "${few[@]}" --particles 2 --max-iter 4 --checkpoint-every 0 --out area
begin_with other
attack "fit --overwrite" run "$wvgd" fit "${mixture[@]}" --particles 2 --output-draws 20 --overwrite --out area
attack "fit --overwrite that reaches a limit" run "${few[@]}" --particles 2 --max-iter 4 --overwrite --out area
begin_with limited
attack "fit --resume to a limit" run "$wvgd" fit --resume area --max-iter 6 --quiet
attack "fit --resume to the end" run "$wvgd" fit --resume area --max-iter 2000 --checkpoint-every 1000 --quiet
begin_with
attack "svgd" run "$wvgd" svgd "${mixture[@]}" --particles 5 --max-iter 20 --out area
begin_with converged
attack "svgd --overwrite" run "$wvgd" svgd "${mixture[@]}" --particles 5 --max-iter 20 --overwrite --out area
begin_with
attack "quantize" run "$wvgd" quantize converged --particles 2 --quiet --out area
begin_with other
attack "quantize --overwrite" run "$wvgd" quantize converged --particles 2 --quiet --overwrite --out area

# A reader that is killed while it completes what another process has begun.
begin_with other
for k in $(seq 100); do
    put_start
    KILL_AT=$k LD_PRELOAD=$shim "$wvgd" fit "${mixture[@]}" --particles 2 --output-draws 20 --overwrite --out area >stdout 2>stderr &
    wait $! 2>/dev/null
    [ ! -e area/.wvgd-commit ] || break
done
rm -rf start && mv area start
put_start
expect 0 silence "$wvgd" summary area
content_of_run area >new.txt 2>&1
cp new.txt old.txt
for k in $(seq 100); do
    put_start
    KILL_AT=$k LD_PRELOAD=$shim "$wvgd" summary area >stdout 2>stderr &
    wait $! 2>/dev/null
    [ $? = 137 ] || break
    after_kill run "summary, call $k" "$wvgd" fit --resume area --quiet
done
[ "$k" -gt 5 ] || complain "summary has nothing to complete"
all_kills=$((all_kills + k - 1))
echo "summary of a run that is half in place: $((k - 1)) kills"

# ---- files -------------------------------------------------------------------------------------------------------------------------
rm -rf start && mkdir start && echo old >start/out.csv
awk 'BEGIN { print "x,y"; for (i = 0; i < 20; i++) print i "," i + sin(i) }' >line.csv
"$wvgd" fit linear --data line.csv --quiet --out line >stdout 2>stderr || complain "$(cat stderr)"
attack "predict --out" files "$wvgd" predict line --data line.csv --overwrite --out area/out.csv
attack "sample --out" files "$wvgd" sample converged -n 50 --overwrite --out area/out.csv
"$wvgd" report converged -o page.html >stdout 2>stderr
case $? in
69) echo "skipped: no page in this build" ;;
*) attack "report" files "$wvgd" report converged -o area/out.csv ;;
esac
if command -v gnuplot >/dev/null; then
    "$wvgd" svgd "${mixture[@]}" --particles 5 --max-iter 20 --out stein >stdout 2>stderr
    for name in pair.gnuplot pair.svg.partial pair.svg; do echo mine >start/$name; done
    attack "report --figures" files "$wvgd" report stein --figures area
fi
rm -rf start && mkdir start && echo old >start/theory.md
attack "reproduce" files "$wvgd" reproduce theory --quick --quiet --out area

objects=$(dirname "$wvgd")/tests
if [ -e "$objects/fake_stan_threads.so" ] && command -v make >/dev/null; then
    mkdir bridgestan
    printf '%%_model.so: %%.stan\n\tcp %s $@\n' "$objects/fake_stan_threads.so" >bridgestan/Makefile
    echo 'parameters { real mu; real<lower=0> sigma; } model { }' >normal.stan
    rm -rf start && mkdir start && echo old >start/model.so
    mkdir work
    export TMPDIR=$tmp/work # where it compiles; what is left there goes after a day
    "$wvgd" stan-compile normal.stan --quiet --bridgestan bridgestan >stdout 2>stderr || complain "$(cat stderr)"
    attack "stan-compile" files "$wvgd" stan-compile normal.stan --quiet --bridgestan bridgestan -o area/model.so
    XDG_CACHE_HOME=$tmp/area/cache attack "stan-compile, nothing kept yet" files "$wvgd" stan-compile normal.stan --quiet --bridgestan bridgestan -o area/model.so
    begin_with other
    attack "stan --overwrite" run "$wvgd" stan normal.stan --quiet --bridgestan bridgestan --particles 2 --output-draws 20 --overwrite --out area
else
    echo "skipped: no fake_stan_threads.so in $objects, or no make"
fi
echo "$all_kills kills, $all_random of them at random"
finish
