# shellcheck shell=bash
# shellcheck disable=SC2034
# Sourced by ./quickstart and ./test, which stand in the root of the tree.

build_packages=(build-essential cmake ninja-build 'ccache?' 'mold?' libyaml-cpp-dev libexpected-dev
                libfmt-dev libcli11-dev rapidjson-dev libboost-graph-dev libpugixml-dev libsqlite3-dev libgtest-dev
                libbenchmark-dev 'libopenmpi-dev?' 'openmpi-bin?' 'libsimgrid-dev?')
jobs=$(nproc)

say() { printf '\n== %s\n' "$*"; }

# configure PRESET: on the first time, or when a CMake file changed, which Ninja finds out itself.
configure() {
  if [[ ! -f build/$1/build.ninja ]]; then
    mkdir -p "build/$1"
    if ! cmake --preset "$1" >"build/$1/configure.log" 2>&1; then
      cat "build/$1/configure.log" >&2
      return 1
    fi
  fi
}

# build PRESET [TARGET…]: silent but for faults.
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"} >"build/$preset/build.log" 2>&1 || {
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "build/$preset/build.log" | tail -n 80 >&2
    return 1
  }
}
