#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A fast relay channel that is opened before debugfs and other CPUs are there (samples/relay_boot.c, built in).
# Seconds: 22
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2016
in_guest='
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	out=$(mktemp -d)
	"$FERROTRACE" relay record --duration 2 /sys/kernel/debug/relay_boot/cpu -o "$out/boot" >&2
	tools/testing/selftests/relay_boot/check.py "$out/boot"
'
case " $VARIANTS " in
*" builtin "*)
	FERROTRACE=$(tool)
	CPUS=4 tap_nest "relay_boot: builtin" run_vm builtin "export FERROTRACE=$FERROTRACE; $in_guest"
	;;
*) tap_skip "relay_boot" "needs the variant builtin" ;;
esac
tap_plan
