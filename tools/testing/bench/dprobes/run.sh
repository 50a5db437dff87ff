#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs: what a hit costs above one of an empty kprobe of ours, and, on builtin, beside a BPF program that does the same. A
# nanosecond is an instruction. BENCH_VARIANTS= measures only some of the kernel variants, which leaves figures out; BENCH_RAW=1 shows
# all that was measured.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../../suites/lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-modular builtin}
here=$REPO/tools/testing/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for variant in $BENCH_VARIANTS; do
	kernel=$REPO/integration/kernel.sh
	"$kernel" build "$variant" >/dev/null
	modules=$("$kernel" kdir "$variant")/bench-dprobes
	"$kernel" make "$variant" -s M="$here/dprobes/module" MO="$modules" modules >&2
	selftests_build "$variant" dprobes >&2
	ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-600} run_vm "$variant" \
		"DPROBES_BENCH=$modules/dprobes_bench.ko tools/testing/selftests/dprobes/run.sh bench" |
		tr -d '\r' >"$work/$variant"
	grep -q ^command_push_pop_lv "$work/$variant" || die "not all figures from $variant"
	if [ "${BENCH_RAW:-}" ]; then sed "s/^/# $variant: /" "$work/$variant"; fi
done

awk -f "$here/table.awk" -v dir="$work" "$here/dprobes/figures" "$here/dprobes/bounds"
