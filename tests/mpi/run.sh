#!/bin/bash
# run.sh WHAT PROGRAM SOURCE BUILD MPIRUN [SKIP]: wvgd-mpi (BUILD/wvgd-mpi) against wvgd (PROGRAM). WHAT: bits (the same for any number of ranks and
# threads, and resumed), shards (of rows), failure (a rank that fails, ends, hangs or is killed), python (wvgd.fit with a communicator of mpi4py). SKIP: why there is nothing to test.
set -eu
what=$1 program=$2 source=$3 build=$4 mpirun=$5
if [ -n "${6:-}" ]; then
    echo "skipped: $6"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# one machine, perhaps a container: no ssh, a small /dev/shm, a name that nobody knows
export OMPI_MCA_plm=isolated OMPI_MCA_btl_vader_backing_directory="$tmp" HYDRA_LAUNCHER=fork OPENBLAS_NUM_THREADS=1
[ -x "$build/tests/mpi_probe" ] || { echo "there is no $build/tests/mpi_probe" >&2; exit 1; }
if ! timeout -k 5 60 "$mpirun" -n 4 "$build/tests/mpi_probe" >"$tmp/probe" 2>&1; then
    echo "skipped: processes of $mpirun cannot reach each other here: $(grep -v '^-*$' "$tmp/probe" | head -3 | tr '\n' ' ')"
    exit 77
fi
fail() {
    echo "mpi $what: $*" >&2
    [ ! -s "$tmp/err" ] || sed 's/^/    /' "$tmp/err" >&2
    exit 1
}
ranks() { # K COMMAND...
    local k=$1
    shift
    timeout -k 5 900 "$mpirun" -n "$k" "$build/wvgd-mpi" "$@"
}
# All that a run has found, without what depends on clocks and on the command line.
found() {
    sed -E '/"(total|model|engine|command|threads|seconds|checkpoint-every|id)":/d' "$1/run.json"
    sed -n '/^lp__/,$p' "$1/draws.csv"
    cut -d, -f1,2,4- "$1/trace.csv"
}
same() { # DIR DIR
    found "$1" >"$tmp/a"
    found "$2" >"$tmp/b"
    cmp -s "$tmp/a" "$tmp/b" || fail "$2 differs from $1: $(diff "$tmp/a" "$tmp/b" | head -5)"
}
said() { # PATTERN: it is in stderr, and the program has said nothing else
    grep -q "^wvgd: .*$1" "$tmp/err" || fail "no message has '$1'"
    [ "$(grep '^wvgd: ' "$tmp/err" | grep -vc 'warning: . ranks x')" = 1 ] || fail "more than one message"
}

case $what in
bits)
    "$program" fit logistic --data "$source/data/cancer.csv" --standardize -q --out "$tmp/one" >"$tmp/out.one" 2>&1
    "$program" fit bnn --data "$source/data/iris.csv" --hidden 3 --max-evaluations 20000 -q --out "$tmp/net" >/dev/null 2>&1
    "$program" fit "$build/tests/ranked.so" --config 'none 0 0 0' -q --out "$tmp/so" >/dev/null 2>&1
    "$program" fit "$build/tests/ranked.so" --config 'none 0 0 0' --min-batch 500 -q --out "$tmp/wide" >"$tmp/out" 2>&1
    grep -Eq '^min-batch 500: [0-9]+ of these evaluations make batches wider$' "$tmp/out" || fail "nothing is said of the cost of --min-batch"
    for k in 1 2 3 4; do
        for threads in 1 2; do
            ranks $k fit logistic --data "$source/data/cancer.csv" --standardize --threads $threads -q --out "$tmp/$k.$threads" >"$tmp/out" 2>"$tmp/err" || fail "$k ranks fail"
            same "$tmp/one" "$tmp/$k.$threads"
            [ "$(grep -c '^log evidence' "$tmp/out")" = 1 ] || fail "$k ranks print $(grep -c '^log evidence' "$tmp/out") summaries"
            if [ $((k * threads)) -gt "$(getconf _NPROCESSORS_ONLN)" ]; then
                grep -q "$k ranks x $threads threads = $((k * threads)) on a machine with $(getconf _NPROCESSORS_ONLN) cores" "$tmp/err" || fail "nothing is said of too few cores"
            fi
        done
    done
    ranks 4 fit bnn --data "$source/data/iris.csv" --hidden 3 --max-evaluations 20000 -q --out "$tmp/net4" >/dev/null 2>"$tmp/err" || fail "bnn fails"
    same "$tmp/net" "$tmp/net4"
    ranks 3 fit "$build/tests/ranked.so" --config 'none 0 0 0' -q --out "$tmp/so3" >/dev/null 2>"$tmp/err" || fail "a shared object fails"
    same "$tmp/so" "$tmp/so3"
    ranks 4 fit "$build/tests/ranked.so" --config 'none 0 0 0' --min-batch 500 -q --out "$tmp/wide4" >/dev/null 2>"$tmp/err" || fail "--min-batch fails"
    same "$tmp/wide" "$tmp/wide4"
    # bends and chains, and the joint solver
    several() { # NAME MODEL OPTION...
        local name=$1
        shift
        "$program" fit "$@" -q --out "$tmp/$name" >/dev/null 2>"$tmp/err" || fail "$name fails"
        ranks 3 fit "$@" --threads 2 -q --out "$tmp/$name.3" >/dev/null 2>"$tmp/err" || fail "$name fails on 3 ranks"
        same "$tmp/$name" "$tmp/$name.3"
    }
    several chains "$build/tests/ranked.so" --config 'none 0 0 0' --bend auto --finish always
    several joint linear --data "$source/data/diabetes.csv" --solver joint --max-evaluations 10000
    # a run that a limit ends on 3 ranks goes on with 2, and with none
    for k in 2 0; do
        ranks 3 fit logistic --data "$source/data/cancer.csv" --standardize --max-evaluations 600 -q --out "$tmp/begun$k" >/dev/null 2>"$tmp/err" || fail "3 ranks fail with a limit"
        if [ $k = 0 ]; then
            "$program" fit --resume "$tmp/begun$k" --max-evaluations 0 -q >/dev/null 2>"$tmp/err" || fail "one process cannot resume"
        else
            ranks $k fit --resume "$tmp/begun$k" --max-evaluations 0 -q >/dev/null 2>"$tmp/err" || fail "$k ranks cannot resume"
        fi
        same "$tmp/one" "$tmp/begun$k"
    done
    ;;
