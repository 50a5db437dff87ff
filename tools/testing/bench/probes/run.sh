#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A hit of a probe from user space that reads arguments: kprobe_events on mainline's engine, and our
# module on our engine, with the same words; and both on Debian's own kernel. A nanosecond is an instruction; the cost of a system
# call without the probe is subtracted.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular $STOCK}

for variant in $BENCH_VARIANTS; do
	built "$variant"
	guest=tools/testing/bench/probes/guest.sh
	case $variant in
	mainline) what="$guest events" ;;
	stock) what="$guest events events_; $guest" ;;
	*) what=$guest ;;
	esac
	ICOUNT=1 CPUS=1 TIMEOUT=${TIMEOUT:-600} run_vm "$variant" "$what" | take "$variant" return
done

table
