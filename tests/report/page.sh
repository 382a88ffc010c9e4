#!/bin/bash
# page.sh WVGD SOURCE NODE PACKAGES CHROMIUM WHY: makes reports of small runs, of a hostile one and of a large one, and looks at them in headless Chromium. WHY: what is missing for that, or nothing.
if [ -n "$6" ]; then
    echo "skipped: $6"
    exit 77
fi
node=$3 packages=$4 chromium=$5
. "$(dirname "$0")/../cli/check.sh"
export HOME=$tmp # where Chromium keeps what it has to: perhaps there is no other, or it cannot be written
why=$("$node" "$source/tests/report/page.mjs" "$packages" "$chromium" 2>&1) || {
    echo "skipped: $chromium does not start here: $(echo "$why" | grep . | head -3 | tr '\n' ' ')"
    exit 77
}

fit() { expect 0 anything "$wvgd" fit "$@" --quiet; }
fit mixture --data mixture.json --solver joint --particles 6 --max-iter 150 --out joint
fit mixture --data mixture.json --particles 5 --out staged
fit mixture --data mixture.json --particles 4 --cost own --out own
fit mixture --data mixture.json --particles 4 --finish always --out chains
echo '{"weights": [0.5, 0.3, 0.4], "means": [0, 4, -3], "sds": [1, 0.5, 0.7]}' >one.json
fit mixture --data one.json --particles 4 --out one
awk 'BEGIN { print "t,y"; for (i = 0; i < 24; i++) print i "," sin(i * 0.9) + 0.2 * cos(37 * i) }' >series.csv
fit gp --data series.csv --starts 6 --max-iter 200 --out gp
hostile='"<script>window.hurt=1</script>","</script><img src=x onerror=window.hurt=1>","<!--<script>","a""b'"'"'c`${window.hurt=1}","caf'$'\xc3\xa9\xe2\x80\xa8'' & <b>bold</b>",constructor,__proto__,y'
{ echo "$hostile"; awk 'BEGIN { for (i = 0; i < 80; i++) { s = ""; for (j = 1; j < 8; j++) s = s sin(i * j * 1.7 + j) ","; print s (sin(i * 1.7) + cos(5 * i) > 0) } }'; } >hostile.csv
fit logistic --data hostile.csv --out hostile
awk 'BEGIN { print "a,plan,y"; for (i = 0; i < 60; i++) print i / 9 "," substr("xyz", 1 + i % 3, 1) "," i / 20 + sin(7 * i) }' >line.csv
fit linear --data line.csv --prior-sd 3 --out line
"$node" "$source/tests/report/make-large.mjs" large 200 100 10000 || complain "no large run"
fit glm --data line.csv --formula 'y ~ a*plan' --likelihood student --out glm
banana=$(dirname "$wvgd")/examples/banana.so
[ ! -e "$banana" ] || fit "$banana" --bend auto --particles 4 --seed 3 --out banana # not without the examples
fit "$(dirname "$wvgd")/tests/hierarchy.so" --bend auto --particles 4 --seed 3 --out hierarchy
# What is not as it should be in the map.
"$node" -e '
const fs = require("fs"), whole = fs.readFileSync("hierarchy/run.json", "utf8");
const harm = [(b) => delete b.map, (b) => (b.map = "x"), (b) => (b.map = {}), (b) => (b.map.layers[0].rows[0].parents = [7]), (b) => (b.map.lines = [1]), (b) => (b.map.basis[0][0] = null),
    (b) => (b.map.arguments = 3), (b) => b.map.layers.push(null), (b) => (b.map.centre = {}), (b) => (b.map.layers = null)];
harm.forEach((change, i) => { const run = JSON.parse(whole); change(run.bend); fs.mkdirSync("map" + i); fs.writeFileSync(`map${i}/run.json`, JSON.stringify(run)); });
' || complain "no harm done"
for run in map?; do
    cp hierarchy/*.csv hierarchy/checkpoint $run
    expect 0 silence "$wvgd" report $run
done
for run in banana hierarchy joint staged own chains one gp hostile line glm large; do
    [ -d $run ] || continue
    expect 0 silence "$wvgd" report $run
    cat stdout
done
fit linear --data line.csv --prior-sd 3 --features a --out slope
mkdir compared
expect 0 silence "$wvgd" report line slope -o compared/report.html
"$node" "$source/tests/report/page.mjs" "$packages" "$chromium" "$PWD" || complain "the page is not as it should be"
finish
