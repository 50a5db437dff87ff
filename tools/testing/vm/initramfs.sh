#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
#
# First process of a guest whose kernel needs modules to mount the host's files (integration/stock.sh): loads them, and goes
# on with init.sh there. Before that it runs /early/run, if there is one (run.py --early).
# Arguments from the kernel's command line: init (init.sh), rootflags.
if [ -x /early/run ]; then /early/run; fi
while read -r module; do
	/bin/busybox insmod "$module" || echo "$module is not loaded"
done </modules
/bin/busybox mount -t proc proc /proc
for word in $(/bin/busybox cat /proc/cmdline); do
	case $word in
	init=*) init=${word#*=} ;;
	rootflags=*) flags=${word#*=} ;;
	esac
done
/bin/busybox umount /proc
/bin/busybox mount -t 9p -o "ro,$flags" /dev/root /root
exec /bin/busybox switch_root /root "$init"
