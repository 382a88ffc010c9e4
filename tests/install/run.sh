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
so=$libdir/libwvgd.so
[ -f "$so" ] || fail "no libwvgd.so beside libwvgd.a"
export LD_LIBRARY_PATH="$libdir" OPENBLAS_NUM_THREADS=1

# ---- what the shared library shows -----------------------------------------------------------------------------------------
soname=$(readelf -d "$so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = libwvgd.so.0 ] || fail "soname is '$soname', not libwvgd.so.0"
nm -D --defined-only "$so" | awk '{print $3}' | sort >"$tmp/exported"
foreign=$(grep -v '^wvgd_' "$tmp/exported" || true)
[ -z "$foreign" ] || fail "exported, but not ours:" $foreign
cat "$prefix"/include/*.h | sed -zE 's:/\*([^*]|\*+[^*/])*\*+/: :g; s://[^\n]*::g' | # without comments
    grep -v '^typedef' | grep -oE 'wvgd_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$tmp/declared"
[ -s "$tmp/declared" ] || fail "found no function in the headers"
difference=$(diff "$tmp/declared" "$tmp/exported" || true)
[ -z "$difference" ] || fail "declared (<) and exported (>) differ: $difference"
[ -z "$(readelf -d "$so" | grep -E 'RPATH|RUNPATH' || true)" ] || fail "libwvgd.so has a run path"

# ---- pkg-config ------------------------------------------------------------------------------------------------------------
export PKG_CONFIG_PATH="$libdir/pkgconfig"
use() { # NAME STATIC? COMMAND...
    name=$1 wanted=$((1 - $2))
    shift 2
    "$@" || fail "$name does not build"
    needed=$(readelf -d "$tmp/$name" | grep -c 'NEEDED.*libwvgd' || true)
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

# ---- CMake -----------------------------------------------------------------------------------------------------------------
"$cmake" -S "$here/consumer" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$tmp/log" 2>&1 &&
    "$cmake" --build "$tmp/cmake" >>"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "the CMake package does not work"; }
use cmake/c_shared 0 true
use cmake/c_static 1 true
use cmake/cpp_shared 0 true
use cmake/cpp_static 1 true
echo "install: all well"
