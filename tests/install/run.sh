#!/bin/sh
# run.sh CMAKE BUILD [CC]: installs BUILD, moves it, and uses it from C and C++ by pkg-config and by CMake, shared and static.
set -eu
cmake=$1 build=$2 cc=${3:-cc}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() {
    echo "install: $*" >&2
    exit 1
}

DESTDIR=$tmp/stage "$cmake" --install "$build" --prefix /opt/wvgd >"$tmp/log" || { cat "$tmp/log"; fail "cmake --install failed"; }
mv "$tmp/stage/opt/wvgd" "$tmp/prefix" # nothing may depend on where it was built or installed
prefix=$tmp/prefix
libdir=$(dirname "$(find "$prefix" -name libwvgd.a)")
export LD_LIBRARY_PATH="$libdir" OPENBLAS_NUM_THREADS=1

# ---- what the shared library shows -----------------------------------------------------------------------------------------
exports() { # LIBRARY HEADER...: what LIBRARY.so and LIBRARY.a show is what the headers declare
    library=$1
    so=$libdir/$library.so
    shift
    [ -f "$so" ] && [ -f "$libdir/$library.a" ] || fail "no $library.so, or no $library.a"
    soname=$(readelf -d "$so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = "$library.so.0" ] || fail "soname is '$soname', not $library.so.0"
    nm -D --defined-only "$so" | awk '{print $3}' | sort >"$tmp/exported"
    foreign=$(grep -v '^wvgd_' "$tmp/exported" || true)
    [ -z "$foreign" ] || fail "exported, but not ours:" $foreign
    foreign=$(nm -g --defined-only "$libdir/$library.a" | awk 'NF == 3 {print $3}' | grep -vE '^(wvgd|wv)_' || true)
    [ -z "$foreign" ] || fail "global in $library.a, but not ours:" $foreign
    (cd "$prefix/include" && cat "$@") | sed -zE 's:/\*([^*]|\*+[^*/])*\*+/: :g; s://[^\n]*::g' | # without comments
        grep -v '^typedef' | grep -oE 'wvgd_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$tmp/declared"
    [ -s "$tmp/declared" ] || fail "found no function in $*"
    difference=$(diff "$tmp/declared" "$tmp/exported" || true)
    [ -z "$difference" ] || fail "$library: declared (<) and exported (>) differ: $difference"
    [ -z "$(readelf -d "$so" | grep -E 'RPATH|RUNPATH' || true)" ] || fail "$library.so has a run path"
}
exports libwvgd wvgd.h wvgd_model.h
exports libwvgd-tools wvgd_tools.h

# ---- pkg-config ------------------------------------------------------------------------------------------------------------
export PKG_CONFIG_PATH="$libdir/pkgconfig"
use() { # NAME STATIC? COMMAND...
    name=$1 wanted=$((1 - $2))
    shift 2
    "$@" || fail "$name does not build"
    needed=$(readelf -d "$tmp/$name" | grep -c 'NEEDED.*libwvgd\.' || true)
    [ "$needed" = "$wanted" ] || fail "$name has libwvgd.so among its libraries $needed times"
    "$tmp/$name" || fail "$name fails"
}
cflags=$(pkg-config --cflags wvgd)
libs=$(pkg-config --libs wvgd)
static_libs=$(pkg-config --static --libs wvgd | sed 's/-lwvgd\>/-l:libwvgd.a/')
warnings="-Wall -Wextra -Wpedantic -Werror"
use c_shared 0 "$cc" -std=c11 $warnings -o "$tmp/c_shared" "$here/consumer/main.c" $cflags $libs -lm
use c_static 1 "$cc" -std=c11 $warnings -o "$tmp/c_static" "$here/consumer/main.c" $cflags $static_libs
use cpp_shared 0 c++ -std=c++11 $warnings -o "$tmp/cpp_shared" "$here/consumer/main.cpp" $cflags $libs
use cpp_static 1 c++ -std=c++11 $warnings -o "$tmp/cpp_static" "$here/consumer/main.cpp" $cflags $static_libs

# ---- libwvgd-tools: examples/tools.c, at most 60 lines ---------------------------------------------------------------------
source=$here/../..
[ "$(wc -l <"$source/examples/tools.c")" -le 60 ] || fail "examples/tools.c has more than 60 lines"
fit() { # NAME STATIC? COMMAND...: reads a table, prints a summary, and leaves a run that the program reads
    name=$1 wanted=$((1 - $2))
    shift 2
    "$@" || fail "$name does not build"
    needed=$(readelf -d "$tmp/$name" | grep -c 'NEEDED.*libwvgd-tools' || true)
    [ "$needed" = "$wanted" ] || fail "$name has libwvgd-tools.so among its libraries $needed times"
    rm -rf "$tmp/run"
    "$tmp/$name" "$source/data/cancer.csv" "$tmp/run" >"$tmp/out" 2>"$tmp/err" || { cat "$tmp/err"; fail "$name fails"; }
    grep -q '^log evidence' "$tmp/out" || fail "$name prints no summary"
    "$prefix/bin/wvgd" summary "$tmp/run" >"$tmp/summary" || fail "the program does not read the run of $name"
    grep -q '^log evidence' "$tmp/summary" || fail "the run of $name has no evidence"
    code=0
    "$tmp/$name" "$tmp/none.csv" "$tmp/run2" >"$tmp/out" 2>"$tmp/err" || code=$?
    [ $code = 66 ] || fail "$name ends with $code, not 66, without data"
    [ ! -e "$tmp/run2" ] || fail "$name leaves a run without data"
}
cflags=$(pkg-config --cflags wvgd-tools)
libs=$(pkg-config --libs wvgd-tools)
static_libs=$(pkg-config --static --libs wvgd-tools | sed 's/-lwvgd\>\(-tools\)*/-l:libwvgd\1.a/g')
fit tools_shared 0 "$cc" -std=c11 $warnings -o "$tmp/tools_shared" "$source/examples/tools.c" $cflags $libs
fit tools_static 1 "$cc" -std=c11 $warnings -o "$tmp/tools_static" "$source/examples/tools.c" $cflags $static_libs
echo '#include <wvgd_tools.h>' >"$tmp/header.cpp"
c++ -std=c++11 $warnings -c -o "$tmp/header.o" "$tmp/header.cpp" $cflags || fail "wvgd_tools.h is no C++"

# ---- CMake -----------------------------------------------------------------------------------------------------------------
"$cmake" -S "$here/consumer" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$tmp/log" 2>&1 &&
    "$cmake" --build "$tmp/cmake" >>"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "the CMake package does not work"; }
use cmake/c_shared 0 true
use cmake/c_static 1 true
use cmake/cpp_shared 0 true
use cmake/cpp_static 1 true
fit cmake/tools_shared 0 true
fit cmake/tools_static 1 true

# ---- Python ----------------------------------------------------------------------------------------------------------------
package=$(find "$prefix/lib" -path '*/wvgd/__init__.py')
if [ -n "$package" ] && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    (cd "$tmp" && PYTHONPATH=${package%/wvgd/__init__.py} /usr/bin/python3 -c '
import sys, wvgd
from wvgd import _library
assert _library.core._name.startswith(sys.argv[1]) and wvgd.__file__.startswith(sys.argv[1]), _library.core
assert wvgd.fit(lambda z: -0.5 * (z**2).sum(axis=1), dim=2).reliable
assert len(wvgd.fit("logistic", data=sys.argv[2]).names) == 31' "$prefix" "$source/data/cancer.csv") || fail "the installed Python package does not work"
fi
echo "install: all well"
