#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Lets allocations fail in all that registers, opens or arms something, as root, and prints KTAP.
#
#	run.sh [CASE...]	CASE: the beginning of a case's name, or of some; all without one
#
# The programs and modules of the selftests are in $FERROTRACE_KDIR/selftests-*.
set -uo pipefail

wanted=("$@")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
D=$DEBUGFS
FERRO=$MODULE_DIR
fault_injection=$FERROTRACE_KDIR/selftests-fault_injection/fault_injection
probes=$D/ferrotrace_kprobe_events/probes

[ -e /proc/self/fail-nth ] || bail "no fail-nth: this kernel has no CONFIG_FAULT_INJECTION"
for kind in failslab fail_page_alloc; do
	# also those that may wait, and of any size; without a stack dump for each
	echo N >$D/$kind/ignore-gfp-wait || bail "no $kind"
	echo 0 >$D/$kind/verbose
done
echo 0 >$D/fail_page_alloc/min-order
echo N >$D/fail_page_alloc/ignore-gfp-highmem 2>/dev/null
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || bail "no tracefs"
echo 1 >/sys/kernel/tracing/events/module/module_load/enable || bail "no trace event module_load"

# complains: succeeds if the log has a report of the kernel's checkers, except the kernel's own
# warning about missing memory for the static keys of a module.
complains() {
	dmesg | grep -vE 'WARNING: .*jump_label_module_notify' |
		grep -E 'WARNING: |BUG: |Oops|INFO: (task|rcu|possible)|refcount_t:|general protection|ODEBUG' >/dev/null
}

# conclude NAME OK BEGAN: the result of a case, with its log.
conclude() {
	local ok=$2
	if complains; then
		dmesg | tail -n 60 | sed 's/^/# dmesg: /'
		ok="not ok"
	fi
	echo "$((SECONDS - $3)) s" >>"$work/log"
	sed 's/^/# /' "$work/log"
	result "$ok" "fault_injection.$1"
}

