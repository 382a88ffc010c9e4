#!/bin/bash
# trust.sh WVGD SOURCE: what run directories, models and data from somebody else can do: load code, end the program, speak to the terminal, make it read what it should not.
. "$(dirname "$0")/check.sh"
objects=$(dirname "$wvgd")/tests
cp "$objects/plugin.so" "$objects/fake_stan.so" "$objects/failing.so" .
mkdir own && cp plugin.so fake_stan.so own

# ---- a model that ends the program, or never answers --------------------------------------------------------------------------
for config in exit _exit _Exit quick open _open; do
    expect 70 'code in its shared object called exit' "$wvgd" fit ./failing.so --config $config --quiet --out "gone$config"
done
expect 0 anything "$wvgd" fit ./failing.so --config child --max-iter 3 --quiet --out child # its children may
perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$wvgd" fit ./failing.so --config endless --quiet --out endless >stdout 2>stderr &
process=$!
until_seen $process [ -e endless/checkpoint ]
sleep 0.3
kill -INT $process
until_seen $process grep -q 'a second signal ends at once' stderr
grep -q 'a second signal ends at once' stderr || complain "the first signal says nothing: $(cat stderr)"
kill -0 $process || complain "the first signal has ended it"
kill -INT $process
(sleep 60; kill -KILL $process 2>/dev/null) & # not forever
wait $process
code=$?
[ $code = 130 ] || complain "exit code $code after two signals"

# ---- data are looked at before they are read to their end -----------------------------------------------------------------------
seconds_of_processor() { (ulimit -t "$1"; shift; exec "$@"); } # a busy machine takes longer
truncate -s 900G huge.csv
expect 65 'huge.csv: found 966367641600 bytes, expected at most' seconds_of_processor 5 "$wvgd" fit logistic --data huge.csv --quiet --out run
truncate -s 4G zeros.csv
expect 65 'zeros.csv:1: found a NUL byte' seconds_of_processor 3 "$wvgd" fit logistic --data zeros.csv --quiet --out run
expect 65 'found a NUL byte' seconds_of_processor 3 "$wvgd" fit ./plugin.so --data zeros.csv --quiet --out run
[ ! -e run ] || complain "bad data have left a directory"
rm huge.csv zeros.csv

# ---- the model of a run is code -------------------------------------------------------------------------------------------------
expect 0 anything "$wvgd" fit ./own/plugin.so --config 3 --particles 2 --max-iter 3 --quiet --out plugged
expect 0 anything "$wvgd" fit ./own/fake_stan.so --particles 2 --quiet --out stan
for run in plugged stan; do
    expect 75 'needs its model, which is code.*--trust-model' "$wvgd" fit --resume $run --quiet
    expect 75 'needs its model, which is code.*--trust-model' "$wvgd" quantize $run --particles 3 --quiet
done
[ ! -e plugged/cells-3 ] || complain "quantize has left a directory"
cp -r plugged again
expect 0 anything "$wvgd" fit --resume plugged --max-iter 5 --trust-model --quiet
expect 0 anything "$wvgd" fit --resume again --max-iter 5 --quiet ./plugin.so # another file with the same content
same_but_times plugged again
expect 75 'fake_stan.so has changed since the run began, or is another file: expected the model of the run; for another, fit again$' "$wvgd" fit --resume plugged --max-iter 7 --quiet ./fake_stan.so
expect 0 anything "$wvgd" quantize stan --particles 3 --model ./fake_stan.so --quiet --out three
expect 0 anything "$wvgd" quantize stan --particles 3 --trust-model --quiet --out three2
same_but_times three three2
expect 75 'stan/run.json names the model .*/fake_stan.so, which is code' "$wvgd" fit --config stan/run.json --quiet --out new
expect 0 anything "$wvgd" fit --config stan/run.json --quiet --out new ./fake_stan.so
expect 0 anything "$wvgd" fit --config stan/run.json --quiet --out new2 --trust-model
cmp -s <(cut -d, -f1-7 new/draws.csv | grep -v '^# model') <(cut -d, -f1-7 new2/draws.csv | grep -v '^# model') || complain "another model"
echo '{"trust-model": true, "model": "./fake_stan.so"}' >sly.json
expect 65 'is allowed on the command line only' "$wvgd" fit --config sly.json --quiet --out sly

