#!/bin/sh
# constants.sh SOURCE [--list]: numbers that stand in the solvers' code, beside those of src/policy.def. Counted are
# literals other than 0, 1, 2 and 0.5, and not those that define a name (enum, static const), in comments or in strings.
# Mathematics (a series, pi) and rounding have a name, or are listed in tests/data/constants.txt: FILE NUMBER WHY.
set -eu
cd "$1"
for file in src/*.c src/staged/*.c src/joint/*.c src/update/*.c; do
    [ -f "$file" ] || continue
    sed -zE 's:/\*([^*]|\*+[^*/])*\*+/: :g; s:"([^"\\\n]|\\.)*"::g; s:enum \{[^}]*\}::g; s:\n[^\n]*static const[^;]*;:\n:g; s:\n[ ]*const (double|size_t) [^;]*;:\n:g; s:\n#[^\n]*::g' "$file" |
        grep -oE "(^|[^[:alnum:]_.])([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[uUlLf]*" | sed -E 's/^[^0-9.]//' |
        grep -vE '^(0|1|2|0\.5|0\.0|1\.0|2\.0|-1\.0|0u|1u|2u)$' | sort -g | uniq -c | while read -r times number; do
        echo "$file $number $times"
    done
done
