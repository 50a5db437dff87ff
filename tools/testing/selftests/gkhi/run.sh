#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the selftests of the hook registry on the running kernel, as root, and prints KTAP.
#
#	run.sh [TEST...]	TEST: cases, order, debugfs, points, unload, tool; all without one
#
# "tool" is "ferrotrace hooks", and needs FERROTRACE to name the command; without it, it is skipped. The modules are in
# $GKHI_SELFTESTS.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
tests=${*:-"cases order debugfs points unload tool"}
export GKHI_SELFTESTS=${GKHI_SELFTESTS:-$FERROTRACE_KDIR/selftests-gkhi/module}

bail() {
	echo "Bail out! $*"
	exit 1
}

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug || bail "no debugfs"
[ -d /sys/kernel/debug/gkhi ] || bail "no hook registry"
# All of churn.rounds where lockdep watches, and some elsewhere: it takes 30 s.
ROUNDS=300
if [ -e /proc/lockdep ]; then ROUNDS=1000; fi
insmod "$GKHI_SELFTESTS/gkhi_selftest.ko" rounds=$ROUNDS || bail "cannot load gkhi_selftest.ko"

echo "TAP version 13"
count=0 failed=0
for t in $tests; do
	if [ "$t" = tool ] && [ -z "${FERROTRACE:-}" ]; then
		echo "ok $((++count)) $t # SKIP no ferrotrace command"
		continue
	fi
	start=$SECONDS
	"$here/${t}_test.sh" | sed -u 's/^/    /'
	if [ "${PIPESTATUS[0]}" = 0 ]; then
		echo "ok $((++count)) $t"
	else
		echo "not ok $((++count)) $t"
		failed=1
	fi
	echo "# $((SECONDS - start)) s"
done
# All hooks of the module go, whoever is on them.
if rmmod gkhi_selftest && ! grep -q gst_ /sys/kernel/debug/gkhi/hooks; then
	echo "ok $((++count)) gone"
else
	echo "not ok $((++count)) gone"
	failed=1
fi
echo "1..$count"
[ $failed = 0 ]
