#!/bin/bash
# stan_debian.sh WVGD SOURCE: two Stan programs from their text to results, with Debian's rstan. Ends with status 77, and says why, if that is not there. Compiled programs are kept beside
# the tests, so that only the first run compiles.
. "$(dirname "$0")/check.sh"
unset BRIDGESTAN WVGD_STAN_DIR
export XDG_CACHE_HOME
XDG_CACHE_HOME=$(dirname "$wvgd")/tests/stan-cache
if ! "$wvgd" stan --doctor >doctor 2>&1; then
    echo "skipped: there is nothing to compile Stan programs with; missing: $(sed -n "/^Debian/,/^$/s/^  \(.*[^ ]\)  *missing.*/\1/p" doctor | tr -s ' \n' ' ')"
    exit 77
fi

# ---- a normal mean, in today's syntax: arrays of every kind, transformed parameters, generated quantities ----------------------------------------
cat >mean.stan <<'END'
functions {
  array[] real twice(array[] real x) {
    array[size(x)] real y;
    for (i in 1:size(x)) y[i] = 2 * x[i];
    return y;
  }
}
data {
  int<lower=0> N;
  array[N] real y;
  matrix[2, 3] A;
  array[2, 2] vector[2] V;
  array[2, 3] int I;
  array[0] int none;
  matrix[0, 2] nothing;
  real scale, big;
}
parameters {
  real mu;
  simplex[3] share;
}
transformed parameters {
  vector[2] shifted;
  shifted[1] = mu + 1;
  shifted[2] = mu + A[2, 1];
  real last = A[1, 3];
}
model {
  y ~ normal(mu, 1);
  target += normal_lupdf(mu | 0, scale);
}
generated quantities {
  array[2] real ab = twice({V[1, 2][1], V[2, 1][2]});
  int c = I[2, 1];
  real z = normal_rng(mu, 1);
}
END
echo '{"N": 3, "y": [1, 2.5, -0.5], "A": [[1, 2, 3], [4, 5, 6]], "V": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "I": [[1, 2, 3], [4, 5, 6]], "none": [], "nothing": [],
       "scale": 2, "big": Infinity, "unused": [[1]]}' >mean.json
fit=("$wvgd" stan mean.stan --data mean.json --particles 3 --seed 5)
expect 0 anything "${fit[@]}" --threads 1 --out mean
if [ ! -e "$XDG_CACHE_HOME/seen" ]; then # the first time
    grep -q 'compiling mean.stan (about 40 s' stderr || complain "no word about compiling: $(cat stderr)"
    grep -q 'mean.stan uses newer Stan syntax (array.*rewritten for Stan 2.21 as' stderr || complain "no word about rewriting: $(cat stderr)"
    touch "$XDG_CACHE_HOME/seen"
fi
expect 0 anything "${fit[@]}" --threads 2 --out mean2
same_but_times mean mean2
expect 0 anything "$wvgd" sample mean --resample -n 1000 --seed 5 --trust-model
cmp -s stdout mean/draws.csv || complain "generated quantities differ in sample --resample"
[ "$(grep -v '^#' mean/draws.csv | head -1)" = 'lp__,lp_approx__,path__,log_weight__,mu,share.1,share.2,share.3,shifted.1,shifted.2,last,ab.1,ab.2,c,z' ] ||
    complain "names: $(grep -v '^#' mean/draws.csv | head -1)"
# Posterior of mu: precision 3 + 1/4, mean (1 + 2.5 - 0.5) / 3.25. Evidence: y is normal with covariance I + 4 11'; times the volume of the simplex, 1/2, for its density is flat and 1. z: mean of
# 1000 draws with variance 1 + 1/3.25. Five standard errors each, of 1000 draws, and of the run itself.
python=$(command -v python3) && $python - <<'END' || complain "wrong numbers"
import json, math
run = json.load(open("mean/run.json"))
rows = [line.rstrip().split(",") for line in open("mean/draws.csv") if not line.startswith("#")]
draws = [dict(zip(rows[0], map(float, row))) for row in rows[1:]]
assert len(draws) == 1000
e, y, n = run["evidence"]["importance"], [1, 2.5, -0.5], 3
quadratic = sum(v * v for v in y) - 4 * sum(y) ** 2 / (1 + 4 * n)
expected = -0.5 * (n * math.log(2 * math.pi) + math.log(1 + 4 * n) + quadratic) + math.log(0.5)
assert abs(e["value"] - expected) < 5 * e["se"], (e, expected)
p = run["posterior"]
i = p["names"].index("mu")
assert abs(p["mean"][i] - 3 / 3.25) < 5 * p["mcse"][i], p["mean"][i]
for d in draws:
    assert abs(d["share.1"] + d["share.2"] + d["share.3"] - 1) < 1e-12 and min(d["share.1"], d["share.2"], d["share.3"]) > 0
    assert abs(d["shifted.1"] - d["mu"] - 1) < 1e-12 and abs(d["shifted.2"] - d["mu"] - 4) < 1e-12 # A[2,1]
    assert (d["last"], d["ab.1"], d["ab.2"], d["c"]) == (3, 6, 12, 4)
    # lp__ with all constants, and with the Jacobian of the simplex (in Stan 2.21 by stick breaking)
    a, b, c = d["share.1"], d["share.2"], d["share.3"]
    rest = 1 - a
    jacobian = math.log(a) + math.log(1 - a) + math.log(b / rest) + math.log(1 - b / rest) + math.log(rest)
    lp = sum(-0.5 * (v - d["mu"]) ** 2 - 0.5 * math.log(2 * math.pi) for v in y) - d["mu"] ** 2 / 8 - math.log(2) - 0.5 * math.log(2 * math.pi) + jacobian
    assert abs(d["lp__"] - lp) < 1e-9, (d["lp__"], lp)
