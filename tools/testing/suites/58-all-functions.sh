#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A probe at the entry of functions and on three of their other instructions at random, under load:
# ours must accept all places that mainline's engine accepts. EVERY=50 is one function in 50 (the
# default), EVERY=1 all of them: an hour. SEED=1 chooses. Mainline's engine is only asked: to arm
# 512 probes and to remove them takes it 40 seconds (ours 4).
# The same for ours, at fewer places, while a tracer traces all functions: the places include the
# code that the tracer executes for each of them.
# Of distro-mainline and distro only (make check-long).
# Seconds: 400
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

places=$LOGS/all-functions-places

# places_of MAINLINE OURS
places_of() {
	local mainline ours
	mainline=$("$REPO/integration/kernel.sh" kdir "$1") && ours=$("$REPO/integration/kernel.sh" kdir "$2") || return 1
	"$(locked_cargo)" run --locked -q --release --manifest-path "$REPO/tools/testing/host/Cargo.toml" --bin probe-places -- \
		"${EVERY:-50}" "${SEED:-1}" "$mainline/vmlinux" "$ours/vmlinux" >"$places" && [ -s "$places" ]
}

# try VARIANT COLUMN [disabled=1]
try() {
	local out=$LOGS/all-functions-$1
	rm -rf "$out"
	mkdir -p "$out"
	selftests_build "$1" all_functions || return 1
	OUT=$out CPUS=${CPUS:-2} TIMEOUT=${TIMEOUT:-36000} run_vm "$1" "tools/testing/selftests/all_functions/run.sh $places $2 ${3:-}"
}

# traced VARIANT COLUMN TRACER: one place in 8, while the tracer traces all functions.
traced() {
	local out=$LOGS/all-functions-$1-$3
	rm -rf "$out"
	mkdir -p "$out"
	awk 'NR % 8 == 0' "$places" >"$out/places"
	selftests_build "$1" all_functions || return 1
	OUT=$out CPUS=${CPUS:-2} TIMEOUT=${TIMEOUT:-36000} \
		run_vm "$1" "TRACER=$3 tools/testing/selftests/all_functions/run.sh $out/places $2"
}

# of_table REASON: a pattern for the symbols that the engine's table has for that reason: Early before there is a table of interrupts,
# Idle where RCU waits for no CPU.
of_table() {
	local form
	for form in 'Is:^(__pi_)?\1[.+]' 'Starts:^(__pi_)?\1' 'Ends:\1[.+]'; do
		sed -n "s/^    (${form%%:*}(b\"\(.*\)\"), Reason::$1),\$/${form#*:}/p" "$REPO/rust/core/blacklist_names.rs"
	done | paste -sd '|'
}

# accepted MAINLINE OURS: prints each place that only one engine accepts. Fails if that is
# mainline's, except places that Documentation/kprobes.rst says ours refuses, and if almost none was
# accepted.
accepted() {
	local early idle
	early=$(of_table Early) && idle=$(of_table Idle)
	# Without any, all symbols would be like it.
	if [ -z "$early" ] || [ -z "$idle" ]; then
		echo "the engine's table is not as it is read here"
		return 1
	fi
	paste -d ' ' "$LOGS/all-functions-$1/all_functions" "$LOGS/all-functions-$2/all_functions" | awk -v early="$early" -v idle="$idle" '
		function class(symbol, instruction, error) {
			if (error == -22 && symbol ~ /^__SCT__/) return "trampoline of a static call"
			if (error == -22 && symbol ~ /^__x86_|_return_thunk|_safe_ret|_untrain_ret|^call_depth_|warn_thunk/) return "thunk"
			if (error == -22 && symbol ~ /^ftrace_(regs_)?call/) return "template of ftrace"
			if (error == -22 && symbol ~ early) return "before a CPU handles breakpoints"
			if (error == -22 && symbol ~ idle) return "where RCU waits for no CPU"
			if (error == -22 && symbol ~ /^(rust_helper|ferro)_|^(rcu_is_watching|preempt_schedule_notrace)\+/) return "of the engine"
			if (error == -22 && symbol ~ /^_R.*[0-9](ferro_(core|sys|gkhi|kprobes_builtin)|kprobes_engine)/) return "of the engine"
			if (error == -95 && instruction ~ /^(Endbr64|Hlt|Mwaitx?|Sti|Swapgs|Iretq|Retf|Sysretq|Sysexit|Vmgexit)$/) return instruction
		}
		$1 != $4 { print "not the same place: " $0; bad++ }
		$3 == 0 { theirs++ }
		$6 == 0 { ours++ }
		$3 == 0 && $6 != 0 {
			why = class($1, $2, $6)
			if (why) {
				classes[why]++
			} else {
				print "only mainline: " $1 " " $2 ", error " $6
				bad++
			}
		}
		$3 != 0 && $6 == 0 { print "only ours: " $1 " " $2 ", error of mainline " $3 }
		END {
			for (why in classes) print "only mainline, " why ": " classes[why]
			print NR " places, mainline accepts " theirs + 0 ", ours " ours + 0
			exit bad > 0 || theirs * 2 < NR
		}'
}

if under_test distro && under_test distro-mainline; then
	tap_run "all-functions: places" places_of distro-mainline distro
	tap_run "all-functions: mainline's engine" try distro-mainline 1 disabled=1
	tap_run "all-functions: ours" try distro 2
	for tracer in function function_graph; do
		tap_run "all-functions: ours, with the tracer $tracer" traced distro 2 $tracer
	done
	tap_run "all-functions: ours accepts what mainline's accepts" accepted distro-mainline distro
else
	tap_skip "all-functions: distro" "distro and distro-mainline are not under test"
fi
tap_plan
