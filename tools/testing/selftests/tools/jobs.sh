# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034
#
# Jobs of run.sh. Each writes its tool's output to $seen, and fails unless it shows the work: DIRS
# directories made, and removed, by one process each.

JOBS="perf-record perf-return perf-stat perf-trace perf-ftrace perf-graph perf-latency
	bpftrace-kprobe bpftrace-kretprobe bpftrace-multi bpftrace-fentry bpftrace-all bpftrace-stack
	trace-cmd-function trace-cmd-graph trace-cmd-kprobes
	bcc-execsnoop bcc-opensnoop bcc-funccount libbpf-execsnoop libbpf-funclatency
	blktrace"

DIRS=20
cat >/tmp/work <<'W'
#!/bin/bash
mkdir $(seq -f '/tmp/dir%g' 20)
rmdir $(seq -f '/tmp/dir%g' 20)
W
chmod +x /tmp/work

# counted: lines as "N LINE", in order.
counted() { sort | uniq -c | sed -E 's/^ *([0-9]+) /\1 /'; }

# expect LINE...: each is a line of the output.
expect() {
	local line
	cat "$seen"
	for line; do grep -qxF -- "$line" "$seen" || { echo "not seen: $line" && return 1; }; done
}

# expect_hits TEXT: a line with TEXT that was counted as often as there are directories.
expect_hits() {
	cat "$seen"
	grep -qE "^$DIRS .*$1" "$seen" || { echo "not $DIRS of $1" && return 1; }
}

# until_int CMD...: runs it in the background, where the shell would make it ignore the signal that
# ends it; for a limited time.
until_int() { exec env --default-signal=INT timeout -s INT 1200 "$@"; }

# wait_for_probe FUNCTION: until a tool has set a probe there, and some time more for the tool.
wait_for_probe() {
	for _ in $(seq 1000); do
		if grep -q "  $1+" /sys/kernel/debug/kprobes/list; then break; fi
		sleep 0.5
	done
	sleep 2
}

perf_events_off() { perf probe -q -d 'job:*' 2>/dev/null; true; }

perf_record() {
	perf_events_off
	perf probe -q --add 'job:made=vfs_mkdir' && perf probe -q --add 'job:removed=vfs_rmdir' &&
		perf record -q -o /tmp/perf.data -e 'job:*' -a -- /tmp/work && perf script -i /tmp/perf.data -F comm,event 2>/dev/null |
		sed -E 's/^ *//; s/ +/ /g; s/ $//' | counted >"$seen"
	perf_events_off
	expect "$DIRS mkdir job:made:" "$DIRS rmdir job:removed:"
}

perf_return() {
	perf_events_off
	# shellcheck disable=SC2016
	perf probe -q --add 'job:removed=vfs_rmdir%return $retval:s32' &&
		perf record -q -o /tmp/perf.data -e 'job:*' -a -- /tmp/work && perf script -i /tmp/perf.data -F comm,event,trace 2>/dev/null |
		sed -E 's/^ *//; s/ +/ /g; s/\([^)]*\) //' | counted >"$seen"
	perf_events_off
	expect_hits 'rmdir job:removed__return: arg1=0'
}

perf_stat() {
	perf_events_off
	perf probe -q --add 'job:made=vfs_mkdir' && perf stat -x ' ' -o /tmp/stat -e 'job:made' -a -- /tmp/work &&
		awk '/job/ { print $1, $2 }' /tmp/stat >"$seen"
	perf_events_off
	expect "$DIRS job:made"
}

# Calls and their return values; not the times.
perf_trace() {
	perf trace -o /tmp/trace -e mkdir,rmdir -- /tmp/work || return
	sed -E 's/^.*: ([a-z]+\/?[0-9]*)? ?((mk|rm)dir)\(.*\) *= /\2 /' /tmp/trace | counted >"$seen"
	expect "$DIRS mkdir 0" "$DIRS rmdir 0"
}

perf_ftrace() {
	perf ftrace trace -a -T 'vfs_mkdir' -T 'vfs_rmdir' -- /tmp/work 2>/dev/null | tee /tmp/ft |
		sed -n -E 's/.*: ([a-z_]+) <-.*/\1/p' | counted >"$seen"
	head -20 /tmp/ft
	expect "$DIRS vfs_mkdir" "$DIRS vfs_rmdir"
}

# Required lines of a graph of vfs_rmdir(). An interrupt makes a line with a brace of a function
# without others inside, and has its own locks and more: only the names of functions that it does
# not call.
RMDIR='.*(rmdir|dentry|dcache|d_delete)'

