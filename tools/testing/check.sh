#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs every suite in suites/ and sums their results to one last line: N passed, N failed, N skipped.
#   check.sh [NAME...]    only the suites whose names contain one of the words (also SUITES="...")
# The logs stay in build/check/. Fails on a failed test, a suite that did not end well, or no test at all.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=integration/lib.sh
. "$HERE/../../integration/lib.sh"

export VARIANTS=${VARIANTS:-$DEFAULT_VARIANTS}
export LOGS=$REPO/build/check
SUITE_TIMEOUT=${SUITE_TIMEOUT:-9000}
case " $VARIANTS " in *" debug "*) SUITE_TIMEOUT=$((SUITE_TIMEOUT * 6)) ;; *) ;; esac
# What of a suite's chatter is shown as it comes.
SHOW='^ferrotrace: |^ +[0-9]+ steps|^ *not ok '

read -r -a words <<<"${*:-${SUITES:-}}"

wanted() {
	local w
	[ ${#words[@]} -gt 0 ] || return 0
	for w in "${words[@]}"; do
		if [[ $1 == *"$w"* ]]; then return 0; fi
	done
	return 1
}

# run_suite NAME FILE: leaves the results in $LOGS/NAME.ktap, the rest in $LOGS/NAME.log.
run_suite() {
	local name=$1 file=$2
	: >"$LOGS/$name.ktap"
	: >"$LOGS/$name.log"
	timeout -k 10 "$SUITE_TIMEOUT" "$file" >"$LOGS/$name.ktap" 2>"$LOGS/$name.log" </dev/null &
	suite=$!
	tail -q -n +1 -f --pid=$suite "$LOGS/$name.ktap" "$LOGS/$name.log" | grep -E --line-buffered "$SHOW"
	wait $suite
}

suite=
trap '[ -z "$suite" ] || kill "$suite" 2>/dev/null; exit 130' INT TERM

"$REPO/integration/setup.sh" --quiet || exit 1
rm -rf "$LOGS"
mkdir -p "$LOGS"
start=$SECONDS total_passed=0 total_failed=0 total_skipped=0

for file in "$HERE"/suites/[0-9]*.sh; do
	name=$(basename "$file" .sh)
	wanted "$name" || continue
	began=$SECONDS
	printf -- '--- %s\n' "$name"
	run_suite "$name" "$file"
	status=$?
	read -r passed failed skipped < <("$HERE/ktap.py" "$LOGS/$name.ktap")
	if [ $status != 0 ] && [ "$failed" = 0 ]; then
		printf 'the suite ended with status %s\n' "$status"
		failed=1
	elif [ $((passed + failed + skipped)) = 0 ]; then
		printf 'the suite gave no result\n'
		failed=1
	fi
	if [ "$failed" != 0 ]; then
		printf '    what failed:\n'
		"$HERE/ktap.py" --failed "$LOGS/$name.ktap" | sed 's/^/    /'
		grep '^ferrotrace: console: ' "$LOGS/$name.log"
		printf '    logs: %s\n' "$LOGS/$name.*"
	fi
	printf -- '    %s: %d passed, %d failed, %d skipped, %d s\n' "$name" "$passed" "$failed" "$skipped" $((SECONDS - began))
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))
done

printf -- '--- %d:%02d minutes\n' $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60))
printf '%d passed, %d failed, %d skipped\n' $total_passed $total_failed $total_skipped
[ $total_failed = 0 ] && [ $((total_passed + total_skipped)) -gt 0 ]
