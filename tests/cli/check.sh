# shellcheck shell=sh
# check.sh - for tests of the program: sourced with $wvgd, the program, and $source, the source tree. Works in a temporary directory of its own.
set -u
wvgd=$1 source=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export OPENBLAS_NUM_THREADS=1 LC_ALL=C
failures=0

complain() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND...: the exit code, and an (extended) pattern that stderr must have, or silence, or anything; of a failure exactly one line says why.
expect() {
    wanted=$1 pattern=$2
    shift 2
    "$@" >stdout 2>stderr
    code=$?
    [ $code = "$wanted" ] || complain "exit code $code, not $wanted: $*: $(cat stderr)"
    if [ "$pattern" = silence ]; then
        [ ! -s stderr ] || complain "stderr is not empty: $*: $(cat stderr)"
        return
    fi
    [ "$pattern" = anything ] || grep -qE -- "$pattern" stderr || complain "stderr lacks '$pattern': $*: $(cat stderr)"
    if [ "$wanted" != 0 ] && [ "$wanted" != 130 ]; then
        [ "$(grep '^wvgd: ' stderr | grep -vc '^wvgd: warning: ')" = 1 ] || complain "not one line on stderr: $*: $(cat stderr)"
    fi
}

# same_but_times DIR DIR: the results of two runs that asked for the same, but for seconds, the command line and the number of threads.
without_times() {
    sed -E -e '/"(total|model|engine)": [0-9.e+-]+,?$/d' -e '/"(command|threads|checkpoint-every|max-seconds)":/d' -e 's/,$//' "$1/run.json"
    cut -d, -f1,2,4- "$1/trace.csv"
    cat "$1/draws.csv" "$1/particles.csv" "$1/history.csv"
}
same_but_times() {
    without_times "$1" >one
    without_times "$2" >other
    cmp -s one other || complain "$1 and $2 differ: $(diff one other | head -5)"
}

# until_seen PROCESS COMMAND...: waits until COMMAND succeeds, for a minute at most, or until PROCESS has ended.
until_seen() {
    watched=$1
    shift
    for _ in $(seq 6000); do
        if "$@" 2>/dev/null || ! kill -0 "$watched" 2>/dev/null; then return; fi
        sleep 0.01
    done
}

finish() {
    [ $failures = 0 ] || exit 1
    echo "all well"
}

cat >mixture.json <<'END'
{"weights": [0.5, 0.3, 0.4], "means": [[0, 0], [4, 1], [-3, 5]], "sds": [[1, 1], [0.5, 0.7], [1, 0.4]]}
END
