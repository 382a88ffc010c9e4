#!/bin/bash
# report.sh WVGD SOURCE: the page of a run is whole or not there, whatever the run directory holds; what is missing is said; figures.
. "$(dirname "$0")/check.sh"

expect 0 anything "$wvgd" fit mixture --data mixture.json --particles 3 --quiet --out run
"$wvgd" report run >stdout 2>stderr
if [ $? = 69 ]; then
    expect 69 'built without the page of the report.*Node.js' "$wvgd" report run
    [ ! -e run/report.html ] || complain "something was written without a page"
    echo "no page in this build: only its message was tested"
    finish
    exit
fi
data_of() { sed -n 's/.*<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' "$1"; }
lacks() { data_of "$1" | grep -qF -- "$2" || complain "$1 does not say: $2"; }

# ---- where it goes -----------------------------------------------------------------------------------------------------------------------
grep -qE '^wrote run/report.html \([0-9.]+ MB\): open it in a browser$' stdout || complain "no word about the page: $(cat stdout)"
[ "$(tail -c 8 run/report.html)" = '</html>' ] || complain "the page does not end"
data_of run/report.html | grep -q '^{"dir"' || complain "the page has no data"
data_of run/report.html | grep -q '[<>&]' && complain "the data could be taken for markup"
grep -qE '(src|href)="(https?:)?//' run/report.html && complain "the page refers to the network"
grep -q "Content-Security-Policy.*default-src 'none'" run/report.html || complain "no policy"
expect 0 silence "$wvgd" report run -o page.html
cmp -s page.html run/report.html || complain "two reports of the same run differ"
expect 73 'is a file of a run' "$wvgd" report run -o run/run.json
expect 73 'cannot create nowhere/page.html: its directory does not exist$' "$wvgd" report run -o nowhere/page.html
mkdir directory
expect 73 'cannot create directory' "$wvgd" report run -o directory
echo old >page.html
(ulimit -f 64 && "$wvgd" report run -o page.html >stdout 2>stderr)
[ $? = 74 ] || complain "a page that does not fit on the disk is no error: $(cat stderr)"
[ "$(cat page.html)" = old ] || complain "a page that could not be written has replaced the old one"
[ -z "$(find . -name '.*.wvgd-*')" ] || complain "a partial file is left"
expect 64 'DIR is missing' "$wvgd" report
expect 66 'nothing' "$wvgd" report nothing
mkdir none
expect 66 'none is not a run directory' "$wvgd" report none

# ---- what may be missing -------------------------------------------------------------------------------------------------------------------
for file in draws.csv trace.csv history.csv checkpoint; do
    rm -rf part && cp -r run part && rm part/$file part/report.html
    expect 0 silence "$wvgd" report part
    [ $file = checkpoint ] || lacks part/report.html "$file is missing from the run directory"
done
lacks part/report.html 'the fit could not be restored'
rm part/draws.csv part/trace.csv part/history.csv
expect 0 silence "$wvgd" report part # run.json alone
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 60; i++) { a = sin(1.7 * i); b = cos(2.3 * i + 1); print a "," b "," (a + 0.5 * sin(7 * i) > 0) } }' >rows.csv
expect 0 anything "$wvgd" fit logistic --data rows.csv --quiet --out weights
expect 0 silence "$wvgd" report weights
lacks weights/report.html '"kind":"logistic"'
# Several runs on one page.
expect 0 anything "$wvgd" fit logistic --data rows.csv --ignore b --quiet --out one
expect 0 silence "$wvgd" report weights one -o both.html
lacks both.html '"comparison":[{"name":"one"'
expect 64 'report: 2 run directories and no --out: -o FILE names the page that compares them' "$wvgd" report weights one
expect 64 'report: --figures takes one run directory, found 2' "$wvgd" report weights one --figures f -o none.html
expect 66 'nothing' "$wvgd" report weights nothing -o none.html
sed 's/^0,/1,/; 2s/.$/0/' rows.csv | head -40 >others.csv
expect 0 anything "$wvgd" fit logistic --data others.csv --quiet --out other
expect 65 'weights and other explain different data' "$wvgd" report weights other -o none.html
expect 73 'is a file of a run and would be overwritten' "$wvgd" report weights one -o weights/draws.csv
[ ! -e none.html ] || complain "a comparison that fails leaves a page"
echo '1,2,0' >>rows.csv
expect 0 silence "$wvgd" report weights
lacks weights/report.html 'rows.csv has changed since the run'
rm rows.csv
expect 0 silence "$wvgd" report weights
lacks weights/report.html 'cannot open'

