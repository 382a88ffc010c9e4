#!/bin/sh
# reproduce.sh WVGD SOURCE: wvgd reproduce: quick runs of all experiments, tables and figures, numbers of the mixture experiment and of the theory, and what is refused.
. "$(dirname "$0")/check.sh"

expect 64 'NAME is missing' "$wvgd" reproduce
expect 64 'did you mean mixture' "$wvgd" reproduce mixtur
expect 64 "seed is 'x'" "$wvgd" reproduce mixture --seed x
expect 64 'give either .* not both' "$wvgd" reproduce mixture --targets t.json --random-targets 3
expect 66 'nowhere.json' "$wvgd" reproduce mixture --targets nowhere.json --out x -q
echo '{"targets": [{"weights": [1, 2], "means": [0], "sds": [1, 1]}]}' >short.json
expect 65 'targets\[0\].means' "$wvgd" reproduce mixture --targets short.json --out x -q
echo '{"targets": [{"weights": [1], "means": [0], "sds": [-1]}]}' >negative.json
expect 65 'targets\[0\].sds\[0\]' "$wvgd" reproduce mixture --targets negative.json --out x -q
echo '{"targets": []}' >none.json
expect 65 'targets' "$wvgd" reproduce mixture --targets none.json --out x -q
expect 73 'cannot create the directory' "$wvgd" reproduce mixture --out none.json/x -q

expect 0 silence "$wvgd" reproduce all --quick --out all -q
cat all/*/results.md all/theory/theory.md >expected
[ "$(sort stdout | grep -v '^$' | cksum)" = "$(sort expected | grep -v '^$' | cksum)" ] || complain "what is printed are not the tables"
for name in mixture logistic gp bnn theory; do
    [ "$(wc -l <all/$name/results.csv)" -ge 2 ] || complain "there is no all/$name/results.csv, or it has no rows"
done
cd all || exit 1

[ "$(head -1 mixture/results.csv)" = 'target,method,particles,ise,pelbo,evaluations,seconds' ] || complain "head of results.csv: $(head -1 mixture/results.csv)"
for method in wvgd svgd joint joint-reparam paper; do
    [ "$(cut -d, -f2 mixture/results.csv | grep -cx "$method")" = 2 ] || complain "not two rows of $method"
done
[ "$(grep -c ',svgd,9,' mixture/results.csv)" = 2 ] || complain "SVGD has not 3N particles"
# Two targets, three particles: errors near the optima 0.0119 and 0.0003, and below those of SVGD.
awk -F, '$2 == "wvgd" && $4 > ($1 == 0 ? 0.0150 : 0.0010) { bad = 1 } $2 == "wvgd" { ours[$1] = $4 } $2 == "svgd" && $4 < ours[$1] { bad = 1 } END { exit bad }' mixture/results.csv ||
    complain "errors of the mixture experiment: $(cat mixture/results.csv)"
grep -q 'WVGD is better than SVGD on 2 of 2 pairs' mixture/results.md || complain "results.md: $(cat mixture/results.md)"

grep -qx 'section,case,quantity,value' theory/results.csv || complain "head of theory/results.csv"
# One particle is the mean, to four of the standard errors that a quick run has; the screening force is the derivative; the bias is what it is known to be.
awk -F, '{ v[$1 "," $2 "," $3] = $4 }
    function far(a, b, most) { if (!(a - b <= most && b - a <= most)) { print a, b; bad = 1 } }
    END {
        far(v["one particle,target 0,wvgd squared"], v["one particle,target 0,mean"], 0.23)
        far(v["one particle,target 0,wvgd l1"], v["one particle,target 0,median"], 0.23)
        far(v["one particle,target 0,svgd"], v["one particle,target 0,mode"], 0.001)
        far(v["screening,w = 0.5 z2=6.0,pull less screened"], v["screening,w = 0.5 z2=6.0,-dD/dz1"], 1e-5)
        far(v["bias,Z=0.618,exact mu"], 0.434, 5e-4); far(v["bias,Z=0.618,exact log sigma"], -0.787, 5e-4)
        far(v["bias,Z=0.618,paper mu"], 1, 1e-9); far(v["bias,Z=0.618,paper log sigma"], -0.617, 5e-4)
        far(v["dimensions,D=5,wvgd ensemble"], 1, 0.05)
        exit bad
    }' theory/results.csv || complain "numbers of the theory: $(cat theory/results.csv)"

# The committed document is what a run wrote, but for where its links lead; and what does not depend on draws is the same today.
sed -e 's|(figure_|(results/theory/figure_|' -e 's|(\.\./mixture/|(results/mixture/|' "$source/experiments/results/theory/theory.md" | cmp -s - "$source/experiments/theory.md" ||
    complain "experiments/theory.md is not experiments/results/theory/theory.md with the links changed"
for file in theory/theory.md "$source/experiments/theory.md"; do
    grep '^| w = ' $file
    grep '^| 0\.' $file | cut -d'|' -f1-6
done | sort | uniq -c | awk '$1 != 2 { print; bad = 1 } END { exit bad }' || complain "numbers of experiments/theory.md are not those of today"

if command -v gnuplot >/dev/null; then
    for figure in mixture/figure_a mixture/figure_b theory/figure_variance theory/figure_bias; do
        grep -q '</svg>' $figure.svg || complain "$figure.svg is not whole"
        [ "$(head -c 4 $figure.png | tail -c 3)" = PNG ] || complain "$figure.png is none"
    done
    [ -z "$(ls mixture theory | grep -e partial -e gnuplot)" ] || complain "left behind: $(ls mixture theory)"
else
    echo "skipped: there is no gnuplot to draw figures"
fi
cd .. || exit 1
# Without gnuplot there are tables, and a warning.
mkdir bin && echo '{"targets": [{"weights": [1, 2], "means": [0, 3], "sds": [1, 1]}]}' >own.json
expect 0 'figure_a is not drawn: gnuplot is not installed \(Debian package gnuplot-nox\)' env PATH="$tmp/bin" "$wvgd" reproduce mixture --quick --targets own.json --out own -q
[ -s own/results.csv ] && [ ! -e own/figure_a.svg ] || complain "without gnuplot: $(ls own)"
# The same on any number of threads, but for seconds.
expect 0 anything env PATH="$tmp/bin" "$wvgd" reproduce mixture --quick --targets own.json --out threads -q --threads 1
cut -d, -f1-6 own/results.csv >one
cut -d, -f1-6 threads/results.csv >other
cmp -s one other || complain "results depend on the number of threads"
finish