perf_graph() {
	perf ftrace trace -a -G 'vfs_rmdir' --graph-opts depth=2 -- /tmp/work 2>/dev/null | tee /tmp/ft |
		sed -n -E 's/.*\| +([a-z_0-9]+)\(\)( \{|;).*/\1/p' | counted | grep -E "^$DIRS $RMDIR" >"$seen"
	head -20 /tmp/ft
	expect_hits 'vfs_rmdir'
}

perf_latency() {
	perf ftrace latency -a -T vfs_mkdir -- /tmp/work >/tmp/latency || return
	cat /tmp/latency
	# The sum of its buckets.
	awk -F'|' '$2 ~ /[0-9]/ { n += $2 } END { print n, "vfs_mkdir" }' /tmp/latency >"$seen"
	expect "$DIRS vfs_mkdir"
}

# bt PROGRAM: bpftrace runs it with the work; its maps, a line each.
bt() {
	BPFTRACE_MAX_PROBES=4096 bpftrace -q -c '/bin/bash /tmp/work' -e "$1" >/tmp/bt.out 2>/tmp/bt.err ||
		{ cat /tmp/bt.out /tmp/bt.err && return 1; }
	cat /tmp/bt.err
	grep -v '^$' /tmp/bt.out | sort >"$seen"
}

bpftrace_kprobe() {
	bt 'kprobe:vfs_mkdir { @made[comm] = count(); } kprobe:vfs_rmdir { @removed[comm] = count(); }' &&
		expect "@made[mkdir]: $DIRS" "@removed[rmdir]: $DIRS"
}

bpftrace_kretprobe() {
	bt 'kprobe:vfs_rmdir { @at[tid] = 1; } kretprobe:vfs_rmdir /@at[tid]/ { @returned[comm, retval] = count(); delete(@at[tid]); }' &&
		expect "@returned[rmdir, 0]: $DIRS"
}

bpftrace_multi() {
	bt 'kprobe:vfs_* /comm == "mkdir" || comm == "rmdir"/ { @[comm, func] = count(); }' &&
		expect "@[mkdir, vfs_mkdir]: $DIRS" "@[rmdir, vfs_rmdir]: $DIRS"
}

bpftrace_fentry() {
	bt 'fentry:vfs_mkdir { @made[comm, str(args.dentry->d_name.name)] = count(); }
		fexit:vfs_rmdir { @removed[comm, retval] = count(); }' &&
		expect "@made[mkdir, dir7]: 1" "@removed[rmdir, 0]: $DIRS"
}

# All that a function can have at its entry and at its return.
bpftrace_all() {
	bt 'kprobe:vfs_mkdir { @kprobe[comm] = count(); } kretprobe:vfs_mkdir { @kretprobe[comm] = count(); }
		kprobe:vfs_mkdi* { @multi[comm] = count(); } fentry:vfs_mkdir { @fentry[comm] = count(); }
		fexit:vfs_mkdir { @fexit[comm] = count(); }' &&
		expect "@fentry[mkdir]: $DIRS" "@fexit[mkdir]: $DIRS" "@kprobe[mkdir]: $DIRS" "@kretprobe[mkdir]: $DIRS" "@multi[mkdir]: $DIRS"
}

bpftrace_stack() {
	bt 'kprobe:vfs_rmdir { @[kstack(6)] = count(); }' || return
	# One stack, as there is one path; without offsets.
	sed -E 's/\+[0-9]+$//' /tmp/bt.out >"$seen"
	cat "$seen"
	grep -q "^]: $DIRS\$" "$seen" && grep -q '^ *vfs_rmdir$' "$seen"
}

# tc ARGS...: trace-cmd records the work; its report: the task, and its function.
tc() {
	(cd /tmp && trace-cmd record -q -o /tmp/trace.dat "$@" /tmp/work >/tmp/tc.log 2>&1) || { cat /tmp/tc.log && return 1; }
	trace-cmd report -i /tmp/trace.dat >/tmp/tc.report 2>/tmp/tc.err || { cat /tmp/tc.err && return 1; }
	head -n 5 /tmp/tc.report
}

trace_cmd_function() {
	tc -p function -l 'vfs_mkdir' -l 'vfs_rmdir' || return
	sed -n -E 's/^ *([a-z]+)-[0-9]+ .*function: +([a-z_]+).*/\1 \2/p' /tmp/tc.report | counted >"$seen"
	expect "$DIRS mkdir vfs_mkdir" "$DIRS rmdir vfs_rmdir"
}

