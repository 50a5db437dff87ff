#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the klog selftests on the running kernel, as root, and prints KTAP.
#
#	run.sh [TEST...]	TEST: klog, app, readtest, tool; all without one; or TEST/CASE
#
# "tool" is "ferrotrace klog", and needs FERROTRACE to name the command; without it, it is skipped. The programs and
# klog_selftest.ko are in $KLOG_SELFTESTS, the modules under test in $FERROTRACE_KDIR.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
tests=${*:-"klog app readtest tool"}
bin=${KLOG_SELFTESTS:-$FERROTRACE_KDIR/selftests-klog}

load_ours rust_relay ferrotrace_relay clients/klog_relay samples/readtest
load_file "$bin/module/klog_selftest.ko"
grep -qw relay_rust_mutex /proc/kallsyms || export KLOG_C_ENGINE=1
export KLOG_RELAY_KO=$MODULE_DIR/clients/klog_relay.ko READTEST_KO=$MODULE_DIR/samples/readtest.ko

echo "TAP version 13"
for t in $tests; do
	only=
	case $t in */*) only=${t#*/} t=${t%%/*} ;; *) ;; esac
	program=$bin/${t}_test
	if [ "$t" = tool ]; then
		program=$here/tool_test.sh
	fi
	# shellcheck disable=SC2046
	CASE=$only nested "$t" "$program" $(if [ "$t" != tool ]; then harness_only "$only"; fi)
done
finish
