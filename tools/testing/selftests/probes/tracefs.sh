# SPDX-License-Identifier: GPL-2.0
#
# Facilities of tracefs: recorded events, and probes without our module. Part of run.sh.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck shell=bash disable=SC2016,SC2034,SC2154

# mount_tracing: tracefs, where it is not mounted.
mount_tracing() {
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
}

# Events of tracefs become a recording like any other.
events() {
	local format
	mount_tracing || return 1
	"$FERROTRACE" trace record -e sched:sched_switch -e 'sched:sched_process_e*' -o "$work/events" -- bash -c '/bin/true; exit 3' >"$work/out"
	is status 3 $? && cat "$work/out" && grep -q '^[1-9][0-9]* records, 0 lost$' "$work/out" || return 1
	"$FERROTRACE" relay merge "$work/events" >"$work/merged" || return 1
	grep 'sched_process_exec: .*filename=/bin/true ' "$work/merged" && grep -q 'sched_switch: .*prev_comm=[a-z].* next_pid=' "$work/merged" || return 1
	is records "$(sed -n 's/ records, .*//p' "$work/out")" "$(grep -c '^\[' "$work/merged")" || return 1
	for format in json chrome perfetto firefox parquet ctf ctf2; do
		"$FERROTRACE" export "$work/events" --format $format -o "$work/events.$format" && [ -s "$work/events.$format" ] || return 1
	done
	grep -q '"true-[0-9]*"' "$work/events.chrome" || return 1
	events_of_probes || return 1
	refused "no event matches sched:sched_swich; similar: sched:sched_switch" "$FERROTRACE" trace record -e sched:sched_swich -o "$work/none" || return 1
	is instances "" "$(ls /sys/kernel/tracing/instances)"
}

# Arrays, texts and arrays of texts, as probes and synthetic events have them.
events_of_probes() {
	local tracing=/sys/kernel/tracing
	program || return 1
	echo "p:tests/arrays $work/program:0x$(nm "$work/program" | sed -n 's/^0*\([0-9a-f]*\) T main$/\1/p') b=+0(%sp):u8[4] t=+0(+0(%si)):string[1]" \
		>$tracing/uprobe_events || return 1
	"$FERROTRACE" trace record -e tests:arrays -o "$work/arrays" -- "$work/program" </dev/null >"$work/out"
	is status 0 $? && echo >$tracing/uprobe_events && "$FERROTRACE" relay merge "$work/arrays" | tee "$work/merged" || return 1
	grep -q ' arrays: .* b={[0-9]*,[0-9]*,[0-9]*,[0-9]*} ' "$work/merged" || return 1
	[ -e $tracing/synthetic_events ] || return 0
	echo 'test_text char[] text; pid_t who' >$tracing/synthetic_events &&
		echo 'hist:keys=pid:t=filename:onmatch(sched.sched_process_exec).trace(test_text,$t,pid)' >$tracing/events/sched/sched_process_exec/trigger || return 1
	"$FERROTRACE" trace record -e synthetic:test_text -o "$work/synthetic" -- /bin/true >"$work/out"
	is status 0 $? || return 1
	echo '!hist:keys=pid:t=filename:onmatch(sched.sched_process_exec).trace(test_text,$t,pid)' >$tracing/events/sched/sched_process_exec/trigger
	echo >$tracing/synthetic_events
	"$FERROTRACE" relay merge "$work/synthetic" | tee "$work/merged" | grep ' test_text: .*text=/bin/true who='
}

# Without the module: kprobe_events of tracefs serves instead, where it exists.
stock() {
	local tracing=/sys/kernel/tracing left
	rmmod ferrotrace_kprobe_events || return 1
	mount_tracing || return 1
	if [ ! -e $tracing/kprobe_events ]; then
		refused "modprobe ferrotrace_kprobe_events" probe add kernel_clone || return 1
		load
		return
	fi
	is added "open do_sys_openat2_ret" "$(probe add 'open=do_sys_openat2 filename=+0($arg2):string32 dfd=$arg1:s32' \
		'do_sys_openat2%return f=+0($arg2):string $retval:s32 if $retval:s32==-2 && f~/nonex*' 2>"$work/err" | xargs)" || {
		cat "$work/err"
		return 1
	}
	grep -q "kprobe_events of tracefs serves instead" "$work/err" && probe list || return 1
	watching --json || return 1
	opens
	watched || return 1
	grep "\"pid\":$opener," "$work/out" >"$work/mine"
	cat "$work/mine"
	is reads 1 "$(grep -c "\"dfd\":-100,\"filename\":\"$work/read\".*\"comm\":\"bash\".*\"probe\":\"open\"" "$work/mine")" || return 1
	is failures 3 "$(grep -c '"f":"/nonexistent","ret":-2.*"duration_ns":[1-9].*"probe":"do_sys_openat2_ret","time":[1-9].*"to":"[^0].*+0x' "$work/mine")" || return 1
	is returns 3 "$(grep -c '"kind":"return"' "$work/mine")" || return 1
	# The command's own calls to prepare and to end are no hits.
	is "own hits" 0 "$(grep -c '"filename":"/sys/kernel/tracing' "$work/out")" || return 1
	probe list | grep -q '^do_sys_openat2_ret  return .* [1-9][0-9]*  .*  on ' || return 1
	refused "there is a probe open already" probe add open=do_exit && refused "the kernel has no function" probe add no_such_function &&
		refused "takes the module" probe add 'vfs_read%return if duration>5' && refused "takes the module" probe watch --regs || return 1
	probe remove open && probe remove --all || return 1
	if grep ferrotrace $tracing/kprobe_events; then return 1; fi
	# Values that cannot be read, and a text that can; a condition on the former does not hold.
	probe watch --json 'do_sys_openat2 n=+0(%di):u32 s=+0(%di):string t=+0($arg2):string' -- cat /dev/null >"$work/out" || return 1
	grep -q '"args":{"n":null,"s":null,"t":"/dev/null"}' "$work/out" || { cat "$work/out"; return 1; }
	is "on faults" 0 "$(probe watch --json 'do_sys_openat2 n=+0(%di):u32 if n==0' -- cat /dev/null | grep -c '"comm":"cat"')" || return 1
	worker 0 25
	begin_tool watching probe time --json -p "$worker" do_sys_openat2 || return 1
	watch=$tool_pid
	work
	watched || return 1
	tail -n 1 "$work/out" | grep -q '"hits":25,"key":{"place":"do_sys_openat2"},"max_ns":[1-9]' || return 1
	program && watching --json --stack=both 'do_sys_openat2 $arg1:s32' || return 1
	run_program && watched || return 1
	grep '"comm":"program"' "$work/out" | tail -n 1
	is stacks 5 "$(grep -c '"stack":\["do_sys_openat2+0x[01]",.*do_syscall_64+.*"ustack":\["inner+0x[^"]*","outer+0x[^"]*","main+' "$work/out")" || return 1
	left=$(cat $tracing/kprobe_events && ls $tracing/instances)
	is left "" "$left" && load
}
