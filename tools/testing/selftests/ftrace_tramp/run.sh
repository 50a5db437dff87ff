#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the selftests of ftrace's trampolines on the running kernel, as root, and prints KTAP.
#
#	run.sh [CASE...]	CASE: the beginning of a case's name; without one all
#
# The modules are in $FTRACE_TRAMP_SELFTESTS, the engine's module (if it is one) is in $FERROTRACE_KDIR.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
modules=${FTRACE_TRAMP_SELFTESTS:-$FERROTRACE_KDIR/selftests-ftrace_tramp/module}
self=$DEBUGFS/ftrace_tramp_selftest
list=$DEBUGFS/ftrace_tramp/list
sample=$FERROTRACE_KDIR/samples/ftrace/ftrace-ops.ko

load_file "$modules/ftrace_tramp_selftest.ko"
# Each unregistering waits.
echo 1 >/sys/kernel/rcu_expedited

ours() { [ -e $list ]; }
# The engine can be unloaded.
modular() { [ -e "$MODULE_DIR/rust_ftrace_tramp.ko" ]; }

# seen: how many trampolines the kernel knows of.
seen() { grep -c $' ftrace_trampoline\t\[__builtin__ftrace\]' /proc/kallsyms; }

# sees COUNT: waits until there are so many trampolines: unused ones of sets are freed after a grace
# period.
sees() {
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		if [ "$(seen)" = "$1" ]; then return 0; fi
		sleep 0.1
	done
	echo "$(seen) trampolines, not $1"
	return 1
}

# settled: waits until no trampoline waits to be freed.
settled() {
	local tries used
	ours || return 0
	for ((tries = 0; tries < 100; tries++)); do
		used=$(sed -n 's/.* trampolines \([0-9]*\)).*/\1/p' "${list%list}pool" | awk '{ sum += $1 } END { print sum + 0 }')
		if [ "$used" = "$(grep -c ' bytes' $list)" ]; then return 0; fi
		sleep 0.1
	done
	cat $list "${list%list}pool"
	return 1
}

# selected NAME [CASE...]: succeeds if the case was asked for.
selected() {
	local name=$1 want
	shift
	[ $# != 0 ] || return 0
	for want; do
		case $name in "$want"*) return 0 ;; *) ;; esac
	done
	return 1
}

# case_of NAME: the module's verdict on one of its cases.
case_of() {
	echo "$1" >$self/run || return 1
	cat $self/run
	case $(head -n 1 $self/run) in
	ok) ;;
	skipped) skip=$(sed -n 2p $self/run) ;;
	*) return 1 ;;
	esac
}

# sample KIND COUNT SETS PARAMETERS...: the kernel's sample counts right; while its ops are there so are COUNT trampolines of a
# KIND, and of our engine SETS for functions with several ops.
sample() {
	local kind=$1 count=$2 sets=$3 left kept
	shift 3
	dmesg -C
	# of the kernel's own ops, which stays when they go
	settled || return 1
	kept=$(seen)
	insmod "$sample" check_count=1 persist=1 nr_function_calls=10000 "$@" || return 1
	if ours; then
		cat $list
		[ "$(grep -c ' bytes, .* functions$' $list)" = "$sets" ] || return 1
		count=$((count + sets))
		[ "$(grep -c " $kind " $list)" = "$count" ] || return 1
	fi
	sees $((count + kept)) || return 1
	rmmod ftrace_ops || return 1
	if ours; then
		left=$(grep -c . $list)
		[ "$left" = 0 ] || return 1
	fi
	dmesg >"$work/said"
	cat "$work/said"
	grep -q "Attempted 10000 calls" "$work/said" && ! grep -q "Counter called" "$work/said"
}

# goes_and_comes COUNT SETS: unloads the engine and loads it again; while it is loaded it has COUNT
# trampolines and SETS for functions with several ops, and the kernel has no others.
goes_and_comes() {
	local count=$1 sets=$2
	rmmod rust_ftrace_tramp && sees "$count" || return 1
	load_ours rust_ftrace_tramp
	cat $list
	[ "$(grep -c ' bytes, .* functions$' $list)" = "$sets" ] || return 1
	count=$((count + sets))
	[ "$(grep -c . $list)" = "$count" ] && sees "$count"
}

