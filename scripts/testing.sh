# Shared by scripts/test and .ci/run: steps that all run, counts of what passed and failed, closing lines. To be sourced from the root of
# the tree. A check that is not made of counted tests (a build, a fuzzer, a script) counts as one.
passed=0
failed=0
failures=()
unsteady=()
times=()
current="scripts/setup"  # the step that runs, and since when
began=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export PYTHONDONTWRITEBYTECODE=1

# LibTorch files take up to 1.4 GB each to compile.
jobs=$(awk -v cores="$(nproc)" '/MemAvailable/ {fit = int($2 / 1500000); print (fit < 1 ? 1 : fit < cores ? fit : cores)}' /proc/meminfo)

timed() {  # timed NAME: a step begins, and the one before ends; "" if none begins. Less than a second is not told.
  local took=$((SECONDS - began))
  [ -z "$current" ] || [ $took -eq 0 ] || times+=("$(printf '%3d:%02d  %s' $((took / 60)) $((took % 60)) "$current")")
  current=$1
  began=$SECONDS
}

heading() {
  timed "$*"
  printf '\n== %s\n' "$*"
}

count() {  # count PASSED FAILED NAME
  passed=$((passed + $1))
  failed=$((failed + $2))
  [ "$2" -eq 0 ] || failures+=("$3")
}

# result FILE NAME: counts what is told there, a line each: `passed NUMBER`, `failed NAME`, `unsteady NAME`. No file: NAME has failed.
result() {
  local what rest
  [ -f "$1" ] || { count 0 1 "$2"; return 1; }
  while read -r what rest; do
    case "$what" in
      passed) count "$rest" 0 "" ;;
      failed) count 0 1 "$rest" ;;
      unsteady) unsteady+=("$rest") ;;
    esac
  done <"$1"
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

# tests WHAT...: as scripts/run_tests.py runs them.
tests() {
  local status=0
  rm -f "$logs/result"
  .venv/bin/python scripts/run_tests.py "$logs/result" "$@" 2>&1 || status=$?
  result "$logs/result" "$*" || status=1
  return $status
}

# programs PRESET CTEST_ARGUMENTS...: counted as ctest counts, by program; two more at a time than there are cores, since many wait.
programs() { tests ctest "build/$1" -j$(($(nproc) + 2)) "${@:2}"; }

# python_tests PYTEST_ARGUMENTS...: against the programs of the release preset; one more at a time than there are cores, since tests of faults wait.
python_tests() { PACELINE=$PWD/build/release/bin/paceline tests pytest --durations=5 -n $(($(nproc) + 1)) --dist worksteal "$@"; }

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

# finish: the closing lines, all behind the last empty line, and the exit status.
finish() {
  local one
  timed ""
  echo
  for one in "${failures[@]:0:40}"; do echo "failed: $one"; done
  [ ${#failures[@]} -le 40 ] || echo "failed: $((${#failures[@]} - 40)) more"
  for one in "${unsteady[@]}"; do echo "unsteady: $one"; done
  [ ${#unsteady[@]} -eq 0 ] || echo "What is unsteady failed, and then passed alone. Mend it, or list it in tests/unsteady.txt: from then on it runs once only."
  printf '%s\n' "${times[@]}" "$(printf '%3d:%02d  in all' $((SECONDS / 60)) $((SECONDS % 60)))"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# adopt FILE NAME: counts and tells what `finish` of another script has said at the end of FILE.
adopt() {
  local line
  awk 'BEGIN { RS = "" } { last = $0 } END { print last }' "$1" >"$logs/closing"
  if ! [[ $(tail -n 1 "$logs/closing") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    count 0 1 "$2"
    return 1
  fi
  passed=$((passed + BASH_REMATCH[1]))
  failed=$((failed + BASH_REMATCH[2]))
  while read -r line; do
    case "$line" in
      failed:*) failures+=("${line#failed: }") ;;
      unsteady:*) unsteady+=("${line#unsteady: }") ;;
      *:*"  in all") ;;
      [0-9]*:[0-9]*) times+=("$(printf '%6s' "${line%%  *}")  ${line#*  }") ;;
    esac
  done <"$logs/closing"
}
