#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The engines on a kernel that works around flaws of its CPU. Runs in a guest, as root; kprobes' and
# ftrace_tramp's selftests are built.
#
#   run.sh VARIANT FLAW TEXT    TEXT: expected in /sys/devices/system/cpu/vulnerabilities/FLAW
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
set -u

here=$(dirname "$0")
variant=${1:?usage: run.sh VARIANT FLAW TEXT}
flaw=/sys/devices/system/cpu/vulnerabilities/${2:?usage: run.sh VARIANT FLAW TEXT}
text=${3:?usage: run.sh VARIANT FLAW TEXT}

is_mitigated() { cat "$flaw" && grep -F "$text" "$flaw"; }

counted() { grep -q "Mitigation: Stuffing" /sys/devices/system/cpu/vulnerabilities/retbleed; }

# jumps: some breakpoints are replaced by jumps, except where returns count calls, and so change
# flags.
jumps() {
	local tracing=/sys/kernel/tracing function tries there=0
	for function in vfs_read vfs_write vfs_open vfs_mkdir vfs_rmdir; do
		# After the landing pad and the call of ftrace.
		echo "p:mitigations/$function $function+9" >>$tracing/kprobe_events || return 1
	done
	echo 1 >$tracing/events/mitigations/enable || return 1
	for ((tries = 0; tries < 50 && there == 0; tries++)); do
		sleep 0.2
		there=$(grep -c OPTIMIZED $DEBUGFS/kprobes/list)
	done
	cat $DEBUGFS/kprobes/list
	echo 0 >$tracing/events/mitigations/enable && echo >$tracing/kprobe_events || return 1
	if counted; then [ "$there" = 0 ]; else [ "$there" -gt 0 ]; fi
}

# Cases with thunks: calls and returns that are emulated, copied, diverted, and made by detours.
kprobes() {
	local more="jump.around jump.into jump.storm jump.preempted"
	if counted; then more=; fi
	# shellcheck disable=SC2086
	"$here/../kprobes/run.sh" "$variant" refuse several context ret fault jprobe insn.c insn.j insn.r $more
}

ftrace() { "$here/../ftrace_tramp/run.sh" one several sets.changes batch data; }

echo "TAP version 13"
awk '$3 == "_text" { print $1 }' /proc/kallsyms >"$FERROTRACE_OUT/text"
check "$2: $text" is_mitigated
check "jumps" jumps
nested "kprobes" kprobes
nested "ftrace_tramp" ftrace
finish
