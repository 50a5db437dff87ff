#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the selftests of the hook registry on the running kernel, as root, and prints KTAP.
#
#	run.sh [TEST...]	TEST: cases, order, debugfs, points, unload, tool; all without one; or TEST/CASE
#
# "tool" is "ferrotrace hooks", and needs FERROTRACE to name the command; without it, it is skipped. The modules are in
# $GKHI_SELFTESTS.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
tests=${*:-"cases order debugfs points unload tool"}
export GKHI_SELFTESTS=${GKHI_SELFTESTS:-$FERROTRACE_KDIR/selftests-gkhi/module}

[ -d /sys/kernel/debug/gkhi ] || bail "no hook registry"
# All of churn.rounds where lockdep watches, and some elsewhere: it takes 30 s.
ROUNDS=$(storm_rounds 300)
if [ -e /proc/lockdep ]; then ROUNDS=1000; fi
load_file "$GKHI_SELFTESTS/gkhi_selftest.ko" rounds="$ROUNDS" ms="$(storm_rounds 2000)"

read -r _ <$DEBUGFS/gkhi_selftest/cases || bail "no cases"
echo "TAP version 13"
for t in $tests; do
	only=
	case $t in */*) only=${t#*/} t=${t%%/*} ;; *) ;; esac
	CASE=$only nested "$t" "$here/${t}_test.sh"
done
# All hooks of the module are deleted, with any exits on them.
if rmmod gkhi_selftest && ! grep -q gst_ $DEBUGFS/gkhi/hooks; then result ok gone; else result "not ok" gone; fi
finish
