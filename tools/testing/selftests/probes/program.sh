# SPDX-License-Identifier: GPL-2.0
#
# A program of our own: its stacks, probes in it, and its parameters within functions. Part of run.sh.
# shellcheck shell=bash disable=SC2086,SC2154

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
	# Input of flame graphs.
	begin_tool watching probe count --by ustack --folded do_sys_openat2 || return 1
	watch=$tool_pid
	run_program && kill -INT "$watch" && wait "$watch" || return 1
	grep '^.*main \[program\];outer \[program\];inner \[program\] 5$' "$work/out" || { tail -n 3 "$work/out"; return 1; }
}

# Recorded and exported events have the names, too.
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
	# With a probe of the kernel, in the order of times, and stacks.
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
		refused "no symbol iner; did you mean inner" probe add "$f:iner" && refused "not the start of an instruction" probe add "$f:inner+2" &&
		refused "at 0x1 there is no code" probe add "$f:0x1" && refused "there are no parameters" probe add "$f:outer%return n" &&
		refused "has no parameter m; it has n, what" probe add "$f:outer m" || return 1
	cp "$f" "$work/stripped" && strip "$work/stripped" && refused "it is stripped" probe add "$work/stripped:inner" || return 1
	is left "" "$(cat /sys/kernel/tracing/uprobe_events && ls /sys/kernel/tracing/instances)"
}

# called: a program, $called, in a directory whose name has more than letters; called() gets
# unreadable addresses, too. With an argument the first call waits for a byte of standard input, and
# many follow.
called() {
	called=$work/dé=x/called
	[ -e "$called" ] && return
	mkdir -p "${called%/*}"
	cat >"$work/called.c" <<-END
		#include <unistd.h>
		__attribute__((noipa)) int called(const char *s, int *n) { asm(""); return -2; }
		__attribute__((noipa)) int waiting(int calls) { char c; return calls ? 1 : read(0, &c, 1); }
		int main(int argc, char **argv)
		{
			int five = 5, zero = 0;
			if (argc > 1) {
				for (int i = 0; i < 3000; i++) waiting(i);
				return 0;
			}
			called("one", &five);
			called((char *)1, (int *)1);
			called("", &zero);
			called("two", (int *)1);
			return 0;
		}
	END
	gcc -g -O1 -o "$called" "$work/called.c"
}

# called_with PROBE...: the arguments of the hits.
called_with() {
	probe watch --json "$@" -- "$called" >"$work/out" 2>"$work/err" || {
		cat "$work/err"
		return 1
	}
	grep -o '"args":{[^}]*}' "$work/out" | xargs -d '\n'
}

# A value that cannot be read is shown as such, and no condition on it holds.
faults() {
	local read='s=+0(%di):string n=+0(%si):s32'
	called && mount_tracing || return 1
	is all '"args":{"n":5,"s":"one"} "args":{"n":null,"s":null} "args":{"n":0,"s":""} "args":{"n":null,"s":"two"}' \
		"$(called_with "$called:called $read")" || return 1
	is zero '"args":{"n":0,"s":""}' "$(called_with "$called:called $read if n==0")" || return 1
	is one '"args":{"n":5,"s":"one"}' "$(called_with "$called:called $read if s==one")" || return 1
	is others '"args":{"n":0,"s":""} "args":{"n":null,"s":"two"}' "$(called_with "$called:called $read if s!=one")" || return 1
	is added called_called_ret "$(probe add "$called:called%return")" || return 1
	probe list | grep "^called_called_ret  return  $called:called " && probe remove called_called_ret || return 1
	# A program's return value is no error of the kernel.
	probe watch -r "$called:called" -- "$called" | grep -c ' = -2, '
}

