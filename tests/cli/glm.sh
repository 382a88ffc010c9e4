#!/bin/sh
# glm.sh WVGD SOURCE: generalised linear models from a table that nobody has prepared to predictions, and what is said on
# the way; priors by name; conflicts of priors and data.
. "$(dirname "$0")/check.sh"

# A command that is refused with this code, in several lines.
refused() {
    code=$1
    shift
    "$@" >stdout 2>stderr
    [ $? = "$code" ] || complain "not refused with $code: $*: $(cat stderr)"
}

# ---- a new user's table: identifiers, dates, categories, yes and no, empty cells, semicolons -----------------------------------
awk 'BEGIN {
    split("basic plus pro", plan, " "); split("north south east west", region, " "); srand(5)
    print "id;signup;plan;region;months;bill;churn"
    for (i = 1; i <= 300; i++) {
        m = 1 + int(60 * rand()); p = 1 + int(3 * rand())
        printf "C%d;2024-%02d-%02d;%s;%s;%d;%s;%s\n", i, 1 + i % 12, 1 + i % 28, plan[p], region[1 + i % 4], m,
            i % 20 ? 20 + int(40 * rand()) : "", rand() < 1 / (1 + exp(0.04 * m - (p == 1))) ? "yes" : "no"
    }
}' >churn.csv
expect 64 "glm: --formula is missing: .* such as --formula 'churn ~ \.' .*the columns are id, signup, plan, .*--likelihood is missing: expected gaussian" "$wvgd" fit glm --data churn.csv --out churn
expect 64 '^wvgd: --likelihood is missing: expected gaussian\|student\|bernoulli' "$wvgd" fit glm --data churn.csv --formula 'churn ~ .' --out churn
refused 65 "$wvgd" fit glm --data churn.csv --formula 'churn ~ .' --likelihood bernoulli --out churn
grep -q 'column bill: found an empty field' stderr && grep -q -- '--missing drop leaves out 15 of 300 rows, and --ignore id,signup leaves out the columns' stderr && grep -q 'column id: ' stderr && grep -q 'column signup: .*not a date' stderr || complain "not all problems of the table: $(cat stderr)"
refused 65 "$wvgd" fit glm --data churn.csv --formula 'churn ~ .' --likelihood bernoulli --missing drop --out churn
grep -q -- '^wvgd: --ignore id,signup leaves out the columns$' stderr && ! grep -q 'missing drop\|column bill' stderr || complain "what is done already is a remedy: $(cat stderr)"
expect 0 'dropped 15 of 300 rows' "$wvgd" fit glm --data churn.csv --formula 'churn ~ .' --likelihood bernoulli --ignore id,signup --missing drop --out churn
grep -q '^target churn ("no" counts as 0, "yes" as 1); 285 rows (15 dropped), 7 features$' stdout || complain "the head: $(head -2 stdout)"
grep -q '^plan\[plus\]' stdout || complain "categories have no names: $(cat stdout)"
printf 'months;bill;plan;region\n2;50;basic;north\n40;30;pro;east\n' >new.csv
expect 0 silence "$wvgd" predict churn --data new.csv
awk -F, 'NR == 2 { first = $1 } NR == 3 { exit !(first > $1 && $1 > 0 && first < 1) }' stdout || complain "predictions: $(cat stdout)"

# ---- new rows that cannot be made ----------------------------------------------------------------------------------------------
mv churn.csv gone.csv # predictions need the run directory only
printf 'plan;months\npro;3\n' >less.csv
refused 65 "$wvgd" predict churn --data less.csv
grep -q 'there is no column "region"' stderr && grep -q 'there is no column "bill"' stderr || complain "not all missing columns: $(cat stderr)"
printf 'months;bill;plan;region\n2;50;gold;north\n' >other.csv
expect 65 'column plan: found "gold", expected' "$wvgd" predict churn --data other.csv