# is_wanted NAME: succeeds if a case was asked for.
is_wanted() {
	local want
	for want in "${wanted[@]}"; do
		if [[ $1 = "$want"* ]]; then return; fi
	done
	[ ${#wanted[@]} = 0 ]
}

# any_wanted PREFIX: succeeds if a case with this prefix was asked for. Loading the modules of such
# cases takes minutes where checkers are slow.
any_wanted() {
	local want
	for want in "${wanted[@]}"; do
		if [[ $want = "$1"* || $1 = "$want"* ]]; then return; fi
	done
	[ ${#wanted[@]} = 0 ]
}

# attempt NAME ARGS...: one case of fault_injection.c
attempt() {
	local name=$1 ok="not ok" began=$SECONDS
	shift
	is_wanted "$name" || return
	dmesg -C
	if "$fault_injection" "$@" >"$work/log" 2>&1; then ok=ok; fi
	conclude "$name" "$ok" "$began"
}

# work_fails KIND BUDGET: fails the allocation of work items that uses up the budget: bytes of
# slabs, or pages. With "off" none fails.
work_fails() {
	local dir=$D/$1 task on=1
	if [ "$2" = off ]; then on=0; fi
	echo 0 >"$dir/probability"
	# New workers inherit the setting of kthreadd.
	for task in /proc/2 $(grep -l '^kworker/' /proc/[0-9]*/comm 2>/dev/null); do
		# Some have exited.
		echo $on 2>/dev/null >"${task%/comm}/make-it-fail"
	done
	if [ $on = 0 ]; then return; fi
	echo Y >"$dir/task-filter"
	echo 1 >"$dir/times"
	echo 1 >"$dir/interval"
	echo "$2" >"$dir/space"
	echo 100 >"$dir/probability"
}

# in_work NAME STEP COMMAND...: a case in which a work item acts. The command succeeds even if the
# work item has no memory, and leaves the probes unchanged. STEP is the number of bytes of slabs
# between two budgets.
in_work() {
	local kind name=$1 step=$2 budget tries ok=ok began=$SECONDS said passed before
	shift 2
	is_wanted "$name" || return
	dmesg -C
	before=$(<$D/kprobes/list)
	: >"$work/log"
	for kind in failslab fail_page_alloc; do
		if [ $kind = fail_page_alloc ]; then step=1; fi
		budget=0
		for ((tries = 0; tries < 150; tries++)); do
			work_fails $kind $budget
			said=$("$@" 2>&1) && passed=yes || passed=
			if [ "$(<$D/$kind/times)" = 1 ]; then break; fi
			work_fails $kind off
			if [ -z "$passed" ] || [ "$before" != "$(<$D/kprobes/list)" ]; then
				printf '%s\n' "$kind, $budget: $said" "$(<$D/kprobes/list)" >>"$work/log"
				ok="not ok"
				break
			fi
			budget=$((budget + step))
		done
		work_fails $kind off
		echo N >$D/$kind/task-filter
		echo "$kind: $tries" >>"$work/log"
		# A few jumps or a watchpoint may need no new pages. For many jumps only the first
		# budgets are tried.
		if [ $kind:$tries = failslab:0 ]; then ok="not ok"; fi
	done
	conclude "$name" "$ok" "$began"
}

# jumps CASE: a case of kprobes_selftest in which a work item makes jumps. It tries again after a
# second, as does the case.
jumps() {
	local said
	echo "$1" >$D/kprobes_selftest/run
	said=$(<$D/kprobes_selftest/run)
	echo "$said"
	[ "${said%%$'\n'*}" = ok ]
}

# module FILE PARAMETERS: its loading is a case
module() {
	local name
	name=$(basename "$1" .ko)${2:+_$2}
	[ -e "$1" ] || return
	attempt "load_${name//[^a-z0-9]/_}" insmod "$1" "${2:-}"
}

keep() {
	[ -e "$1" ] || return
	load_file "$@"
}

echo "TAP version 13"
if [ -e $D/kmemleak ]; then
	echo scan=off >$D/kmemleak
	echo clear >$D/kmemleak
fi

for m in rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_jprobe rust_ftrace_tramp \
	rust_gcov rust_dprobes ferrotrace_coverage; do
	module "$FERRO/$m.ko"
	keep "$FERRO/$m.ko"
done
if any_wanted load_; then
	for m in samples/relay_c_client samples/gkhi_fork_count samples/kprobe_fork_c samples/kretprobe_open_c samples/jprobe_fork_c \
		samples/kprobe_fork samples/kretprobe_open samples/entry_fork clients/klog_relay samples/readtest ferrotrace_kprobe_events; do
		module "$FERRO/$m.ko"
	done
	module "$FERRO/samples/relay_sched.ko" fast=0
	module "$FERRO/samples/relay_sched.ko" fast=1
	module "$FERRO/samples/gkhi_switch.ko"
	keep "$FERRO/samples/gkhi_switch.ko"
	module "$FERRO/samples/gkhi_idle_count.ko"
	rmmod gkhi_switch

	# An object without memory for its file has none, but its module is loaded.
	for m in gcov_one gcov_fake; do module "$FERROTRACE_KDIR/selftests-gcov/module/$m.ko"; done
fi

if any_wanted probe_; then
	keep "$FERRO/ferrotrace_kprobe_events.ko"
	attempt probe_at_entry write $probes "p a kernel_clone" "-a"
	# after the NOP or the call that a function begins with
	attempt probe_within write $probes "p a kernel_clone+5" "-a"
	attempt probe_of_return write $probes "r a do_sys_openat2" "-a"
	# a second one at the place of another: both are in one object then
	echo "p first kernel_clone+5" >$probes || bail "no first probe"
	attempt probe_beside write $probes "p a kernel_clone+5" "-a"
	echo "-first" >$probes
	rmmod ferrotrace_kprobe_events
fi

if any_wanted relay_; then
	keep "$FERROTRACE_KDIR/selftests-relay/module/relay_selftest.ko"
	attempt relay_open write $D/relay_selftest/ctl "open subbuf=4096 n=4" close
	attempt relay_open_global write $D/relay_selftest/ctl "open subbuf=4096 n=4 global=1" close
	rmmod relay_selftest
fi
if any_wanted fast_; then
	keep "$FERROTRACE_KDIR/selftests-relay_fast/module/relay_fast_selftest.ko"
	attempt fast_open write $D/relay_fast_selftest/ctl "open subbuf=4096 n=4 format=text" close
	rmmod relay_fast_selftest
fi

if any_wanted gkhi_; then
	keep "$FERROTRACE_KDIR/selftests-gkhi/module/gkhi_selftest.ko"
	gkhi=$D/gkhi_selftest/ctl
	attempt gkhi_register write $gkhi "register task_fork failing 0 1 0" "deregister failing"
	printf 'register task_fork failing 0 1 0' >$gkhi || bail "cannot register an exit"
	printf 'register task_exit failing_too 0 1 0' >$gkhi || bail "cannot register an exit"
	attempt gkhi_arm write $gkhi "arm failing failing_too" "disarm failing failing_too"
	printf 'deregister failing failing_too' >$gkhi
	rmmod gkhi_selftest
fi

if any_wanted tramp_; then
	# Where a trampoline cannot be made functions call something slower, so that most of these succeed.
	keep "$FERROTRACE_KDIR/selftests-ftrace_tramp/module/ftrace_tramp_selftest.ko"
	tramp=$D/ftrace_tramp_selftest/ctl
	attempt tramp_register write $tramp register unregister
	attempt tramp_attach write $tramp attach release
	# memory that the tracer keeps is allocated now
	echo function >/sys/kernel/tracing/current_tracer && echo nop >/sys/kernel/tracing/current_tracer
	# with others, so that functions get sets
	echo register >"$tramp"
	attempt tramp_tracer write /sys/kernel/tracing/current_tracer function nop
	echo unregister >"$tramp"
	rmmod ftrace_tramp_selftest
fi

if any_wanted dprobes_; then
	# Probe programs: each of these sets is loaded whole, or not at all.
	keep "$FERROTRACE_KDIR/selftests-dprobes/module/dprobes_selftest.ko"
	# The probed file is in memory. On the guest's root, a request without memory leaves a
	# number to the host that the guest takes for free (p9_client_clunk()), and then nothing can
	# be opened.
	dprobes_test=/dev/shm/dprobes_test
	cp "$FERROTRACE_KDIR/selftests-dprobes/dprobes_test" $dprobes_test
	$dprobes_test "sets=$work" || bail "no sets of probe programs"
	for set in kernel logging user watch later module two; do
		attempt dprobes_$set copy $D/ferrotrace_dprobes/control "$work/$set.set" "remove *"
	done
	if is_wanted dprobes_replace; then
		# A program that cannot replace another leaves it unchanged.
		cat "$work/kernel.set" >$D/ferrotrace_dprobes/control || bail "cannot load a program"
		attempt dprobes_replace copy $D/ferrotrace_dprobes/control "$work/replace.set" "reset *"
		echo "remove *" >$D/ferrotrace_dprobes/control
	fi
	# A work item arms the watchpoints that a program asks for. If it has no memory, the state
	# shows it, and the next "arm" tries again.
	in_work dprobes_arms 100 $dprobes_test arms
	rmmod dprobes_selftest
fi

if any_wanted klog_; then
	keep "$FERRO/clients/klog_relay.ko"
	attempt klog_create write $D/klog/create 1 0
	rmmod klog_relay
fi

if any_wanted jump_; then
	# Jumps in the place of breakpoints. Fails the allocations of a call that has to remove a
	# jump, or those of the work item.
	keep "$FERROTRACE_KDIR/selftests-kprobes/module/kprobes_selftest.ko" many=100
	if any_wanted jump_away_; then
		keep "$FERRO/ferrotrace_kprobe_events.ko"
		# Six instructions of two bytes.
		places=()
		for ((offset = 4; offset < 200 && ${#places[@]} < 6; offset++)); do
			echo "p try kst_jump+$offset" >$probes 2>/dev/null || continue
			echo "-try" >$probes
			if [ ${#places[@]} != 0 ] && [ $((offset - places[-1])) != 2 ]; then places=(); fi
			places+=("$offset")
		done
		for ((tries = 0; tries < 100; tries++)); do
			if [ $tries = 0 ]; then echo "p first kst_jump+${places[0]:-none}" >$probes || break; fi
			if grep -q 'kst_jump+.*OPTIMIZED' $D/kprobes/list; then break; fi
			sleep 0.1
		done
		if grep -q 'kst_jump+.*OPTIMIZED' $D/kprobes/list; then
			attempt jump_away_neighbour write $probes "p a kst_jump+${places[1]}" "-a"
			attempt jump_away_beside write $probes "p a kst_jump+${places[0]}" "-a"
			echo "-first" >$probes
		else
			result "not ok" fault_injection.jump_away_neighbour
		fi
		rmmod ferrotrace_kprobe_events
	fi
	for case in hit two post_joins neighbour around_joins many many_around; do in_work jump_$case 40 jumps jump.$case; done
	rmmod kprobes_selftest
fi

if [ -e $D/kmemleak ]; then
	# memory that was just freed or moved is young; a second scan finds leaks that the first
	# took for used
	sleep 6
	echo scan >$D/kmemleak
	sleep 1
	echo scan >$D/kmemleak
	cat $D/kmemleak >"$work/leaks"
	sed 's/^/# /' "$work/leaks" | head -n 100
	if [ -s "$work/leaks" ]; then result "not ok" fault_injection.leaks; else result ok fault_injection.leaks; fi
fi
finish
