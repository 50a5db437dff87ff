#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of kprobes, on every variant: mainline's engine and ours.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

WITH_JUMPS="several context ret debugfs unload jprobe fault load races insn.c insn.j insn.f"

for variant in $VARIANTS; do
	# Breakpoints in all cases but jump.*; below, jumps also in others.
	suite_on "$variant" "$@" || continue
	[ $# = 0 ] || continue
	name="selftests/kprobes: $variant"
	# They oops.
	CPUS=2 STRICT=0 tap_nest "$name: handlers that die" \
		run_vm "$variant" "tools/testing/selftests/kprobes/run.sh $variant oops"
	if [ "$variant" = modular ]; then
		# jump.forms and the others of jump.* wait for theirs; here jumps are placed and
		# removed at any time.
		CPUS=4 TIMEOUT=${TIMEOUT:-900} tap_nest "$name: with jumps" run_vm "$variant" \
			"FERROTRACE_STORM=short KST_JUMPS=1 tools/testing/selftests/kprobes/run.sh $variant $WITH_JUMPS"
		CPUS=2 TIMEOUT=${TIMEOUT:-300} tap_nest "$name: as on CPUs with FRED" run_vm "$variant" \
			"insmod \$FERROTRACE_KDIR/kernel/ferrotrace/rust_kprobes.ko post_stops=1 &&
			tools/testing/selftests/kprobes/run.sh $variant insn fault context several"
	fi
done
tap_plan
