#!/bin/sh
# output.sh WVGD SOURCE: the shapes of what fit, summary and sample write, and other programs that read it.
. "$(dirname "$0")/check.sh"

expect 0 silence "$wvgd" fit mixture --data mixture.json --particles 4 --output-draws 500 --quiet --out run
cp stdout fit.txt
grep -q 'Verdict: no evidence against' fit.txt || complain "no verdict: $(cat fit.txt)"

# ---- summary ---------------------------------------------------------------------------------------------------------------
expect 0 silence "$wvgd" summary run
cmp -s stdout fit.txt || complain "fit and summary print different things"
[ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "summary has lines beyond 100 columns"
[ "$(grep -cE '^[1-4] ' stdout)" = 4 ] || complain "summary has not a line for each particle"
for name in mean sd 5% 50% 95% ESS MCSE beta ELBO k-hat PELBO 'log evidence'; do
    grep -q -- "$name" stdout || complain "summary lacks '$name'"
done
expect 0 silence "$wvgd" summary run --json
cp stdout summary.json

# ---- sample ----------------------------------------------------------------------------------------------------------------
lines() { grep -vc '^#' "$1"; }
[ "$(lines run/draws.csv)" = 501 ] || complain "draws.csv has $(lines run/draws.csv) lines"
for option in '' --resample --weighted; do
    expect 0 silence "$wvgd" sample run -n 50 $option
    [ "$(lines stdout)" = 51 ] || complain "sample -n 50 $option gives $(lines stdout) lines"
    cp stdout once
    expect 0 silence "$wvgd" sample run -n 50 $option --out twice
    cmp -s once twice || complain "sample $option is not the same twice"
done
expect 0 silence "$wvgd" sample run --seed 2 -n 50
cp stdout other
expect 0 silence "$wvgd" sample run -n 50
! cmp -s stdout other || complain "another seed gives the same draws"
expect 0 silence "$wvgd" sample run --resample -n 500
cmp -s stdout run/draws.csv || complain "sample --resample with the run's seed is not draws.csv"

# ---- particles of a file, gradients, a name that is too long -----------------------------------------------------------------
printf 'a,b\n0,0\n4,1\n-3,5\n' >start.csv
expect 0 'gradient agrees' "$wvgd" fit mixture --data mixture.json --init start.csv --check-gradient --quiet --out placed
grep -q '"particles": 3,' placed/run.json || complain "the number of particles is not that of the file"
expect 0 silence "$wvgd" sample placed -n 5
printf 'a,b,c\n0,0,0\n' >start.csv
expect 65 'start.csv: 1 rows of 3 columns' "$wvgd" fit mixture --data mixture.json --init start.csv --out wrong
printf 'a_name_that_goes_on_and_on_and_never_seems_to_end,\033[31mred,y\n1,2,0\n2,1,1\n3,5,1\n1,4,0\n2,2,1\n' >long.csv
expect 65 'long.csv' "$wvgd" fit logistic --data long.csv --quiet --out red
sed -i 's/.\[31mred/x/' long.csv
expect 0 anything "$wvgd" fit logistic --data long.csv --particles 1 --quiet --out long
[ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "long names make long lines"
[ ! -e wrong ] && [ ! -e red ] || complain "bad data have left a directory"
sed 's/"name": "mixture"/"name": "\\u001b[31mred"/' run/run.json >changed && mkdir hostile && cp changed hostile/run.json
expect 0 silence "$wvgd" summary hostile
! grep -q "$(printf '\033')" stdout || complain "escape sequences get to the terminal"
echo '{}' >hostile/run.json
expect 0 silence "$wvgd" summary hostile
expect 0 silence "$wvgd" summary hostile --json

# ---- shared objects ----------------------------------------------------------------------------------------------------------
objects=$(dirname "$wvgd")/tests
if [ -e "$objects/plugin.so" ] && [ -e "$objects/fake_stan.so" ]; then
    cp "$objects/plugin.so" "$objects/fake_stan.so" .
    expect 0 silence "$wvgd" fit ./plugin.so --config 3 --particles 2 --quiet --out plugged # text, for there is no file called 3
    head -1 plugged/particles.csv | grep -q 'z.1,z.2,z.3$' || complain "the configuration text is lost"
    expect 0 silence "$wvgd" fit ./fake_stan.so --particles 2 --quiet --out stan
    grep -v '^#' stan/draws.csv | head -1 | grep -q '^lp__,lp_approx__,path__,log_weight__,mu,sigma,ratio,draw$' || complain "draws are not transformed"
    expect 0 silence "$wvgd" sample stan -n 5
    grep -v '^#' stdout | awk -F, 'NR > 1 && !($6 > 0)' | grep -q . && complain "sigma is not transformed in draws of the ensemble"
    rm plugin.so fake_stan.so
    expect 0 silence "$wvgd" sample plugged -n 5
    expect 66 'need the model itself.*fake_stan.so' "$wvgd" sample stan -n 5
    expect 66 'plugin.so' "$wvgd" fit --resume plugged
else
    echo "skipped: no shared objects in $objects"
fi

# ---- models that fail ----------------------------------------------------------------------------------------------------------
if [ -e "$objects/failing.so" ]; then
    cp "$objects/failing.so" .
    expect 70 'density' "$wvgd" fit ./failing.so --config zero --quiet --out failed
    expect 70 'failed with code 7' "$wvgd" fit ./failing.so --config third --quiet --out failed
    expect 70 'gradient is wrong: d log p / d z.2' "$wvgd" fit ./failing.so --config gradient --check-gradient --quiet --out failed
    [ ! -e failed ] || complain "a run that failed at once has left a directory"
    expect 70 'failed with code 7' "$wvgd" fit ./failing.so --config third --checkpoint-every 0 --quiet --out failed
    [ -s failed/checkpoint ] || complain "a run that failed after a checkpoint cannot go on"
    expect 70 'in batch 5' "$wvgd" fit --resume failed --quiet # goes on after batch 2, and the model fails in its third call again
else
    echo "skipped: no failing.so in $objects"
fi

# ---- data from a pipe --------------------------------------------------------------------------------------------------------
mkfifo pipe
cat mixture.json >pipe &
expect 0 anything "$wvgd" fit mixture --data pipe --max-iter 5 --quiet --out piped

# ---- other readers ---------------------------------------------------------------------------------------------------------
python=
for candidate in python3 /usr/bin/python3; do
    if $candidate -c 'import numpy' 2>/dev/null; then python=$candidate && break; fi
done
if [ -n "$python" ]; then
    $python - <<'END' || complain "NumPy and JSON do not agree"
import json, numpy as np
run, summary = json.load(open("run/run.json")), json.load(open("summary.json"))
for key in "version command model options stop iterations evaluations bad_points seconds evidence distortion diagnostics verdict modes components particles posterior".split():
    assert key in run, key
assert run["stop"] == "converged" and len(run["particles"]) == 4 == len(run["components"])
assert set(run["evidence"]) == {"pelbo", "pelbo_beta", "importance"} and set(run["verdict"]) == {"reliable", "reasons"}
assert set(run["modes"]) == {"starts", "found", "hit_once", "expected_unseen"} and run["modes"]["found"] == 3
for key in "z beta beta_se weight log_Z elbo ess pareto_k mu chol".split():
    assert key in run["particles"][0], key
assert summary["posterior"] == run["posterior"]
# log evidence: log(0.5 + 0.3 + 0.4); five standard errors
e = run["evidence"]["importance"]
assert abs(e["value"] - np.log(1.2)) < 5 * e["se"], e
draws = np.loadtxt("run/draws.csv", comments="#", delimiter=",", skiprows=1 + sum(l.startswith("#") for l in open("run/draws.csv")))
assert draws.shape == (500, 6) and np.isfinite(draws).all() and (draws[:, 3] == 0).all() and set(draws[:, 2]) == {1, 2, 3, 4}
# draws against the moments: the standard error of a mean of 500 draws, and that of the moments themselves
for i in range(2):
    mean, sd, mcse = (run["posterior"][k][i] for k in ("mean", "sd", "mcse"))
    assert abs(draws[:, 4 + i].mean() - mean) < 5 * np.hypot(sd / np.sqrt(500), mcse)
particles = np.genfromtxt("run/particles.csv", delimiter=",", names=True)
assert (particles["beta"] == [p["beta"] for p in run["particles"]]).all()
trace = np.genfromtxt("run/trace.csv", delimiter=",", names=True)
assert len(trace) == run["iterations"] and abs(sum(trace["beta_%d" % (j + 1)][-1] for j in range(4)) - 1) < 1e-9
END
else
    echo "skipped: there is no NumPy to read draws.csv"
fi
if command -v Rscript >/dev/null; then
    Rscript -e 'd <- read.csv("run/draws.csv", comment.char = "#"); stopifnot(nrow(d) == 500, ncol(d) == 6, is.numeric(d$lp__), all(is.finite(d$lp__)))' >stdout 2>stderr ||
        complain "R does not read draws.csv: $(cat stderr)"
    if Rscript -e 'stopifnot(requireNamespace("rstan", quietly = TRUE))' >/dev/null 2>&1; then
        Rscript -e 'suppressMessages(library(rstan)); d <- as.matrix(suppressWarnings(read_stan_csv("run/draws.csv"))); stopifnot(nrow(d) == 500, all(is.finite(d)))' >stdout 2>stderr ||
            complain "rstan does not read draws.csv: $(cat stderr)"
    else
        echo "skipped: there is no rstan to read draws.csv"
    fi
else
    echo "skipped: there is no R to read draws.csv"
fi
finish
