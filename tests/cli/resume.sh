#!/bin/bash
# resume.sh WVGD SOURCE: a run that is killed, interrupted or ended by a limit goes on to the same bits; threads do not matter; changed data are noticed.
. "$(dirname "$0")/check.sh"
# some hundred iterations that take a second or two
fit=("$wvgd" fit mixture --data mixture.json --particles 10 --tol 0.002 --seed 3 --quiet)

expect 0 silence "${fit[@]}" --threads 1 --out whole
expect 0 silence "${fit[@]}" --threads 2 --out two
same_but_times whole two

# ---- kill -9 at twenty moments -----------------------------------------------------------------------------------------------
# Each life of the process lasts up to 0.4 s; when one gets to the end, the result is compared and another run is begun.
RANDOM=7
kills=0 rounds=0 ends=0
while ((kills < 20)); do
    rounds=$((rounds + 1))
    if ((rounds > 200)); then
        complain "only $kills kills in 200 rounds"
        break
    fi
    if [ -e killed/checkpoint ]; then
        "$wvgd" fit --resume killed --quiet >stdout 2>stderr &
    else
        "${fit[@]}" --checkpoint-every 0.02 --out killed >stdout 2>stderr &
    fi
    process=$!
    sleep "0.$((RANDOM % 30 + 10))"
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    code=$?
    case $code in
    137) kills=$((kills + 1)) ;;
    0)
        ends=$((ends + 1))
        same_but_times whole killed
        rm -rf killed
        ;;
    *) complain "exit code $code after $kills kills: $(cat stderr)" ;;
    esac
done
if [ -e killed ]; then
    expect 0 silence "$wvgd" fit --resume killed --quiet
    same_but_times whole killed
    ls killed | grep -q partial && complain "a partial file is left: $(ls killed)"
fi
echo "$kills kills, $ends ends before the last"

# ---- signals -----------------------------------------------------------------------------------------------------------------
for signal in INT TERM; do
    rm -rf stopped
    # a child of an interactive shell would get SIGINT; one in the background ignores it, unless told otherwise
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "${fit[@]}" --out stopped >stdout 2>stderr &
    process=$!
    for _ in $(seq 200); do
        [ ! -e stopped/checkpoint ] || break
        sleep 0.01
    done
    sleep 0.05
    kill -$signal $process
    wait $process
    code=$?
    [ $code = 130 ] || complain "exit code $code after SIG$signal: $(cat stderr)"
    grep -q '^wvgd: interrupted' stderr || complain "no word about SIG$signal: $(cat stderr)"
    for file in run.json checkpoint draws.csv particles.csv trace.csv; do
        [ -s stopped/$file ] || complain "no $file after SIG$signal"
    done
    grep -q '"stop": "stopped"' stopped/run.json || complain "run.json does not say that the run was stopped"
    grep -q '"reliable": false' stopped/run.json || complain "a run that was stopped counts as reliable"
    expect 0 silence "$wvgd" sample stopped -n 10
    expect 0 silence "$wvgd" fit --resume stopped --quiet
    same_but_times whole stopped
done

# ---- limits ------------------------------------------------------------------------------------------------------------------
expect 0 'not converged after 20 iterations' "${fit[@]}" --max-iter 20 --out limited
grep -q '"stop": "max_iter"' limited/run.json || complain "run.json does not say max_iter"
cp limited/run.json before.json
expect 0 'not converged after 20 iterations' "$wvgd" fit --resume limited --quiet # the same limit: the same end
expect 0 silence "$wvgd" fit --resume limited --quiet --max-iter 2000
same_but_times whole limited
expect 0 silence "$wvgd" fit --resume limited --quiet # has converged: nothing to do
same_but_times whole limited
expect 0 'stopped before convergence' "${fit[@]}" --max-seconds 0.1 --out timed
grep -q '"stop": "time_up"' timed/run.json || complain "run.json does not say time_up"
expect 0 silence "$wvgd" fit --resume timed --quiet --max-seconds 0
same_but_times whole timed

# ---- the data ----------------------------------------------------------------------------------------------------------------
expect 0 'not converged' "${fit[@]}" --max-iter 20 --out moved
mkdir elsewhere
(cd elsewhere && "$wvgd" fit --resume ../moved --max-iter 30 --quiet >/dev/null 2>&1) || complain "a run cannot go on from another directory"
sed -i 's/0\.5, 0\.3/0.5, 0.2/' mixture.json
expect 75 'mixture.json has changed' "$wvgd" fit --resume moved
expect 0 silence "$wvgd" sample moved -n 5
rm mixture.json
expect 66 'mixture.json' "$wvgd" fit --resume moved
expect 0 silence "$wvgd" sample moved -n 5
finish
