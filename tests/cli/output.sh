#!/bin/sh
# output.sh WVGD SOURCE: the shapes of what fit, summary and sample write, and other programs that read it.
. "$(dirname "$0")/check.sh"

expect 0 silence "$wvgd" fit mixture --data mixture.json --particles 4 --output-draws 500 --quiet --out run
cp stdout fit.txt
grep -q 'Verdict: no problems detected' fit.txt || complain "no verdict: $(cat fit.txt)"

# ---- summary ---------------------------------------------------------------------------------------------------------------
expect 0 silence "$wvgd" summary run
cmp -s stdout fit.txt || complain "fit and summary print different things"
[ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "summary has lines beyond 100 columns"
[ "$(sed '1,/^particle /d' stdout | grep -cE '^[1-4] ')" = 4 ] || complain "summary has not a line for each particle"
grep -qE '^particle .* loss +[+]- +gain +[+]- ' stdout || complain "gain and loss have no standard errors: $(grep '^particle ' stdout)"
for name in mean sd 5% 50% 95% ESS MCSE mass weight ELBO k-hat PELBO 'log evidence'; do
    grep -q -- "$name" stdout || complain "summary lacks '$name'"
done
grep -q '^MCSE: standard error of the mean, less than sd/sqrt(ESS)' stdout || complain "a MCSE below sd/sqrt(ESS) is not explained"
expect 0 silence "$wvgd" summary run --json
cp stdout summary.json
expect 0 silence "$wvgd" summary run --check
cmp -s stdout fit.txt || complain "summary --check prints something else"
! grep -qE ' -0\.0*( |$)' stdout || complain "the summary has a negative zero: $(grep -E ' -0\.0*( |$)' stdout)"
expect 0 'not converged' "$wvgd" fit mixture --data mixture.json --solver joint --max-iter 3 --particles 2 --quiet --out short
grep -q '^Verdict: unreliable' stdout || complain "a run that has not converged counts as reliable"
expect 1 'short is unreliable: the fit has not converged' "$wvgd" summary short --check
grep -q '^Verdict: unreliable' stdout || complain "summary --check does not print the summary"
echo '{"weights": [1], "means": [0], "sds": [1]}' >one.json
expect 0 silence "$wvgd" fit mixture --data one.json --particles 1 --quiet --out single
head -1 stdout | grep -q '^mixture: 1 parameter, 1 cell$' || complain "one parameter, one cell: $(head -1 stdout)"
printf '%s,' $(seq -f 'x%g' 30) >wide.csv && echo y >>wide.csv # 31 coordinates, one more than the summary of a fit shows at most
for i in 1 2 3 4; do
    printf "$i.5,%.0s" $(seq 30) >>wide.csv
    echo $((i % 2)) >>wide.csv
done
expect 0 anything "$wvgd" fit logistic --data wide.csv --particles 1 --family diag --quiet --out wide
! grep -q ' more: wvgd summary' stdout || complain "one row alone is left out"
grep -q '^intercept ' stdout || complain "the last parameter is missing"

# Modes: masses, particles, and first what tells them apart. One mode needs no table.
! grep -q '^mode ' stdout || complain "a table of one mode"
echo '{"weights": [0.25, 0.75], "means": [[0,0,0,0,-5,0], [0,4,0,0,5,0]], "sds": [[1,1,1,1,1,1], [1,1,1,1,1,1]]}' >six.json
expect 0 silence "$wvgd" fit mixture --data six.json --particles 24 --quiet --out six
grep -qE '^mode +mass +\+- +particles +z\.5 +z\.2$' stdout || complain "the head of the modes: $(grep '^mode' stdout)"
grep -qE '^1 +0\.(749|750)[0-9]* +0\.00[0-9]+ +[0-9, ]+\.\.\. +(5|4\.9|5\.0)[0-9]* +(4|3\.9|4\.0)[0-9]*$' stdout || complain "the heavier mode: $(grep -A1 '^mode' stdout)"
grep -qE '^2 +0\.2[45][0-9]* +0\.00[0-9]+ +[0-9, .]+ +-(5|4\.9|5\.0)[0-9]* ' stdout || complain "the lighter mode: $(grep -A2 '^mode' stdout)"
[ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "the modes have lines beyond 100 columns"

# Which label is 1, and what features were standardized by.
printf 'dose,state\n1,well\n2,ill\n3,ill\n6,well\n' >state.csv
expect 0 anything "$wvgd" fit logistic --data state.csv --standardize --particles 1 --quiet --out state
cp stdout printed
sed -n 2p printed | grep -qx 'target state ("ill" counts as 0, "well" as 1); 4 rows, 1 feature, standardized' || complain "the summary does not say which label is 1: $(head -3 printed)"
expect 0 silence "$wvgd" summary state
cmp -s stdout printed || complain "fit and summary print different things of labels"
tr -d ' \n' <state/run.json >packed
grep -q '"target":"state","rows":4,"features":1,"labels":\["ill","well"\],"standardized":{"columns":\["dose"\],"mean":\[3.0*\],"sd":\[2.16024' packed || complain "run.json does not tell labels, means and sds"
expect 0 anything "$wvgd" svgd logistic --data state.csv --max-iter 5 --particles 2 --quiet --out state.svgd
sed -n 2p stdout | grep -q '^target state ("ill"' || complain "the summary of svgd does not say which label is 1"
! sed 's/ill/0/; s/well/1/' state.csv | "$wvgd" fit logistic --data /dev/stdin --particles 1 --quiet --out plain 2>/dev/null | grep '^target.*counts' || complain "0 and 1 need no words"
sed -n 3p printed | grep -qx 'prior: normal, mean 0, sd 1, for weights and intercept of standardized columns' || complain "the summary does not tell the prior: $(head -3 printed)"
grep -q '"priors":{[^}]*"intercept":"normal(0,1)forstandardizedcolumns"' packed || complain "run.json does not record the priors"
! grep -q '"hidden"' packed || complain "run.json records an option that the model does not have"

# ---- sample ----------------------------------------------------------------------------------------------------------------
lines() { grep -vc '^#' "$1"; }
[ "$(lines run/draws.csv)" = 501 ] || complain "draws.csv has $(lines run/draws.csv) lines"
for option in '' '--from ensemble' --weighted; do
    expect 0 silence "$wvgd" sample run -n 50 $option
    [ "$(lines stdout)" = 51 ] || complain "sample -n 50 $option gives $(lines stdout) lines"
    cp stdout once
    expect 0 silence "$wvgd" sample run -n 50 $option --overwrite --out twice
    cmp -s once twice || complain "sample $option is not the same twice"
done
expect 0 silence "$wvgd" sample run --seed 2 -n 50 --from ensemble
cp stdout other
expect 0 silence "$wvgd" sample run -n 50 --from ensemble
grep -v '^#' stdout | grep -q '^NaN,' || complain "draws of the ensemble have been evaluated"
! cmp -s stdout other || complain "another seed gives the same draws"
for option in '' --resample '--from posterior'; do
    expect 0 silence "$wvgd" sample run $option -n 500
    cmp -s stdout run/draws.csv || complain "sample $option with the run's seed is not draws.csv"
done

# ---- particles of a file, gradients, a name that is too long -----------------------------------------------------------------
printf 'a,b\n0,0\n4,1\n-3,5\n' >start.csv
expect 0 'gradient agrees with finite differences at 20 points: 40 derivatives, none off by more than rounding$' "$wvgd" fit mixture --data mixture.json --init start.csv --check-gradient --out placed
grep -q 'start.csv has 3 rows, so the number of particles is 3, not 5' stderr || complain "nothing says that there are fewer particles: $(cat stderr)"
grep -q '"particles": 3,' placed/run.json || complain "the number of particles is not that of the file"
expect 0 silence "$wvgd" sample placed -n 5
expect 65 'start.csv has 3 rows, expected 4: one for each of --particles 4' "$wvgd" fit mixture --data mixture.json --init start.csv --particles 4 --out wrong
printf 'a,b,c\n0,0,0\n' >start.csv
expect 65 'start.csv has 3 columns, expected 2: one for each parameter, z.1, z.2$' "$wvgd" fit mixture --data mixture.json --init start.csv --out wrong
printf 'a_name_that_goes_on_and_on_and_never_seems_to_end,\033[31mred,y\n1,2,0\n2,1,1\n3,5,1\n1,4,0\n2,2,1\n' >long.csv
expect 65 'long.csv' "$wvgd" fit logistic --data long.csv --quiet --out red
sed -i 's/.\[31mred/x/' long.csv
expect 0 anything "$wvgd" fit logistic --data long.csv --particles 1 --quiet --out long
[ "$(awk 'length > 100' stdout | wc -l)" = 0 ] || complain "long names make long lines"
[ ! -e wrong ] && [ ! -e red ] || complain "bad data have left a directory"
sed 's/"name": "mixture"/"name": "\\u001b[31mred"/' run/run.json >changed && mkdir hostile && cp changed hostile/run.json
expect 0 silence "$wvgd" summary hostile
! grep -q "$(printf '\033')" stdout || complain "escape sequences get to the terminal"
sed 's/"name": "mixture"/"name": "\\u009b31mred"/' run/run.json >hostile/run.json
expect 0 silence "$wvgd" summary hostile
! grep -q "$(printf '\302\233')" stdout || complain "C1 control characters get to the terminal"
echo '{}' >hostile/run.json
expect 65 'hostile/run.json: version: found nothing' "$wvgd" summary hostile
expect 65 'hostile/run.json: version' "$wvgd" summary hostile --json
echo '[]' >hostile/run.json
expect 65 'top level: found an array of 0, expected an object' "$wvgd" summary hostile

# ---- files of another run --------------------------------------------------------------------------------------------------------
cp -r run mixed && cp short/result mixed/result
expect 65 'mixed/result belongs to another run' "$wvgd" sample mixed -n 5
rm mixed/result && cp single/checkpoint mixed/checkpoint
expect 65 'mixed/checkpoint belongs to another run' "$wvgd" sample mixed -n 5
expect 75 'mixed/checkpoint belongs to another run' "$wvgd" fit --resume mixed
rm mixed/run.json
expect 0 'had already finished: nothing to do' "$wvgd" fit --resume mixed
expect 0 silence "$wvgd" fit --resume mixed --quiet

# ---- where ascents and particles start ---------------------------------------------------------------------------------------------
printf 'a,b,y\n1,2,0\n2,1,1\n3,5,1\n1,4,0\n2,2,1\n4,0,1\n0,3,0\n' >rows.csv
for model in logistic linear bnn; do
    for init in prior normal; do
        expect 0 anything "$wvgd" fit $model --data rows.csv --prior-sd 3 --solver joint --max-iter 2 --init $init --particles 2 --quiet --out $model.$init
        grep -q "\"init\": \"$init\"" $model.$init/run.json || complain "run.json does not record --init $init"
    done
    cut -d, -f4- $model.prior/trace.csv >prior.txt
    cut -d, -f4- $model.normal/trace.csv >normal.txt
    ! cmp -s prior.txt normal.txt || complain "--init prior starts $model where --init normal does"
done
expect 0 silence "$wvgd" sample logistic.prior -n 5 # without the model, whose prior is not needed any more
expect 0 anything "$wvgd" fit logistic --data rows.csv --init prior --particles 2 --quiet --out staged.prior
expect 0 silence "$wvgd" sample staged.prior -n 5

# ---- the cost between predictions ------------------------------------------------------------------------------------------------
functional="$wvgd fit bnn --data rows.csv --hidden 2 --cost functional --solver joint --particles 3 --quiet"
expect 0 anything $functional --max-iter 12 --out angles
grep -q '"cost": "functional"' angles/run.json || complain "run.json does not record the cost"
expect 0 anything $functional --max-iter 6 --out angles6
expect 0 anything "$wvgd" fit --resume angles6 --max-iter 12 --quiet
sed -i '/"max-iter"/d' angles6/run.json angles/run.json
same_but_times angles angles6
expect 0 silence "$wvgd" sample angles -n 20
grep -v '^#' stdout | cut -d, -f3 | sort -u | grep -qx 1 || complain "no draw in cell 1"
expect 0 anything "$wvgd" fit bnn --data rows.csv --hidden 2 --cost functional --particles 2 --max-seconds 2 --quiet --out angles.staged
mv rows.csv elsewhere.csv
expect 66 'need its model and data: .*rows.csv' "$wvgd" sample angles -n 20
mv elsewhere.csv rows.csv

# ---- shared objects ----------------------------------------------------------------------------------------------------------
objects=$(dirname "$wvgd")/tests
if [ -e "$objects/plugin.so" ] && [ -e "$objects/fake_stan.so" ]; then
    cp "$objects/plugin.so" "$objects/fake_stan.so" .
    expect 0 silence "$wvgd" fit ./plugin.so --config 3 --particles 2 --quiet --out plugged # text, for there is no file called 3
    head -1 plugged/particles.csv | grep -q 'z.1,z.2,z.3$' || complain "the configuration text is lost"
    expect 0 anything "$wvgd" fit ./fake_stan.so --particles 2 --quiet --out stan
    grep -v '^#' stan/draws.csv | head -1 | grep -q '^lp__,lp_approx__,path__,log_weight__,mu,sigma,ratio,draw$' || complain "draws are not transformed"
    expect 0 silence "$wvgd" sample stan -n 5
    grep -v '^#' stdout | awk -F, 'NR > 1 && !($6 > 0)' | grep -q . && complain "sigma is not transformed in draws of the ensemble"
    rm plugin.so fake_stan.so
    expect 0 silence "$wvgd" sample plugged -n 5
    expect 66 'need its model and data.*fake_stan.so' "$wvgd" sample stan -n 5 --trust-model
    expect 66 'plugin.so' "$wvgd" fit --resume plugged --trust-model
else
    echo "skipped: no shared objects in $objects"
fi

# ---- models that fail ----------------------------------------------------------------------------------------------------------
if [ -e "$objects/failing.so" ]; then
    cp "$objects/failing.so" .
    expect 70 'density' "$wvgd" fit ./failing.so --config zero --quiet --out failed
    expect 70 'log_density returned 7' "$wvgd" fit ./failing.so --config third --quiet --out failed
    expect 70 'gradient is wrong: d log p / d z.2' "$wvgd" fit ./failing.so --config gradient --check-gradient --quiet --out failed
    for seed in 1 2 3; do
        expect 70 'gradient is wrong: d log p / d z.2 .* at z.1 = [1-9].*; wrong at [1-9] of 20 points' "$wvgd" fit ./failing.so --config beyond --seed $seed --check-gradient --quiet --out failed
    done
    expect 70 'none of 20 points has a finite density' "$wvgd" fit ./failing.so --config zero --check-gradient --quiet --out failed
    [ ! -e failed ] || complain "a run that failed at once has left a directory"
    for config in hole edge; do # which are said, but no reason to stop
        expect 0 'gradient agrees with finite differences at 1[0-9] points' "$wvgd" fit ./failing.so --config $config --check-gradient --quiet --max-iter 3 --out a.$config
    done
    grep -q 'density is zero at [1-9] of 20 points, first at z.1 = [1-9]' stderr || complain "nothing says where the density is zero: $(cat stderr)"
    expect 0 'log density is NaN or infinite at [1-9] of 20 points, first at z.1 = [1-9]' "$wvgd" fit ./failing.so --config hole --check-gradient --quiet --overwrite --max-iter 3 --out a.hole
    expect 70 'log_density returned 7' "$wvgd" fit ./failing.so --config third --checkpoint-every 0 --quiet --out failed
    [ -s failed/checkpoint ] || complain "a run that failed after a checkpoint cannot go on"
    expect 70 'in batch 5' "$wvgd" fit --resume failed --quiet ./failing.so # goes on after batch 2, and the model fails in its third call again
    cp -r run kept && rm -rf before && cp -r run before
    expect 70 'log_density returned 7' "$wvgd" fit ./failing.so --config third --quiet --overwrite --out kept
    diff -r before kept >/dev/null || complain "a run that failed has damaged the one that it was to replace: $(ls kept)"
    expect 70 'log_density returned 7.*; the old run is still in kept' "$wvgd" fit ./failing.so --config third --checkpoint-every 0 --quiet --overwrite --out kept
    cmp -s run/run.json kept/run.json || complain "the run that was to be replaced is gone: $(ls kept)"
    expect 0 silence "$wvgd" sample kept -n 5
    expect 73 'wvgd fit --resume kept continues' "$wvgd" fit mixture --data mixture.json --quiet --out kept
    expect 0 silence "$wvgd" fit mixture --data mixture.json --quiet --overwrite --out kept
    ! ls kept | grep -q next || complain "files of the run that was replaced are left: $(ls kept)"
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
assert run["stop"] == "converged" and len(run["particles"]) == 4 and len(run["components"]) >= 3
assert set(run["evidence"]) == {"pelbo", "pelbo_beta", "importance"} and set(run["verdict"]) == {"reliable", "reasons"}
assert set(run["modes"]) == {"starts", "found", "hit_once", "expected_unseen", "each"} and run["modes"]["found"] == 3
each = run["modes"]["each"]
assert set(each[0]) == {"mass", "mass_se", "particles", "mean", "sd"} and sorted(sum((m["particles"] for m in each), [])) == [1, 2, 3, 4]
assert len(each) == 3 and each[0]["mass"] >= each[1]["mass"] >= each[2]["mass"] and abs(sum(m["mass"] for m in each) - 1) < 1e-6
assert np.allclose(sum(m["mass"] * np.array(m["mean"]) for m in each), run["posterior"]["mean"], atol=0.2)
for key in "z beta beta_se weight log_Z elbo ess pareto_k gain gain_se loss loss_se mu chol".split():
    assert key in run["particles"][0], key
assert summary["posterior"] == run["posterior"]
# log evidence: log(0.5 + 0.3 + 0.4); five standard errors
e = run["evidence"]["importance"]
assert abs(e["value"] - np.log(1.2)) < 5 * e["se"], e
draws = np.loadtxt([line for line in open("run/draws.csv") if not line.startswith("#")], delimiter=",", skiprows=1) # as in docs/formats.md
assert (np.loadtxt("run/draws.csv", comments="#", delimiter=",", skiprows=1 + sum(l.startswith("#") for l in open("run/draws.csv"))) == draws).all()
assert draws.shape == (500, 6) and np.isfinite(draws).all() and (draws[:, 3] == 0).all() and set(draws[:, 2]) == {1, 2, 3, 4}
# draws against the moments: the standard error of a mean of 500 draws, and that of the moments themselves
for i in range(2):
    mean, sd, mcse = (run["posterior"][k][i] for k in ("mean", "sd", "mcse"))
    assert abs(draws[:, 4 + i].mean() - mean) < 5 * np.hypot(sd / np.sqrt(500), mcse)
particles = np.genfromtxt("run/particles.csv", delimiter=",", names=True)
assert (particles["beta"] == [p["beta"] for p in run["particles"]]).all()
try:
    import pandas
    frame = pandas.read_csv("run/draws.csv", comment="#", float_precision="round_trip") # others miss the last bit
    assert frame.shape == (500, 6) and (frame["z.2"].values == draws[:, 5]).all()
    assert list(pandas.read_csv("angles/draws.csv", comment="#").columns)[4] == "w1[1,1]"
except ImportError:
    print("skipped: there is no pandas to read draws.csv")
trace = np.genfromtxt("run/trace.csv", delimiter=",", names=True)
assert trace["iteration"][-1] == run["iterations"] and abs(sum(trace["beta_%d" % (j + 1)][-1] for j in range(4)) - 1) < 1e-9
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
