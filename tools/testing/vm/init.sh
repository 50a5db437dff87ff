#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# First process of a guest, in QEMU and in User Mode Linux. The host's root file system is its root,
# read-only. Over it are mounted a layer in memory for the guest's writes, the usual file systems of
# a machine, and the directory shared with the host. guest.sh runs the command there; its output is
# written to the host's pipes.
# Busybox, as it is linked statically: under TCG that takes a third of the time to start.
# Arguments from the kernel's command line: ferrotrace_guest (guest.sh), and for User Mode Linux
# ferrotrace_share (on the host).
# shellcheck disable=SC2154
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
share=/run/ferrotrace

if [ "$1" != layered ]; then
	root=/run/layer/root
	busybox mount -t tmpfs tmpfs /run
	busybox mkdir -p $root /run/layer/upper /run/layer/work
	busybox mount -t overlay -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work overlay $root
	busybox mount -t proc proc $root/proc
	busybox mount -t sysfs sysfs $root/sys
	busybox mount -t devtmpfs devtmpfs $root/dev
	busybox mount -t tmpfs tmpfs $root/run
	# It becomes the root of all mounts, as no process can make user namespaces under a changed
	# root.
	cd $root && busybox mount --move . / && exec busybox chroot . /bin/bash "$0" layered
fi

busybox mkdir -p /dev/pts /dev/shm $share
busybox mount -t devpts devpts /dev/pts
busybox mount -t tmpfs tmpfs /dev/shm
busybox mount -t debugfs debugfs /sys/kernel/debug
busybox mount -t tracefs tracefs /sys/kernel/tracing
busybox ln -sfn /proc/self/fd /dev/fd
busybox ln -sfn fd/0 /dev/stdin
busybox ln -sfn fd/1 /dev/stdout
busybox ln -sfn fd/2 /dev/stderr
busybox ip link set lo up

if [ -n "$ferrotrace_share" ]; then
	busybox mount -t hostfs -o "$ferrotrace_share" none $share
	# Consoles: no line editing, no carriage returns.
	out=/dev/tty1 err=/dev/tty2
	stty -F $out raw -echo
	stty -F $err raw -echo
else
	busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 ferrotrace $share
	for port in /sys/class/virtio-ports/*; do
		case $(<"$port/name") in
		stdout) out=/dev/${port##*/} ;;
		stderr) err=/dev/${port##*/} ;;
		esac
	done
fi

# A port takes one writer: pipes between, so that the command may open /dev/stdout as it likes.
busybox mkfifo /run/stdout /run/stderr
cat /run/stdout >"$out" &
pids=$!
cat /run/stderr >"$err" &
pids="$pids $!"
busybox setsid bash "$ferrotrace_guest" $share </dev/null >/run/stdout 2>/run/stderr

# Until all is written, which is when no process holds the pipes: remaining processes of the command
# are killed.
for process in /proc/[0-9]*; do
	process=${process#/proc/}
	case " 1 $pids " in
	*" $process "*) ;;
	*) kill -KILL "$process" 2>/dev/null ;;
	esac
done
# shellcheck disable=SC2086
wait $pids
sync
busybox poweroff -f
# After tests that use up memory the host's files may be unreadable. Then the shell alone powers off.
echo o >/proc/sysrq-trigger
read -rt 60 _ <>/run/stdout