trace_cmd_graph() {
	tc -p function_graph -g 'vfs_rmdir' --max-graph-depth 2 || return
	sed -n -E 's/.*\| +([a-z_0-9]+)\(\)( \{|;).*/\1/p' /tmp/tc.report | counted | grep -E "^$DIRS $RMDIR" >"$seen"
	expect_hits 'vfs_rmdir'
}

trace_cmd_kprobes() {
	local events=/sys/kernel/tracing/kprobe_events
	# shellcheck disable=SC2016
	printf '%s\n' 'p:kprobes/made vfs_mkdir' 'r:kprobes/removed vfs_rmdir ret=$retval:s32' >$events || return
	tc -e kprobes
	sed -n -E 's/^ *([a-z]+)-[0-9]+ .* (made|removed): +\([^)]*\) *(.*)/\1 \2 \3/p' /tmp/tc.report | counted >"$seen"
	echo >$events
	expect "$DIRS mkdir made " "$DIRS rmdir removed ret=0"
}

# bcc NAME ARGS...: one of bcc's tools, which compiles its program against this kernel's headers, until it has seen enough of the work.
bcc() {
	local name=$1 pid
	shift
	PYTHONUNBUFFERED=1 until_int "$name" "$@" >/tmp/bcc.out 2>/tmp/bcc.err &
	pid=$!
	for _ in $(seq 1000); do
		sleep 1
		kill -0 $pid 2>/dev/null || break
		"${bcc_work:-/tmp/work}"
		if grep -q "$bcc_enough" /tmp/bcc.out; then sleep 2 && break; fi
	done
	kill -INT $pid 2>/dev/null
	wait $pid
	if grep -q 'sizeof(struct filename)' /tmp/bcc.err; then
		skip="bcc does not compile <linux/fs.h> of this kernel, which needs -fms-extensions"
		return 1
	fi
	head -n 30 /tmp/bcc.err
}

# The first call of the work that was seen as a whole; both show a program and 19 of its arguments.
bcc_execsnoop() {
	bcc_enough='dir19' bcc execsnoop-bpfcc -n mkdir || return 0
	grep -m 1 dir19 /tmp/bcc.out | awk '{ print $1, $4, $5 }' >"$seen"
	expect 'mkdir 0 /usr/bin/mkdir'
}

bcc_opensnoop() {
	bcc_enough='/tmp/no_such_file' bcc_work=/tmp/open bcc opensnoop-bpfcc -n cat || return 0
	grep -m 2 '/tmp/' /tmp/bcc.out | awk '{ print $2, $4, $5 }' | sort >"$seen"
	expect 'cat 2 /tmp/no_such_file'
}
printf '#!/bin/bash\ncat /tmp/no_such_file 2>/dev/null\ntrue\n' >/tmp/open
chmod +x /tmp/open

bcc_funccount() {
	local pid
	until_int funccount-bpfcc 'vfs_*dir' >/tmp/bcc.out 2>/tmp/bcc.err &
	pid=$!
	wait_for_probe vfs_rmdir
	/tmp/work
	kill -INT $pid
	wait $pid
	cat /tmp/bcc.err
	awk '/vfs_(mk|rm)dir/ { gsub(/^b.|\x27/, "", $1); print $2, $1 }' /tmp/bcc.out | sort >"$seen"
	expect "$DIRS vfs_mkdir" "$DIRS vfs_rmdir"
}

# libbpf-tools have their programs compiled, and fit them to the kernel by its types.
libbpf_execsnoop() {
	bcc_enough='dir19' bcc stdbuf -oL execsnoop-libbpf -n mkdir || return 0
	grep -m 1 dir19 /tmp/bcc.out | awk '{ print $1, $4, $5 }' >"$seen"
	expect 'mkdir 0 /usr/bin/mkdir'
}

# By fentry and fexit.
libbpf_funclatency() {
	local pid
	until_int stdbuf -oL funclatency-libbpf vfs_rmdir >/tmp/bpf.out 2>/tmp/bpf.err &
	pid=$!
	for _ in $(seq 1000); do
		if grep -q 'Tracing vfs_rmdir' /tmp/bpf.out || ! kill -0 $pid; then break; fi
		sleep 0.5
	done
	/tmp/work
	kill -INT $pid
	wait $pid
	cat /tmp/bpf.out /tmp/bpf.err
	# The sum of its buckets.
	awk '$2 == "->" { n += $5 } END { print n, "vfs_rmdir" }' /tmp/bpf.out >"$seen"
	expect "$DIRS vfs_rmdir"
}

blktrace() { "$here/../relay/blktrace.sh" "$seen"; }
