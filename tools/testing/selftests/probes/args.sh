# SPDX-License-Identifier: GPL-2.0
#
# Arguments, conditions, patterns of names, and sums by keys. Part of run.sh.
# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154
# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154

# types: the types of some functions of the kernel, in $work/types.so, as DWARF, and where there is pahole as BTF in $work/btf.
types() {
	[ -e "$work/types.so" ] && return
	cat >"$work/types.c" <<-END
		struct open_how { unsigned long long flags, mode, resolve; };
		int do_sys_openat2(int dfd, const char *filename, struct open_how *how)
		{
			return dfd + *filename + (int)how->flags;
		}
	END
	gcc -g -O1 -shared -fPIC -nostdlib -o "$work/types.so" "$work/types.c" || return 1
	if type pahole >/dev/null 2>&1; then pahole --btf_encode_detached="$work/btf" "$work/types.so" || return 1; fi
}

# opens: a process, $opener, opens $work/read and $work/written, and fails to open others.
opens() {
	: >"$work/read"
	bash -c 'exec 2>/dev/null
		echo $$ >"$1"
		for i in 1 2 3; do : </nonexistent; done
		: <"$2/read"
		: >"$2/written"' opener "$work/opener" "$work"
	read -r opener <"$work/opener"
}

# Arguments by their names, and fields of structures; also by the types that the running kernel has of its own, if it has them.
named_args() {
	local how line ways
	types || return 1
	ways=("--vmlinux $work/types.so")
	if [ -e "$work/btf" ]; then ways+=("--btf $work/btf"); fi
	if [ -e /sys/kernel/btf/vmlinux ]; then ways+=(""); fi
	for how in "${ways[@]}"; do
		probe add $how 'open=do_sys_openat2 filename:string dfd flags=how->flags:x64' &&
			probe add $how 'ret=do_sys_openat2%return filename $retval' || return 1
		cat "$PROBES"
		watching --json || return 1
		opens
		watched >/dev/null || return 1
		grep "\"pid\":$opener," "$work/out" >"$work/mine"
		# O_LARGEFILE is 0x8000, and O_WRONLY|O_CREAT|O_TRUNC 0x241.
		for line in 'read","flags":"0x8000"' 'written","flags":"0x8241"'; do
			is "$line" 1 "$(grep -c "\"dfd\":-100,\"filename\":\"$work/$line.*\"probe\":\"open\"" "$work/mine")" || {
				cat "$work/mine"
				return 1
			}
		done
		is failures 3 "$(grep -c '"filename":"/nonexistent","ret":-2.*"probe":"ret"' "$work/mine")" || return 1
		probe remove --all || return 1
	done
	refused "do_sys_openat2 has no parameter name; it has dfd, filename, how" \
		probe add --vmlinux "$work/types.so" "do_sys_openat2 name" || return 1
	refused "struct open_how has no member flag; it has flags, mode, resolve" \
		probe add --vmlinux "$work/types.so" "do_sys_openat2 how->flag"
}

# The same by registers, which need no types; recorded and merged events have their names.
raw_args() {
	probe add 'open=do_sys_openat2 dfd=%di:s32 file=+0(%si):string how=+0(%dx):x64 nowhere=+0(%ip) stack=$stack0:symbol' \
		'do_sys_openat2%return name=+0($arg2):string32 $retval:s64' || return 1
	probe list
	probe list | grep -q 'reads$' || return 1
	opens
	probe remove do_sys_openat2.ret || return 1
	"$FERROTRACE" relay record $DIR/cpu -o "$work/args" --duration 0.2 -q || return 1
	put '-*'
	"$FERROTRACE" relay merge "$work/args" >"$work/merged" || return 1
	grep -m 3 "pid=$opener " "$work/merged"
	is opens 1 "$(grep -c " open: pid=$opener comm=bash .* dfd=-100 file=$work/read how=0x8000 .* faults=1*[0-9]$" "$work/merged")"
}

# Conditions are judged in the kernel.
filtered() {
	local kinds
	probe add 'e=do_sys_openat2%return $retval:s32 f=+0($arg2):string if $retval:s32==-2 && f~/nonex* && comm==bash' \
		'w=do_sys_openat2 if +0(%dx)&0x40 && +0(%si):string~*/written' 'none=do_sys_openat2 if pid==1' 'slow=do_sys_openat2%return if duration>60000000000' || return 1
	cat "$PROBES"
	watching --json || return 1
	opens
	watched >/dev/null || return 1
	kinds=$(grep "\"pid\":$opener," "$work/out" | sed 's/.*"probe":"\([a-z]*\)".*/\1/' | sort | uniq -c | xargs)
	is hits "3 e 1 w" "$kinds" && is slow 0 "$(field slow hits)" && is none 0 "$(field none hits)" &&
		is e 3 "$(field e hits)" || return 1
	probe remove --all || return 1
	# A watch of one process has the kernel leave the others out.
	watching -p 1 do_sys_openat2 && grep -q ' if=pid==1$' "$PROBES" && opens && watched && grep -q '^do_sys_openat2: 0 events' "$work/out"
}

# A pattern adds all that can be probed.
pattern() {
	local n
	probe add -r 'vfs_*' >"$work/names" 2>"$work/err"
	cat "$work/err"
	n=$(wc -l <"$work/names")
	is probes "$n" "$(wc -l <"$PROBES")" || return 1
	[ "$n" -gt 20 ] && grep -qx vfs_read.ret "$work/names" || return 1
	cat /proc/uptime
	[ "$(field vfs_read.ret hits)" -gt 0 ] && put '-*' || return 1
	refused "no function matches nosuch_*" probe add 'nosuch_*' && told_of_refused
}

# Functions of a pattern that the kernel refuses are reported, in the same words for probes that
# stay and probes that are watched.
told_of_refused() {
	local told='functions that match have no probe; the last: no probe at exc_'
	is names do_exit "$(probe add 'exc_*' do_exit 2>"$work/err")" && grep "$told" "$work/err" && put '-*' || return 1
	probe watch -d 0.1 'exc_*' do_exit >"$work/out" 2>"$work/err" && grep "$told" "$work/err" && grep '^do_exit: ' "$work/out" || return 1
	refused "no probe at exc_" probe watch -d 0.1 'exc_*'
}

# Hits and times are added up, exactly, by keys.
summaries() {
	worker 20 15
	begin_tool watching probe count --json --by comm,place -p "$worker" kernel_clone do_sys_openat2 || return 1
	watch=$tool_pid
	work
	watched || return 1
	tail -n 1 "$work/out" | grep -q '{"hits":20,"key":{"comm":"bash","place":"kernel_clone"}}' || return 1
	worker 0 25
	begin_tool watching probe time --json -p "$worker" 'do_sys_openat2 $retval:s32 if $retval:s32==-2' --by ret || return 1
	watch=$tool_pid
	work
	watched || return 1
	tail -n 1 "$work/out" | grep -q '"hits":25,"key":{"ret":"-2 (ENOENT)"},"max_ns":[1-9]' &&
		tail -n 1 "$work/out" | grep -q '"histogram":\[{"from_ns":[1-9]' || return 1
	# From one probe to another: each open of the worker looks up its path once.
	worker 0 25
	begin_tool watching probe time -p "$worker" --since do_sys_openat2 path_openat || return 1
	watch=$tool_pid
	work
	watched || return 1
	grep -q '^in all, .* s: 25 hits, 0 dropped$' "$work/out" && grep -q ' - .* [1-9][0-9]*  ##*$' "$work/out" || return 1
	refused "without an offset" probe time kernel_clone+4 && refused "not a pattern" probe time --since 'vfs_*' vfs_read
}