# The number of losses is reported, and no time is invented.
losses() {
	local runs longest
	called && mount_tracing && mkfifo "$work/gate" || return 1
	watching --json -r "$called:waiting" || return 1
	echo 4 >"/sys/kernel/tracing/instances/ferrotrace.$watch/buffer_size_kb" || return 1
	# All on one CPU, whose buffer two times 3,000 calls overwrite, except the events behind the
	# entry in the page that was read.
	taskset -c 1 "$called" many <"$work/gate" &
	runs=$!
	exec 4>"$work/gate"
	# Its entry is read, its return will be lost.
	sleep 0.4
	kill -STOP "$watch" && sleep 0.6 && taskset -c 1 "$called" many </dev/null || return 1
	echo >&4 && exec 4>&- && wait $runs && kill -CONT "$watch" && watched || return 1
	rm "$work/gate"
	tail -n 1 "$work/out" | grep -q '"dropped":[1-9][0-9]*' || return 1
	longest=$(sed -n 's/.*"duration_ns":\([0-9]*\),.*/\1/p' "$work/out" | sort -n | tail -n 1)
	echo "longest: $longest"
	[ "$longest" -gt 0 ] && [ "$longest" -lt 400000000 ]
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

# Parameters and results that are not in the registers that their numbers say, without optimisation, where the calling convention
# decides, and with it, where DWARF does.
by_convention() {
	local f level
	cat >"$work/abi.c" <<-'END'
		#define FUNCTION __attribute__((noipa))
		struct big { long a, b, c; };
		struct mix { double x; long n; };
		FUNCTION int f_double(double d, int n) { return n + (int)d; }
		FUNCTION struct big f_big(int n, int m) { return (struct big){ n, m, 3 }; }
		FUNCTION int f_mix(struct mix p, int n) { return n + (int)p.n; }
		FUNCTION int f_long_double(long double l, int n) { return n + (int)l; }
		FUNCTION int f_stack(int a, int b, int c, int d, int e, int g, int h, struct big s, int i) { return a + h + (int)s.c + i; }
		FUNCTION struct mix f_mixed(void) { return (struct mix){ 1, 66 }; }
		int main(void)
		{
			struct mix mix = { 1.5, 44 };
			struct big big = { 100, 200, 300 };
			int sum = f_double(2.0, 42) + f_big(51, 52).a + f_mix(mix, 81) + f_long_double(1.0L, 101);
			sum += f_stack(1, 2, 3, 4, 5, 6, 7, big, 8) + f_mixed().n;
			return sum == 0;
		}
	END
	mount_tracing || return 1
	for level in -O0 -O2; do
		f=$work/abi$level
		gcc -g "$level" -o "$f" "$work/abi.c" || return 1
		probe watch --json "$f:f_double n" "$f:f_big n m" "$f:f_mix pn=p.n n" "$f:f_long_double n" "$f:f_stack g s.a s.c i" \
			"r=$f:f_big%return \$retval.a \$retval.c" "$f:f_mixed%return \$retval.n" -- "$f" >"$work/out" || return 1
		is "$level" '{"n":42} {"m":52,"n":51} {"a":51,"c":3} {"n":81,"pn":44} {"n":101} {"a":100,"c":300,"g":6,"i":8} {"n":66}' \
			"$(grep -o '"args":{[^}]*}' "$work/out" | sed 's/"args"://' | xargs -d '\n')" || return 1
		refused "a floating-point number" probe watch "$f:f_mix p.x" -- "$f" || return 1
	done
}

# A file of another mount namespace, which has another one at the same path here.
elsewhere() {
	local f=$work/program pid
	program && mount_tracing && cp "$f" "$work/other" || return 1
	mkfifo "$work/elsewhere" || return 1
	# shellcheck disable=SC2016
	unshare -m bash -c 'mount --bind "$1" "$2" && echo $$ >"$3" && read -r _ <"$4" && exec "$2" </dev/null' elsewhere "$work/other" "$f" "$work/pid" "$work/elsewhere" &
	until [ -s "$work/pid" ]; do sleep 0.1; done
	pid=$(cat "$work/pid")
	watching --json "here=$f:inner" "there=/proc/$pid/root$f:inner" || return 1
	echo >"$work/elsewhere"
	wait %?elsewhere
	watched || return 1
	is "events there and here" "5 0" "$(grep -o '"events":[0-9]*,"missed":0,"name":"/[a-z]*/' "$work/out" | sort -t / -k 2 | sed 's/"events":\([0-9]*\).*/\1/' | xargs)"
}

# instruction FUNCTION: the second of a function of the program, in bytes from its start.
instruction() {
	objdump -d --disassemble="$1" "$work/program" | awk -F: '/^ / { n++; if (n == 1) a = $1; if (n == 2) { print a, $1; exit } }' |
		{ read -r a b; echo $((0x$b - 0x$a)); }
}