shards)
    evidence() { # DIR
        sed -nE '/"importance"/,/}/s/.*"value": ([^,]*),.*/\1/p' "$1/run.json" | head -1
    }
    near() { # DIR DIR TOLERANCE, relative
        awk -v a="$(evidence "$1")" -v b="$(evidence "$2")" -v most="$3" 'BEGIN { d = (a - b) / b; exit !(b != 0 && d < most && -d < most) }' ||
            fail "$2: the log evidence is $(evidence "$2"), that of one process $(evidence "$1")"
    }
    both() { # K TOLERANCE NAME OPTION...
        local k=$1 most=$2 name=$3
        shift 3
        [ -d "$tmp/$name" ] || "$program" fit "$@" -q --out "$tmp/$name" >/dev/null 2>"$tmp/err" || fail "$name fails"
        rm -rf "$tmp/$name.$k"
        ranks "$k" fit "$@" --shard rows -q --out "$tmp/$name.$k" >/dev/null 2>"$tmp/err" || fail "$name fails on $k ranks"
        near "$tmp/$name" "$tmp/$name.$k" "$most"
    }
    for k in 1 2 4; do
        both $k 1e-9 logistic logistic --data "$source/data/cancer.csv" --standardize
        both $k 1e-3 linear linear --data "$source/data/diabetes.csv" --standardize # Monte Carlo: what a point costs differs
        both $k 4e-5 glm glm --data "$source/data/diabetes.csv" --formula 's6 ~ poly(bmi,2) + scale(bp) + factor(sex)' --likelihood student # Monte Carlo: rounding changes what is drawn
        both $k 1e-9 rows "$build/tests/rows.so" --data "$source/data/diabetes.csv"
    done
    both 3 0.05 bnn bnn --data "$source/data/iris.csv" --hidden 2 --standardize --max-evaluations 20000
    # the same bits for the same K, on any number of threads
    for threads in 1 2; do
        ranks 4 fit logistic --data "$source/data/cancer.csv" --standardize --shard rows --threads $threads -q --out "$tmp/again.$threads" >/dev/null 2>"$tmp/err" || fail "$threads threads fail"
        same "$tmp/logistic.4" "$tmp/again.$threads"
    done
    # a run that a limit ends goes on with the same K and the same bits, or with none
    for k in 4 0; do
        ranks 4 fit logistic --data "$source/data/cancer.csv" --standardize --shard rows --max-evaluations 600 -q --out "$tmp/begun$k" >/dev/null 2>"$tmp/err" || fail "a limit fails"
    done
    ranks 4 fit --resume "$tmp/begun4" --max-evaluations 0 -q >/dev/null 2>"$tmp/err" || fail "4 ranks cannot resume"
    same "$tmp/logistic.4" "$tmp/begun4"
    "$program" fit --resume "$tmp/begun0" --max-evaluations 0 -q >/dev/null 2>"$tmp/err" || fail "one process cannot resume"
    near "$tmp/logistic" "$tmp/begun0" 1e-9
    # messages are those of one process, and come once
    refused() { # CODE OPTION...
        local code=$1 got=0
        shift
        "$program" fit "$@" -q --out "$tmp/none" >/dev/null 2>"$tmp/expected" && fail "$* is not refused"
        ranks 3 fit "$@" --shard rows --threads 1 -q --out "$tmp/none" >/dev/null 2>"$tmp/err" || got=$?
        [ $got = "$code" ] || fail "$* ends with $got, not $code"
        grep -v 'ranks x' "$tmp/err" | grep -A20 '^wvgd: ' | sed '/^---/,$d' >"$tmp/shown"
        cmp -s "$tmp/expected" "$tmp/shown" || fail "$*: $(diff "$tmp/expected" "$tmp/shown" | head -5)"
        [ ! -e "$tmp/none" ] || fail "$* leaves a directory"
    }
    printf 'a,b,y\n1,x,1\n2,2020,2\n3,,3\n4,z,x\n' >"$tmp/bad.csv"
    refused 65 linear --data "$tmp/bad.csv"
    printf 'a,y\n1,1\n2,2\n3,3\n4\n5,5\n' >"$tmp/short.csv"
    refused 65 linear --data "$tmp/short.csv"
    refused 66 linear --data "$tmp/nothing.csv"
    refused 64 linear --data "$source/data/diabetes.csv" --missing x
    says() { # PATTERN OPTION...
        local pattern=$1
        shift
        ranks 2 fit "$@" --threads 1 -q --out "$tmp/none" >/dev/null 2>"$tmp/err" && fail "$* is not refused"
        said "$pattern"
    }
    says 'wvgd_model_open_shard' "$build/tests/ranked.so" --data "$tmp/short.csv" --shard rows
    says 'shard is .columns.: expected rows' linear --data "$source/data/diabetes.csv" --shard columns
    says 'does not apply to the model mixture' mixture --data "$tmp/short.csv" --shard rows
    says 'needs a model with predictions' bnn --data "$source/data/iris.csv" --shard rows --cost functional
    ;;
