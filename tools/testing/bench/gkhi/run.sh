#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Hooks, against static calls and tracepoints of the same kernel. In QEMU a nanosecond is an instruction; User Mode Linux is native.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-modular uml}

# In the guest. All is measured twice, to show if it repeats.
# shellcheck disable=SC2016
in_guest='
	bench=$FERROTRACE_KDIR/bench-gkhi
	for repeat in 1 2; do
		# Loading them fails when all went well.
		insmod "$bench/gkhi_bench.ko" rounds=$ROUNDS 2>/dev/null
		insmod "$bench/rust_gkhi_bench.ko" rounds=$ROUNDS 2>/dev/null
	done
	dmesg | sed -n "s/.*gkhi_bench: \([^ ]*\) \([0-9.]*\)$/\1 \2/p"
'

# Cost of each further exit or probe, from the costs of 2, 4 and 8.
# shellcheck disable=SC2016
each='
	{ print; v[$1] = $2 }
	$1 ~ /^(hook|tracepoint)_add_8$/ {
		sub(/_8$/, "", $1)
		print $1 "_each_to_4", (v[$1 "_4"] - v[$1 "_2"]) / 2
		print $1 "_each_to_8", (v[$1 "_8"] - v[$1 "_4"]) / 4
	}
'

for variant in $BENCH_VARIANTS; do
	built "$variant"
	case $variant in
	uml*)
		export ICOUNT='' CPUS=2 ROUNDS=300
		;;
	*)
		export ICOUNT=1 CPUS=4 ROUNDS=3
		;;
	esac
	run_vm "$variant" "ROUNDS=$ROUNDS; $in_guest" | take "$variant" . awk "$each"
done

table