# With ops that are registered without the engine and unregistered with it, and the other way round.
comes_and_goes() {
	local i
	for ((i = 0; i < 5; i++)); do
		rmmod rust_ftrace_tramp || return 1
		insmod "$sample" check_count=1 persist=1 nr_function_calls=100 || return 1
		load_ours rust_ftrace_tramp
		[ "$(grep -c . $list)" = 1 ] || return 1
		grep 'trampolines 1)' "${list%list}pool" || return 1
		goes_and_comes 1 0 || return 1
		rmmod ftrace_ops && [ "$(grep -c . $list)" = 0 ] || return 1
		insmod "$sample" check_count=1 persist=1 nr_function_calls=100 || return 1
		rmmod rust_ftrace_tramp || return 1
		rmmod ftrace_ops || return 1
		load_ours rust_ftrace_tramp
	done
	! grep -q . $list
}

# has_stubs STUBS TRAMPOLINES: so many functions have stubs, which go to so many trampolines.
has_stubs() {
	local pool=${list%list}pool
	cat $list "$pool"
	[ "$(grep -c ', with data of functions$' $list)" = "$2" ] || return 1
	[ "$(sed -n 's/^32 bytes:.* trampolines \([0-9]*\)).*/\1/p' "$pool" | grep . || echo 0)" = "$1" ]
}

# Functions have data (data.renew_1_begin) while the engine is unloaded and loaded.
data_stays() {
	local i
	has_stubs 5 2 || return 1
	for i in 1 2 3; do
		rmmod rust_ftrace_tramp || return 1
		case_of data.renew_2_same || return 1
		load_ours rust_ftrace_tramp
		has_stubs 5 2 || return 1
		case_of data.renew_2_same || return 1
		has_stubs 5 2 || return 1
	done
}

# Each function of the kernel has data of its own, while the kernel works; the engine's place for it is given back.
of_all_functions() {
	local tracing=/sys/kernel/tracing ctl=$self/ctl right
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	sed -n 's/^\([0-9a-f]\{16\}\) .*/\1/p' $tracing/available_filter_functions_addrs >"$work/functions"
	wc -l <"$work/functions"
	[ "$(wc -l <"$work/functions")" -gt 10000 ] || return 1
	right=$(work_of_the_kernel)
	echo "attach_all file=$work/functions" >$ctl || return 1
	if ours; then has_stubs $(($(wc -l <"$work/functions") - 1)) 1 || return 1; fi
	echo call >$ctl && [ "$(work_of_the_kernel)" = "$right" ] && echo call >$ctl || return 1
	if modular && [ -e /sys/module/rust_ftrace_tramp ]; then
		rmmod rust_ftrace_tramp && echo call >$ctl || return 1
		load_ours rust_ftrace_tramp
		echo call >$ctl || return 1
	fi
	echo detach_all >$ctl && [ "$(work_of_the_kernel)" = "$right" ] || return 1
	if ours; then has_stubs 0 0; fi
}

# A function of an unloaded module is detached with another one, by the addresses that they were
# attached by: functions, with sites behind their landing pads.
of_a_module_gone() {
	local ctl=$self/ctl name
	insmod "$sample" nr_ops_relevant=0 persist=1 || return 1
	for name in fts_a tracee_relevant; do
		awk -v name=$name '$3 == name { print $1; exit }' /proc/kallsyms
	done >"$work/functions"
	[ "$(wc -l <"$work/functions")" = 2 ] || return 1
	echo "attach_all file=$work/functions" >$ctl && echo call >$ctl && rmmod ftrace_ops && echo call >$ctl && echo detach_all >$ctl
}

# While functions are called (renew.1_begin), and the function tracer, whose ops stays, has been on
# or is.
under_load() {
	local tracing=/sys/kernel/tracing i rounds
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	echo "$(wc -l <$list) trampolines"
	rounds=$(storm_rounds 5)
	for ((i = 0; i < rounds; i++)); do goes_and_comes 4 1 || return 1; done
	echo 'vfs_*' >$tracing/set_ftrace_filter && echo function >$tracing/current_tracer || return 1
	goes_and_comes 5 1 || return 1
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	# an unregistered one is freed
	goes_and_comes 4 1
}

# The engine is unloaded and loaded a hundred times while functions are called (renew.1_begin).
hundred_rounds() {
	local i
	for ((i = 0; i < 100; i++)); do goes_and_comes 4 1 >"$work/round" || { cat "$work/round"; return 1; }; done
}