# results need no model
expect 0 silence "$wvgd" sample stan --from ensemble --trust-model
cp stdout with
expect 0 'draws repeat' "$wvgd" sample stan --trust-model --resample -n 500 --seed 7
grep -v '^#' stdout | cut -d, -f1-7 >with.posterior # but for the random numbers of generated quantities
expect 0 silence "$wvgd" sample stan --trust-model --weighted
cp stdout with.weighted
rm -r own fake_stan.so
expect 0 silence "$wvgd" sample stan --from ensemble
cmp -s stdout with || complain "stored draws of the ensemble differ: $(diff stdout with | head -4)"
expect 0 'draws repeat' "$wvgd" sample stan --resample -n 500 --seed 7
grep -v '^#' stdout | cut -d, -f1-7 | cmp -s - with.posterior || complain "stored draws of the posterior differ"
expect 0 silence "$wvgd" sample stan --weighted
cut -d, -f1-7 stdout | cmp -s - <(cut -d, -f1-7 with.weighted) || complain "stored weighted draws differ"
expect 75 'stores 1000 ensemble draws.*--trust-model' "$wvgd" sample stan --from ensemble -n 1001
expect 75 'ensemble draws, of seed 1' "$wvgd" sample stan --from ensemble --seed 2
expect 0 silence "$wvgd" summary stan
expect 66 'cannot open .*/own/fake_stan.so' "$wvgd" fit --resume stan --trust-model
if "$wvgd" report stan -o page.html >stdout 2>stderr; then
    ! grep -q 'could not be restored' page.html || complain "the report needs the model"
fi

# ---- nothing speaks to the terminal ------------------------------------------------------------------------------------------------
# clean WHAT: neither stdout nor stderr has control characters, in UTF-8 or raw, or characters that turn text around
clean() {
    perl -0777 -ne 's/[\n\t\x20-\x7e]+|[\xc3-\xdf][\x80-\xbf]|\xc2[\xa0-\xbf]|\xe2\x80[\x80-\xa7\xaf-\xbf]|\xe2\x81[\x80-\xa5\xaa-\xbf]|(?!\xe2[\x80\x81])[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}//g; exit(length > 0)' stdout || complain "$1: stdout has what a terminal obeys: $(od -c stdout | grep -m3 -E '033|233|177|  \\r|342 200')"
    perl -0777 -ne 's/[\n\t\x20-\x7e]+|[\xc3-\xdf][\x80-\xbf]|\xc2[\xa0-\xbf]|\xe2\x80[\x80-\xa7\xaf-\xbf]|(?!\xe2[\x80\x81])[\xe0-\xef][\x80-\xbf]{2}//g; exit(length > 0)' stderr || complain "$1: stderr has what a terminal obeys: $(od -c stderr | head -5)"
}
hostile() { # DIR: every text in run.json begins with commands to a terminal
    perl -pi -e 's/(: "|^ +"(?=[^"]*",?$))/$1\\u001b]0;x\\u0007\\u009b31m\\u007f\\u202e\xc3\xa9/' "$1/run.json"
}
expect 0 anything "$wvgd" fit mixture --data mixture.json --max-iter 2 --quiet --out sick
expect 0 anything "$wvgd" svgd mixture --data mixture.json --particles 10 --max-iter 3 --quiet --out sick2
for run in sick sick2; do
    hostile $run
    for command in "summary $run" "summary $run --json" "summary $run --check" "sample $run" "report $run -o x.html" "fit --resume $run" "quantize $run --particles 2"; do
        "$wvgd" $command >stdout 2>stderr
        clean "$command"
    done
    "$wvgd" summary $run --json >stdout && grep -qF '\u001B]0;x\u0007\u009B31m\u007F\u202Eé' stdout || complain "summary --json does not give the text"
done
esc=$(printf '\033[31m\302\233\342\200\256\233')
printf 'a%s,b,y\n1,2,0\n2,1,1\n3,x%s,1\n' "$esc" "$esc" >names.csv
printf 'a,b,y\n1,2,0\n2,1%s,1\n3,4,1\n' "$esc" >values.csv
printf 'a,b,y\n1,2,no%s\n2,1,no%s\n3,4,yes\n4,4,no%s\n2,2,yes\n' "$esc" "$esc" "$esc" >labels.csv
printf '{"weights%s": 1}' "$esc" >keys.json
for command in "fit logistic --data names.csv" "fit linear --data values.csv" "fit logistic --data labels.csv" "fit mixture --data keys.json" "fit gone$esc" "fit mixture --data gone$esc" "fit ./gone$esc.so" "fit mixture --data mixture.json --$esc" "fit mixture --data mixture.json --family $esc" "summary gone$esc" "sample gone$esc" "report gone$esc" "fit --resume gone$esc" "gone$esc" "fit --config gone$esc" "stan gone$esc.stan" "fit mixture -$esc" "--$esc" "help $esc" "svgd mixture --data gone$esc"; do
    "$wvgd" $command --max-iter 2 --out "o$esc" >stdout 2>stderr
    clean "$command"
