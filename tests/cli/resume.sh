#!/bin/bash
# resume.sh WVGD SOURCE: a run that is killed, interrupted or ended by a limit goes on to the same bits; threads do not matter; changed data are noticed.
. "$(dirname "$0")/check.sh"
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 60; i++) { a = sin(1.7 * i); b = cos(2.3 * i + 1); print a "," b "," (a * b + 0.5 * sin(7 * i) > 0) } }' >rows.csv
# for each solver some hundred iterations
joint=("$wvgd" fit mixture --data mixture.json --solver joint --particles 10 --tol 0.002 --seed 3 --quiet)
staged=("$wvgd" fit bnn --data rows.csv --hidden 1 --prior-sd 2 --seed 3 --evidence-se 0.006 --quiet)

# ---- threads -------------------------------------------------------------------------------------------------------------------
# how long a run takes here, in milliseconds
timed() {
    begun=$(date +%s%N)
    expect "$@"
    lasts=$((($(date +%s%N) - begun) / 1000000 + 1))
}
timed 0 silence "${joint[@]}" --threads 1 --out joint
joint_lasts=$lasts
expect 0 silence "${joint[@]}" --threads 2 --out two
same_but_times joint two
timed 0 anything "${staged[@]}" --threads 1 --out staged # whatever the verdict
staged_lasts=$lasts
expect 0 anything "${staged[@]}" --threads 2 --out two --overwrite
same_but_times staged two

# ---- kill -9 ---------------------------------------------------------------------------------------------------------------------
# killed WHOLE MILLISECONDS KILLS COMMAND...: each life of the process lasts up to MILLISECONDS, or 0.4 s; when one gets to the end, the result is compared and another run is begun.
RANDOM=7
killed() {
    whole=$1 most=$(($2 < 400 ? $2 : 400)) wanted_kills=$3 kills=0 rounds=0 ends=0
    shift 3
    while ((kills < wanted_kills)); do
        rounds=$((rounds + 1))
        if ((rounds > 20 * wanted_kills)); then
            complain "only $kills kills in $rounds rounds"
            break
        fi
        if [ -e killed/checkpoint ]; then
            "$wvgd" fit --resume killed --quiet >stdout 2>stderr &
        else
            "$@" --checkpoint-every 0.02 --out killed >stdout 2>stderr &
        fi
        process=$!
        sleep "0.$(printf '%03d' $((most / 4 + RANDOM % most * 3 / 4)))"
        kill -9 $process 2>/dev/null
        wait $process 2>/dev/null
        code=$?
        case $code in
        137) kills=$((kills + 1)) ;;
        0)
            ends=$((ends + 1))
            same_but_times "$whole" killed
            rm -rf killed
            ;;
        *) complain "exit code $code after $kills kills: $(cat stderr)" ;;
        esac
    done
    if [ -e killed/checkpoint ]; then
        expect 0 anything "$wvgd" fit --resume killed --quiet
        same_but_times "$whole" killed
        ls -A killed | grep -q '^[.]' && complain "a temporary file is left: $(ls -A killed)"
    fi
    rm -rf killed
    echo "$whole: $kills kills, $ends ends before the last"
}
killed joint "$joint_lasts" 12 "${joint[@]}"
killed staged "$staged_lasts" 8 "${staged[@]}"

# ---- signals -----------------------------------------------------------------------------------------------------------------
# stopped WHOLE SIGNAL COMMAND...: soon after the first checkpoint. On a busy machine a signal may come when all is done: once more, then.
stopped() {
    whole=$1 signal=$2
    shift 2
    for after in 0.05 0.05 0.02 0.02 0.01 0.01 0 0 0 0 0 0; do
        rm -rf stopped
        # a child of an interactive shell would get SIGINT; one in the background ignores it, unless told otherwise
        perl -e '$SIG{INT} = $SIG{HUP} = "DEFAULT"; exec @ARGV' "$@" --out stopped >stdout 2>stderr &
        process=$!
        until_seen $process [ -e stopped/checkpoint ]
        sleep $after
        kill "-$signal" $process 2>/dev/null
        wait $process
        code=$?
        [ $code = 0 ] || break
    done
    [ $code = 130 ] || complain "exit code $code after SIG$signal: $(cat stderr)"
    grep -q '^wvgd: interrupted' stderr || complain "no word about SIG$signal: $(cat stderr)"
    for file in run.json checkpoint draws.csv particles.csv trace.csv; do
        [ -s stopped/$file ] || complain "no $file after SIG$signal"
    done
    grep -q '"stop": "stopped"' stopped/run.json || complain "run.json does not say that the run was stopped"
    grep -q '"reliable": false' stopped/run.json || complain "a run that was stopped counts as reliable"
    expect 0 silence "$wvgd" sample stopped -n 10
    expect 0 anything "$wvgd" fit --resume stopped --quiet
    same_but_times "$whole" stopped
}
for signal in INT TERM HUP; do
    stopped joint $signal "${joint[@]}"
