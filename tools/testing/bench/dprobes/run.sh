#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs: what a hit costs above one of an empty kprobe of ours. A nanosecond is an instruction.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../../suites/lib.sh"

here=$REPO/tools/testing/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kernel=$REPO/integration/kernel.sh
"$kernel" build modular >/dev/null
modules=$("$kernel" kdir modular)/bench-dprobes
"$kernel" make modular -s M="$here/dprobes/module" MO="$modules" modules >&2
selftests_build modular dprobes >&2
ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-600} run_vm modular \
	"DPROBES_BENCH=$modules/dprobes_bench.ko tools/testing/selftests/dprobes/run.sh bench" |
	tr -d '\r' >"$work/modular"
grep -q ^command_push_pop_lv "$work/modular" || die "not all figures"
if [ "${BENCH_RAW:-}" ]; then sed "s/^/# modular: /" "$work/modular"; fi

awk -f "$here/table.awk" -v dir="$work" "$here/dprobes/figures" "$here/dprobes/bounds"
