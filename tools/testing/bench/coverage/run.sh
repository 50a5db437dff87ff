#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Live coverage of all of the kernel's text, on Debian's own kernel. A nanosecond is an instruction.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

for variant in ${BENCH_VARIANTS:-$STOCK}; do
	built "$variant"
	selftests_build "$variant" coverage >&2
	ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-900} run_vm "$variant" "tools/testing/selftests/coverage/run.sh bench" | take "$variant" disarm
done

table