# ---- likelihoods and responses ------------------------------------------------------------------------------------------------
printf 'g,x,y,n,t\n' >rows.csv
for i in $(seq 40); do echo "$i" | awk '{ printf "%s,%g,%d,%d,%g\n", $1 % 2 ? "u" : "v", $1 / 10, $1 * 7 % 5, 4 + $1 % 3, 50 + ($1 * 13 % 11) }' >>rows.csv; done
expect 64 'likelihood is "poison": .*did you mean poisson' "$wvgd" fit glm --data rows.csv --formula 'y ~ x' --likelihood poison --out run
expect 64 'the response has no trials: expected cbind\(successes, failures\)' "$wvgd" fit glm --data rows.csv --formula 'y ~ x' --likelihood binomial --out run
expect 64 'the response has trials: expected binomial' "$wvgd" fit glm --data rows.csv --formula 'y | trials(n) ~ x' --likelihood poisson --out run
expect 65 'rows.csv:2: column x: found "0.1", expected a count' "$wvgd" fit glm --data rows.csv --formula 'x ~ g' --likelihood poisson --out run
expect 65 'the response g has 2 levels, expected numbers .*bernoulli takes two labels' "$wvgd" fit glm --data rows.csv --formula 'g ~ x' --likelihood gaussian --out run
refused 64 "$wvgd" fit glm --data rows.csv --formula 'y ~ x + (1|g)' --likelihood poisson --out run
grep -q 'grouping terms as in (1|g) are not supported yet' stderr || complain "random effects: $(cat stderr)"
expect 65 'there is no column "w"' "$wvgd" fit glm --data rows.csv --formula 'y ~ x' --likelihood poisson --weights w --out run
expect 64 "--target does not apply to the model glm, only to logistic, linear, bnn: the formula names the response: --formula 'y ~ ...'" "$wvgd" fit glm --data rows.csv --target y --likelihood poisson --out run
expect 64 '--prior does not apply to the model logistic, only to linear, glm: use --prior-sd, or wvgd fit glm' "$wvgd" fit logistic --data rows.csv --target y --prior 'x=normal(0,1)' --out run
expect 64 '--formula does not apply to the model linear' "$wvgd" fit linear --data rows.csv --formula 'y ~ x' --out run
[ -e run ] && complain "a refused run leaves a directory"
expect 0 anything "$wvgd" fit glm --data rows.csv --formula 'y | trials(n) ~ g*x' --likelihood binomial --weights t --quiet --out run
"$wvgd" predict run --data rows.csv >with 2>stderr && cut -d, -f1,2 rows.csv >without.csv && "$wvgd" predict run --data without.csv >one 2>stderr || complain "no predictions: $(cat stderr)"
paste -d, with one rows.csv | awk -F, 'NR > 1 && ($1 / $18 - $8) ^ 2 > 1e-9 { print; exit 1 }' || complain "without trials, predictions are not those of one trial"
"$wvgd" fit glm --data rows.csv --formula 'y ~ x' --likelihood poisson --quiet --out count >/dev/null || complain "no run count"
printf 'x\n1\n1e6\n' >far.csv
expect 0 'far.csv: the mean response of row 2 is beyond 1.8e308: are its columns in the units of the fit' "$wvgd" predict count --data far.csv
grep -q '^Inf,Inf,' stdout || complain "a mean beyond all numbers: $(cat stdout)"

# ---- priors -------------------------------------------------------------------------------------------------------------------
glm="$wvgd fit glm --data rows.csv --formula t~g+x --likelihood student --quiet --overwrite --out run"
expect 64 'the model has no parameter "z": expected one of g\[v\], x, intercept, sigma, nu, slopes' $glm --prior 'z=normal(0,1)'
expect 64 'found "norml\(0,1\)" as the prior of nu, expected normal\(mean, sd\), student\(nu, location, scale\), cauchy\(location, scale\), exponential\(rate\), gamma\(shape, rate\) or lognormal\(meanlog, sdlog\)$' $glm --prior 'nu=norml(0,1)'
expect 64 'as the prior of x, expected normal.* or cauchy\(location, scale\), since it may be negative' $glm --prior 'x=gamma(2,1)'
expect 64 'expected normal\(mean, sd\), in numbers' $glm --prior 'x=normal(0,-1)'
expect 64 'expected NAME=DIST' $glm --prior 'x'
expect 0 anything $glm --prior 'x = normal(0, 3)' --prior 'slopes=cauchy(0,2)' --prior 'nu=lognormal(2,1)'
tr -d '\n' <run/run.json | grep -q '"priors": *{ *"g\[v\]": *"cauchy(0, 2)", *"x": *"normal(0, 3)", *"intercept": *"normal([0-9.]*, [0-9.]*) for centred columns", *"sigma": *"exponential([0-9.]*)", *"nu": *"lognormal(2, 1)"' || complain "priors of run.json: $(grep -A8 '"priors"' run/run.json)"
expect 0 "prior-data conflict: the mean of t is 5[0-9.]+, .* try --prior 'intercept=normal\(5" $glm --prior 'intercept=normal(0,0.1)' --prior 'slopes=normal(0,0.1)' --prior 'sigma=exponential(1)'
expect 0 "prior-data conflict: the mean of t is .*leave out --prior-sd" "$wvgd" fit linear --data rows.csv --target t --features x --prior-sd 1 --quiet --overwrite --out run
expect 0 anything "$wvgd" fit linear --data rows.csv --target t --features x --quiet --overwrite --out run
grep -q conflict stderr && complain "priors scaled to the data conflict with them"
awk 'BEGIN { print "year,y"; for (i = 0; i < 80; i++) print 2000 + i % 20 "," (i * 7 % 10 < 3) }' >years.csv
expect 0 'prior-data conflict: the share of y is 0.3, but hardly any draw from the prior has it near that value; most have it near [0-9.e-]+ or [0-9.e-]+: .* --standardize' "$wvgd" fit logistic --data years.csv --quiet --out years
awk 'BEGIN { print "age,y"; for (i = 0; i < 300; i++) { x = 20 + i % 50; print x "," (i * 37 % 100 < 100 / (1 + exp(5 - x / 10))) } }' >ages.csv
expect 0 'prior-data conflict: the intercept is the value where every column is 0, which the data put near -[45].*, but its prior is normal.0, 1., .* --standardize measures columns from their means$' "$wvgd" fit logistic --data ages.csv --quiet --out ages
expect 0 anything "$wvgd" fit logistic --data ages.csv --standardize --quiet --overwrite --out ages
grep -q conflict stderr && complain "a remedy does not help: $(cat stderr)"
awk 'BEGIN { print "year,t"; for (i = 0; i < 80; i++) print 2000 + i % 20 "," 0.5 * (i % 20) + i % 3 }' >trend.csv
expect 0 'prior-data conflict: the intercept .*; leave out --prior-sd' "$wvgd" fit linear --data trend.csv --prior-sd 1 --quiet --out trend
expect 0 anything "$wvgd" fit linear --data trend.csv --quiet --overwrite --out trend
grep -q conflict stderr && complain "a remedy does not help: $(cat stderr)"
awk 'BEGIN { print "x,y,c"; for (i = 0; i < 60; i++) { x = 100 * (i % 7) - 300; print x "," 30 * x + 200 * (i * i % 11) "," 2000 + i * 37 % 50 } }' >pulled.csv
pulled="$wvgd fit glm --data pulled.csv --quiet --overwrite --out pulled --likelihood"
for prior in 'x=normal(-30, 1)' 'x=normal(100, 0.01)' 'slopes=normal(0, 1)'; do
    expect 0 'prior-data conflict: per unit of x, y changes by 30.* on average, .*: this distorts the evidence and, unless the data are many, the result; leave out its --prior for one scaled to the data, or widen' $pulled gaussian --formula y~x --prior "$prior"
