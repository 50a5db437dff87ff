#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs every suite in suites/ (scripts, and the lines of the table), one more at once than there are processors, and sums their results in
# one last line: N passed, N failed, N skipped.
#
#   check.sh [NAME...]    only the suites whose names contain one of the words (also SUITES="...")
#
# PARALLEL_SUITES=N runs N at once. VERBOSE=1 also shows each result as it arrives, with the seconds
# since the last one of its suite, and the duration of a case in the guest if it prints one.
# RESULTS=1 writes the sums of the suites to Documentation/results/, to a file with the name of the
# directory of the logs. The logs stay in build/check/. Fails on a failed test, a suite that did not
# end well, or no test at all.
#
# A guest uses one processor for any number of CPUs, and none in one of seven seconds, while it or
# its suite waits. The suites that take longest start first: a line "# Seconds: N"
# of the script, or the table, has the duration; N matters for the order only.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=integration/lib.sh
. "$HERE/../../integration/lib.sh"
# shellcheck source=tools/testing/results.sh
. "$HERE/results.sh"

export VARIANTS=${VARIANTS:-$DEFAULT_VARIANTS}
LOGS=${LOGS:-build/check}
# Below the repository, unless it says where.
if [ "${LOGS#/}" = "$LOGS" ]; then LOGS=$REPO/$LOGS; fi
export LOGS
# How the sources are written, and the kernels, which the other suites need: these run before them, alone, in this order.
FIRST="05-lint 10-build"
SUITE_TIMEOUT=${SUITE_TIMEOUT:-3000}
MB_PER_GUEST=1500
case " $VARIANTS " in *" debug "*) SUITE_TIMEOUT=$((SUITE_TIMEOUT * 10)) MB_PER_GUEST=3500 ;; *) ;; esac
# Lines of a suite's messages that are shown as they arrive.
SHOW='^ferrotrace: |^ +[0-9]+ steps|^ *not ok '
if [ "${VERBOSE:-0}" != 0 ]; then SHOW="$SHOW|^ *ok |^ *# seconds: "; fi

read -r -a words <<<"${*:-${SUITES:-}}"

wanted() {
	local w
	[ ${#words[@]} -gt 0 ] || return 0
	for w in "${words[@]}"; do
		if [[ $1 == *"$w"* ]]; then return 0; fi
	done
	return 1
}

# at_once: how many suites run at the same time: one a processor, and one for the time while others wait, as far as the memory
# that is free suffices.
at_once() {
	local n=${PARALLEL_SUITES:-0} fit
	fit=$(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) / 1024 / MB_PER_GUEST))
	if [ "$n" = 0 ]; then
		n=$(($(nproc) + 1))
		if [ $fit -lt "$n" ]; then n=$fit; fi
	fi
	if [ "$n" -lt 1 ]; then n=1; fi
	printf '%s\n' "$n"
}

# suite_names: of the scripts, and of the lines of the table, some of which have a script.
suite_names() {
	(cd "$HERE/suites" && {
		basename -s .sh [0-9]*.sh
		awk '/^[0-9]/ { print $1 }' table
	}) | sort -u
}

# seconds_of NAME: the time that the suite takes on an idle machine.
seconds_of() {
	awk -v name="$1" '$1 == name { print $2 }' "$HERE/suites/table"
	sed -n 's/^# Seconds: //p' "$HERE/suites/$1.sh" 2>/dev/null
}

# by_length: of the wanted suites the one that takes longest first.
by_length() {
	local name
	for name in $(suite_names); do
		if wanted "$name" && [[ " $FIRST " != *" $name "* ]]; then printf '%s %s\n' "$(seconds_of "$name")" "$name"; fi
	done | sort -k1,1nr -k2 | cut -d ' ' -f 2
}

# chatter NAME: shows lines of a suite as they arrive.
chatter() {
	local line last=$SECONDS after=
	grep -E --line-buffered "$SHOW" | while IFS= read -r line; do
		if [ "${VERBOSE:-0}" != 0 ]; then after=" +$((SECONDS - last)) s"; fi
		printf '%s%s: %s\n' "$1" "$after" "$line"
		last=$SECONDS
	done
}

