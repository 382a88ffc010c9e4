#!/bin/sh
# constants.sh SOURCE [--list]: numbers that steer the solvers are rows of src/policy.def. Others stand in the code:
# tests/data/constants.txt lists them, FILE NUMBER TIMES WHY, and this test refuses one that is not there. Why: mathematics
# (a formula), range (numbers that a double can hold), rounding (a ridge, a tolerance of one formula), room (of an array),
# work (operations, to decide whether threads are woken), order (of arguments, of parts of an array), least (below it a formula
# has no value). Not counted: 0, 1, 2, 0.5, definitions of names (enum, static const), comments, strings.
#     --list: the numbers as they are, for the list, and how many
set -eu
cd "$1"
files="src/staged/*.c src/joint/*.c src/update/*.c src/fit.c src/kmeans.c src/particle.c src/partition.c src/draws.c src/moments.c src/posterior.c src/evidence.c src/verdict.c src/results.c src/closing_draws.c"
[ "${2-}" != --all ] || files="src/*.c src/staged/*.c src/joint/*.c src/update/*.c"
numbers() {
    for file in $files; do
        [ -f "$file" ] || continue
        sed -zE 's:/\*([^*]|\*+[^*/])*\*+/: :g; s:"([^"\\\n]|\\.)*"::g; s:enum \{[^}]*\}::g; s:\n[^\n]*static const[^;]*;:\n:g; s:\n[ ]*const (double|size_t) [^;]*;:\n:g; s:\n#[^\n]*::g' "$file" |
            grep -oE "(^|[^[:alnum:]_.])([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[uUlLf]*" | sed -E 's/^[^0-9.]//' |
            grep -vE '^(0|1|2|0\.5|0\.0|1\.0|2\.0|0u|1u|2u)$' | sort -g | uniq -c | while read -r times number; do
            echo "$file $number $times"
        done
    done
}
if [ $# -gt 1 ]; then
    numbers | awk '{ print; all += $3 } END { print all " numbers" }'
    exit 0
fi
found=$(numbers | awk 'NR == FNR { if ($1 !~ /^#/) most[$1 " " $2] = $3; next }
                       $3 > most[$1 " " $2] { print "    " $1 ": " $2 }' tests/data/constants.txt -)
[ -z "$found" ] || {
    echo "numbers that are neither rows of src/policy.def nor in tests/data/constants.txt:" >&2
    echo "$found" >&2
    exit 1
}
