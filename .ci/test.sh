#!/usr/bin/env bash
# Every check of the repository, with the tools in the folder $1; MAKE is the make that called. All run, whatever fails;
# pytest comes last, so that its summary (skips with their reasons included) is the last thing on the screen.
set -u
cd "$(dirname "$0")/.."
bin=${1:-.venv/bin}
failed=()

check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        echo "$output"
        failed+=("$name")
    fi
}

# Two cores: one compiles the simulator, which most tests need, while the other installs the rest and checks types.
"$bin/python" .ci/warm.py simulator >/dev/null 2>&1 &
simulator=$!
"${MAKE:-make}" --no-print-directory "${bin%/bin}/.installed-dev" || exit 1
check "ruff format" "$bin/ruff" format --check .
check "ruff check" "$bin/ruff" check .
# A larger space for new objects: node would spend a tenth of the time on collecting them.
check "pyright" env NODE_OPTIONS=--max-semi-space-size=128 "$bin/pyright"
check "import floors" "$bin/lint-imports" --cache-dir .import_linter_cache
# The first tests need no RTL; a test that does waits for this process, if it has not ended.
"$bin/python" .ci/warm.py rtl >/dev/null 2>&1 &
wait "$simulator"
if ((${#failed[@]})); then
    echo "failed before pytest: ${failed[*]}"
fi
# Each process begins with half of the tests in their order, so that what a file builds is built once.
# Two processes on two cores: more threads of numpy's matrix products would wait for each other, ten times as long.
export OPENBLAS_NUM_THREADS=1
"$bin/python" -m pytest -n 2 --dist worksteal -q "${@:2}" || failed+=("pytest")
((${#failed[@]} == 0))
