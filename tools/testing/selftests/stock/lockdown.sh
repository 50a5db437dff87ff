#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel without our patches, as root: "ferrotrace doctor" finds nothing to mend, until the kernel is locked down. Then it and
# other commands name lockdown, and probes work by our module, in the filesystem ferrotrace. $FERROTRACE is the command.

# shellcheck source=tools/testing/selftests/stock/lib.sh
. "$(dirname "$0")/lib.sh"
# Another user must reach the command.
chmod 755 "$work"

# contains TEXT FILE: fails, and prints FILE, unless it contains TEXT.
contains() { grep -qF -- "$1" "$2" || { cat "$2" && bail "no: $1"; }; }

mount -t securityfs securityfs /sys/kernel/security
start=$(date +%s%N)
"$tool" doctor >"$work/report" || { cat "$work/report" && bail "something is to be mended"; }
took=$((($(date +%s%N) - start) / 1000000))
echo "doctor took $took ms"
[ $took -lt 10000 ] || bail "doctor is too slow"
contains "lockdown: none" "$work/report"
contains "our module ferrotrace_kprobe_events" "$work/report"
lsmod >"$work/before"
setpriv --reuid 65534 --regid 65534 --clear-groups "$tool" doctor >"$work/report" && bail "a user may do all"
contains "run: sudo ferrotrace doctor" "$work/report"
lsmod | cmp - "$work/before" || bail "doctor has loaded modules"

"$tool" probe list 2>/dev/null
echo integrity >/sys/kernel/security/lockdown
"$tool" doctor >"$work/report" && bail "doctor finds nothing to mend"
contains "lockdown: integrity" "$work/report"
contains "our modules would be refused: they are not signed; run: " "$work/report"
{ ! echo "p vfs_read" >/sys/kernel/debug/ferrotrace_kprobe_events/probes; } 2>/dev/null || bail "debugfs is not closed"
"$tool" probe watch vfs_read -- cat /proc/version >"$work/hits" 2>"$work/err"
contains "vfs_read" "$work/hits"
mountpoint -q /sys/kernel/ferrotrace || bail "the command has not mounted the filesystem"
! grep -q "kprobe_events of tracefs" "$work/err" || bail "the command does not use our module"
"$tool" relay stat /sys/kernel/debug/ferrotrace_kprobe_events/cpu 2>"$work/err" && bail "debugfs is not closed"
contains "permission denied to open: the kernel is locked down" "$work/err"
"$tool" trace functions vfs_read 2>"$work/err" && bail "an unsigned module is loaded"
contains "the kernel is locked down (integrity)" "$work/err"
