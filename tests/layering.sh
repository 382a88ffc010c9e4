#!/bin/sh
# layering.sh SOURCE [COMPILER [FLAG...]]: the rules between directories that a compiler does not check, and, by ownership.sh,
#   who writes what inside src/.
#   The library (src/, models/) and the baseline (svgd/) do not print, exit, abort, read the environment or open files.
#   src/ sees its own headers and the public ones; models/ and svgd/ see wvgd_model.h and headers of their own, models/ also
#   thread_pool.h, the threads of the library, simd/instructions.h, its choice of an instruction set, and simd/lanes.h, its vectors.
#   No file has a name that describes nothing. docs/internals/architecture.md names every file of src/.
set -eu
cd "$1"
shift
failed=0
complain() {
    echo "$1:" >&2
    echo "$2" | sed 's/^/    /' >&2
    failed=1
}

# Code without its comments, each line after the name of its file.
code() {
    for file in "$@"; do
        [ ! -f "$file" ] || sed -zE 's:/\*([^*]|\*+[^*/])*\*+/: :g; s://[^\n]*::g' "$file" | sed "s|^|$file: |"
    done
}

calls='v?f?printf|v?dprintf|v?sprintf|f?puts|f?putc|putchar|fwrite|write|perror|exit|_exit|_Exit|quick_exit|atexit|abort|assert|getenv|'
calls=$calls'secure_getenv|setenv|putenv|fopen|freopen|fdopen|tmpfile|open|system|popen|s?rand|[dl]rand48|signal|sigaction'
found=$(code src/*.[ch] src/*/*.[ch] models/*.[ch] svgd/*.[ch] | grep -E "(^|[^[:alnum:]_.>])($calls)[[:space:]]*\(" || true)
[ -z "$found" ] || complain "calls that a library must not make" "$found"
found=$(code src/*.[ch] src/*/*.[ch] models/*.[ch] svgd/*.[ch] | grep -E '(^|[^[:alnum:]_])(stdout|stderr|stdin|environ)([^[:alnum:]_]|$)' || true)
[ -z "$found" ] || complain "streams or variables that a library must not touch" "$found"

# What the program says on stderr may hold text of files, models and paths, which a terminal must not obey: only say.c, and
# put_lines, which does as say.c does, print there; progress.c prints numbers and help.c the program's own text.
found=$(code cli/*.c report/*.c | grep -vE '^cli/(say|progress|help)\.c:' | grep -E '(printf|puts|putc|fwrite)[[:space:]]*\(.*stderr|(^|[^[:alnum:]_])(perror|v?dprintf|warnx?|errx?|error)[[:space:]]*\("' | grep -vE '^cli/stan_compile\.c: +(fputs|putc)\((("    "|shown), stderr|\*text\+\+, stderr|.\\n., stderr)\);$' || true)
[ -z "$found" ] || complain "lines on stderr that do not go through say" "$found"

# includes DIRECTORY ALLOWED...: an #include names a header of the system, or one that lies in DIRECTORY, or is ALLOWED.
includes() {
    directory=$1
    shift
    for file in "$directory"/*.[ch] "$directory"/*/*.[ch]; do
        [ -f "$file" ] || continue
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$file" | while read -r header; do
            case " $* " in *" $header "*) continue ;; esac
            [ ! -f "$directory/$header" ] || continue
            case $header in
            ../* | */../*) echo "$file: $header" ;;
            *) # ours, if it lies in any directory of the project
                for ours in */; do
                    case $ours in build*) continue ;; esac
                    [ ! -f "$ours$header" ] || echo "$file: $header"
                done
                [ ! -f "$header" ] || echo "$file: $header" ;;
            esac
        done
    done
}
found=$(includes src wvgd.h wvgd_model.h)
[ -z "$found" ] || complain "src/ may include its own headers, wvgd.h and wvgd_model.h only" "$found"
found=$(includes models wvgd_model.h thread_pool.h simd/instructions.h simd/lanes.h)
[ -z "$found" ] || complain "models/ may include its own headers, wvgd_model.h, thread_pool.h, simd/instructions.h and simd/lanes.h only" "$found"

