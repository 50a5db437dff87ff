#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of kprobes that the kernel has: its KUnit suite and samples on every variant, and the kprobe cases of its ftrace
# selftests on mainline and builtin, which must come out on ours as they do on mainline, or better.
# Seconds: 227
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/kit.sh
	# sample NAME WORD: the sample says WORD of what it sees when a process is made.
	sample() {
		dmesg -C
		if insmod "$FERROTRACE_KDIR/samples/kprobes/$1.ko" && /bin/true && rmmod "$1" && dmesg | grep -q "$2"; then
			result ok "samples/kprobes/$1"
		else
			dmesg
			result "not ok" "samples/kprobes/$1"
		fi
	}
	load_ours rust_kprobes
	sample kprobe_example "handler_pre: <kernel_clone>"
	sample kretprobe_example "kernel_clone returned"
	insmod "$FERROTRACE_KDIR/lib/tests/test_kprobes.ko" || exit 1
	if grep -q "pass:7 fail:0" /sys/kernel/debug/kunit/kprobes_test/results; then
		result ok "KUnit kprobes 7 of 7"
	else
		cat /sys/kernel/debug/kunit/kprobes_test/results >&2
		result "not ok" "KUnit kprobes 7 of 7"
	fi
	finish
'

# boot_event VARIANT: a probe of the command line, which the kernel registers before it has any modules, is hit.
boot_event() {
	APPEND='kprobe_event=p:at_boot,vfs_read' run_vm "$1" "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
		cat /sys/kernel/tracing/kprobe_profile; awk '\$1 == \"at_boot\" && \$2 > 0 { n++ } END { exit n != 1 }' /sys/kernel/tracing/kprobe_profile"
}

# What is known to come out otherwise than on mainline, with the reason.
declare -A known=(
	["Register/unregister optimized probe"]="no jump optimisation"
)

# ftracetest VARIANT: runs the kprobe cases; their results, NAME|RESULT a line, go to a file.
ftracetest() {
	local tests
	tests=$(dirname "$("$REPO/integration/kernel.sh" kdir "$1")")/tools/testing/selftests/ftrace
	CPUS=2 TIMEOUT=1800 run_vm "$1" "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
		cp -r $tests /tmp/ftrace && cd /tmp/ftrace && ./ftracetest -l /tmp/logs test.d/kprobe
		exit 0" >"$LOGS/ftracetest-$1.log" 2>&1 || { tail -n 20 "$LOGS/ftracetest-$1.log" >&2; return 1; }
	# Without colours.
	sed -e 's/\x1b\[[0-9;]*m//g' "$LOGS/ftracetest-$1.log" |
		sed -n -E 's/^\[[0-9]+\] ?(.*[^[:space:]])[[:space:]]+\[([A-Z]+)\]$/\1|\2/p' >"$LOGS/ftracetest-$1.results"
	[ -s "$LOGS/ftracetest-$1.results" ]
}

# compare: each case of mainline, with what has become of it on builtin.
compare() {
	local name result ours
	while IFS='|' read -r name result; do
		ours=$(NAME=$name awk -F'|' '$1 == ENVIRON["NAME"] { print $2; exit }' "$LOGS/ftracetest-builtin.results")
		if [ "$ours" = PASS ]; then
			tap_ok "ftracetest: $name: $ours"
		elif [ "${known[$name]:-}" ]; then
			tap_skip "ftracetest: $name" "${ours:-nothing}: ${known[$name]}"
		elif [ "$ours" = "$result" ] && [ "$ours" != FAIL ]; then
			# It needs what this kernel or this machine does not have.
			tap_skip "ftracetest: $name" "$ours, as on mainline"
		else
			tap_not_ok "ftracetest: $name: ${ours:-nothing}, on mainline $result"
		fi
	done <"$LOGS/ftracetest-mainline.results"
}

for variant in $VARIANTS; do
	CPUS=2 tap_nest "kprobes: $variant" run_vm "$variant" "$in_guest"
done
for variant in $VARIANTS; do
	case $variant in
	# As a module the engine is not there yet.
	modular | debug) ;;
	*) tap_run "kprobe_event= on the command line: $variant" boot_event "$variant" ;;
	esac
done
case " $VARIANTS " in
*" mainline "*" builtin "* | *" builtin "*" mainline "*)
	tap_run "ftracetest: mainline" ftracetest mainline
	tap_run "ftracetest: builtin" ftracetest builtin
	compare
	;;
*) tap_skip "ftracetest: builtin as mainline" "not under test" ;;
esac
tap_plan
