#!/bin/sh
# ownership.sh SOURCE [COMPILER [FLAG...]]: a part of a fit is written by the files that own it, and by no other.
#   In a copy of src/ the members of every part, and what they point to, are const for all files but its owners. Each file
#   must still compile: the compiler finds assignments, and pointers through which somebody else could write.
set -eu
cd "$1"
compiler=${2:-cc}
shift
[ $# = 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A struct, and the files that own it; a folder stands for all its files.
cat >"$work/owners" <<'END'
wv_ensemble partition
wv_partition partition
wv_mixture mixture
wv_draws draws
wv_draws_batch draws
wv_closing closing
wv_posterior posterior
wv_modes staged/modes
wv_mode staged/modes
wv_explore staged/explore staged/ascent
wv_images staged/images
wv_end staged/explore
wv_path staged/explore staged/starts staged/ascent
wv_mixture_fitting staged/mixture_fit
wv_growth staged/staged
wv_tail_probe staged/tail_probe
wv_bent staged/bent
wv_bend coordinates/bend
wv_bend_pool coordinates/bend_pool coordinates/bend_fit
wv_staged_closing staged/staged_closing
wv_certificate staged/certificate
wv_certified staged/certificate
wv_chains staged/chains
wv_chains_now staged/chains
wv_finisher staged/finisher staged/ladder staged/chain_states
wv_finished staged/finisher staged/ladder staged/chain_states
wv_halfspaces halfspaces
wv_cell_refine staged/cell_refine
wv_cell_bound staged/cell_bound
wv_pilot joint/pilot
wv_joint joint/joint joint/schedule joint/pilot joint/shared_proposals joint/joint_closing
wv_trace trace
wv_views results
wv_messages results verdict
wv_sizes fit
wv_counts fit state quantize staged/ joint/
wv_tally tally
wv_last trace
wv_outcome outcome
wv_differences coordinates/differences
wv_batch batch draws fit state staged/ joint/
wv_proposals batch staged/ joint/
END

cp -r src "$work/src"
for header in "$work"/src/*.h "$work"/src/*/*.h; do
    awk -v owners="$work/owners" '
        BEGIN { while ((getline line < owners) > 0) { split(line, word, " "); part[word[1]] = 1 } }
        /^(typedef )?struct( [a-z_]+)? \{$/ { inside = 1; n = 0; name = $2 == "{" ? "" : $2 }
        !inside { print; next }
        { held[n++] = $0 }
        /^\}.*;/ {
            inside = 0
            if ($2 != "") { name = $2; sub(/;.*/, "", name) }
            begins = comments = 0
            for (i = 0; i < n; i++) {
                line = held[i]
                if (comments) {
                    comments = line !~ /\*\//
                    print line
                    continue
                }
                comments = line ~ /\/\*/ && line !~ /\*\//
                code = line
                sub(/\/\*.*/, "", code)
                comment = substr(line, length(code) + 1)
                match(code, /[a-z_0-9]+/)
                type = substr(code, RSTART, RLENGTH)
                if ((name in part) && begins && code ~ /^ +[a-z]/) {
                    gsub(/\*/, "* OWNED_" name " ", code)
                    if (!(type in part))
                        sub(/^ +/, "    OWNED_" name " ", code)
                }
                if (code ~ /[;{] *$/) begins = 1
                else if (code ~ /[a-z,]/) begins = 0
                print code comment
            }
            if (name in part) found[name] = 1
        }' "$header" >"$work/header"
    mv "$work/header" "$header"
done

failed=0
while read -r struct rest; do
    grep -rqE "OWNED_$struct " "$work/src" || { echo "there is no struct $struct" >&2 && failed=1; }
    for owner in $rest; do
        [ -f "src/$owner.c" ] || [ -d "src/$owner" ] || { echo "there is no src/$owner.c" >&2 && failed=1; }
    done
done <"$work/owners"

cd "$work/src"
for file in *.c */*.c; do
    names=$(awk -v unit="${file%.c}" '{ mine = 0; for (i = 2; i <= NF; i++) mine += index(unit, $i) == 1 && ($i ~ /\/$/ || $i == unit); printf "-DOWNED_%s=%s\n", $1, mine ? "" : "const" }' "$work/owners")
    # shellcheck disable=SC2086
    "$compiler" -std=c11 -D_XOPEN_SOURCE=700 -DWV_POISON=0 -I. -I"$OLDPWD/include" "$@" -fsyntax-only -ffp-contract=off -Werror -Wno-duplicate-decl-specifier \
        $names "$file" 2>"$work/errors" && continue
    grep -E 'error|note' "$work/errors" >&2 || cat "$work/errors" >&2
    failed=1
done
exit $failed
