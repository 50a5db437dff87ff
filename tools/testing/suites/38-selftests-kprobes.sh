#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of kprobes, on every variant: mainline's engine and ours.
# Seconds: 642
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	name="selftests/kprobes: $variant"
	if selftests_build "$variant" kprobes >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-1800} tap_nest "$name" \
			run_vm "$variant" "tools/testing/selftests/kprobes/run.sh $variant"
		# They oops.
		CPUS=2 STRICT=0 tap_nest "$name: handlers that die" \
			run_vm "$variant" "tools/testing/selftests/kprobes/run.sh $variant death"
		if [ "$variant" = modular ]; then
			CPUS=2 TIMEOUT=${TIMEOUT:-300} tap_nest "$name: as on CPUs with FRED" run_vm "$variant" \
				"insmod \$FERROTRACE_KDIR/kernel/ferrotrace/rust_kprobes.ko post_stops=1 &&
				tools/testing/selftests/kprobes/run.sh $variant insn fault context several"
		fi
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