# ---- what may be wrong -------------------------------------------------------------------------------------------------------------------------
# spoiled CODE PATTERN FILE SED: a run in which a file was changed
spoiled() {
    rm -rf bad && cp -r run bad && rm bad/report.html
    sed -i -E "$4" "bad/$3"
    expect "$1" "$2" "$wvgd" report bad
    [ "$1" = 0 ] || [ ! -e bad/report.html ] || complain "a page of a bad run: $4"
}
spoiled 65 'run.json' run.json '5,$d'
spoiled 65 'run.json' run.json 's/"mean": \[/"mean": [NaN,/'
spoiled 65 'particles: found .*, expected an array' run.json 's|^ "particles": \[| "particles": 5, "others": [|'
spoiled 65 'posterior.names\[0\] is no text' run.json '/"posterior"/,$s/"z\.1"/1/'
spoiled 65 'draws.csv:[0-9]+: found 5 fields' draws.csv '$s/,[^,]*$//'
spoiled 65 'draws.csv: found 5 columns.*expected lp__' draws.csv 's/,[^,]*$//'
spoiled 65 'quoted field has no closing quote' draws.csv '$s/^/"/'
spoiled 0 silence draws.csv '$s/[^,]*$/NaN/'
spoiled 0 silence draws.csv '/^#/!s/^[^l,]*,[^,]*,[^,]*,/Inf,-Inf,99999999999999999999,/'
spoiled 0 silence trace.csv '2,$s/,[^,]*,/,Inf,/'
spoiled 0 silence history.csv '1s/weight/mass/'
spoiled 0 silence history.csv '2,$s/,[^,]*$/,much/'
spoiled 0 silence run.json 's/"(beta|elbo|ess|pareto_k|weight)": [^,]*,/"\1": "<b>",/'
spoiled 0 silence run.json 's/"value": [^,]*,/"value": 1e308,/;s/"stop": "converged"/"stop": "<\/script><script>alert(1)<\/script>"/'
data_of bad/report.html | grep -q '[<>&]' && complain "text of run.json could be taken for markup"
spoiled 0 silence checkpoint 's/wvgdrun/wvgdbad/'
lacks bad/report.html 'is not a checkpoint'
head -c 3000 run/draws.csv | sed '$s/,[^,]*$//' >part/draws.csv # the last row ends early, wherever the cut lies
expect 65 'draws.csv' "$wvgd" report part

# ---- figures -------------------------------------------------------------------------------------------------------------------------------
if command -v gnuplot >/dev/null; then
    printf '%s,%s,y\n' '"it'"'"'s `touch hurt`"' '"{/Symbol a}_b; system(""touch hurt"")"' >odd.csv
    awk 'BEGIN { for (i = 0; i < 60; i++) { a = sin(1.7 * i); b = cos(2.3 * i + 1); print a "," b "," (a + 0.5 * sin(7 * i) > 0) } }' >>odd.csv
    expect 0 anything "$wvgd" fit logistic --data odd.csv --quiet --out odd
    expect 0 silence "$wvgd" report odd --figures figures
    for name in marginals pair masses training; do
        grep -q '</svg>' figures/$name.svg || complain "figures/$name.svg is not whole"
        [ "$(head -c 4 figures/$name.png | tail -c 3)" = PNG ] || complain "figures/$name.png is no picture"
    done
    grep -q 'cell 3' figures/pair.svg || complain "the pair has no key of its cells"
    pelbo=$(sed -n '/"pelbo": {/,/}/s/.*"value": \([-0-9.]*\).*/\1/p' odd/run.json | awk '{ printf "%.6g", $1 }')
    grep -qF -- "PELBO of the result: $pelbo" figures/training.svg || complain "training.svg does not have the final PELBO, $pelbo"
    grep -q 'ELBO of the mixture' figures/training.svg || complain "training.svg does not say whose ELBO it shows"
    [ "$(ls figures | wc -l)" = 8 ] || complain "something else lies among the figures: $(ls figures)"
    [ ! -e odd/report.html ] || complain "--figures alone has written the page"
    [ -z "$(find . -name hurt)" ] || complain "a name of a column was run"
    expect 73 'cannot create' "$wvgd" report odd --figures nowhere/figures
    expect 0 anything "$wvgd" svgd mixture --data mixture.json --quiet --out svgd # has no masses and no bound
    expect 0 silence "$wvgd" report svgd --figures fewer
    [ "$(ls fewer)" = 'marginals.png
marginals.svg
pair.png
pair.svg' ] || complain "figures of a run without cells: $(ls fewer)"
else
    expect 69 'no gnuplot' "$wvgd" report run --figures figures
    echo "skipped: there is no gnuplot to draw figures"
fi
finish