failure)
    # jobs end within a minute (a second or two where nothing else runs), and what a machine that is busy takes to start and end one
    begin=$SECONDS
    ranks 3 fit "$build/tests/ranked.so" --config 'none 0 0 0' --threads 1 -q --out "$tmp/good" >/dev/null 2>"$tmp/err" || fail "a model that does nothing wrong fails"
    slack=$((3 * (SECONDS - begin)))
    fails() { # CODE WITHIN PATTERN CONFIG [OPTION...]
        local code=$1 within=$2 pattern=$3 config=$4 begin=$SECONDS got=0
        shift 4
        rm -rf "$tmp/run"
        ranks 3 fit "$build/tests/ranked.so" --config "$config" --threads 1 -q "$@" --out "$tmp/run" >"$tmp/out" 2>"$tmp/err" || got=$?
        [ $got = "$code" ] || fail "'$config' ends with $got, not $code"
        [ $((SECONDS - begin)) -le $((within + slack)) ] || fail "'$config' takes $((SECONDS - begin)) s"
        said "$pattern"
        [ ! -e "$tmp/run/run.json" ] || fail "'$config' leaves a result"
    }
    fails 70 60 'on rank 1' 'fail 1 2 0'
    ! grep -q 'prints' "$tmp/out" || fail "rank 1 prints"
    fails 70 60 'log_density returned 5' 'fail 0 2 0'
    fails 70 60 'rank 2: the model ended the program' 'exit 2 2 0'
    fails 65 60 'rank 2: .*no such file on this machine' 'refuse 2 0 0'
    fails 65 60 'the model has 4 parameters on rank 1 and 3 on rank 0' 'other 1 0 0'
    fails 70 66 'rank 1 has not answered for 4 s' 'hang 1 3 0' --rank-timeout 4
    fails 70 66 'rank 0 has not answered for 4 s' 'hang 0 3 0' --rank-timeout 4
    # a rank that finds another file under the same path
    mkdir "$tmp/here" "$tmp/there"
    cp "$source/data/iris.csv" "$tmp/here/data.csv"
    sed '$d' "$tmp/here/data.csv" >"$tmp/there/data.csv"
    timeout -k 5 900 "$mpirun" -n 1 -wdir "$tmp/here" "$build/wvgd-mpi" fit logistic --data data.csv --threads 1 -q --out "$tmp/none" : \
        -n 1 -wdir "$tmp/there" "$build/wvgd-mpi" fit logistic --data data.csv --threads 1 -q --out "$tmp/none" >/dev/null 2>"$tmp/err" && fail "another data file is not refused"
    said 'the data file on rank 1 is not that of rank 0'
    [ ! -e "$tmp/none" ] || fail "another data file leaves a directory"
    fails 70 60 'rank 1 was killed by signal 9' 'kill 1 3 0'
    fails 70 60 'rank 0 was killed by signal 9' 'kill 0 3 0'
    ranks 3 fit --help >"$tmp/out" 2>"$tmp/err" || fail "help fails"
    [ "$(grep -c '^Usage' "$tmp/out")" = 1 ] && [ ! -s "$tmp/err" ] || fail "help is not shown once"
    # a run that shows whom it waits for
    ranks 2 fit "$build/tests/ranked.so" --config 'hang 1 2 0' --rank-timeout 8 --out "$tmp/hung" >/dev/null 2>"$tmp/err" && fail "a rank that hangs is not missed"
    grep -Eq '^waiting for rank 1, [0-9]+ s$' "$tmp/err" || fail "progress does not name the rank that hangs"
    # killed at some moment, from outside, after its first checkpoints: the run goes on with another number of ranks
    "$program" fit "$build/tests/ranked.so" --config 'none 0 0 2000' -q --out "$tmp/whole" >/dev/null 2>&1
    for rank in 0 1 2; do
        rm -rf "$tmp/run"
        ranks 3 fit "$build/tests/ranked.so" --config 'none 0 0 2000' --checkpoint-every 0 --threads 1 -q --out "$tmp/run" >/dev/null 2>"$tmp/err" &
        job=$!
        for _ in $(seq 600); do
            [ "$(stat -c %s "$tmp/run/checkpoint" 2>/dev/null || echo 0)" = 0 ] || break
            sleep 0.1
        done
        sleep 0.$((RANDOM % 9))
        victim=$(pgrep -f "wvgd-mpi fit.*$tmp/run" | while read -r p; do
            [ "$(tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK)=//p' | head -1)" != $rank ] || echo "$p"
        done | tail -1)
        [ -z "$victim" ] || kill -9 "$victim" 2>/dev/null || true
        begin=$SECONDS
        wait $job && [ -n "$victim" ] && [ ! -e "$tmp/run/run.json" ] && fail "a job without rank $rank succeeds"
        [ $((SECONDS - begin)) -le $((60 + slack)) ] || [ -z "$victim" ] || fail "a job without rank $rank goes on for $((SECONDS - begin)) s"
        if [ ! -e "$tmp/run/run.json" ]; then
            ranks $((rank + 1)) fit --resume "$tmp/run" "$build/tests/ranked.so" --threads 1 -q >/dev/null 2>"$tmp/err" || fail "cannot resume without rank $rank"
        fi
        same "$tmp/whole" "$tmp/run"
    done
    ;;