done
expect 0 'prior-data conflict: the data pull sigma to [0-9.e+]* .*, away from its prior exponential\(10\), which distorts the result; leave out its --prior for the default' $pulled gaussian --formula y~x --prior 'sigma=exponential(10)'
expect 0 "prior-data conflict: the data pull shape to .*; try --likelihood poisson, .* or --prior 'shape=lognormal" $pulled negbinomial --formula c~x
shape=$(sed "s/.*--prior '\(shape=[^']*\)'.*/\1/" stderr)
for good in 'gaussian --formula y~x' 'poisson --formula c~x' "negbinomial --formula c~x --prior '$shape'"; do
    eval "expect 0 anything $pulled $good"
    grep -q conflict stderr && complain "a remedy does not help: $good: $(cat stderr)"
done
awk 'BEGIN { print "x,g,y,z"; for (i = 0; i < 40; i++) { y = 2 * i + 1 + 3 * (i % 2); print i "," (i % 2 ? "a" : "b") "," y "," y + (i * 7 % 5) / 1000 } }' >exact.csv
for model in linear 'glm --formula y~x+g --likelihood gaussian'; do
    "$wvgd" fit $model --data exact.csv --ignore z --max-iter 2 --quiet --overwrite --out pulled >/dev/null 2>stderr
    grep -q 'the response is an exact linear function of the columns' stderr || complain "no word about a response without noise: $(cat stderr)"
done
expect 0 anything "$wvgd" fit linear --data exact.csv --target z --ignore y --max-iter 2 --quiet --overwrite --out pulled
grep -q 'exact linear' stderr && complain "little noise is called none"
awk 'BEGIN { print "x,y"; for (i = 0; i < 40; i++) print i ",0" }' >none.csv
none="$wvgd fit glm --data none.csv --formula y~x --likelihood poisson --quiet --overwrite --out pulled"
expect 0 "prior-data conflict: the mean of y is 0, .* try --prior 'intercept=normal\(-4.38, 2.5\)'" $none --prior 'intercept=normal(5, 0.5)'
expect 0 anything $none --prior 'intercept=normal(-4.38, 2.5)'
grep -q conflict stderr && complain "a remedy does not help counts that are all 0: $(cat stderr)"
awk 'BEGIN { print "x,y"; for (i = 0; i < 200; i++) print (i % 20) / 10000 "," ((i * 7 % 20) / 10000 + (i % 20) / 5000 > 0.0025) }' >tiny.csv
expect 0 'prior-data conflict: per unit of x, the share of y changes by .* --standardize makes the columns comparable' "$wvgd" fit logistic --data tiny.csv --quiet --overwrite --out pulled
expect 0 anything "$wvgd" fit logistic --data tiny.csv --standardize --quiet --overwrite --out pulled
grep -q conflict stderr && complain "standardizing does not help: $(cat stderr)"
awk 'BEGIN { print "x,t"; for (i = 0; i < 30; i++) print i % 7 "e300," i * 3 % 11 "e-300" }' >huge.csv
for model in linear 'glm --formula t~x --likelihood gaussian'; do
    expect 65 'the prior of "x" would be normal\(0, .*\), expected sizes from 1e-100 to 1e100: write the data in other units$' "$wvgd" fit $model --data huge.csv --out huge
