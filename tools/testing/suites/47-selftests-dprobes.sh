#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs, on each variant with the engine.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# crashes VARIANT: a program that asks for a crash dump has the effect of "echo c
# >/proc/sysrq-trigger", after which nothing runs; the same by another name where sysrq must not, as
# on Debian's kernels.
crashes() {
	local status=0
	STRICT=0 run_vm "$1" "tools/testing/selftests/dprobes/run.sh crash" || status=$?
	[ $status = 125 ] && grep -E "Kernel panic - not syncing: (sysrq triggered crash|a probe program has asked for a crash dump)" "$LOGS/47-selftests-dprobes-$1.console"
}

for variant in $VARIANTS; do
	if [ "$variant" = mainline ]; then
		tap_skip "selftests/dprobes: $variant" "probe programs need the Rust kprobes engine's part in the image"
	else
		suite_on "$variant" "$@" || :
		[ $# = 0 ] || continue
		tap_run "selftests/dprobes: $variant: exit 2 crashes the kernel" crashes "$variant"
	fi
done
tap_plan
