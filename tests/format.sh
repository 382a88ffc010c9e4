#!/bin/sh
# format.sh SOURCE [CLANG_FORMAT]: every C and C++ source is formatted as .clang-format says, with lines of 120
# characters at most. Skipped (77) without clang-format 14: other versions format differently.
set -eu
cd "$1"
tool=${2:-}
[ -n "$tool" ] || tool=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$tool" ] || ! version=$("$tool" --version 2>/dev/null); then
    echo "skipped: there is no clang-format"
    exit 77
fi
case $version in
*"version 14."*) ;;
*)
    echo "skipped: clang-format 14 is wanted, and here is: $version"
    exit 77
    ;;
esac

# Tracked files; where git knows none, all that lie in directories that are not of a build.
sources() {
    { git ls-files '*.c' '*.h' '*.cpp' '*.hpp' 2>/dev/null | grep . ||
        find . \( -name '.?*' -o -name 'build*' -o -name node_modules \) -prune -o \
            -type f \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' \) -print; } |
        while read -r file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources >"$work/sources"
[ -s "$work/sources" ] || { echo "there are no sources in $1" >&2 && exit 1; }
failed=0
xargs -0 "$tool" --dry-run -Werror <"$work/sources" >"$work/found" 2>&1 || failed=1
if [ $failed = 1 ]; then
    echo "not formatted as .clang-format says, first at (remedy: make format):"
    sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: error: .*-Wclang-format-violations.*/\1/p' "$work/found" |
        sort -t: -u -k1,1 >"$work/places"
    if [ -s "$work/places" ]; then sed 's/^/    /' "$work/places"; else sed 's/^/    /' "$work/found"; fi
fi >&2
LC_ALL=C.UTF-8 xargs -0 grep -HnE '.{121}' <"$work/sources" >"$work/long" || true
if [ -s "$work/long" ]; then
    echo "longer than 120 characters (remedy: make format, and by hand what it cannot break):" >&2
    sed 's/^\([^:]*:[0-9]*\):.*/    \1/' "$work/long" >&2
    failed=1
fi
exit $failed
