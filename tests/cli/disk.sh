#!/bin/bash
# disk.sh WVGD SOURCE: output that cannot be written: full disks, limits, directories without permission. Old files stay whole.
. "$(dirname "$0")/check.sh"
fit=("$wvgd" fit mixture --data mixture.json --quiet --output-draws 100000) # checkpoints of about 1 MB, draws of about 8 MB

# ---- a file that may not grow (blocks of 1024 bytes) -------------------------------------------------------------------------
limited() { (ulimit -f "$1"; shift; exec "$@"); }
expect 74 'checkpoint: File too large' limited 1 "${fit[@]}" --out small
[ ! -e small ] || complain "a run that could not be begun has left a directory"
expect 74 'File too large' limited 4000 "${fit[@]}" --particles 2 --out middle # room for the first checkpoint, but not for results
grep -q 'log evidence' stdout || complain "results that cannot be written are not printed"
[ -s middle/checkpoint ] || complain "the checkpoint is gone"
[ ! -e middle/run.json ] || complain "run.json is there, but not all else"
! ls -A middle | grep -q '^[.]' || complain "temporary files are left: $(ls -A middle)"
expect 0 anything "$wvgd" fit --resume middle --quiet
[ -s middle/run.json ] || complain "the run does not go on after the disk had room again"

# ---- standard output ---------------------------------------------------------------------------------------------------------
full() { "$@" >/dev/full; }
expect 74 'stdout' full "$wvgd" models
expect 74 'stdout' full "$wvgd" summary middle
expect 74 'stdout' full "$wvgd" sample middle -n 10
expect 74 '/dev/full' "$wvgd" sample middle -n 10 --out /dev/full
echo old >old.csv
expect 74 'File too large' limited 1 "$wvgd" sample middle -n 1000 --overwrite --out old.csv
[ "$(cat old.csv)" = old ] || complain "an old file was damaged by one that could not be written"

# ---- no permission -----------------------------------------------------------------------------------------------------------
mkdir closed && chmod 555 closed && chmod 755 "$tmp"
anybody=()
[ "$(id -u)" != 0 ] || anybody=(setpriv --reuid=65534 --regid=65534 --clear-groups) # root may write everywhere
if "${anybody[@]}" "$wvgd" --version >/dev/null 2>&1; then
    expect 73 'Permission denied' "${anybody[@]}" "${fit[@]}" --out closed
    expect 73 'Permission denied' "${anybody[@]}" "${fit[@]}" --out closed/run
    expect 73 'Permission denied' "${anybody[@]}" "$wvgd" sample middle -n 10 --out closed/draws.csv
else
    echo "skipped: root may write everywhere, and nobody cannot run $wvgd"
fi

# ---- a full disk -------------------------------------------------------------------------------------------------------------
mkdir disk
if [ "$(id -u)" != 0 ]; then
    echo "skipped: only root can mount a small disk"
elif ! mount -t tmpfs -o size=8k tmpfs disk 2>/dev/null; then
    echo "skipped: mounting a small disk is not allowed here"
else
    trap 'umount "$tmp/disk"; rm -rf "$tmp"' EXIT
    expect 74 'No space left' "${fit[@]}" --out disk/none # no room for the first checkpoint
    [ ! -e disk/none ] || complain "a run that could not be begun has left a directory"
    mount -o remount,size=4m disk
    expect 74 'No space left' "${fit[@]}" --particles 2 --out disk/run
    [ -s disk/run/checkpoint ] && [ ! -e disk/run/run.json ] || complain "a full disk leaves $(ls disk/run)"
    mount -o remount,size=40m disk
    expect 0 anything "$wvgd" fit --resume disk/run --quiet
    [ -s disk/run/run.json ] || complain "the run does not go on after the disk had room again"
fi
finish
