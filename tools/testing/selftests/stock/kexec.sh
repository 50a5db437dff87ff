#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel without our patches, as root: starts the same kernel by kexec while kprobes, a channel of fast relay and the
# breakpoints of live coverage are in use. In the second kernel, where the command runs again, the modules work.
#
# $FERROTRACE is the command, and $FERROTRACE_KDIR/selftests-coverage has the program of the selftests of live coverage.

# shellcheck source=tools/testing/selftests/stock/lib.sh
. "$(dirname "$0")/lib.sh"

boot=$(cat /proc/sys/kernel/random/boot_id)
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug

if [ -e "$FERROTRACE_OUT/kexec" ]; then
	if ! grep -q ' kexec_second' /proc/cmdline || [ "$boot" = "$(cat "$FERROTRACE_OUT/kexec")" ]; then bail "not a second kernel"; fi
	run 0 cov live vfs_read -- cat /proc/version
	has '^ *[1-9][0-9]*/[0-9]+ +[0-9.]+% +vfs_read$' out
	run 0 probe watch --count 3 vfs_read
	echo "the second kernel works"
	exit
fi

# Of the way to the other kernel, among others.
"$tool" cov live start 'vfs_*' '*kexec*' '*shutdown*' '*reboot*' 'machine_*' 'native_*' '*apic*' 'load_*' '*crash*' 'hpet_*' 'syscore_*' 'smp_*' ||
	bail "nothing is watched"
"$tool" probe watch vfs_read >"$work/hits" 2>&1 &
for ((i = 0; i < 300; i++)); do if grep -q vfs_read "$work/hits"; then break; else sleep 0.1; fi; done
grep -q vfs_read "$work/hits" || bail "the probe is not hit"
head -n 1 /sys/kernel/debug/ferrotrace_coverage/control | tee /dev/kmsg
echo "$boot" >"$FERROTRACE_OUT/kexec"
"$FERROTRACE_KDIR/selftests-coverage/coverage" kexec "$FERROTRACE_KDIR/vmlinuz" "$FERROTRACE_KDIR/initramfs" \
	"$(cat /proc/cmdline) kexec_second" || bail "kexec"
bail "the kernel continues"
