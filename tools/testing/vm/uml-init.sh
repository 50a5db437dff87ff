#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The first process of a User Mode Linux guest: the host's root file system is its root, read-only; it gets
# the file systems a machine has, writable layers over the host's directories, and the host's shared directory.
# From the kernel's command line: ferrotrace_share (on the host), ferrotrace_overlay (directories, by colons).
# shellcheck disable=SC2154
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
share=/run/ferrotrace

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm $share
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t hostfs -o "$ferrotrace_share" none $share

IFS=: read -r -a dirs <<<"$ferrotrace_overlay"
for i in "${!dirs[@]}"; do
	mkdir -p "/run/overlay/$i/upper" "/run/overlay/$i/work"
	mount -t overlay -o "lowerdir=${dirs[i]},upperdir=/run/overlay/$i/upper,workdir=/run/overlay/$i/work" overlay "${dirs[i]}"
done

if [ -s $share/cmd ]; then
	# The consoles are the host's pipes: no line editing, no carriage returns.
	stty -F /dev/tty1 raw -echo
	stty -F /dev/tty2 raw -echo
	bash "$ferrotrace_guest" $share </dev/null >/dev/tty1 2>/dev/tty2
else
	setsid -c bash </dev/tty0 >/dev/tty0 2>&1
fi
sync
busybox poweroff -f
