#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of kprobes, on every variant: mainline's engine and ours.
# Seconds: 330
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	selftests_on "$variant" kprobes 1800 "run.sh VARIANT" || continue
	name="selftests/kprobes: $variant"
	# They oops.
	CPUS=2 STRICT=0 tap_nest "$name: handlers that die" \
		run_vm "$variant" "tools/testing/selftests/kprobes/run.sh $variant death"
	if [ "$variant" = modular ]; then
		CPUS=2 TIMEOUT=${TIMEOUT:-300} tap_nest "$name: as on CPUs with FRED" run_vm "$variant" \
			"insmod \$FERROTRACE_KDIR/kernel/ferrotrace/rust_kprobes.ko post_stops=1 &&
			tools/testing/selftests/kprobes/run.sh $variant insn fault context several"
	fi
done
tap_plan
