#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel without our patches, as root: the verbs on tracepoints and system calls, which tracefs serves: hits, fields,
# conditions, exact counts, times, recordings, and messages. $FERROTRACE is the command.

# shellcheck source=tools/testing/selftests/stock/lib.sh
. "$(dirname "$0")/lib.sh"
unset FERROTRACE_NO_NOTES

mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing

run 0 watch 'sched:sched_switch prev_state next_comm if prev_state!=0 && (next_comm~"kw*" || next_comm~"swapper/*")' -n 3
has 'sched:sched_switch prev_state=[A-Z|]+ next_comm="(kw|swapper/)' out
has '^3 hits, 0 lost$' out
run 0 watch syscall:openat -- cat /etc/hostname
has 'cat-[0-9]+ syscall:openat = [0-9]+, [0-9.]+ us dfd=-100 filename="/etc/hostname" flags=O_RDONLY mode=0$' out
run 2 watch 'syscall:newfstatat if ret<0' 'syscall:statx if ret<0' -- ls /nonexistent
has '= -2 \(ENOENT\).*"/nonexistent"' out
run 0 watch 'syscall:openat filename if filename~"/etc/host*"' --json -- cat /etc/hostname
has '"kind":"tracepoint"' out
has '"summary":.*"lost":\{"in_kernel":0,"overwritten":0\}' out

# Every call is counted.
run 0 count syscall:read --by comm -c dd -i 60s -- dd if=/dev/zero of=/dev/null bs=1 count=20003
reads=$(awk '$2 == "dd" { print $1 }' "$work/out" | tail -n 1)
if [ "${reads:-0}" -lt 20003 ] || [ "$reads" -ge 20020 ]; then
	cat "$work/out"
	bail "$reads reads"
fi
run 0 count syscall:read --by ret,comm --json -c dd -i 60s -- dd if=/dev/zero of=/dev/null bs=1 count=777
has '"hits":777,"key":\{"comm":"dd","ret":"1"\}|"key":\{"comm":"dd","ret":"1"\},"hits":777' out
run 0 count sched:sched_switch --by next_comm,prev_state -d 1s -i 60s
has '[0-9]+  swapper/0 S' out
run 0 time syscall:openat -i 60s -- ls /usr
has 'syscall:openat$' out
run 0 stack sched:sched_switch --folded -d 500ms
has ';schedule|;__schedule' out

# Sums by histogram triggers, and figures of records.
dd=(dd if=/dev/zero of=/dev/null bs=1003 status=none)
run 0 count syscall:write --by comm --sum count -c dd --json -i 60s -- "${dd[@]}" count=777
has '"hits":777,"key":\{"comm":"dd"\},"max":null,"min":null,"sum":779331,' out
run 1 count syscall:openat --by comm --sum ret --json -i 60s -- cat /nonexistent
has '"hits":3,"key":\{"comm":"cat"\},"max":null,"min":null,"sum":4,' out
run 1 count syscall:openat --by comm --hist ret --json -c cat -i 60s -- cat /nonexistent
has '"histogram":\[\{"from":-2,"hits":1,"to":-2\},\{"from":3,"hits":2,"to":3\}\],"hits":3,"key":\{"comm":"cat"\},"max":3,"min":-2,"sum":4,' out
run 0 count syscall:write --max count --sum count -c dd --json -i 60s -- "${dd[@]}" count=50
has '"hits":50,"key":\{"place":"syscall:write"\},"max":1003,"min":1003,"sum":50150,' out
run 0 count sched:sched_switch --hist prev_state --json -d 500ms -i 60s
has '"histogram":\[\{"from":0,"hits":[0-9]+,"to":0\}' out

# A recording, with a filter.
run 0 record sched:sched_switch 'syscall:openat if filename~"/etc/*"' -o "$work/rec" -- cat /etc/hostname
run 0 show "$work/rec" --json
has '/etc/hostname' out
! grep -q 'libc.so' "$work/out" || bail "the filter has no effect"

# Probes and tracepoints in the order of time.
run 0 watch do_sys_openat2 syscall:openat -- cat /etc/hostname
[ "$(awk '/syscall:openat|do_sys_openat2/ && /^\[/ { print $2 }' "$work/out" | sort -gc 2>&1)" = "" ] || bail "not in order"

# Functions without our module, by histogram triggers of probes of tracefs: every call is counted.
no_module=/etc/modprobe.d/ferrotrace-verbs.conf
trap 'rm -rf "$work" $no_module' EXIT
mkdir -p /etc/modprobe.d
echo "install ferrotrace_kprobe_events /bin/false" >$no_module
if [ -d /sys/module/ferrotrace_kprobe_events ]; then rmmod ferrotrace_kprobe_events; fi
run 0 count 'vfs_read n=%dx:u64 if n==1003' --by n,comm,place -v --json -i 60s -- "${dd[@]}" count=20003
has '"hits":20003,"key":\{"comm":"dd","n":"1003","place":"vfs_read"\}' out
has '"lost":\{"in_kernel":0\},"missed":0' out
has 'functions: the same histograms' err
run 0 count 'vfs_read n=%dx:u64 if n==1003' --by pid --sum n --json -i 60s -- "${dd[@]}" count=20003
has '"avg":1003.0,"hits":20003,.*"sum":20063009,' out
run 0 count 'set_user_nice n=%si:s32 if comm==nice' --by n --sum n --json -i 60s -- nice -n -7 true
has '"hits":1,"key":\{"n":"-7"\},"max":null,"min":null,"sum":-7,' out
run 1 count do_sys_openat2%return --by errno,comm --json -i 60s -- cat /nonexistent
has '"hits":1,"key":\{"comm":"cat","errno":"ENOENT"\}' out
run 1 count 'do_sys_openat2 f=+0(%si):string' --by f --json -i 60s -- cat /nonexistent
has '"hits":1,"key":\{"f":"\\"/nonexistent\\""\}' out
run 0 count 'vfs_*' -i 60s -- ls /usr
has '[0-9]  vfs_getattr' out
# Histograms of values, and numbers behind pointers, are made of records.
run 0 count 'vfs_read n=%dx:u64 if n==1003' --hist n --json -i 60s -- "${dd[@]}" count=50
has '"histogram":\[\{"from":960,"hits":50,"to":1023\}\],"hits":50,"key":\{"place":"vfs_read"\},"max":1003,"min":1003,' out
run 0 count 'vfs_read n=%dx:u64 bad=+0(%dx):u64 if n==1003' --by bad --json -i 60s -- "${dd[@]}" count=50
has '"hits":50,"key":\{"bad":"\(fault\)"\}' out
! grep ferrotrace /sys/kernel/tracing/kprobe_events || bail "probes are left"

# Messages.
run 1 watch sched:sched_swich
has 'no tracepoint matches sched:sched_swich; similar: .*sched:sched_switch' err
run 1 watch 'sched:sched_switch x'
has 'sched:sched_switch has no field x; it has .*prev_comm' err
run 1 watch 'sched:sched_switch if prev_state==Q'
has 'neither a number nor a name' err
run 1 time sched:sched_switch
has 'an event has no duration' err
run 1 count sched:sched_switch --sum next_comm
has 'sched:sched_switch: next_comm is not a number' err
run 1 count sched:sched_switch --sum nothing
has 'has no field nothing' err
run 0 probe list
has 'note: probe add, list and remove is an old spelling; .*ferrotrace kernel probes' err

[ -z "$(ls /sys/kernel/tracing/instances)" ] || bail "an instance is left"
echo "all verbs work"
