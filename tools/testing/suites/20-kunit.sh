#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit tests of every variant: loads our modules, whose tests then run, and reads the results of those
# and of the built-in ones from debugfs.
# Seconds: 60
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2016
in_guest='
	cd "$FERROTRACE_KDIR/kernel/ferrotrace" || exit 1
	if [ -e rust_relay.ko ]; then insmod rust_relay.ko || exit 1; fi
	insmod ferrotrace_relay.ko || exit 1
	if [ -e ferrotrace_fast_relay.ko ]; then insmod ferrotrace_fast_relay.ko || exit 1; fi
	if [ -e rust_kprobes.ko ]; then insmod rust_kprobes.ko || exit 1; fi
	if [ -e ferrotrace_kprobe.ko ]; then insmod ferrotrace_kprobe.ko || exit 1; fi
	cat /sys/kernel/debug/kunit/*/results
'

for variant in $VARIANTS; do
	tap_nest "kunit: $variant" run_vm "$variant" "$in_guest"
done
tap_plan
