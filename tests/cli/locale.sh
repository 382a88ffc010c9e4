#!/bin/sh
# locale.sh WVGD SOURCE: under a locale with decimal commas, and with a model that calls setlocale, all files and messages are those of the C locale.
. "$(dirname "$0")/check.sh"
if ! mkdir locales || ! localedef -i de_DE -f UTF-8 locales/comma.UTF-8 >/dev/null 2>&1 || [ ! -d locales/comma.UTF-8 ]; then
    echo "skipped: localedef cannot make a locale with decimal commas (Debian package locales)"
    exit 77
fi
LOCPATH=$tmp/locales
export LOCPATH
# glibc leaks the list of its directories; sanitizers are told
echo leak:argz_add_sep >leaks
LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$tmp/leaks:print_suppressions=0
export LSAN_OPTIONS
plugin=$(dirname "$wvgd")/tests/plugin.so

# fit_in LOCALE DIR OPTION...
fit_in() {
    locale=$1 dir=$2
    shift 2
    expect 0 anything env LC_ALL="$locale" "$wvgd" fit "$@" --init-scale 1.5 --tol 0.01 --evidence-se 0.05 --quiet --threads 2 --out "$dir"
    sed -e 1d -e 's/, [0-9.e-]* s (.*//' stdout >"$dir.summary"
}
[ "$(env LC_ALL=comma.UTF-8 printf '%.1f' 1,5 2>/dev/null)" = 1,5 ] || complain "the locale has no decimal comma"
fit_in C plain "$plugin" --config 2
fit_in comma.UTF-8 comma "$plugin" --config locale
cmp -s plain.summary comma.summary || complain "summaries differ: $(diff plain.summary comma.summary | head -3)"
for dir in plain comma; do
    cp -r $dir $dir.copy
    sed -i -e '/"config":/d' -e '/"id":/d' $dir.copy/run.json
done
same_but_times plain.copy comma.copy
for command in "sample comma -n 5 --out draws.csv" "summary comma" "fit --resume comma --trust-model --quiet" "report comma --out report.html"; do
    # shellcheck disable=SC2086
    expect 0 anything env LC_ALL=comma.UTF-8 "$wvgd" $command
done
! grep -qE '[0-9],[0-9]+,[0-9]+,[0-9]+,' draws.csv || complain "draws.csv has decimal commas: $(tail -1 draws.csv)"
finish
