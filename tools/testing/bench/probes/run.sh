#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A hit of a probe from user space that reads arguments: kprobe_events on mainline's engine, and our module on our engine, with the
# same words. A nanosecond is an instruction; what a system call takes without the probe is taken off.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../../suites/lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular}
here=$REPO/tools/testing/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for variant in $BENCH_VARIANTS; do
	kernel=$REPO/integration/kernel.sh
	"$kernel" build "$variant" >/dev/null
	ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-600} run_vm "$variant" "tools/testing/bench/probes/guest.sh" |
		tr -d '\r' >"$work/$variant"
	grep -q ^return "$work/$variant" || die "not all figures from $variant"
	if [ "${BENCH_RAW:-}" ]; then sed "s/^/# $variant: /" "$work/$variant"; fi
done

awk -f "$here/table.awk" -v dir="$work" "$here/probes/figures"
