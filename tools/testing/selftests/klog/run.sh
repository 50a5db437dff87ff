#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the klog selftests on the running kernel, as root, and prints KTAP.
#
#	run.sh [TEST...]	TEST: klog, app, readtest, tool; all without one
#
# "tool" is "ferrotrace klog", and needs FERROTRACE to name the command; without it, it is skipped. The programs and klog_selftest.ko are in $KLOG_SELFTESTS, the modules under test in $FERROTRACE_KDIR.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
tests=${*:-"klog app readtest tool"}
bin=${KLOG_SELFTESTS:-$FERROTRACE_KDIR/selftests-klog}
modules=$FERROTRACE_KDIR/kernel/ferrotrace

bail() {
	echo "Bail out! $*"
	exit 1
}

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug || bail "no debugfs"
for m in "$modules"/{rust_relay,ferrotrace_relay,klog/klog_relay,klog/readtest}.ko "$bin/module/klog_selftest.ko"; do
	# on mainline the engine is built in
	[ -e "$m" ] || continue
	insmod "$m" || bail "cannot load $m"
done
grep -qw relay_rust_mutex /proc/kallsyms || export KLOG_C_ENGINE=1
export KLOG_RELAY_KO=$modules/klog/klog_relay.ko READTEST_KO=$modules/klog/readtest.ko

echo "TAP version 13"
count=0 failed=0
for t in $tests; do
	program=$bin/${t}_test
	if [ "$t" = tool ]; then
		program=$here/tool_test.sh
		# another test's handler may have taken its place
		rmmod klog_relay && insmod "$KLOG_RELAY_KO"
		if [ -z "${FERROTRACE:-}" ]; then
			echo "ok $((++count)) $t # SKIP no ferrotrace command"
			continue
		fi
	fi
	"$program" | sed -u 's/^/    /'
	if [ "${PIPESTATUS[0]}" = 0 ]; then
		echo "ok $((++count)) $t"
	else
		echo "not ok $((++count)) $t"
		failed=1
	fi
done
echo "1..$count"
[ $failed = 0 ]