mean = sum(d["z"] for d in draws) / 1000
assert abs(mean - 3 / 3.25) < 5 * math.sqrt((1 + 1 / 3.25) / 1000 + p["mcse"][i] ** 2), mean
assert len({d["z"] for d in draws}) == 1000
END
[ -n "$python" ] || echo "skipped: there is no python3 to check the numbers"

# ---- data that do not fit -----------------------------------------------------------------------------------------------------------------------------
data() { # CODE PATTERN SED: mean.json, changed
    sed "$3" mean.json | tr '\n' ' ' >changed.json
    expect "$1" "$2" "$wvgd" stan mean.stan --data changed.json --max-iter 2 --particles 1 --quiet --overwrite --out changed
}
data 65 'mean.stan: .*variable does not exist.*variable name=y' 's/"y"/"yy"/'
data 65 'dims declared=\(3\); dims found=\(2\)' 's/\[1, 2.5, -0.5\]/[1, 2.5]/'
data 65 'int variable contained non-int values.*variable name=N' 's/"N": 3/"N": 3.0/'
data 65 'N is -3, but must be greater than or equal to 0' 's/"N": 3/"N": -3/'
data 65 'mismatch in number dimensions.*variable name=A' 's/\[\[1, 2, 3\], \[4, 5, 6\]\], "V"/[1, 2, 3, 4, 5, 6], "V"/'
data 65 'variable A: found an array of 2, expected an array of 3' 's/\[\[1, 2, 3\], \[4, 5, 6\]\], "V"/[[1, 2, 3], [4, 5]], "V"/'
data 65 'variable y: found the text "one"' 's/\[1, 2.5/["one", 2.5/'
data 65 'variable y: found null' 's/\[1, 2.5/[null, 2.5/'
data 65 'variable scale: found true' 's/"scale": 2/"scale": true/'
data 65 'variable scale: found an object' 's/"scale": 2/"scale": {"a": 1}/'
data 65 'the data are not JSON: line 1, column' 's/"scale": 2/"scale": 2 2/'
data 65 'duplicate object key' 's/"scale": 2/"scale": 2, "scale": 3/'
data 65 'expected a JSON object' '1s/.*/[/'
data 0 anything 's/"nothing": \[\],//; s/"big": Infinity/"big": "-inf"/; s/"scale": 2/"scale": 20000000000000000000000/'
printf '{"N": %s' "$(head -c 100000 /dev/zero | tr '\0' '[')" >deep.json
expect 65 'the data are not JSON' "$wvgd" stan mean.stan --data deep.json --out deep
expect 65 'variable name=N.*no --data FILE was given' "$wvgd" stan mean.stan --out deep

# ---- a differential equation (its solvers are in a library), and points that the program rejects --------------------------------------------------------
cat >decay.stan <<'END'
functions {
  real[] rate(real t, real[] x, real[] k, real[] x_r, int[] x_i) {
    real dx[1];
    dx[1] = -k[1] * x[1];
    return dx;
  }
}
data {
  real x;
}
transformed data {
  real start[1] = {1.0};
  real times[1] = {2.0};
}
parameters {
  real<lower=0> k;
  real u;
}
model {
  real k_array[1];
  real found[1, 1];
  k_array[1] = k;
  if (u > 1)
    reject("u is too large: ", u > 1);
  found = integrate_ode_bdf(rate, start, 0, times, k_array, rep_array(0.0, 0), rep_array(0, 0));
  x ~ normal(found[1, 1], 0.1);
  k ~ lognormal(-1, 0.5);
  u ~ normal(0, 1);
}
END
expect 0 'first message: .*u is too large: 1' "$wvgd" stan decay.stan --config '{"x": 0.4}' --particles 2 --max-seconds 60 --out decay
grep -q '"bad_points": [1-9]' decay/run.json || complain "points that were rejected are not counted"

# ---- programs that are refused ---------------------------------------------------------------------------------------------------------------------------------
printf 'data { int N; }\nparameters { real mu }\nmodel { mu ~ normal(0, 1); }\n' >semicolon.stan
expect 65 'semicolon.stan:2:21: Stan rejects the program: PARSER EXPECTED: ";"' "$wvgd" stan semicolon.stan --out refused
grep -q '^     *2: parameters { real mu }' stderr || complain "Stan's own text is not shown: $(cat stderr)"
expect 65 'mean.stan:2:2: .*looks like newer Stan syntax \(array\[\.\.\.\].*leave out --no-rewrite' "$wvgd" stan mean.stan --no-rewrite --out refused
printf 'parameters { real mu; }\nmodel {\n  tuple(real, real) t = (mu, 1);\n}\n' >tuple.stan
expect 65 'tuple.stan:3:.*looks like newer Stan syntax: Stan 2.21 does not know tuple \(line 3\); BridgeStan' "$wvgd" stan tuple.stan --out refused
printf 'parameters { real mu; }\nmodle { mu ~ normal(0, 1); }\n' >misspelt.stan
expect 65 'misspelt.stan:2: Stan rejects the program: PARSER FAILED' "$wvgd" stan misspelt.stan --out refused
printf 'real oops(real x) {\n  return x +;\n}\n' >part.stan
printf 'functions {\n#include part.stan\n}\nparameters { real mu; }\nmodel { mu ~ normal(oops(0), 1); }\n' >whole.stan
expect 65 'part.stan:2:[0-9]+: Stan rejects' "$wvgd" stan whole.stan --out refused
[ ! -e refused ] && [ ! -e deep ] || complain "a program that was refused has left a directory"
finish
