# Shared by scripts/test and .ci/run: groups of checks that all run, counts of what passed and failed, one closing line. To be sourced from
# the root of the tree. A check that is not made of counted tests (a build, a fuzzer, a script) counts as one.
passed=0
failed=0
failures=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export PYTHONDONTWRITEBYTECODE=1

# LibTorch files take up to 1.4 GB each to compile.
jobs=$(awk -v cores="$(nproc)" '/MemAvailable/ {fit = int($2 / 1500000); print (fit < 1 ? 1 : fit < cores ? fit : cores)}' /proc/meminfo)

heading() { printf '\n== %s\n' "$*"; }

count() {  # count PASSED FAILED NAME
  passed=$((passed + $1))
  failed=$((failed + $2))
  [ "$2" -eq 0 ] || failures+=("$3 ($2)")
}

# check NAME COMMAND...: one check; its output is shown.
check() {
  heading "$1"
  if "${@:2}"; then count 1 0 "$1"; else count 0 1 "$1"; fi
}

# build PRESET [TARGET...]: configures and builds what compiles, also after an error. Only an error is shown.
build() {
  local preset=$1 log=$logs/build
  shift
  heading "build $preset"
  if cmake --preset "$preset" >"$log" 2>&1 && ninja -C "build/$preset" -k0 -j"$jobs" "$@" >"$log" 2>&1; then
    tail -n 1 "$log"
  else
    grep -vE '^\[[0-9]+/[0-9]+\] |^ninja: Entering' "$log" | tail -n 100
    count 0 1 "build $preset"
    return 1
  fi
}

# programs PRESET CTEST_ARGUMENTS...: counted as ctest counts, by program; two more at a time than there are cores, since many wait.
programs() {
  local preset=$1 log=$logs/programs status=0 summary
  shift
  ctest --test-dir "build/$preset" --output-on-failure -j$(($(nproc) + 2)) --no-tests=error "$@" >"$log" 2>&1 || status=$?
  grep -vE '^(Internal ctest|Test project| *Start )' "$log" | grep -vE '^ *[0-9]+/[0-9]+ Test .*Passed' || true
  summary=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log" | tail -n 1)
  if [[ $summary =~ ([0-9]+)\ tests\ failed\ out\ of\ ([0-9]+) ]]; then
    count $((BASH_REMATCH[2] - BASH_REMATCH[1])) "${BASH_REMATCH[1]}" "ctest $preset $*"
  else
    count 0 1 "ctest $preset $*"
  fi
  return $status
}

# python_tests PYTEST_ARGUMENTS...: against the programs of the release preset; one more at a time than there are cores, since tests of faults wait.
python_tests() {
  local log=$logs/python status=0 summary good=0 bad=0
  PACELINE=$PWD/build/release/bin/paceline .venv/bin/python -m pytest -q -p no:cacheprovider --durations=5 -n $(($(nproc) + 1)) --dist worksteal "$@" 2>&1 | tee "$log" || status=$?
  summary=$(grep -E '(passed|failed|error).* in [0-9.]+s' "$log" | tail -n 1)
  [[ $summary =~ ([0-9]+)\ passed ]] && good=${BASH_REMATCH[1]}
  [[ $summary =~ ([0-9]+)\ failed ]] && bad=${BASH_REMATCH[1]}
  [[ $summary =~ ([0-9]+)\ error ]] && bad=$((bad + BASH_REMATCH[1]))
  [ $status -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
  count "$good" "$bad" "pytest $*"
  return $status
}

# fuzz SECONDS: every *_fuzz.cc in git, from its committed inputs, if any, and those that earlier runs found; one more at a time than there are cores.
fuzz() {
  local limit=$1 targets=() target
  while read -r file; do targets+=("$(basename "$file" .cc)"); done < <(git ls-files '*_fuzz.cc')
  build fuzz "${targets[@]}" || return 1
  heading "fuzz, $limit s each"
  for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do wait -n || true; done
    fuzz_one "$target" "$limit" &
  done
  wait
  for target in "${targets[@]}"; do
    if [ -f "$logs/$target.good" ]; then
      printf '%-24s %s inputs tried\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target")"
      count 1 0 "$target"
    else
      tail -n 60 "$logs/$target"
      count 0 1 "fuzz $target"
    fi
  done
}

fuzz_one() {  # fuzz_one TARGET SECONDS: leaves its output, and a file beside it when nothing was found
  local seeds=() found=build/fuzz/found/$1
  mkdir -p "build/fuzz/corpus/$1" "$found"
  [ -d "tests/fuzz/corpus/$1" ] && seeds=("tests/fuzz/corpus/$1")
  timeout $(($2 + 600)) "build/fuzz/bin/$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$found/" \
    "build/fuzz/corpus/$1" "${seeds[@]}" >"$logs/$1" 2>&1 && touch "$logs/$1.good"
}

# finish: the closing line and the exit status.
finish() {
  echo
  for failure in "${failures[@]}"; do echo "failed: $failure"; done
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
