#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Fast channels that survive a reboot, in a guest that dies and boots again. The engine is the same on every variant: one of them
# by default, for time; FERROTRACE_TOOL_VARIANTS= names others.
# Seconds: 110
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
# on CPUS ARGS...: a machine with so many processors, and the file $memory as its memory.
on() {
	local cpus=$1
	shift
	mkdir -p "$kept/$cpus"
	OUT=$kept/$cpus CPUS=$cpus MEM=1G APPEND=reserve_mem=8M:4096:flight TIMEOUT=600 \
		QEMU_OPTS="-object memory-backend-file,id=ram,size=1G,mem-path=$memory,share=on -machine memory-backend=ram" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/relay_flight/run.sh cpus $*"
}

# dies CMD...: succeeds if the guest panics.
dies() {
	local end=0
	"$@" >&2 || end=$?
	[ $end = 125 ]
}

# The memory is found by machines with fewer processors, and with more, than the one that wrote it.
other_cpus() {
	local status=0
	kept=$(mktemp -d)
	memory=$kept/memory
	dies on 4 die || status=1
	dies on 2 "$kept/4" die || status=1
	on 3 "$kept/2" end || status=1
	rm -rf "$kept"
	return $status
}

for variant in $(tool_variants); do
	selftests_build "$variant" relay_fast >&2
	REBOOT=1 CPUS=4 APPEND=reserve_mem=8M:4096:flight TIMEOUT=1500 tap_nest "relay_flight on $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/relay_flight/run.sh"
	tap_nest "relay_flight with other numbers of processors on $variant" other_cpus
done
tap_plan
