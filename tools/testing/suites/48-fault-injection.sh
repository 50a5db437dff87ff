#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Failing allocations, where the kernel lets them fail: on debug.
# Seconds: 0
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# build VARIANT: the test program, and the modules whose control files it writes to.
build() {
	local s
	for s in fault_injection relay relay_fast gkhi ftrace_tramp gcov kprobes dprobes; do selftests_build "$1" $s || return 1; done
}

for variant in $VARIANTS; do
	name="selftests/fault_injection: $variant"
	if [ "$variant" != debug ]; then
		tap_skip "$name" "no fault injection there"
	elif build "$variant" >&2; then
		CPUS=2 TIMEOUT=${TIMEOUT:-5400} tap_nest "$name" \
			run_vm "$variant" "tools/testing/selftests/fault_injection/run.sh"
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
