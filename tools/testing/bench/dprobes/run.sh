#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs: the cost of a hit above a hit of our empty kprobe and, on builtin, against a BPF
# program that does the same. A nanosecond is an instruction.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-modular builtin $STOCK}

for variant in $BENCH_VARIANTS; do
	built "$variant"
	selftests_build "$variant" dprobes >&2
	ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-600} run_vm "$variant" \
		"DPROBES_BENCH=$modules/dprobes_bench.ko tools/testing/selftests/dprobes/run.sh bench" |
		take "$variant" command_push_pop_lv
done

table
