#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
#
# Suspends the machine, at each level of /sys/power/pm_test and to memory, while breakpoints are all over the
# kernel's text. A guest that has mounted the host's files cannot suspend. So the suite runs this script before
# that mount, as /early/run (run.py --early), beside the program and the modules of live coverage. The results
# are KTAP lines in the console's log, after "coverage_suspend: ".
PATH=/bin:/early
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t debugfs debugfs /sys/kernel/debug
mount -t devtmpfs devtmpfs /dev
control=/sys/kernel/debug/ferrotrace_coverage/control
count=0

say() { echo "<5>coverage_suspend: $*" >/dev/kmsg; }
# result STATUS NAME
result() { if [ "$1" = 0 ]; then say "ok $((count += 1)) $2"; else say "not ok $((count += 1)) $2"; fi; }
field() { sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" $control | head -n 1; }
# failures: the number of attempts to suspend that failed.
failures() { cat /sys/power/suspend_stats/fail; }

# try LEVEL: all places are armed. Afterwards they can be hit, in this process and on each CPU.
try() {
	local failed hit cpu status=0
	failed=$(failures)
	echo "$1" >/sys/power/pm_test
	echo reset >$control
	if [ "$1" = none ]; then
		echo 0 >/sys/class/rtc/rtc0/wakealarm
		echo +4 >/sys/class/rtc/rtc0/wakealarm
	fi
	echo mem >/sys/power/state || status=1
	[ "$(failures)" = "$failed" ] || status=1
	hit=$(field hit)
	echo reset >$control
	for cpu in $(seq 0 $(($(nproc) - 1))); do taskset "$((1 << cpu))" cat /proc/version /proc/meminfo; done >/dev/null
	usleep 300000
	say "# $1: $hit places hit during suspend, $(field hit) after it, $(field armed) armed; CPUs: $(cat /sys/devices/system/cpu/online)"
	[ "$hit" -gt 500 ] && [ "$(field hit)" -gt 200 ] && [ "$(cat /sys/devices/system/cpu/online)" = "$online" ] || status=1
	result $status "$1"
}

grep -E ' _(stext|etext)$' /proc/kallsyms | while read -r start type name; do echo "$name $start $start $type"; done |
	sed 's/ .$//' >/symbols
export COVERAGE_SYMBOLS=/symbols
for module in ferrotrace_fs ferrotrace_core ferrotrace_coverage; do insmod /early/$module.ko; done
coverage text >/text 2>/dev/kmsg &
until grep -q armed /text; do
	if ! kill -0 $!; then break; fi
	usleep 100000
done
say "# $(head -n 1 $control)"
online=$(cat /sys/devices/system/cpu/online)
echo 1 >/sys/module/suspend/parameters/pm_test_delay
for state in deep s2idle; do
	if ! grep -q $state /sys/power/mem_sleep; then continue; fi
	echo $state >/sys/power/mem_sleep
	for level in freezer devices platform processors core none; do
		# The clock does not wake every machine from being idle.
		case $state-$level in s2idle-processors | s2idle-core | s2idle-none) continue ;; esac
		try $level
	done
done
kill $!
wait $!
result $? "the text is as before"
while read -r line; do say "# $line"; done </text
say "1..$count"
# After a sleep, QEMU's machine neither mounts the host's files nor powers off. With -no-reboot this ends it.
reboot -f
