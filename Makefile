# make            builds build/wvgd, build/libwvgd.so, build/libwvgd.a, build/libwvgd-tools.so, build/libwvgd-tools.a, tests and examples
# make test       installs missing Debian packages, builds, runs all tests
# make demo       installs what the build needs, builds the program, fits data/cancer.csv, prints the summary, leaves the run and report.html in demo/
# make install    PREFIX=/usr/local DESTDIR=
# make wheel      installs what it needs, makes a Python wheel with both libraries and BLAS inside, in build/wheel/ (by PYTHON=/usr/bin/python3)
# make sanitize   all tests with ASan and UBSan, some with valgrind
# make stan-tools installs what `wvgd stan` compiles Stan programs with (Debian's rstan: large)
# make figures    all experiments of the paper: tables and figures in figures/ (half an hour)
# make bench      speed against peers and limits as one table, also in bench/results.md (20 minutes; bench-quick: one); bench-peers installs the peers
# make bench-mpi  what 1, 2, 4 and 8 ranks on this machine send and wait for, and a model of the time on up to 4096 ranks (docs/scaling.md; 5 minutes)
# make fingerprints  writes the hashes of results that test_fingerprint compares with (CONTRIBUTING.md); scripts/compare-fingerprints says what changed
# make check-clang, format, packages, clean
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CMAKE_OPTIONS ?=
PYTHON ?= /usr/bin/python3
MAKEFLAGS += --no-print-directory

build = cmake -S . -B $(1) $(CMAKE_OPTIONS) $(2) && cmake --build $(1) --parallel $(JOBS) $(3)
ctest = ctest --test-dir $(1) --output-on-failure -j $(JOBS) $(2)

.NOTPARALLEL:
.PHONY: all cmake packages build-packages wheel-packages stan-tools test demo install wheel sanitize check-clang bench bench-quick bench-mpi bench-peers figures fingerprints format clean

all: cmake
	$(call build,build)

cmake:
	@command -v cmake >/dev/null || { echo "There is no cmake: 'make packages' installs it, and all else that wvgd needs." >&2; exit 1; }

packages:
	@scripts/install-packages

build-packages:
	@scripts/install-packages build

wheel-packages:
	@scripts/install-packages wheel

stan-tools:
	@scripts/install-packages stan

test: packages cmake
	$(call build,build,-DWVGD_TESTS=ON -DWVGD_EXAMPLES=ON -DWVGD_CHECKS=ON)
	$(call ctest,build)

demo: build-packages cmake
	$(call build,build,$(if $(wildcard build/CMakeCache.txt),,-DWVGD_TESTS=OFF),--target wvgd_main)
	build/wvgd fit logistic --data data/cancer.csv --standardize --overwrite --out demo
	build/wvgd report demo || [ $$? = 69 ]

install: all
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

wheel: wheel-packages cmake
	rm -rf build/wheel
	$(call build,build,$(if $(wildcard build/CMakeCache.txt),,-DWVGD_TESTS=OFF),--target wvgd_bundle)
	mkdir -p build/wheel/source
	cp -r python/pyproject.toml python/setup.py python/wvgd build/wheel/source/
	cp -r build/wheel/lib build/wheel/source/wvgd/
	$(PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation --no-cache-dir --wheel-dir build/wheel build/wheel/source
	@ls build/wheel/*.whl

sanitize: packages cmake
	$(call build,build-sanitize,-DWVGD_TESTS=ON -DWVGD_EXAMPLES=ON -DWVGD_CHECKS=OFF "-DWVGD_SANITIZE=address;undefined")
	$(call ctest,build-sanitize)
	$(call build,build,-DWVGD_TESTS=ON -DWVGD_CHECKS=ON)
	$(call ctest,build,-L valgrind)

check-clang: packages cmake
	$(call build,build-clang,-DCMAKE_C_COMPILER=clang -DWVGD_CHECKS=OFF)

bench: packages cmake
	$(call build,build,,--target bench_programs wvgd_main)
	bench/run

bench-quick: cmake
	$(call build,build,,--target bench_programs wvgd_main)
	bench/run --quick

bench-mpi: packages cmake
	$(call build,build,,--target bench_mpi)
	bench/mpi/run

bench-peers:
	@scripts/install-packages peers
	@scripts/install-packages stan

figures: packages cmake
	$(call build,build,,--target wvgd_main)
	build/wvgd reproduce all --out figures

fingerprints: cmake
	$(call build,build,-DWVGD_TESTS=ON,--target test_fingerprint)
	build/tests/test_fingerprint --write

format:
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

clean:
	rm -rf build build-sanitize build-clang demo figures
