#!/bin/bash
# generated.sh WVGD SOURCE: what the program writes about itself: docs/options.md is up to date, the man page and the completion work.
. "$(dirname "$0")/check.sh"

"$wvgd" --generate options.md >options.md
cmp -s options.md "$source/docs/options.md" || complain "docs/options.md is not what 'wvgd --generate options.md' writes: $(diff options.md "$source/docs/options.md" | head -5)"
awk '/^\| `--/ && before !~ /^\|/ { bad = 1 } { before = $0 } END { exit bad }' options.md || complain "docs/options.md has rows without the head of a table"
grep -q '^Basic options: `--data`.* of `wvgd fit`, and:$' options.md || complain "docs/options.md does not say which options svgd shares with fit"

"$wvgd" --generate man >wvgd.1
if command -v groff >/dev/null; then
    groff -ww -man -Tascii wvgd.1 >page 2>messages
    [ ! -s messages ] || complain "groff warns: $(cat messages)"
    for word in NAME COMMANDS MODELS FILES 'EXIT STATUS' --particles --checkpoint-every --standardize; do
        sed 's/.\x08//g; s/\x1b\[[0-9;]*m//g' page | grep -q -- "$word" || complain "the man page lacks $word"
    done
else
    echo "skipped: there is no groff to set the man page"
fi

"$wvgd" --generate bash >completion
"$wvgd" --generate zsh >_wvgd
# complete WORD...: what bash offers for the last word
complete_words() {
    bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _wvgd; echo "${COMPREPLY[*]}"' completion "$@"
}
offered() { # WANTED WORD...
    wanted=$1
    shift
    got=$(complete_words "$@")
    [ "$got" = "$wanted" ] || complain "completion of '$*' offers '$got', not '$wanted'"
}
mkdir empty && cp completion empty && cd empty || exit 1
offered 'svgd summary sample stan stan-compile' wvgd s
offered 'quantize' wvgd q
offered '--particles --power' wvgd quantize --p
offered 'auto' wvgd stan --toolchain a
offered '--particles --power --prior-sd --prior --prior-means --prior-sds' wvgd fit --p
offered 'full' wvgd fit --family f
offered 'mixture' wvgd fit mi
offered 'mixture' wvgd svgd mi
offered 'theory' wvgd reproduce t
offered 'completion' wvgd summary comp
cd .. || exit 1
if command -v zsh >/dev/null; then
    zsh -n _wvgd || complain "zsh does not take the completion"
else
    echo "skipped: there is no zsh to check its completion"
fi
finish
