#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probes from user space on the running kernel: the module ferrotrace_kprobe_events and "ferrotrace probe". Run as root in a
# guest, with FERROTRACE set to the command; arguments choose cases by the start of their names. Prints KTAP.
# Functions are called by check(); $retval is one of the kernel's words.
# shellcheck disable=SC2016,SC2317,SC2329,SC2086
# Not pipefail: a refusal is looked for in what fails.
set -u

: "${FERROTRACE:?}"
# shellcheck source=tools/testing/selftests/lib/kit.sh
. "$(dirname "$(readlink -f "$0")")/../lib/kit.sh"
KO=$MODULE_DIR
DIR=/sys/kernel/debug/ferrotrace_kprobe_events
PROBES=$DIR/probes
cases=("$@")

wanted() {
	local prefix
	[ ${#cases[@]} = 0 ] && return
	for prefix in "${cases[@]}"; do [[ $1 == "$prefix"* ]] && return; done
	return 1
}

# Each check begins without probes, and leaves none.
after() { none_left; }

# one NAME CMD...: a check, if it was asked for.
one() {
	wanted "$1" || return
	check "$@"
	kill_jobs
	[ -e $DIR ] || load
	put '-*'
}

# once NAME CMD...: a check of what is the same on each kernel, where storms are long.
once() { [ "${FERROTRACE_STORM:-long}" = short ] || one "$@"; }

load() { insmod "$KO/ferrotrace_kprobe_events.ko" "$@"; }
probe() { "$FERROTRACE" probe "$@"; }

# put LINE: a command to the kernel, in one write.
put() { printf '%s\n' "$1" >"$PROBES"; }

none_left() {
	[ -e $DIR ] || return 0
	[ -z "$(cat "$PROBES")" ] || {
		echo "left:"
		cat "$PROBES"
		return 1
	}
}

# field NAME KEY: of a probe, as the kernel lists it.
field() { sed -n "s/^.* name=$1 .*\b$2=\([^ ]*\).*/\1/p" "$PROBES"; }

# is WHAT WANT GOT
is() {
	[ "$2" = "$3" ] || { echo "$1: $3, not $2"; return 1; }
}

# watching ARGS...: a watch in the background, $watch, with its output in $work/out.
watching() {
	begin_tool watching probe watch "$@" || return 1
	watch=$tool_pid
}

# watched: ends it.
watched() {
	if ! kill -INT "$watch" || ! wait "$watch"; then
		cat "$work/err"
		return 1
	fi
	tail -n 1 "$work/out"
}

# worker FORKS OPENS: a process in the background, $worker, that will fork and fail to open so often.
worker() {
	rm -f "$work/go" "$work/ready"
	mkfifo "$work/go"
	# shellcheck disable=SC2016
	bash -c 'exec 2>/dev/null
		: >"$2"
		read -r _ <"$1"
		for ((i = 0; i < $3; i++)); do (:); done
		for ((i = 0; i < $4; i++)); do : </nonexistent; done
		true' worker "$work/go" "$work/ready" "$1" "$2" &
	worker=$!
	until [ -e "$work/ready" ]; do sleep 0.1; done
}

# work: has the worker work.
work() {
	echo >"$work/go"
	wait "$worker"
}

# mine PATTERN: lines of the watch about the worker.
mine() { grep -c "\"pid\":$worker,.*$1\|$1.*\"pid\":$worker,"  "$work/out"; }

# What is written for each command, and that it changes nothing when it is refused.
lines() {
	local line errno
	put 'p a kernel_clone' && put 'r b do_sys_openat2' && put 'p c kernel_clone' || return 1
	cut -d ' ' -f 1-4 "$PROBES" | sed 's/id=[0-9]* //' >"$work/list"
	cat "$work/list"
	diff - "$work/list" <<-END || return 1
		name=a kind=probe place=kernel_clone
		name=b kind=return place=do_sys_openat2
		name=c kind=probe place=kernel_clone
	END
	while IFS=: read -r errno line; do
		refused "$errno" put "$line" || { echo "'$line'"; return 1; }
		cut -d ' ' -f 1-4 "$PROBES" | sed 's/id=[0-9]* //' | diff "$work/list" - || return 1
	done <<-END
		Invalid argument:
		Invalid argument:p
		Invalid argument:p x
		Invalid argument:p x kernel_clone and more
		Invalid argument:p x kernel_clone a=%zz
		Invalid argument:p x kernel_clone a=\$retval
		Invalid argument:p x kernel_clone a=%di a=%si
		Invalid argument:p x kernel_clone if b==1
		Invalid argument:q x kernel_clone
		Invalid argument:p x/y kernel_clone
		Invalid argument:p x kernel_clone+
		Invalid argument:p x kernel_clone+0xg
		Invalid argument:p x kernel_clone+-1
		Invalid argument:r x kernel_clone+4
		Invalid argument:-
		Invalid argument:- a
		Invalid argument:p $(printf 'x%.0s' {1..64}) kernel_clone
		Invalid argument:p x $(printf 'x%.0s' {1..2000})
		File exists:p a do_exit
		File exists:r a do_exit
		No such file:-x
		No such file:p x there_is_no_such_function
		No such file:r x there_is_no_such_function
		Invalid argument:p x exc_int3
		Invalid or incomplete:p x kernel_clone+1
	END
	put '-b' && is names "a c" "$(sed 's/.*name=\([^ ]*\).*/\1/' "$PROBES" | xargs)" || return 1
	put 'p b do_exit' && put '-*'
}

# Several lines in a write: those up to the first that fails are done, and the write returns how many bytes these are.
batches() {
	python3 - "$PROBES" <<-'END'
		import errno, os, sys
		def write(text):
		    fd = os.open(sys.argv[1], os.O_WRONLY)
		    try:
		        return os.write(fd, text.encode())
		    except OSError as error:
		        return errno.errorcode[error.errno]
		    finally:
		        os.close(fd)
		def names():
		    with open(sys.argv[1]) as probes:
		        return [line.split(" name=")[1].split(" ")[0] for line in probes]
		def same(what, got, want):
		    if got != want:
		        sys.exit("%s: %r, not %r" % (what, got, want))
		with open("/proc/kallsyms") as kallsyms:
		    words = [line.split() for line in kallsyms]
		calls = sorted({w[2] for w in words if w[1] in "tT" and w[2].startswith("__x64_sys_")})[:150]
		lines = ["p e.%s %s\n" % (call, call) for call in calls] + ["r r.%s %s\n" % (call, call) for call in calls]
		lines += ["p a.%s %s n=%%di\n" % (call, call) for call in calls] + ["r b.%s %s n=$arg1 v=$retval\n" % (call, call) for call in calls]
		lines += ["r c.%s %s v=$retval if v==-2\n" % (call, call) for call in calls]
		same("all", write("".join(lines)), len("".join(lines)))
		same("names", names(), [line.split()[1] for line in lines])
		gone = "".join("-%s\n" % name for name in names()[:600])
		same("removed", write(gone), len(gone))
		same("left", len(names()), 150)
		same("no more", write("-*"), 2)
		same("none", names(), [])
		# Wherever one is refused, in whatever way.
		good = ["p g%d %s\n" % (n, call) for n, call in enumerate(calls[:37])]
		for bad, why in [("p x no_such_function", "ENOENT"), ("p x kernel_clone+1", "EILSEQ"), ("p x exc_int3", "EINVAL"),
		                 ("p g0 do_exit", "EEXIST"), ("r x exc_int3", "EINVAL"), ("-no", "ENOENT"), ("what", "EINVAL"),
		                 ("p x " + "y" * 600, "EINVAL")]:
		    for at in (1, 2, 18, 36, 37):
		        before, after = "".join(good[:at]), "".join(good[at:])
		        same("%s at %d" % (bad, at), write(before + bad + "\n" + after), len(before))
		        same("%s at %d" % (bad, at), names(), ["g%d" % n for n in range(at)])
		        same("%s alone" % bad, write(bad + "\n" + after), why)
		        same("removed", write("-*\n" + before), 3 + len(before))
		        same("again", names(), ["g%d" % n for n in range(at)])
		        same("removed", write("\n -* \n\n"), 7)
		same("too much", write("p x f\n" * 20000), "EINVAL")
	END
}

for_root_only() {
	is mode 600 "$(stat -c %a "$PROBES")" && is mode 600 "$(stat -c %a $DIR/cpu0)" && is mode 400 "$(stat -c %a $DIR/format)" || return 1
	refused "only root may probe" setpriv --reuid 65534 --clear-groups "$FERROTRACE" probe list
}

# add, list and remove of the command.
commands() {
	is added "kernel_clone.ret do_sys_openat2.ret" "$(probe add -r kernel_clone do_sys_openat2 | xargs)" || return 1
	is added mine "$(probe add --name mine kernel_clone)" || return 1
	(:)
	probe list
	is rows "kernel_clone.ret do_sys_openat2.ret mine" "$(probe list | awk 'NR > 1 { print $1 }' | xargs)" || return 1
	probe list | grep -q '^mine  *probe  *kernel_clone  *[1-9][0-9]*  *0  on$' || return 1
	probe list --json | grep -q '"place": "do_sys_openat2"' || return 1
	refused "did you mean kernel_clone?" probe add kernel_clome || return 1
	refused "there is a probe mine already" probe add --name mine do_exit || return 1
	refused "no probe at kernel_clone+0x1: not the start of an instruction (EILSEQ)" probe add kernel_clone+1 || return 1
	refused "(EINVAL)" probe add -r exc_int3 || return 1
	refused "there is no probe no; probes: kernel_clone.ret, do_sys_openat2.ret, mine" probe remove no || return 1
	# All or none.
	refused "the kernel has no function" probe add do_exit there_is_no_such_function || return 1
	is count 3 "$(wc -l <"$PROBES")" || return 1
	probe remove mine kernel_clone.ret && is rest do_sys_openat2.ret "$(probe list | awk 'NR > 1 { print $1 }')" &&
		probe remove --all
}

# Each fork and each failing open is seen, once, in order.
counts_are_exact() {
	local forks=60 opens=40 late
	worker $forks $opens
	put 'p forks kernel_clone' && put 'r opens do_sys_openat2' || return 1
	watching --json --regs || return 1
	work
	watched || return 1
	is forks $forks "$(mine '"probe":"forks"')" || return 1
	grep '"errno":"ENOENT"' "$work/out" >"$work/failed"
	is failures $opens "$(grep -c "\"pid\":$worker,.*\"value\":-2" "$work/failed")" || return 1
	grep -m 1 '"probe":"opens"' "$work/out" | grep -q '"duration_ns":[1-9][0-9]*,.*"to":"[^0].*+0x' || return 1
	# A CPU may be stopped between taking the time and writing; then the watch says how many events came late.
	late=$(sed -n 's/.*"time":\([0-9]*\).*/\1/p' "$work/out" |
		awk '$1 < last { late++ } $1 > last { last = $1 } END { print late + 0 }')
	tail -n 1 "$work/out" | grep -q "\"dropped\":0,\"events\":[0-9]*,\"late\":$late\\b" && put '-*'
}

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
	# shellcheck disable=SC2016
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

# The same by registers, which takes no types; what is recorded and merged has their names.
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

# What of a pattern the kernel refuses is told, in the same words whether probes stay or are watched.
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

# mount_tracing: tracefs, where it is not mounted.
mount_tracing() {
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
}

# program: one with frame pointers, $work/program: inner(), which outer() calls, fails to open a file, without the help of libc.
program() {
	[ -e "$work/program" ] && return
	cat >"$work/program.c" <<-END
		#include <unistd.h>
		#include <sys/syscall.h>
		struct what { int number; const char *text; };
		__attribute__((noinline)) long inner(const char *path)
		{
			long result;
			asm volatile("syscall" : "=a"(result) : "0"(SYS_open), "D"(path), "S"(0), "d"(0) : "rcx", "r11", "memory");
			return result;
		}
		__attribute__((noinline)) int outer(int n, struct what *what)
		{
			return (int)inner(what->text) + n + what->number + 2;
		}
		int main(void)
		{
			struct what what = { 100, "/nonexistent/x" };
			int sum = 0;
			for (int i = 0; i < 5; i++) sum += outer(i, &what);
			/* Whoever looks at it still finds it. */
			if (read(0, &what, 1))
				return 2;
			return sum != 510;
		}
	END
	gcc -g -O0 -o "$work/program" "$work/program.c"
}

# run_program: runs it until the watch has shown it, or for some seconds.
run_program() {
	local i
	for ((i = 0; i < 30; i++)); do
		sleep 0.1
		[ "$(grep -c program "$work/out")" -lt 5 ] || break
	done | "$work/program"
}

# The calls that have led to a hit, in the kernel and in user space, by their names.
stacks() {
	local line
	program && probe add --stack=both --name open 'do_sys_openat2 dfd=%di:s32' && probe add -r --stack do_sys_openat2 || return 1
	cat "$PROBES"
	watching --json || return 1
	run_program || return 1
	watched || return 1
	grep '"comm":"program"' "$work/out" | grep '"dfd":-100' >"$work/mine"
	tail -n 1 "$work/mine"
	# Some are the loader's.
	is hits 5 "$(grep -c '"stack":\["do_sys_openat2+0x0",.*do_syscall_64+0x.*"ustack":\["inner+0x[^ ]* \[program\]","outer+0x[^ ]* \[program\]","main+0x[^ ]* \[program\]"' "$work/mine")" || return 1
	line=$(grep '"comm":"program"' "$work/out" | grep '"kind":"return"' | tail -n 1)
	echo "$line"
	grep -q '"stack":\["[^"]*open[^"]*","[^"]*do_syscall_64' <<<"$line" || return 1
	# Lines for people have a call each.
	probe remove --all && watching --stack do_sys_openat2 || return 1
	run_program && watched >/dev/null || return 1
	grep -A 2 ' program-.* do_sys_openat2$' "$work/out" | grep -q '^        do_sys_openat2+0x0$' || return 1
	# What makes flame graphs.
	begin_tool watching probe count --by ustack --folded do_sys_openat2 || return 1
	watch=$tool_pid
	run_program && kill -INT "$watch" && wait "$watch" || return 1
	grep '^.*main \[program\];outer \[program\];inner \[program\] 5$' "$work/out" || { tail -n 3 "$work/out"; return 1; }
}

# What is recorded and exported has the names, too.
stacks_recorded() {
	program && probe add --stack open=do_sys_openat2 && run_program || return 1
	"$FERROTRACE" relay record $DIR/cpu -o "$work/stacks" --duration 0.2 -q && put '-*' || return 1
	"$FERROTRACE" relay merge "$work/stacks" | grep ' comm=program ' | tail -n 1 | tee "$work/line" &&
		grep -q ' stack=.*;do_syscall_64;.*;do_sys_openat2$' "$work/line" || return 1
	"$FERROTRACE" export --format firefox "$work/stacks" -o "$work/profile" && grep -q '"do_sys_openat2"' "$work/profile"
}

# Probes in a file.
in_files() {
	local f=$work/program at
	program && mount_tracing || return 1
	is added "program_outer inner program_outer_0x" "$(probe add "$f:outer n what->number what->text" "inner=$f:inner%return \$retval" "$f:outer+$(instruction outer)" |
		sed 's/0x.*/0x/' | xargs)" || return 1
	probe list
	probe list | grep -q "^inner  *return  *$f:inner  *0  *0  *on" || return 1
	watching --json || return 1
	run_program && watched || return 1
	grep '"comm":"program"' "$work/out" >"$work/mine"
	head -n 2 "$work/mine"
	is calls "0 1 2 3 4" "$(sed -n 's/.*"args":{"n":\([0-9]\),"number":100,"text":"\/nonexistent\/x"}.*"place":".*:outer",.*/\1/p' "$work/mine" | xargs)" || return 1
	is returns 5 "$(grep -c '"args":{"ret":-2}.*"duration_ns":[1-9].*"to":"outer+0x[^"]*\[program\]"' "$work/mine")" || return 1
	is within 5 "$(grep -c '"place":"[^"]*:outer+0x' "$work/mine")" || return 1
	probe list | grep -q "^inner .*  5  *0  on" && probe remove inner && probe remove --all || return 1
	# One of the kernel beside it, in the order of times, and stacks.
	watching --json --stack=user "$f:inner" do_sys_openat2 || return 1
	run_program && watched || return 1
	grep '"comm":"program"' "$work/out" | tail -n 2 >"$work/mine"
	cat "$work/mine"
	is order "inner do_sys_openat2" "$(sed 's/.*"place":"\([^"]*:\)\{0,1\}\([a-z_0-9]*\)".*/\2/' "$work/mine" | xargs)" || return 1
	# At the entry the function has no frame yet, so that its caller is skipped.
	is stacks 2 "$(grep -c '"ustack":\["inner+0x[^"]*",\("outer+0x[^"]*",\)\{0,1\}"main+' "$work/mine")" || return 1
	begin_tool watching probe time --json "$f:inner" || return 1
	watch=$tool_pid
	run_program && watched >/dev/null || return 1
	tail -n 1 "$work/out" | grep -q '"hits":5,"key":{"place":"[^"]*:inner"},"max_ns":[1-9]' || return 1
	# libc has names in no more than its dynamic symbols.
	at=$(ldd "$f" | awk '/libc\.so/ { print $3 }')
	watching "$at:read" && run_program && watched && grep -q ":read: [1-9][0-9]* events" "$work/out" || return 1
	refused "/nonexistent: No such file" probe add /nonexistent:f && refused "not an executable" probe add /etc/passwd:f &&
		refused "has no function iner; did you mean inner" probe add "$f:iner" && refused "not the start of an instruction" probe add "$f:inner+2" &&
		refused "is not in code" probe add "$f:0x1" && refused "there are no parameters" probe add "$f:outer%return n" &&
		refused "has no parameter m; it has n, what" probe add "$f:outer m" || return 1
	cp "$f" "$work/stripped" && strip "$work/stripped" && refused "it is stripped" probe add "$work/stripped:inner" || return 1
	is left "" "$(cat /sys/kernel/tracing/uprobe_events && ls /sys/kernel/tracing/instances)"
}

# Parameters where the compiler has them within a function: at a line, and at an offset.
within() {
	local f=$work/optimised at place
	cat >"$f.c" <<-'END'
		#include <unistd.h>
		struct what { int number; const char *text; };
		volatile int sink;
		__attribute__((noinline)) void clobber(long a, long b)
		{
			sink = (int)(a + b);
			asm volatile("" : : : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "rax");
		}
		__attribute__((noinline)) long work(long n, struct what *what)
		{
			clobber(7, 8);
			asm volatile(".globl in_work\nin_work: nop");
			clobber(n, what->number);
			return n + what->number;
		}
		int main(void)
		{
			struct what what = { 100, "text" };
			long sum = 0;
			for (long i = 0; i < 5; i++) sum += work(i * 1000, &what);
			if (read(0, &what, 1))
				return 2;
			return sum != 10500;
		}
	END
	gcc -g -O2 -o "$f" "$f.c" && mount_tracing || return 1
	at=$((0x$(nm "$f" | awk '$3 == "in_work" { print $1 }') - 0x$(nm "$f" | awk '$3 == "work" { print $1 }')))
	for place in "work+$at" work:3; do
		watching --json "$f:$place n what->number what->text" || return 1
		for ((i = 0; i < 30; i++)); do
			sleep 0.1
			[ "$(grep -c optimised "$work/out")" -lt 5 ] || break
		done | "$f" || return 1
		watched || return 1
		grep '"comm":"optimised"' "$work/out" >"$work/mine"
		tail -n 1 "$work/mine"
		is "$place" "0 1000 2000 3000 4000" "$(sed -n 's/.*"args":{"n":\([0-9]*\),"number":100,"text":"text"}.*"place":".*:\(in_work"\|work+0x\).*/\1/p' "$work/mine" | xargs)" || return 1
	done
}

# instruction FUNCTION: the second of a function of the program, in bytes from its start.
instruction() {
	objdump -d --disassemble="$1" "$work/program" | awk -F: '/^ / { n++; if (n == 1) a = $1; if (n == 2) { print a, $1; exit } }' |
		{ read -r a b; echo $((0x$b - 0x$a)); }
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
	refused "no event matches sched:sched_swich; similar: sched:sched_switch" "$FERROTRACE" trace record -e sched:sched_swich -o "$work/none" || return 1
	is instances "" "$(ls /sys/kernel/tracing/instances)"
}

# On a terminal there is a screen.
screen() {
	python3 - "$FERROTRACE" <<-'END'
		import os, pty, select, signal, sys, time
		pid, fd = pty.fork()
		if pid == 0:
		    os.environ["TERM"] = "xterm"
		    os.execv(sys.argv[1], [sys.argv[1], "probe", "time", "vfs_read", "--by", "comm", "-i", "0.2"])
		import fcntl, struct, termios
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
		seen = b""
		def seen_within(what, seconds):
		    global seen
		    end = time.time() + seconds
		    while what not in seen:
		        if time.time() > end:
		            return False
		        open("/proc/uptime").read()
		        if select.select([fd], [], [], 0.2)[0]:
		            seen += os.read(fd, 65536)
		    return True
		def until(what):
		    if not seen_within(what, 30):
		        sys.exit("no %r in %r" % (what, seen[-2000:]))
		# Only what changes is drawn, unless the size is another. Not at once: a key that comes with a new size waits for the next key.
		def until_anew(what):
		    for wide in range(101, 115):
		        if seen_within(what, 2):
		            return
		        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, wide, 0, 0))
		    until(what)
		until(b"\x1b[?1049h")
		until(b"q quit")
		until(b"python3")
		os.write(fd, b"p"); until_anew(b"PAUSED")
		os.write(fd, b"ps"); until_anew(b"sort (hits)")
		# The last new size may still be on its way: the key once more, as a user would.
		for _ in range(10):
		    os.write(fd, b"q")
		    if seen_within(b"\x1b[?1049l", 3):
		        break
		until(b"\x1b[?1049l"); until(b"in all, ")
		status = os.waitpid(pid, 0)[1]
		sys.exit("status %d" % status if status else 0)
	END
	none_left
}

# Without the module: kprobe_events of tracefs serves instead, where there is that.
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
	# What the command itself does to prepare and to end is no hit.
	is "own hits" 0 "$(grep -c '"filename":"/sys/kernel/tracing' "$work/out")" || return 1
	probe list | grep -q '^do_sys_openat2_ret  return .* [1-9][0-9]*  .*  on ' || return 1
	refused "there is a probe open already" probe add open=do_exit && refused "the kernel has no function" probe add no_such_function &&
		refused "takes the module" probe add 'vfs_read%return if duration>5' && refused "takes the module" probe watch --regs || return 1
	probe remove open && probe remove --all || return 1
	if grep ferrotrace $tracing/kprobe_events; then return 1; fi
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

# With places the probes are there as long as the watch.
temporary() {
	local forks=30
	worker $forks 0
	watching kernel_clone do_exit || return 1
	is probes 2 "$(wc -l <"$PROBES")" && refused "another" probe watch || return 1
	work
	watched || return 1
	is forks $forks "$(grep -c " bash-$worker kernel_clone\$" "$work/out")" || return 1
	grep -q '^kernel_clone: [0-9]* events, 0 missed$' "$work/out" && none_left || return 1
	refused "has no function" probe watch do_exit there_is_no_such_function && none_left || return 1
	worker $forks 0
	watching -r kernel_clone --count 7 || return 1
	work
	wait "$watch" || return 1
	is hits 7 "$(grep -c ' kernel_clone = [0-9]' "$work/out")" && none_left || return 1
	watching do_exit --duration 0.3 && wait "$watch" && tail -n 1 "$work/out" | grep -q 'events, 0 dropped'
}

# The reads of the watch are hits themselves.
own_reads() {
	timeout -s KILL 300 "$FERROTRACE" probe watch vfs_read --count 50 >"$work/out" || return 1
	is hits 50 "$(grep -c ' vfs_read$' "$work/out")" && none_left || return 1
	watching vfs_read || return 1
	# Should it not end.
	{ sleep 300 && kill -KILL "$watch"; } &
	cat /proc/uptime /proc/uptime /proc/uptime
	watched || return 1
	grep '^vfs_read: [1-9][0-9]* events, ' "$work/out" && tail -n 1 "$work/out" | grep -q '^[1-9][0-9]* events, '
}

# Somebody removes what is watched.
removed() {
	watching kernel_clone do_exit || return 1
	(:)
	probe remove --all && watched || return 1
	grep '^kernel_clone: [1-9][0-9]* events, 0 missed$' "$work/out"
}

# When nobody reads, what does not fit is counted.
dropped() {
	local line hits dropped records=0 file i
	rmmod ferrotrace_kprobe_events && load subbuf_size=2048 n_subbufs=4 || return 1
	put 'p forks kernel_clone' || return 1
	for ((i = 0; i < 300; i++)); do (:); done
	# Without a fork of our own between.
	read -r line <"$PROBES" && put '-forks' || return 1
	hits=${line##*hits=} hits=${hits%% *}
	read -r dropped <$DIR/lost
	# A record has 184 bytes, a header and a time, and none is in two sub-buffers. Relay files have no size: they have to be read.
	# shellcheck disable=SC2002
	for file in "$DIR"/cpu[0-9]; do records=$((records + $(cat "$file" | wc -c) / 200)); done
	echo "hits $hits, dropped $dropped, recorded $records"
	[ "$hits" -ge 300 ] && [ "$dropped" -ge 100 ] && [ $((records + dropped)) -ge "$hits" ] &&
		[ $((records + dropped)) -le $((hits + 3)) ] || return 1
	rmmod ferrotrace_kprobe_events && load
}

# What "relay record" and "relay merge" make of the channel.
by_relay() {
	worker 25 0
	put 'p forks kernel_clone' || return 1
	work
	put '-*'
	"$FERROTRACE" relay record $DIR/cpu -o "$work/rec" --duration 0.2 -q || return 1
	"$FERROTRACE" relay merge "$work/rec" >"$work/merged" || return 1
	head -n 2 "$work/merged"
	is forks 25 "$(grep -c " probe: pid=$worker comm=bash .* ip=0x[0-9a-f]* .* ax=0x" "$work/merged")"
}

# Hundreds of probes, of both kinds.
many() {
	local start=${EPOCHREALTIME/./} symbol n=0 added removed
	for symbol in $(awk '$3 ~ /^__x64_sys_/ { print $3 }' /proc/kallsyms | sort -u | head -n 160); do
		put "p $symbol $symbol" && put "r $symbol.ret $symbol" || return 1
		n=$((n + 2))
	done
	added=${EPOCHREALTIME/./}
	is count $n "$(wc -l <"$PROBES")" || return 1
	is "in the table" $((n + 1)) "$(probe list | wc -l)" || return 1
	[ "$(awk -F 'hits=' '{ sum += $2 } END { print sum }' "$PROBES")" -gt 10 ] || return 1
	removed=${EPOCHREALTIME/./}
	put '-*'
	echo "# $n probes: added in $(((added - start) / 1000)) ms, removed in $(((${EPOCHREALTIME/./} - removed) / 1000)) ms" >&3
}

# A pattern with a thousand functions is added, and removed, with a few calls of the kernel: for a probe that takes less than half of
# what one by one takes. Not with the C engine, which changes the code of one function after the other.
thousand() {
	local n begun added symbol single
	begun=${EPOCHREALTIME/./}
	for symbol in $(awk '$3 ~ /^__x64_sys_/ { print $3 }' /proc/kallsyms | sort -u | head -n 100); do put "p $symbol $symbol" || return 1; done
	single=$(((${EPOCHREALTIME/./} - begun) / 100))
	put '-*'
	begun=${EPOCHREALTIME/./}
	probe add '__x64_sys_*' '*_show' '*_store' '*_open' '*_release' '*_get' '*_put' '*_probe' '*_remove' '*_ioctl' >"$work/names" 2>"$work/err" || {
		cat "$work/err"
		return 1
	}
	added=${EPOCHREALTIME/./}
	cat "$work/err"
	n=$(wc -l <"$work/names")
	is probes "$n" "$(wc -l <"$PROBES")" || return 1
	[ "$n" -gt 1000 ] || { echo "$n probes"; return 1; }
	echo "# $n probes: added in $(((added - begun) / 1000)) ms, $(((added - begun) / n)) us each; one by one $single us" >&3
	[[ ${FERROTRACE_VARIANT:-} == *mainline ]] || [ $(((added - begun) / n)) -lt $((single / 2)) ] || return 1
	begun=${EPOCHREALTIME/./}
	xargs -a "$work/names" "$FERROTRACE" probe remove && none_left || return 1
	echo "# removed in $(((${EPOCHREALTIME/./} - begun) / 1000)) ms" >&3
	# As temporary ones.
	begin_tool watching probe count -d 0.5 '__x64_sys_*' && wait "$tool_pid" && grep -q 'in all, .* hits' "$work/out"
}

# A watch that was killed leaves its probes, which the next command removes.
abandoned() {
	local watch
	watching kernel_clone 'vfs_*' || return 1
	kill -KILL "$watch"
	wait "$watch" 2>/dev/null
	[ "$(wc -l <"$PROBES")" -gt 20 ] || return 1
	# Nothing of others.
	put 'p watch.1.0 do_exit' && put 'p watch.999999999 do_exit' || return 1
	probe list | grep -q "^watch\.$watch\.0 " || return 1
	is added mine "$(probe add --name mine do_exit 2>"$work/err")" || return 1
	cat "$work/err"
	grep -q '^ferrotrace: warning: removed [0-9]* probes that had been left' "$work/err" || return 1
	is names "watch.1.0 watch.999999999 mine" "$(sed 's/.*name=\([^ ]*\).*/\1/' "$PROBES" | xargs)" || return 1
	probe remove --all || return 1
	# Of a file, whose instance still has them.
	program && mount_tracing && watching "$work/program:inner" "$work/program:outer%return" || return 1
	kill -KILL "$watch"
	wait "$watch" 2>/dev/null
	grep -q "ferrotrace/watch_${watch}_" /sys/kernel/tracing/uprobe_events || return 1
	watching "$work/program:inner" 2>/dev/null && run_program && watched || return 1
	is left "" "$(cat /sys/kernel/tracing/uprobe_events && ls /sys/kernel/tracing/instances)"
}

# load_up: opens and forks on all CPUs, until $work/stop is there. With pauses: the CPUs of a guest may take turns.
load_up() {
	local cpu
	rm -f "$work/stop"
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		# shellcheck disable=SC2016
		nice taskset -c "$cpu" bash -c 'while [ ! -e "$1" ]; do
			for i in {1..50}; do : </dev/null; done
			sleep 0.02
		done' load "$work/stop" &
	done
}

load_down() {
	: >"$work/stop"
	sleep 0.2
	wait_for_jobs
}
wait_for_jobs() {
	local pid
	for pid in $(jobs -p); do wait "$pid"; done
	return 0
}

# Probes come and go under load, while others are watched.
storm() {
	local end rounds=0
	put 'r stays do_sys_openat2' || return 1
	watching --json || return 1
	load_up
	end=$((SECONDS + $(storm_rounds 5)))
	# As long as it takes until there was load enough.
	while [ $SECONDS -lt $end ] || [ $rounds -lt 3 ] || [ "$(grep -c '"probe":"stays"' "$work/out")" -le 100 ]; do
		put 'p a do_sys_openat2' && put 'r b do_sys_openat2' && put 'p c kernel_clone' && put 'r d vfs_open' &&
			put '-b' && put '-a' && put 'p a vfs_open' && put '-d' && put '-a' && put '-c' || return 1
		rounds=$((rounds + 1))
	done
	watched >"$work/summary" || return 1
	load_down
	cut -c 1-300 "$work/summary"
	echo "# $rounds rounds, $(wc -l <"$work/out") lines" >&3
	# Every line is whole.
	! grep -qv '^{.*}$' "$work/out" && put '-*'
}

# The module goes with its probes.
unload() {
	load_up
	for _ in 1 2; do
		put 'p a do_sys_openat2' && put 'r b do_sys_openat2' && put 'r c kernel_clone' && sleep 0.2 || return 1
		rmmod ferrotrace_kprobe_events || return 1
		[ ! -e $DIR ] || return 1
		# Where tracefs has kprobe_events the command goes on with those.
		[ -e /sys/kernel/tracing/kprobe_events ] || refused "modprobe ferrotrace_kprobe_events" probe add kernel_clone || return 1
		load || return 1
	done
	load_down
}

# A probe whose code goes with its module.
gone() {
	local symbol
	insmod "$KO/samples/relay_c_client.ko" || return 1
	symbol=$(awk '$2 == "t" && $4 == "[relay_c_client]" && $3 !~ /init|exit|cleanup|__|\./ { print $3; exit }' /proc/kallsyms)
	echo "symbol: $symbol"
	probe add --name a "$symbol" && is state on "$(field a state)" && rmmod relay_c_client || return 1
	is state gone "$(field a state)" && probe list && probe remove a
}

# A CPU that comes up while its hits are watched.
hotplug() {
	local online=/sys/devices/system/cpu/cpu1/online
	[ -w $online ] || bail "no CPU to take down"
	echo 0 >$online && rmmod ferrotrace_kprobe_events && load && [ ! -e $DIR/cpu1 ] || return 1
	watching --json kernel_clone || return 1
	echo 1 >$online || return 1
	# shellcheck disable=SC2016
	taskset -c 1 bash -c 'for ((i = 0; i < 30; i++)); do (:); done' || return 1
	watched && [ "$(grep -c '"cpu":1,' "$work/out")" -ge 30 ]
}

load_ours rust_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe
load || bail "cannot load ferrotrace_kprobe_events.ko"
echo "TAP version 13"
# For what is to be seen of a case that passes.
exec 3>&1
one lines lines
one root for_root_only
one commands commands
one counts counts_are_exact
one args.named named_args
one args.raw raw_args
one filter filtered
one pattern pattern
one summary summaries
one temporary temporary
one own own_reads
one removed removed
one dropped dropped
one relay by_relay
one many many
one batches batches
one thousand thousand
one abandoned abandoned
one stack.kernel stacks
one stack.recorded stacks_recorded
once file in_files
once within within
once events events
once screen screen
one storm storm
one unload unload
one gone gone
one hotplug hotplug
one stock stock
finish
