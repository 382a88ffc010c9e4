#!/bin/bash
# files.sh WVGD SOURCE: files of the user's stay; several writers of one file; pipes where files are expected; output that is full; what cannot be read is said to be so. Killed writers are in kill.sh.
. "$(dirname "$0")/check.sh"
expect 0 anything "$wvgd" fit mixture --data mixture.json --particles 2 --output-draws 20 --quiet --out run
waits=(timeout 60) # for a program that must not wait for a pipe

# ---- two writers of one file -------------------------------------------------------------------------------------------------------------
for seed in 1 2; do
    expect 0 "draws repeat" "$wvgd" sample run -n 20000 --seed $seed --out seed$seed.csv
done
for _ in 1 2 3 4; do
    "$wvgd" sample run -n 20000 --seed 1 --overwrite --out both.csv 2>one.txt &
    first=$!
    "$wvgd" sample run -n 20000 --seed 2 --overwrite --out both.csv 2>two.txt || complain "the second of two writers fails: $(cat two.txt)"
    wait $first || complain "the first of two writers fails: $(cat one.txt)"
    cmp -s both.csv seed1.csv || cmp -s both.csv seed2.csv || complain "two writers have damaged their file"
done

# ---- files of the user's -----------------------------------------------------------------------------------------------------------------
echo mine >draws.csv.partial
expect 0 silence "$wvgd" sample run -n 5 --out draws.csv
[ "$(cat draws.csv.partial)" = mine ] || complain "draws.csv.partial is gone"
mkfifo pipe.csv.partial
expect 0 silence "${waits[@]}" "$wvgd" sample run -n 5 --out pipe.csv
if command -v gnuplot >/dev/null; then
    mkdir figures
    for name in marginals pair masses training; do
        for ending in gnuplot svg.partial png.partial; do echo mine >figures/$name.$ending; done
    done
    expect 0 silence "$wvgd" report run --figures figures
    for name in marginals pair masses training; do
        for ending in gnuplot svg.partial png.partial; do
            [ "$(cat figures/$name.$ending 2>&1)" = mine ] || complain "report --figures has changed $name.$ending"
        done
        [ -s figures/$name.svg ] && [ -s figures/$name.png ] || complain "report --figures has not drawn $name"
    done
    [ "$(ls -A figures | wc -l)" = 20 ] || complain "something else lies among the figures: $(ls -A figures)"
fi

# ---- what killed processes have left -----------------------------------------------------------------------------------------------------
touch run/.draws.csv.wvgd-0123456789abcdef run/.checkpoint.next.wvgd-0123456789abcdef .out.csv.wvgd-0123456789abcdef .out.csv.wvgd-mine
expect 0 anything "$wvgd" fit --resume run --quiet
expect 0 silence "$wvgd" sample run -n 5 --out out.csv
[ -z "$(find . -name '.*.wvgd-0*')" ] || complain "left: $(find . -name '.*.wvgd-0*')"
[ -e .out.csv.wvgd-mine ] || complain "a file that only looks like ours is gone"
mkdir begun && touch begun/.checkpoint.wvgd-0123456789abcdef # killed before its first checkpoint
expect 0 anything "$wvgd" svgd mixture --data mixture.json --particles 5 --quiet --out begun
[ "$(ls -A begun | wc -l)" = 4 ] || complain "a run that began again has left: $(ls -A begun)"

# ---- pipes -------------------------------------------------------------------------------------------------------------------------------
mkfifo pipe
cat mixture.json >pipe &
expect 0 anything "$wvgd" fit mixture --data pipe --solver joint --particles 2 --max-iter 3 --quiet --out piped
expect 75 'pipe is not a regular file' "${waits[@]}" "$wvgd" fit --resume piped --max-iter 5
expect 75 'pipe is not a regular file' "${waits[@]}" "$wvgd" fit --resume piped # the same limit: it would not even read them
cp -r run odd && rm odd/draws.csv && mkfifo odd/draws.csv
"$wvgd" report run -o page.html >stdout 2>stderr
page=$?
[ $page = 69 ] || expect 65 'odd/draws.csv is not a regular file' "${waits[@]}" "$wvgd" report odd -o odd.html

# ---- output that is full -----------------------------------------------------------------------------------------------------------------
full() { "$@" >/dev/full; }
for name in fit svgd summary sample quantize report models options stan stan-compile reproduce; do
    expect 74 'cannot write to stdout' full "$wvgd" $name --help
    expect 74 'cannot write to stdout' full "$wvgd" help $name
done
for word in --usage -h '-?' --version; do expect 74 'cannot write to stdout' full "$wvgd" fit "$word"; done
for word in --help --version models options 'summary run' 'sample run' '--generate options.md' '--generate man'; do expect 74 'cannot write to stdout' full "$wvgd" $word; done
expect 74 'cannot write to stdout' full "$wvgd" fit mixture --data mixture.json --particles 2 --quiet --out printed
expect 0 silence "$wvgd" summary printed # its files are whole
expect 74 'cannot write to stdout' full "$wvgd" quantize printed --particles 3 --quiet
expect 74 'cannot write to stdout' full "$wvgd" svgd mixture --data mixture.json --particles 5 --max-iter 5 --quiet --out stein
[ $page = 69 ] || expect 74 'cannot write to stdout' full "$wvgd" report printed
limited() { (ulimit -f "$1"; shift; exec "$@"); }
echo old >page.html
[ $page = 69 ] || expect 74 'cannot write page.html: File too large' limited 64 "$wvgd" report run -o page.html
[ "$(cat page.html)" = old ] || complain "a page that could not be written has replaced the old one"
expect 74 'cannot write large.csv: File too large' limited 64 "$wvgd" sample run -n 20000 --out large.csv
command -v gnuplot >/dev/null && expect 74 'gnuplot did not finish drawing' limited 1 "$wvgd" report run --figures small
[ -z "$(find . -name '.*.wvgd-[0-9a-f]*' ! -name '*mine')" ] || complain "left: $(find . -name '.*.wvgd-*')"
mkdir disk
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=64k tmpfs disk 2>/dev/null; then
    trap 'umount "$tmp/disk"; rm -rf "$tmp"' EXIT
    [ $page = 69 ] || expect 74 'cannot write disk/page.html: No space left' "$wvgd" report run -o disk/page.html
    [ -z "$(ls -A disk)" ] || complain "left on a full disk: $(ls -A disk)"
    command -v gnuplot >/dev/null && expect 74 'cannot write disk/figures/.*: No space left' "$wvgd" report run --figures disk/figures
    expect 74 'cannot write disk/large.csv: No space left' "$wvgd" sample run -n 20000 --out disk/large.csv
else
    echo "skipped: no small disk can be mounted here"
fi

# ---- what may not be read ----------------------------------------------------------------------------------------------------------------
chmod 755 "$tmp" && cp -r run closed
anybody=()
[ "$(id -u)" != 0 ] || anybody=(setpriv --reuid=65534 --regid=65534 --clear-groups) # root may read everything
if "${anybody[@]}" "$wvgd" --version >/dev/null 2>&1; then
    chmod 000 closed/run.json
    expect 66 'closed/run.json: Permission denied' "${anybody[@]}" "$wvgd" summary closed
    chmod 644 closed/run.json && chmod 600 closed
    for command in summary sample report 'quantize --particles 2'; do
        expect 66 'closed/[a-z.]*: Permission denied' "${anybody[@]}" "$wvgd" $command closed
    done
    chmod 755 closed
else
    echo "skipped: root may read everything, and nobody cannot run $wvgd"
fi
finish