# run_suite NAME: writes the results to $LOGS/NAME.ktap, the rest to $LOGS/NAME.log; and to
# $LOGS/NAME.end the exit status and the seconds.
run_suite() {
	local name=$1 began=$SECONDS suite watch program=("$HERE/suites/$1.sh")
	[ -e "${program[0]}" ] || program=("$HERE/suites/run.sh" "$1")
	: >"$LOGS/$name.ktap"
	: >"$LOGS/$name.log"
	timeout -k 10 "$SUITE_TIMEOUT" "${program[@]}" >"$LOGS/$name.ktap" 2>"$LOGS/$name.log" </dev/null &
	suite=$!
	trap 'kill $suite 2>/dev/null' TERM
	tail -q -n +1 -f --pid=$suite "$LOGS/$name.ktap" "$LOGS/$name.log" 2>/dev/null | chatter "$name" &
	watch=$!
	wait $suite
	echo "$? $((SECONDS - began))" >"$LOGS/$name.end"
	wait $watch
}

# report NAME: how the suite ended; adds to the totals.
report() {
	local name=$1 status seconds passed failed skipped
	read -r status seconds <"$LOGS/$name.end"
	read -r passed failed skipped < <("$HERE/ktap.py" "$LOGS/$name.ktap")
	if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
		printf '%s: the suite ended with status %s\n' "$name" "$status"
		failed=1
	elif [ $((passed + failed + skipped)) = 0 ]; then
		printf '%s: the suite gave no result\n' "$name"
		failed=1
	fi
	if [ "$failed" != 0 ]; then
		printf '%s: what failed:\n' "$name"
		"$HERE/ktap.py" --failed "$LOGS/$name.ktap" | sed 's/^/    /'
		printf '  the end of its log:\n'
		tail -n 40 "$LOGS/$name.log" | sed 's/^/    /'
		printf '    logs: %s\n' "$LOGS/$name.*"
	fi
	printf -- '--- %s: %d passed, %d failed, %d skipped, %d s\n' "$name" "$passed" "$failed" "$skipped" "$seconds"
	printf '%-26s %6d passed %4d failed %4d skipped\n' "${name#*-}" "$passed" "$failed" "$skipped" >>"$LOGS/sums"
	case $name in *-tools) sed -nE 's/^((not )?ok) [0-9]+ tools: /    \1 /p' "$LOGS/$name.ktap" >>"$LOGS/sums" ;; *) ;; esac
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))
}

declare -A running=()
# A signal to end also ends the suites and their guests.
trap 'trap - TERM; [ ${#running[@]} = 0 ] || kill "${!running[@]}" 2>/dev/null; exit 130' INT TERM

# end_one: waits until one of those that run ends, and reports it.
end_one() {
	local pid
	wait -n -p pid "${!running[@]}"
	report "${running[$pid]}"
	unset "running[$pid]"
}

start_one() {
	printf -- '--- %s ...\n' "$1"
	run_suite "$1" &
	running[$!]=$1
}

"$REPO/integration/setup.sh" --quiet || exit 1
rm -rf "$LOGS"
mkdir -p "$LOGS"
start=$SECONDS total_passed=0 total_failed=0 total_skipped=0

for name in $FIRST; do
	wanted "$name" || continue
	start_one "$name"
	end_one
done
slots=$(at_once)
for name in $(by_length); do
	if [ ${#running[@]} -ge "$slots" ]; then end_one; fi
	start_one "$name"
done
while [ ${#running[@]} -gt 0 ]; do end_one; done

printf -- '--- %d:%02d minutes, %d suites at once\n' $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)) "$slots"
printf '%d passed, %d failed, %d skipped\n' $total_passed $total_failed $total_skipped
results "$(basename "$LOGS")" "$LOGS/sums" \
	"make check VARIANTS=\"$VARIANTS\"${words[*]:+ SUITES=\"${words[*]}\"}${FERROTRACE_STORM:+ FERROTRACE_STORM=$FERROTRACE_STORM}" \
	"${VARIANTS%% *}"
[ $total_failed = 0 ] && [ $((total_passed + total_skipped)) -gt 0 ]
