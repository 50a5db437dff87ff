#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The tools that people use, unchanged, on kernels with their clients: perf, bpftrace, trace-cmd, bcc's tools and blktrace
# of Debian's trixie, in a root of their own in the cache (1.5 GB). Each does a job, and sees the same as on mainline's engines.
# Only on "distro" and "distro-mainline" (make check-long).
# Seconds: 900
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

PACKAGES="linux-perf bpftrace trace-cmd bpfcc-tools libbpf-tools blktrace"
root=$CACHE/roots/tools

# tools_root: makes the root, unless the last run has left it.
tools_root() {
	[ -d "$root" ] && return
	[ "$(id -u)" = 0 ] || { say "root is needed to make $root" && return 1; }
	rm -rf "$root.new"
	# shellcheck disable=SC2086
	make_root trixie "$root.new" $PACKAGES && mv "$root.new" "$root"
}

# use_tools VARIANT
use_tools() {
	local out=$LOGS/tools-$1
	rm -rf "$out"
	mkdir -p "$out"
	OUT=$out CPUS=2 MEM=2G TIMEOUT=${TIMEOUT:-2400} run_vm "$1" "tools/testing/selftests/tools/run.sh $root"
}

# compare MAINLINE OURS: compares each job's output on both.
compare() {
	local job seen=0
	for job in "$LOGS/tools-$1"/*; do
		[ -e "$job" ] || continue
		seen=$((seen + 1))
		tap_run "tools: $2: ${job##*/} sees the same as on $1" diff -u "$job" "$LOGS/tools-$2/${job##*/}"
	done
	tap_run "tools: $2: jobs that were compared: $seen" [ "$seen" -gt 0 ]
}

chosen=
for variant in $VARIANTS; do
	case $variant in
	distro*) chosen="$chosen $variant" ;;
	*) tap_skip "tools: $variant" "it is without the clients that the tools need" ;;
	esac
done
if [ -n "$chosen" ]; then
	if with_lock tools-root tools_root >&2; then
		for variant in $chosen; do tap_nest "tools: $variant" use_tools "$variant"; done
		if under_test distro && under_test distro-mainline; then compare distro-mainline distro; fi
	else
		tap_not_ok "tools: no root with the tools"
	fi
fi
tap_plan