# The engine is unloaded and loaded while batches fail, and while functions are diverted
# (leaving.1_begin).
leaves() {
	local i
	for ((i = 0; i < 3; i++)); do rmmod rust_ftrace_tramp && load_ours rust_ftrace_tramp || return 1; done
}

# A trampoline that a task is in stays in /proc/kallsyms, although its ops is being unregistered.
named_while_executed() {
	local ctl=$self/ctl before within
	settled || return 1
	before=$(seen)
	echo spin >$ctl || return 1
	echo unspin >$ctl &
	sleep 0.3
	within=$(seen)
	echo 1 >$self/spun
	wait $! && echo "$before trampolines, $within with a task in one, $(seen) after" && [ "$within" = $((before + 1)) ] && sees "$before"
}

# A filter does not keep the address of a function of an unloaded module: code that is loaded there
# is not traced.
forgets_a_module() {
	local ctl=$self/ctl first second
	insmod "$sample" nr_ops_relevant=0 persist=1 nr_function_calls=10 && first=$(address_of tracee_relevant) &&
		echo "watch at=0x$first" >$ctl && rmmod ftrace_ops || return 1
	insmod "$sample" nr_ops_relevant=0 persist=1 nr_function_calls=10 && second=$(address_of tracee_relevant)
	rmmod ftrace_ops && echo "unwatch calls=0" >$ctl || return 1
	if [ "$first" != "$second" ]; then skip="the module came to another address"; fi
}
address_of() { awk -v name="$1" '$3 == name { print $1; exit }' /proc/kallsyms; }

# enabled_functions names the targets of functions: stubs of functions with data, and trampolines of
# sets.
names_what_is_called() {
	local tracing=/sys/kernel/tracing ctl=$self/ctl what
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	for what in attach register; do
		echo $what >$ctl || return 1
		sed -n 's/^\(fts_[a-z]*\) .*tramp: \(0x[0-9a-f]*\).*/\1 \2/p' $tracing/enabled_functions >"$work/named"
		cat $self/called >"$work/called"
		grep '^fts_' $tracing/enabled_functions
		cat "$work/called"
		if [ $what = attach ]; then echo release >$ctl; else echo unregister >$ctl; fi || return 1
		# Mainline's have the list function where they have several ops.
		if ours || [ $what = attach ]; then diff <(sort "$work/named") <(awk '{ print $1, $NF }' "$work/called" | sort) || return 1; fi
	done
}

# How long a stack trace takes does not depend on how many sets there are.
traced_with_many_sets() {
	local tracing=/sys/kernel/tracing ctl=$self/ctl result=0
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	sed -n 's/^\([0-9a-f]\{16\}\) .*/\1/p' $tracing/available_filter_functions_addrs | tail -n 2100 >"$work/functions"
	echo trace_few >$ctl && echo "many_sets file=$work/functions" >$ctl || return 1
	grep -c ' 2 ops, ' $list
	echo trace_many >$ctl || result=1
	dmesg | grep 'stack trace: ' | tail -n 1
	echo few_sets >$ctl && return $result
}

# of_all: how many functions have the set of two ops that trace all.
of_all() { sed -n 's/.* 2 ops, \([0-9]*\) functions$/\1/p' $list | sort -n | tail -n 1; }

# A module is loaded and unloaded while two ops trace all functions: its functions have the same
# set. Nothing is recorded.
of_modules() {
	local tracing=/sys/kernel/tracing before with left
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	mkdir $tracing/instances/too
	echo 0 >$tracing/tracing_on && echo 0 >$tracing/instances/too/tracing_on || return 1
	echo function >$tracing/current_tracer && echo function >$tracing/instances/too/current_tracer || return 1
	# a third has a filter, of all existing functions: only those of the module have the two
	mkdir $tracing/instances/three || return 1
	echo 0 >$tracing/instances/three/tracing_on
	echo '*' >$tracing/instances/three/set_ftrace_filter && echo function >$tracing/instances/three/current_tracer || return 1
	insmod "$sample" check_count=1 persist=1 nr_function_calls=10 || return 1
	cat $list
	[ -n "$(of_all)" ] || return 1
	rmmod ftrace_ops || return 1
	echo nop >$tracing/instances/three/current_tracer
	rmdir $tracing/instances/three
	before=$(of_all)
	insmod "$sample" check_count=1 persist=1 nr_function_calls=10 || return 1
	with=$(of_all)
	rmmod ftrace_ops || return 1
	left=$(of_all)
	echo nop >$tracing/instances/too/current_tracer
	echo nop >$tracing/current_tracer
	rmdir $tracing/instances/too
	echo 1 >$tracing/tracing_on
	cat $list
	echo "$before functions, $with with the module, $left without"
	[ "$with" -gt "$before" ] && [ "$left" = "$before" ] && [ -z "$(of_all)" ]
}

