#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest's part of judge.py, as root: watches functions (or --all), executes some of them, and writes the report to
# $FERROTRACE_OUT. At each step it waits until QEMU's log is switched.
set -u

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"
load_ours ferrotrace_fs ferrotrace_core rust_kprobes ferrotrace_coverage

port=$(grep -lx judge /sys/class/virtio-ports/*/name | cut -d / -f 5)
exec 3<>"/dev/${port:?}"
# step WORD: tells the host, and waits for its answer.
step() {
	local answer
	echo "$1" >&3
	read -r answer <&3
	[ "$answer" = ok ] || bail "no answer to $1"
}

# A guest reads files slowly from its host.
cp "${FERROTRACE:?}" "$work/ferrotrace"
tool=$work/ferrotrace

# Processes, files, pipes, a mount and a signal.
load() {
	local file
	{
		mkdir "$1" && cp /etc/services "$1/a" && ln "$1/a" "$1/b" && ln -s a "$1/c" && mv "$1/b" "$1/d"
		tail -n 3 "$1/c" | sort | wc -l
		for file in /proc/self/maps /proc/stat /sys/kernel/uevent_seqnum; do cat $file; done
		dd if=/dev/zero of="$1/e" bs=4k count=20 conv=fsync
		truncate -s 100 "$1/e"
		mkdir "$1/m" && mount -t tmpfs tmpfs "$1/m" && echo x >"$1/m/x" && umount "$1/m"
		kill -CHLD $BASHPID
		rm -r "$1"
	} >"$1.out" 2>&1
}

# A child would not inherit the session: it is in a process of its own.
step arm
"$tool" cov live start "$@" || bail "nothing is watched"
step armed
load "$work/one" &
load "$work/other"
wait
step report
# membarrier(MEMBARRIER_CMD_GLOBAL): all CPUs leave the traps in which they are.
perl -e 'exit(syscall(324, 1, 0, 0) != 0)' || bail "membarrier() fails"
"$tool" cov live report --json >"$FERROTRACE_OUT/report.json" || bail "no report"
step reported
head -n 2 /sys/kernel/debug/ferrotrace_coverage/control
"$tool" cov live stop --top 1