# Inside src: no file includes one that, by way of others, includes it. (fit.h, the struct that solvers work on, counts as
# none.) What both solvers use, on top of src/, includes nothing of theirs, but for fit.h
# with its parts and for what reports results.
edges() {
    for file in src/*.[ch] src/*/*.[ch]; do
        unit=${file#src/}
        unit=${unit%.[ch]}
        sed -n 's/^#include "\(.*\)\.h"$/\1/p' "$file" | while read -r used; do
            [ ! -f "src/$used.h" ] || [ "$used" = "$unit" ] || [ "$used" = fit ] || [ "$unit" = fit ] || echo "$unit $used"
        done
    done
}
found=$(edges | tsort 2>&1 >/dev/null | sed 's/^tsort: //')
[ -z "$found" ] || complain "files of src/ that include each other in a circle" "$found"
found=$(edges | grep -E '^[a-z_]+ (staged|joint)/' | grep -vE '^(state|quantize|ensemble|results|describe) ' || true)
[ -z "$found" ] || complain "parts that both solvers use must not include a solver" "$found"
found=$(grep -nE 'stage = ' src/*.c src/*/*.c | grep -E '(->|\.)stage = ' | grep -vE '^src/(staged/staged|joint/joint|state)\.c:' || true)
[ -z "$found" ] || complain "only staged.c and joint.c say which stage comes next" "$found"

# Tests go through the public header, or test a part by its own.
found=$(grep -lE '#include "fit\.h"' tests/*.[ch] tests/*/*.[ch] || true)
[ -z "$found" ] || complain "tests must not include fit.h" "$found"

found=$(includes svgd wvgd_model.h)
[ -z "$found" ] || complain "svgd/ may include its own headers and wvgd_model.h only" "$found"

# No static function has the name of one of the C library, which a reader would take it for.
libraries=$(ldconfig -p 2>/dev/null | sed -n 's/.* => \(.*\/lib[cm]\.so\.6\)$/\1/p')
if [ -n "$libraries" ] && command -v nm >/dev/null; then
    found=$(nm -D $libraries 2>/dev/null | awk '$2 ~ /[TWi]/ { sub(/@.*/, "", $3); print $3 }' | sort -u >"${TMPDIR:-/tmp}/libc.$$"
            code src/*.c src/*/*.c models/*.c | sed -nE 's/^[^:]*: static [^=;(]*[ *]([a-z_0-9]+)\(.*/\1/p' | sort -u |
                comm -12 - "${TMPDIR:-/tmp}/libc.$$"
            rm -f "${TMPDIR:-/tmp}/libc.$$")
    [ -z "$found" ] || complain "static functions named like functions of the C library" "$found"
fi
found=$(grep -nE '(^|[^[:alnum:]_])alloca[[:space:]]*\(' src/*.[ch] src/*/*.[ch] models/*.[ch] svgd/*.[ch] || true)
[ -z "$found" ] || complain "memory on the stack that grows" "$found"

# cli -> tools, report -> wvgd.h <- src: the program sees no header of the algorithm or of models; libwvgd-tools sees none of the
# program or of the report, either, and does not print.
headers() {
    for directory in "$@"; do (cd "$directory" && ls ./*.h) | sed 's|^\./||'; done
}
found=$(includes cli $(headers include tools report svgd experiments))
[ -z "$found" ] || complain "cli/ may include headers of its own and of include/, tools/, report/, svgd/ and experiments/ only" "$found"
found=$(includes tools $(headers include svgd) models.h external.h)
[ -z "$found" ] || complain "tools/ may include headers of its own, of include/ and svgd/, and models.h and external.h only" "$found"
found=$(includes report $(headers include tools) stan_process.h)
[ -z "$found" ] || complain "report/ may include headers of its own, of include/ and tools/, and stan_process.h (it runs gnuplot) only" "$found"
found=$(grep -nE '#[[:space:]]*include[[:space:]]*[<"]mpi' src/*.[ch] src/*/*.[ch] models/*.[ch] tools/*.[ch] tools/*/*.[ch] cli/*.[ch] svgd/*.[ch] report/*.[ch] || true)
[ -z "$found" ] || complain "mpi/ alone may include mpi.h" "$found"
found=$(grep -nE '#[[:space:]]*include[[:space:]]*"' mpi/*.[ch] | grep -v '^mpi/start.c' | grep -vE '"(wvgd_model|own_work|ranks|split|watch)\.h"' || true)
[ -z "$found" ] || complain "mpi/ may include headers of its own and wvgd_model.h only, but for mpi/start.c" "$found"
found=$(code tools/*.[ch] tools/*/*.[ch] | grep -E '(^|[^[:alnum:]_])(stdout|stderr|stdin|printf|puts|putchar|perror|exit|_exit|abort|signal|sigaction|setlocale|getenv|setenv)[[:space:]]*(\(|,|\))' |
    grep -v 'format(printf' || true)
[ -z "$found" ] || complain "libwvgd-tools must not print, exit, handle signals, change the locale or read the environment" "$found"

# docs/internals/architecture.md names every unit of src/ (columns* stands for all that begin so), and its layout no other.
layout=$(sed -n '/^## Layout/,/^## Who/p' docs/internals/architecture.md)
found=$(for file in src/*.[ch] src/*/*.[ch] src/*.def; do
    unit=${file##*/}
    unit=${unit%.*}
    echo "$layout" | grep -qE "(^|[^a-z_])$unit\.(c|h|def)" || echo "$layout" | grep -oE '[a-z_]+\*' | tr -d '*' | grep -qx "${unit%%_*}" || echo "$file"
done | sort -u)
[ -z "$found" ] || complain "files of src/ that docs/internals/architecture.md does not name" "$found"
found=$(echo "$layout" | sed -n '/^    src\//,/^    models\//p' | grep -oE '[a-z_]+\.(c|h|def)\b' | sort -u | while read -r name; do
    [ -n "$(find src include models -name "$name")" ] || echo "$name"
done)
[ -z "$found" ] || complain "files that docs/internals/architecture.md names and src/ does not have" "$found"

found=$(find . \( -name .git -o -name 'build*' \) -prune -o -type f -print | grep -E '/(util|utils|common|misc|helper|helpers)(\.[^/]*)?$' || true)
[ -z "$found" ] || complain "names that describe nothing" "$found"

sh tests/ownership.sh . "$@" || failed=1
exit $failed
