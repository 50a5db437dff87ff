# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that run in a guest, as root: loading our modules, results as KTAP.

DEBUGFS=/sys/kernel/debug
MODULE_DIR=${FERROTRACE_KDIR:?set in the guest}/kernel/ferrotrace

# bail TEXT: ends the test, where the rest would show nothing.
bail() {
	echo "Bail out! $*"
	exit 1
}

# load_file FILE [PARAMETERS...]: loads a module, or ends the test.
load_file() { insmod "$@" || bail "cannot load ${1##*/}"; }

# load_ours NAME...: loads modules of ours, by their names in kernel/ferrotrace. Those that are there already are left alone,
# as are those that this kernel does not have as modules: they are built in, or mainline's engine is.
load_ours() {
	local name
	for name; do
		if [ -e "$MODULE_DIR/$name.ko" ] && ! [ -e "/sys/module/${name##*/}" ]; then load_file "$MODULE_DIR/$name.ko"; fi
	done
}

# Only a test loads modules: the command finds none that are installed (vm/guest.sh).
if mountpoint -q "/lib/modules/$(uname -r)"; then umount "/lib/modules/$(uname -r)"; fi

# Files of a test.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# storm_rounds N: all N where storms are long, some of them where they are short (FERROTRACE_STORM, suites/lib.sh).
storm_rounds() {
	if [ "${FERROTRACE_STORM:-long}" = short ]; then echo $((($1 + 4) / 5)); else echo "$1"; fi
}

mountpoint -q $DEBUGFS || mount -t debugfs debugfs $DEBUGFS || bail "no debugfs"

# took NAME SECONDS: how long a case took, which "make check VERBOSE=1" shows.
took() {
	if [ "${2%.*}" -ge 1 ]; then echo "# seconds: $1 $2"; fi
}

# took_in_log FILE: the same of cases that begin with a line in the kernel's log.
took_in_log() {
	local name seconds
	awk -F '[][]' '
		function ends(at) { if (name) print name, sprintf("%.1f", at - begin) }
		$2 + 0 { now = $2 }
		/_selftest: RUN / { ends(now); begin = now; name = $0; sub(/.* RUN /, "", name) }
		END { ends(now) }' "$1" | while read -r name seconds; do took "$name" "$seconds"; done
}

# begin_tool WORD ARGS...: starts the command in the background, as $tool_pid, with its output in
# $work/out and $work/err. Returns when $work/err has WORD; fails and shows it if the command ends
# before. Earlier contents of the files do not count.
begin_tool() {
	local word=$1
	shift
	: >"$work/err"
	"$FERROTRACE" "$@" >"$work/out" 2>"$work/err" &
	tool_pid=$!
	while ! grep -q "$word" "$work/err"; do
		if ! kill -0 "$tool_pid"; then
			cat "$work/err"
			return 1
		fi
		sleep 0.1
	done
}

# The rest is for tests that are shell functions.

count=0 failed=0

# result STATUS NAME: "ok" or "not ok", numbered.
result() {
	echo "$1 $((++count)) $2"
	[ "$1" = ok ] || failed=1
}

# skipped NAME REASON
skipped() { result ok "$1 # SKIP $2"; }

# Hooks that a test script may redefine: before() prepares a check; after() inspects its traces, and
# may fail it; clean_up() runs after a check that failed.
before() { :; }
after() { :; }
clean_up() { :; }

# check NAME CMD...: the result of CMD; its output is shown if it fails. CMD sets $skip to the
# reason if it could not run. Does nothing if CASE= is set and the name does not begin so.
check() {
	local name=$1 start=$SECONDS
	[[ $name == "${CASE:-}"* ]] || return 0
	shift
	skip=
	before
	if "$@" >"$work/log" 2>&1 && after >>"$work/log" 2>&1; then
		result ok "$name${skip:+ # SKIP $skip}"
	else
		sed 's/^/# /' "$work/log"
		result "not ok" "$name"
		clean_up
	fi
	took "$name" $((SECONDS - start))
}