done
stopped staged TERM "${staged[@]}"
rm -rf stopped
# inside a step that would take minutes: the cells of very many particles
"$wvgd" fit mixture --data mixture.json --particles 30000 --quiet --out inside >stdout 2>stderr &
process=$!
sleep 3
kill -TERM $process
(sleep 600 && kill -KILL $process) >/dev/null 2>&1 & # whose sleep must not hold the pipe that a test runner reads to its end
watch=$!
wait $process
code=$?
kill $watch 2>/dev/null
[ $code = 130 ] || complain "exit code $code after SIGTERM inside a step: $(cat stderr)"
grep -q '"stop": "stopped"' inside/run.json || complain "run.json does not say that the run was stopped inside a step"
expect 0 'limit was reached while the cells' "$wvgd" fit --resume inside --max-seconds 1 --quiet
grep -q '"stop": "time_up"' inside/run.json || complain "a run that was stopped inside a step does not go on"
rm -rf inside
perl -e '$SIG{HUP} = "IGNORE"; exec @ARGV' "${joint[@]}" --out stopped >stdout 2>stderr & # as nohup does
process=$!
until_seen $process [ -e stopped/checkpoint ]
kill -HUP $process 2>/dev/null
wait $process || complain "a run that was to ignore SIGHUP has not: $(cat stderr)"
same_but_times joint stopped

# ---- limits ------------------------------------------------------------------------------------------------------------------
# limits WHOLE COMMAND...
limits() {
    whole=$1
    shift
    rm -rf limited timed
    expect 0 'has not converged within 20 iterations' "$@" --max-iter 20 --out limited
    grep -q '"stop": "max_iter"' limited/run.json || complain "$whole: run.json does not say max_iter"
    cp -r limited before
    expect 0 'has not converged within 20 iterations' "$wvgd" fit --resume limited --quiet # the same limit: the same end
    same_but_times before limited
    expect 0 anything "$wvgd" fit --resume limited --quiet --max-iter 2000
    same_but_times "$whole" limited
    cp -r limited ended
    expect 0 'nothing to do' "$wvgd" fit --resume limited --max-iter 3000
    diff -r ended limited || complain "$whole: a run that had ended was written again"
    rm -rf ended
    expect 0 'stopped before it had converged' "$@" --max-seconds 0.01 --out timed
    grep -q '"stop": "time_up"' timed/run.json || complain "$whole: run.json does not say time_up"
    expect 0 anything "$wvgd" fit --resume timed --quiet --max-seconds 0
    same_but_times "$whole" timed
    rm -rf before
}
limits joint "${joint[@]}"
limits staged "${staged[@]}"

# ---- the data ----------------------------------------------------------------------------------------------------------------
expect 0 'not converged' "${joint[@]}" --max-iter 20 --out moved
mkdir elsewhere
(cd elsewhere && "$wvgd" fit --resume ../moved --max-iter 30 --quiet >/dev/null 2>&1) || complain "a run cannot go on from another directory"
sed -i 's/0\.5, 0\.3/0.5, 0.2/' mixture.json
expect 75 'mixture.json has changed' "$wvgd" fit --resume moved
expect 0 silence "$wvgd" sample moved -n 5
rm mixture.json
expect 66 'mixture.json' "$wvgd" fit --resume moved
expect 0 silence "$wvgd" sample moved -n 5
finish
