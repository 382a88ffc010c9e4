#!/bin/sh
# tidy.sh SOURCE BUILD [CLANG_TIDY]: the checks of .clang-tidy pass for every C source that BUILD compiles. Skipped (77)
# without clang-tidy 14: other versions have other checks.
set -eu
cd "$1"
tool=${3:-}
[ -n "$tool" ] || tool=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [ -z "$tool" ] || ! version=$("$tool" --version 2>/dev/null); then
    echo "skipped: there is no clang-tidy"
    exit 77
fi
case $version in
*"version 14."*) ;;
*)
    echo "skipped: clang-tidy 14 is wanted, and here is: $(echo "$version" | grep version)"
    exit 77
    ;;
esac
if [ ! -f "$2/compile_commands.json" ]; then
    echo "skipped: $2 has no compile_commands.json (this CMake generator does not write it)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *"file": "\(.*\.c\)",*$/\1/p' "$2/compile_commands.json" | sort -u >"$work/sources"
[ -s "$work/sources" ] || { echo "$2/compile_commands.json names no C sources" >&2 && exit 1; }
tr '\n' '\0' <"$work/sources" | xargs -0 -n 8 "$tool" -p "$2" --quiet >"$work/found" 2>"$work/errors" || {
    cat "$work/found"
    grep -v 'warnings generated' "$work/errors" || true
    exit 1
} >&2
