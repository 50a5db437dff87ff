#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel without our patches, as root: loads all our modules, uses a probe and a hook, and unloads the modules, ten times.
# No module, symbol, debugfs file or CPU hotplug state may remain, and the kernel's memory may grow by less than 512 kB.
set -euo pipefail
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"

modules="ferrotrace_fs ferrotrace_core ferrotrace_relay ferrotrace_fast_relay ferrotrace_kprobe ferrotrace_ftrace ferrotrace_ftrace_functions
	ferrotrace_jprobe ferrotrace_kprobe_events ferrotrace_coverage rust_dprobes clients/klog_relay samples/gkhi_fork_count"

# A kernel with PREEMPT_RT has none.
[ -e "$MODULE_DIR/rust_dprobes.ko" ] || modules=${modules/rust_dprobes /}

left() {
	local name
	for name in $modules; do [ ! -e "/sys/module/${name##*/}" ] || echo "module $name"; done
	grep -E ' (ferro|gkh_|klog)' /proc/kallsyms || true
	find /sys/kernel/debug -maxdepth 1 \( -name 'ferrotrace*' -o -name gkhi -o -name klog \)
	find /sys/kernel -maxdepth 1 -name ferrotrace
	grep -rhE 'gkhi' /sys/devices/system/cpu/hotplug/states || true
}

round() {
	local name reversed=""
	for name in $modules; do
		if [ ! -e "/sys/module/${name##*/}" ]; then load_file "$MODULE_DIR/$name.ko"; fi
		reversed="${name##*/} $reversed"
	done
	echo "p used vfs_read" >$DEBUGFS/ferrotrace_kprobe_events/probes
	cat /proc/version >/dev/null
	echo "-*" >$DEBUGFS/ferrotrace_kprobe_events/probes
	# Forks: a tracepoint fires task_fork, on which gkhi_fork_count has an exit.
	(true)
	# shellcheck disable=SC2086
	rmmod $reversed
}

# Prints the kernel's memory in kB, without the page cache. vmalloc frees unused areas late.
kernel_kb() { sync && echo 3 >/proc/sys/vm/drop_caches && awk '/^(Slab|VmallocUsed|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo; }

for _ in 1 2; do round; done
before=$(kernel_kb)
for _ in $(seq 8); do round; done
found=$(left)
if [ "$found" ]; then
	printf 'left:\n%s\n' "$found"
	exit 1
fi
lost=$(($(kernel_kb) - before))
echo "memory growth in 8 rounds: $lost kB"
[ $lost -lt 512 ]
