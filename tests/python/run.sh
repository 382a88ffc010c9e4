#!/bin/sh
# run.sh BUILD SOURCE CC: the tests of the Python package, by the first python3 that has numpy. Skipped (77) without one.
set -eu
build=$1 source=$2 cc=$3
for python in python3 /usr/bin/python3 none; do
    if "$python" -c 'import numpy' 2>/dev/null; then break; fi
done
if [ "$python" = none ]; then
    echo "skipped: there is no python3 with numpy (Debian package python3-numpy)"
    exit 77
fi
export WVGD_LIBRARY_DIR="$build" PYTHONPATH="$source/python" PYTHONDONTWRITEBYTECODE=1 CC="$cc"
cd "$source/tests/python"
exec "$python" -W error::ResourceWarning -m unittest --quiet