python)
    for python in python3 /usr/bin/python3 none; do
        if "$python" -c 'import numpy, mpi4py' 2>/dev/null; then break; fi
    done
    if [ "$python" = none ]; then
        echo "skipped: there is no python3 with numpy and mpi4py (Debian package python3-mpi4py)"
        exit 77
    fi
    # mpi4py is built for one MPI
    if ! timeout -k 5 60 "$mpirun" -n 2 "$python" -c 'from mpi4py import MPI; assert MPI.COMM_WORLD.size == 2' 2>/dev/null; then
        echo "skipped: mpi4py is not for the MPI of $mpirun"
        exit 77
    fi
    export WVGD_LIBRARY_DIR="$build" PYTHONPATH="$source/python" PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
    fits() { # K WHAT
        timeout -k 5 900 "$mpirun" -n "$1" "$python" -W ignore "$source/tests/mpi/fit.py" "$2" >"$tmp/out" 2>"$tmp/err" || fail "$2 fails on $1 ranks"
    }
    for kind in gradient differences prior; do
        fits 1 $kind
        cp "$tmp/out" "$tmp/one"
        for k in 2 4; do
            fits $k $kind
            cmp -s "$tmp/one" "$tmp/out" || fail "$kind: $k ranks find something else than one"
        done
    done
    fits 3 raise
    [ "$(cat "$tmp/out")" = "on rank 2: ModelError: Odd: no density 2" ] || fail "a function that fails: $(cat "$tmp/out")"
    fits 3 exit
    [ "$(cat "$tmp/out")" = "on rank 2: ModelError: SystemExit: 3" ] || fail "a function that exits: $(cat "$tmp/out")"
    fits 2 arguments
    [ "$(wc -l <"$tmp/out")" = 4 ] || fail "arguments: $(cat "$tmp/out")"
    ;;
esac
