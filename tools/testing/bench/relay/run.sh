#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The relay interfaces: mainline's and ours. In QEMU a nanosecond is an instruction; User Mode Linux is native.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular $STOCK uml-mainline uml}

# In the guest; $1 are parameters for the modules. All is measured twice, to show if it repeats.
# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/testlib.sh
	load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay clients/klog_relay
	bench=$FERROTRACE_KDIR/bench-relay
	for repeat in 1 2; do
		# Loading them fails when all went well.
		insmod "$bench/relay_bench.ko" $PARAMETERS rounds=$ROUNDS 2>/dev/null
		insmod "$bench/rust_relay_bench.ko" rounds=$ROUNDS 2>/dev/null
	done
	dmesg | sed -n "s/.*relay_bench: \([^ ]*\) \([0-9.]*\)$/\1 \2/p"
	if [ "$DRAIN" ]; then
		insmod "$bench/relay_fill.ko" || exit 1
		"$bench/drain" /sys/kernel/debug/relay_fill && "$bench/drain" /sys/kernel/debug/relay_fill
	fi
'

# measure NAME VARIANT: the figures of a guest go to the file NAME.
measure() {
	run_vm "$2" "$set; $in_guest" | take "$1" .
}

for variant in $BENCH_VARIANTS; do
	built "$variant"
	gcc -O2 -Wall -I "$REPO/include/uapi" -o "$modules/drain" "$here/drain.c"
	# On newer processors, and on QEMU's newest, the kernel copies by "rep movsb"; on others by words.
	case $variant in
	uml*)
		export ICOUNT='' CPUS=2 APPEND=''
		set="ROUNDS=300 PARAMETERS='' DRAIN=''"
		;;
	*)
		export ICOUNT=1 CPUS=4 APPEND='setcpuid=fsrm reserve_mem=16M:4096:bench'
		set="ROUNDS=3 PARAMETERS=instructions=1 DRAIN=1"
		;;
	esac
	measure "$variant" "$variant"
	if [ "$variant" = mainline ]; then APPEND=clearcpuid=fsrm measure words mainline; fi
done

table