# harness_only [FIXTURE[.TEST]]: the options of the kernel's harness that choose these.
harness_only() {
	case $1 in
	'') ;;
	*.*) echo "-t ${1##*.}" ;;
	*) echo "-f $1" ;;
	esac
}

# nested NAME PROGRAM [ARGS...]: a result with cases that the program prints; "tool" needs
# FERROTRACE, the name of the command.
nested() {
	local start=$SECONDS
	if [ "$1" = tool ] && [ -z "${FERROTRACE:-}" ]; then
		skipped "$1" "no ferrotrace command"
		return
	fi
	"${@:2}" | sed -u 's/^/    /'
	if [ "${PIPESTATUS[0]}" = 0 ]; then result ok "$1"; else result "not ok" "$1"; fi
	took "$1" $((SECONDS - start))
}

# checks PREFIX FUNCTION...: a check of each, named by the prefix and the function's name.
checks() {
	local prefix=$1 test
	shift
	for test; do check "$prefix$test" "$test"; done
}

# ftracetest DIRECTORY TEST...: runs some of the kernel's ftrace selftests, which are in DIRECTORY,
# and writes their results, NAME|RESULT a line and without colours, for the host:
# $FERROTRACE_OUT/ftracetest (suites/lib.sh). The samples that they load with modprobe are this
# kernel's, though they are not installed.
ftracetest() {
	local from=$1 modules
	shift
	modules=$work/root/lib/modules/$(uname -r)
	cp -r "$from" "$work/ftrace" && mkdir -p "$modules" "$work/bin" &&
		find "$FERROTRACE_KDIR/samples" "$FERROTRACE_KDIR/selftests-ftracetest" -name '*.ko' -exec cp -t "$modules" {} +
	depmod -b "$work/root" && printf '#!/bin/sh\nexec %s -d %s "$@"\n' "$(command -v modprobe)" "$work/root" >"$work/bin/modprobe" &&
		chmod +x "$work/bin/modprobe" || return 1
	(cd "$work/ftrace" && PATH=$work/bin:$PATH ./ftracetest -l "$FERROTRACE_OUT/cases" "$@") >"$FERROTRACE_OUT/ftracetest.log" 2>&1
	sed -e 's/\x1b\[[0-9;]*m//g' "$FERROTRACE_OUT/ftracetest.log" |
		sed -n -E 's/^\[[0-9]+\] ?(.*[^[:space:]])[[:space:]]+\[([A-Z]+)\]$/\1|\2/p' >"$FERROTRACE_OUT/ftracetest"
	tail -n 20 "$FERROTRACE_OUT/ftracetest.log"
	[ -s "$FERROTRACE_OUT/ftracetest" ]
}

# finish: the plan, and the status of the test.
finish() {
	echo "1..$count"
	[ $failed = 0 ]
}

# refused TEXT CMD...: CMD fails, and says TEXT.
refused() {
	local text=$1
	shift
	if "$@" >"$work/refused" 2>&1; then
		echo "not refused: $*"
		return 1
	fi
	cat "$work/refused"
	grep -qF -- "$text" "$work/refused"
}

# kill_jobs: ends the background jobs of the shell.
kill_jobs() {
	local pid
	for pid in $(jobs -pr); do kill -KILL "$pid" && wait "$pid"; done 2>/dev/null
}

# load_up: opens and forks on all CPUs in the background, until load_down. With pauses: the CPUs of a guest may take turns.
load_up() {
	local cpu
	rm -f "$work/stop"
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		# shellcheck disable=SC2016
		nice taskset -c "$cpu" bash -c 'while [ ! -e "$1" ]; do
			for i in {1..50}; do : </dev/null; done
			sleep 0.02
		done' load "$work/stop" &
	done
}

load_down() {
	local pid
	: >"$work/stop"
	for pid in $(jobs -p); do wait "$pid"; done
	return 0
}