done
printf 'id,x,g,t\n' >counted.csv
awk 'BEGIN { for (i = 1; i <= 30; i++) print i "," i * i % 7 "," substr("North,north,south", 1 + 6 * (i % 3), 5) "," i * 3 % 11 }' >>counted.csv
expect 0 'column id seems only to number the rows: --ignore id leaves it out' "$wvgd" fit glm --data counted.csv --formula 't ~ .' --likelihood gaussian --out counted
grep -q 'the levels "North" and "north" of column g differ only in case' stderr || complain "no word about levels: $(cat stderr)"
expect 0 'prior-data conflict: the mean of t is .* rescale the response' "$wvgd" fit bnn --data rows.csv --target t --features x --hidden 1 --max-seconds 2 --quiet --out net

# An offset is no part of the intercept that the remedy names.
awk 'BEGIN { print "x,people,cases"; for (i = 0; i < 60; i++) { people = 1000 * 2 ^ (i % 9); print i % 7 "," people "," int(people / 5000 * (1 + i % 3)) } }' >rates.csv
rates="$wvgd fit glm --data rates.csv --formula cases~x+offset(log(people)) --likelihood poisson --quiet --overwrite --out pulled"
expect 0 "prior-data conflict: the mean of cases is .* try --prior 'intercept=normal\(-7.[0-9]*, 2.5\)'" $rates
expect 0 anything $rates --prior 'intercept=normal(-7.8, 2.5)'
grep -q conflict stderr && complain "a remedy does not help with an offset: $(cat stderr)"

expect 65 'the offset is .*, which is added to the log of the mean, expected at most 100: for an exposure x, write offset\(log\(x\)\)' "$wvgd" fit glm --data rates.csv --formula 'cases ~ offset(people)' --likelihood poisson --out wrong

# More categories than a column may have by itself, if the formula says that they are meant.
awk 'BEGIN { print "g,y"; for (i = 0; i < 120; i++) print "d" i % 30 "," i % 7 }' >groups.csv
expect 65 'a category with at most 24 levels, a fifth of the rows \(it has 30\): write factor\(g\) to take it all the same' "$wvgd" fit glm --data groups.csv --formula 'y ~ g' --likelihood poisson --out wrong
expect 0 anything "$wvgd" fit glm --data groups.csv --formula 'y ~ factor(g)' --likelihood poisson --quiet --out groups
grep -q 'factor(g)\[d29\]' groups/draws.csv || complain "not a coefficient for each category: $(head -1 groups/draws.csv)"
refused 64 "$wvgd" fit glm --data groups.csv --formula 'y ~ (1|g)' --likelihood poisson --out wrong
grep -q 'factor(g) gives each group a coefficient' stderr || complain "no way to give groups coefficients: $(cat stderr)"

# ---- comparison ---------------------------------------------------------------------------------------------------------------
"$wvgd" fit glm --data rows.csv --formula 't ~ x' --likelihood gaussian --quiet --out a >/dev/null && "$wvgd" fit linear --data rows.csv --target t --features x --quiet --out b >/dev/null || complain "no runs"
expect 0 anything "$wvgd" compare a b --json
tr -d ' \n' <stdout | sed 's/.*"difference":-\([0-9.e-]*\),.*/\1/' | awk '{ exit !($1 < 0.05) }' || complain "glm and linear are the same model, but not their evidence: $(cat stdout)"
"$wvgd" fit glm --data rows.csv --formula 't ~ 1' --likelihood gaussian --quiet --out less >/dev/null
expect 0 anything "$wvgd" compare a less # a model without columns has the same prior of its intercept
grep -q 'priors' stderr && complain "the prior of an intercept alone: $(cat stderr)"
"$wvgd" fit glm --data rows.csv --formula 'y ~ x' --likelihood poisson --quiet --out c >/dev/null
expect 65 'explain different data' "$wvgd" compare a c
"$wvgd" fit glm --data rows.csv --formula 't ~ x' --likelihood gaussian --weights n --quiet --out d >/dev/null
expect 65 'but other ones, or with other weights or trials: fit both' "$wvgd" compare a d
finish