# work_of_the_kernel: prints the same text each time, if the kernel works.
work_of_the_kernel() {
	tar -C "$here" -cf - . | sha256sum
	find "$here" -type f | sort | xargs cat | sha256sum
	for _ in 1 2 3 4 5; do /bin/true || echo failed; done
}

# The kernel works while ops are registered and unregistered on its functions (storm.1_begin), and
# while other tracers, modules and our engine are loaded and unloaded. The engine waits for ftrace
# as many times as there are trampolines, some 20 s, so twice at most.
stormy() {
	local tracing=/sys/kernel/tracing i rounds right
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	right=$(work_of_the_kernel)
	rounds=$(storm_rounds 9)
	for ((i = 0; i < rounds; i++)); do
		[ "$(work_of_the_kernel)" = "$right" ] || return 1
		case $((i % 3)) in
		0)
			echo 'vfs_*' >$tracing/set_graph_function && echo function_graph >$tracing/current_tracer || return 1
			;;
		1)
			echo $$ >$tracing/set_ftrace_pid && echo 'vfs_* dput' >$tracing/set_ftrace_filter &&
				echo function >$tracing/current_tracer || return 1
			;;
		2)
			insmod "$sample" nr_function_calls=100 persist=1 || return 1
			rmmod ftrace_ops || return 1
			if modular && { [ $i = 2 ] || [ $i = 8 ]; }; then rmmod rust_ftrace_tramp && load_ours rust_ftrace_tramp; fi || return 1
			;;
		esac
		[ "$(work_of_the_kernel)" = "$right" ] || return 1
		echo nop >$tracing/current_tracer
		echo >$tracing/set_ftrace_pid
		echo >$tracing/set_ftrace_filter
		echo >$tracing/set_graph_function
	done
}

# some NAME CMD...: a check, if it was asked for.
some() {
	if selected "$1" "${wanted[@]}"; then check "$@"; fi
}

wanted=("$@")
echo "TAP version 13"
mapfile -t cases <$self/cases
[ ${#cases[@]} != 0 ] || bail "no cases"
for name in "${cases[@]}"; do
	# At the end: the kernel's own tracers leave trampolines, which others do not expect.
	case $name in storm.*) continue ;; *) ;; esac
	# The first case is about mainline's.
	if [ "$name" != "${cases[0]}" ]; then load_ours rust_ftrace_tramp; fi
	if [ "$name" = data.stub ] && ! ours; then
		if selected "$name" "${wanted[@]}"; then skipped "$name" "mainline's engine"; fi
		continue
	fi
	some "$name" case_of "$name"
	if ! ours || ! modular; then continue; fi
	case $name in
	renew.1_begin)
		some renew.goes_and_comes under_load
		# Takes minutes: only if asked for.
		if [ ${#wanted[@]} != 0 ]; then some renew.hundred_rounds hundred_rounds; fi
		;;
	leaving.1_begin) some leaving.comes_and_goes leaves ;;
	data.renew_1_begin) some data.renew_stays data_stays ;;
	data.renew_3_end) some data.nothing_stays has_stubs 0 0 ;;
	*) ;;
	esac
done
some data.of_all_functions of_all_functions
some data.of_a_module_gone of_a_module_gone
some data.names_what_is_called names_what_is_called
some one.named_while_executed named_while_executed
some one.forgets_a_module forgets_a_module
if ours; then some sets.many traced_with_many_sets; fi
some sample.one sample plain 1 0 nr_ops_relevant=1
some sample.regs sample regs 1 0 nr_ops_relevant=1 save_regs=1
some sample.others sample plain 21 0 nr_ops_relevant=1 nr_ops_irrelevant=20
some sample.several sample regs 8 1 nr_ops_relevant=8 save_regs=1 assist_recursion=0
if ours; then
	some sets.of_modules of_modules
	if modular; then some engine.comes_and_goes comes_and_goes; fi
fi
some storm.1_begin case_of storm.1_begin
some storm.the_kernel_works stormy
some storm.2_end case_of storm.2_end
finish