done
expect 0 anything "$wvgd" fit mixture --data mixture.json --max-iter 2 --quiet --overwrite --out "o$esc"
clean "a directory"
"$wvgd" report "o$esc" >stdout 2>stderr
clean "its report"

# ---- paths are bytes ---------------------------------------------------------------------------------------------------------------------
raw=$(printf 'caf\351') utf8=café
if mkdir "$raw.test" 2>/dev/null && [ -e "$raw.test" ]; then # not every file system has such names
    expect 0 anything "$wvgd" fit mixture --data mixture.json --max-iter 2 --quiet --out "$utf8"
    cp -r "$utf8" before.utf8
    cp mixture.json "$raw.json"
    echo '{"weights": [1], "means": [5], "sds": [1]}' >"$utf8.json"
    expect 0 anything "$wvgd" fit mixture --data "$raw.json" --max-iter 2 --quiet --overwrite --out "$raw"
    [ -s "$raw/run.json" ] || complain "nothing was written to the directory that was named: $(ls)"
    diff -r "$utf8" before.utf8 >/dev/null || complain "another run was replaced"
    grep -q '"data": "bytes:caf%E9.json"' "$raw/run.json" || complain "run.json does not have the bytes: $(grep data "$raw/run.json")"
    grep -q '"dim": 2' "$raw/run.json" || complain "the data of another file were read"
    expect 0 anything "$wvgd" fit --resume "$raw" --max-iter 4 --quiet
    expect 0 silence "$wvgd" summary "$raw" --json
    expect 0 silence "$wvgd" sample "$raw" -n 100 --out "$raw.csv"
    [ -s "$raw.csv" ] || complain "sample has written elsewhere"
    expect 0 anything "$wvgd" fit --config "$raw/run.json" --quiet --out "$raw.again"
    grep -q '"data": "bytes:caf%E9.json"' "$raw.again/run.json" || complain "--config does not read bytes"
    expect 0 anything "$wvgd" svgd mixture --data "$raw.json" --particles 10 --max-iter 3 --quiet --out "$raw.svgd"
    grep -q '"data": "bytes:caf%E9.json"' "$raw.svgd/run.json" || complain "svgd does not have the bytes"
    expect 0 anything "$wvgd" quantize "$raw" --particles 2 --quiet
    cp plugin.so "$raw.so"
    expect 0 anything "$wvgd" fit "./$raw.so" --max-iter 2 --quiet --out "$raw.plugin"
    expect 0 anything "$wvgd" fit --resume "$raw.plugin" --trust-model --max-iter 3 --quiet
    "$wvgd" report "$raw" -o page2.html >stdout 2>stderr
    case $? in 0 | 69) ;; *) complain "no report: $(cat stderr)" ;; esac
    clean "paths"
    expect 66 'cannot open gone.xE9' "$wvgd" fit mixture --data "$(printf 'gone\351')" --out x
fi

# ---- a report shows no file that the run cannot have been made from -------------------------------------------------------------------------
printf 't,y\n0,1\n1,2\n2,3\n3,1\n4,2\n' >series.csv
printf 't,y\n0,77771\n1,77772\n2,77773\n3,77771\n4,77772\n' >private.csv
"$wvgd" svgd gp --data series.csv --particles 10 --max-iter 3 --quiet --out series >stdout 2>stderr
if "$wvgd" report series -o whole.html >stdout 2>stderr; then
    perl -pi -e 's/series\.csv/private.csv/' series/run.json
    expect 0 silence "$wvgd" report series -o stolen.html
    grep -q 'private.csv has changed' stolen.html || complain "the report shows a file that is not the run's"
    perl -ni -e 'print unless /"data_hash"/' series/run.json
    perl -0pi -e 's/("data": "[^"]*"),\n(\s*\})/$1\n$2/' series/run.json
    expect 0 silence "$wvgd" report series -o stolen.html
    grep -q 'has no checksum of .*private.csv' stolen.html || complain "the report shows a file without a hash: $(cat stderr)"
fi
finish
