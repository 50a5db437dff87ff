#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs as text files: "ferrotrace dprobes", and "dprobes" with the options of version 5,
# on the running kernel. Run as root in a guest, with FERROTRACE set to the command; arguments
# choose cases by the start of their names. Prints KTAP.
# Functions are called by check().
#
# shellcheck disable=SC2317,SC2329
# Not pipefail: a failing command's output is searched for the refusal.
set -u

: "${FERROTRACE:?}"
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
samples=$(readlink -f "$here/../../../../samples/dprobes")
vmlinux=$FERROTRACE_KDIR/vmlinux
cases=("$@")

wanted() {
	local prefix
	[ ${#cases[@]} = 0 ] && return
	for prefix in "${cases[@]}"; do [[ $1 == "$prefix"* ]] && return; done
	return 1
}

# one NAME CMD...: a check, if it was asked for. It begins without programs.
one() {
	wanted "$1" || return
	classic -r -a
	check "$@"
	kill_jobs
}

tool() { "$FERROTRACE" dprobes "$@"; }
# The command that is called dprobes.
classic() { "$work/dprobes" "$@"; }
# sample NAME ARGS...: loads one of samples/dprobes.
sample() { tool insert "$samples/$1.dp" "${@:2}"; }
# local_variable NAME INDEX, global_variable INDEX
local_variable() { tool getvars "$1" --index "$2" | awk '$1 == "lv" { print $4 }'; }
global_variable() { tool getvars --global --index "$1" | awk '$1 == "gv" { print $4 }'; }
# is NAME WANT GOT
is() { [ "$2" = "$3" ] || { echo "$1: $3, not $2"; return 1; }; }
# states: of all points.
states() { tool query --json | python3 -c 'import json, sys
for program in json.load(sys.stdin)["programs"]:
    for point in program["points"]: print(point["state"], program["name"], point["place"])'; }
active() { ! states | grep -v '^active'; }

# watching ARGS...: "watch" in the background, with its output in $work/out.
watching() {
	begin_tool watching dprobes watch "$@" || return 1
	watch=$tool_pid
}

# watched PATTERN: ends it; a line of the output has the pattern.
watched() {
	kill -INT "$watch"
	wait "$watch" || { cat "$work/err"; return 1; }
	cat "$work/out"
	grep -qE "$1" "$work/out"
}

# The example of the paper, from its text file: as many calls as there were.
paper() {
	local before after none forks
	classic -i "$samples/fork_kill.dp" && active || return 1
	# The kernel may start a thread of its own in between, which counts: again then.
	for _ in {1..5}; do
		none=$(local_variable vmlinux 1)
		before=$(local_variable vmlinux 1)
		for _ in {1..100}; do (:); done
		after=$(local_variable vmlinux 1)
		# Without the forks of the measurement itself.
		forks=$((after - before - (before - none)))
		if [ $forks = 100 ]; then break; fi
	done
	is forks 100 $forks || return 1
	before=$(local_variable vmlinux 0)
	for _ in {1..10}; do kill -CONT $$; done
	is kills 10 $(($(local_variable vmlinux 0) - before)) || return 1
	classic -g -a | grep -q 'lv   1 = ' && classic --query --all -x && classic --remove --name bzImage && [ -z "$(states)" ]
}

# All that is wrong is said, and nothing stays half loaded.
errors() {
	printf 'name = vmlinux\noffset = kernel_cloone\npsh 1\nexit 64\n' >"$work/bad.dp"
	refused 'there is no command psh' tool insert "$samples/exec.dp" "$work/bad.dp" || return 1
	grep -q 'bad.dp:4:6' "$work/refused" && grep -q 'did you mean push' "$work/refused" || return 1
	printf 'name = vmlinux\noffset = kernel_cloone\nexit\n' >"$work/bad.dp"
	refused 'did you mean kernel_clone?' tool insert "$samples/exec.dp" "$work/bad.dp" || return 1
	is states "" "$(states)" || return 1
	refused 'changes registers' sample short_writes || return 1
	# A set with a program that is loaded already.
	sample exec || return 1
	refused 'replace takes its place' tool insert "$samples/lookups.dp" "$samples/unlink.dp" || return 1
	is programs 1 "$(states | wc -l)" || return 1
	sample unlink --replace && sample exec --merge && is points 2 "$(states | wc -l)" && active || return 1
	refused 'no program nothing is loaded' tool remove nothing vmlinux && is points 2 "$(states | wc -l)" || return 1
	refused 'no program nothing' tool query nothing && refused 'no program nothing' tool getvars nothing
}

# The command line of version 5, in its short and its long forms.
version5() {
	local f=$work/five.dp
	cat >"$f" <<-'END'
		name = bzImage
		vars = 2
		offset = kernel_clone
		opcode = 0xf4
		group = 1
		type = 5
		inc lv, INDEX
		inc gv, 255
		exit
		offset = do_exit
		group = 2
		type = 6
		inc lv, 0
		exit
	END
	# The opcode is of no function.
	classic -i "$f" -D INDEX=1 && is states mismatch "$(states | head -n 1 | cut -d' ' -f1)" || return 1
	classic --insert "$f" -D INDEX=1 -c --dont-verify-opcodes && active && is points 2 "$(states | wc -l)" || return 1
	classic -i "$f" -D INDEX=1 -m -u 2 && is points 3 "$(states | wc -l)" || return 1
	classic --insert "$f" -D INDEX=1 --merge --group 1 --type 5 --dont-verify-opcodes && is points 4 "$(states | wc -l)" || return 1
	classic -i "$f" -D INDEX=1 --replace -t 6 && is place do_exit+0x0 "$(states | cut -d' ' -f3)" || return 1
	refused 'cannot read' classic -i "$f" -D INDEX=1 -c -s "$work/none" || return 1
	classic -i "$f" -D INDEX=1 -c --sym "$vmlinux" -t 6 || return 1
	# The fields of records, as version 5 has them: with blanks between.
	classic -i "$f" -D INDEX=1 -c -t 6 -l PROCNAME PID UID SSESP CSEIP PSW UPSW TSC || return 1
	classic -i "$f" -D INDEX=1 -c -t 6 --log ALL --stop-cpus --unformatted-output 2>"$work/said" || return 1
	grep -q 'no CPU has to stop' "$work/said" && grep -q 'stored as they are' "$work/said" || return 1
	refused 'it is none of PROCNAME' classic -i "$f" -D INDEX=1 -c -t 6 -l NOTHING || return 1
	classic -i "$f" -D INDEX=1 -c -t 6 -f --log-target LTT 2>/dev/null || return 1
	classic -i "$f" -D INDEX=1 -c -t 6 --log-target KLOG || return 1
	refused 'Linux has no such target' classic -i "$f" -D INDEX=1 -c -t 6 --log-target COM1 || return 1
	(:)
	classic -q -a | grep -q do_exit && classic --query --all --extended | grep -q 'log target klog' || return 1
	classic -q --name bzImage -x | grep -q do_exit && classic -q vmlinux | grep -q do_exit || return 1
	classic -g -a >"$work/vars" && grep -q 'lv   0 = [1-9]' "$work/vars" || return 1
	classic --getvars --all -i 0-0 --local >"$work/vars" && is lines 2 "$(wc -l <"$work/vars")" || return 1
	classic -g -a --index=1 --local | grep -q 'lv   1 = 0' || return 1
	classic -g -a --global --reset >/dev/null && classic -g --name bzImage --reset >/dev/null || return 1
	(cd "$work" && classic -b "$f" -D INDEX=1) && [ -s "$f.ppdf" ] || return 1
	classic --build-ppdf "$f" -D INDEX=1 --outfile "$work/other.ppdf" && cmp "$f.ppdf" "$work/other.ppdf" || return 1
	classic -r --name bzImage && is states "" "$(states)" || return 1
	classic -p "$f.ppdf" -u 2 && classic --apply-ppdf "$work/other.ppdf" -c --type 6 -l PID && active || return 1
	classic --remove --all && is states "" "$(states)" || return 1
	refused 'name programs to remove' classic -r || return 1
	refused 'no program nothing' classic -r --name nothing
}

# A built program is loaded without its text.
built() {
	classic -b "$samples/unlink.dp" -o "$work/unlink.ppdf" && classic -p "$work/unlink.ppdf" -l PROCNAME PID && active || return 1
	is places 1 "$(states | grep -c 'filename_unlinkat+0x0')" || return 1
	refused 'a file of built programs' classic -p "$samples/unlink.dp"
}

# Each sample can be loaded; its points are active, or wait for a module.
all_samples() {
	local file name bad=0 sym
	for file in "$samples"/*.dp; do
		name=$(basename "$file" .dp) sym=()
		if grep -q '^return' "$file"; then sym=(--sym "$vmlinux"); fi
		if ! tool insert "$file" --unsafe-writes "${sym[@]}" --dont-verify-opcodes -D PID=1; then
			echo "$name: not loaded"
			bad=1
		fi
		states | grep -v '^active' | grep -v '^waiting loop' | grep -v '^disarmed .* later$' && bad=1
		classic -r -a || bad=1
	done
	[ "$bad" = 0 ]
}

# getpgid N: calls the function that the next programs probe.
getpgid() { python3 -c 'import os, sys
for _ in range(int(sys.argv[1])): os.getpgid(0)' "$1"; }

# Lost records are reported, with their number: each call has a record, or counts as lost.
lost() {
	local shown
	printf 'name = vmlinux\noffset = __x64_sys_getpgid\npush 1000\npush r, rsp\nlog mrf\nexit\n' >"$work/lost.dp"
	watching "$work/lost.dp" || return 1
	kill -STOP "$watch"
	getpgid 6000
	kill -CONT "$watch"
	watched '^[1-9][0-9]* records lost: the buffers were full$' >/dev/null || return 1
	tail -n 1 "$work/out"
	shown=$(tail -n 1 "$work/out" | sed -n 's/^\([0-9]*\) records, \([0-9]*\) lost.*/\1 + \2/p')
	[ $(("${shown:-0}")) -ge 6000 ]
}

# A program that was replaced for a time is removed at the end; one that cannot be removed is not
# added.
for_a_time() {
	sample unlink && sample exec --merge || return 1
	tool watch "$samples/exec.dp" --replace --duration 1ms >/dev/null && is states "" "$(states)" || return 1
	sample unlink || return 1
	refused 'could not be removed' tool watch "$samples/exec.dp" --merge --duration 1ms || return 1
	is points 1 "$(states | wc -l)"
}

# Reports an opcode that differs, a file that was replaced, and messages that klog has lost.
told() {
	printf 'name = vmlinux\noffset = kernel_clone\nopcode = 0x55\nexit\n' >"$work/told.dp"
	tool insert "$work/told.dp" 2>&1 | grep 'ftrace has its call or a NOP there' || return 1
	cp /bin/true "$work/told" || return 1
	printf 'name = %s\noffset = %d\nexit\n' "$work/told" "$(readelf -h "$work/told" | awk '/Entry/ { print $4 }')" >"$work/told.dp"
	tool insert "$work/told.dp" && mv "$work/told" "$work/elsewhere" && tool query | grep ' replaced .*the file was replaced' ||
		return 1
	printf 'name = vmlinux\noffset = __x64_sys_getpgid\npush 1\nlog 1\nexit\n' >"$work/told.dp"
	tool insert "$work/told.dp" --replace --log-target KLOG 2>&1 | grep 'klog has no handler' || return 1
	getpgid 3
	tool query | grep '[1-9][0-9]* records for KLOG lost'
}

# Groups and types choose points.
groups() {
	cat >"$work/groups.dp" <<-END
		name = vmlinux
		offset = kernel_clone
		group = 1
		type = 5
		exit
		offset = do_exit
		group = 2
		exit
	END
	tool insert "$work/groups.dp" --group 2,3 && is places do_exit+0x0 "$(states | cut -d' ' -f3)" || return 1
	tool remove --all && tool insert "$work/groups.dp" -t 5 && is places kernel_clone+0x0 "$(states | cut -d' ' -f3)" || return 1
	refused 'no point is left' tool insert "$work/groups.dp" --group 9
}

# Records, as text and as JSON, with the chosen fields, by the time of the writes.
records() {
	watching "$samples/unlink.dp" --log PROCNAME,PID,UID || return 1
	touch "$work/victim" && rm "$work/victim" || return 1
	watched "^\[[0-9]+\] [0-9.]+ 13.0 filename_unlinkat\+0x0 rm pid=[0-9]+ tid=[0-9]+ uid=0: \"$work/victim\"" || return 1
	# It was loaded for the time of the watch.
	is states "" "$(states)" || return 1
	watching "$samples/exec.dp" --json --log ALL || return 1
	/bin/true && watched true && python3 -c 'import json, sys
records = [json.loads(line) for line in sys.stdin]
true = [r for r in records if r.get("log") == [{"text": "/bin/true"}]]
assert true and true[0]["place"] == "alloc_bprm+0x0" and true[0]["tsc"] > 0 and true[0]["uid"] == 0, records' <"$work/out"
}

# A recording, which "relay merge" shows, decoded, with another channel.
recorded() {
	"$FERROTRACE" dprobes record "$samples/exec.dp" -o "$work/rec" --log PID -q >"$work/summary" &
	local record=$!
	for _ in $(seq 100); do
		if [ -e "$work/rec/cpu0" ]; then break; fi
		sleep 0.1
	done
	sleep 0.5
	/bin/true
	sleep 0.2
	kill -INT $record && wait $record || return 1
	cat "$work/summary"
	"$FERROTRACE" relay merge "$work/rec" | tee "$work/merged" | grep -E 'dprobe 12.0 pid=[0-9]+ tid=[0-9]+: "/bin/true"' ||
		{ cat "$work/merged"; return 1; }
	"$FERROTRACE" relay merge --format json "$work/rec" | grep -q '"log":\[{"text":"/bin/true"}\]'
}

# For the time that a command runs; its exit status is returned.
with_command() {
	tool record "$samples/exec.dp" -o "$work/run" --log PID -q -- sh -c '/bin/true; exit 7' >"$work/summary"
	is status 7 $? || return 1
	"$FERROTRACE" relay merge "$work/run" | grep '"/bin/true"' || return 1
	refused 'is not empty' tool record "$samples/exec.dp" -o "$work/run" -d 1ms || return 1
	tool record "$samples/exec.dp" -o "$work/run" --force -q -d 1ms >/dev/null || return 1
	# Dates, of now.
	tool watch "$samples/exec.dp" --wall -- /bin/true >"$work/out" 2>"$work/err" || { cat "$work/err"; return 1; }
	cat "$work/out"
	grep -E "^\[[0-9]+\] $(date -u +%Y-%m-%dT)[0-9:]+\.[0-9]{9}Z 12\.0 .*\"/bin/true\"" "$work/out" || return 1
	tool watch "$samples/exec.dp" -o "$work/file" -- /bin/echo said >"$work/out" 2>"$work/err" || { cat "$work/err"; return 1; }
	is said said "$(cat "$work/out")" && grep -q ' 12\.0 .*"/bin/echo"' "$work/file" || return 1
	refused "is not empty" tool watch "$samples/exec.dp" -o "$work/file" -d 1ms || return 1
	tool watch "$samples/exec.dp" --wall --json -- /bin/true 2>"$work/err" |
		grep "\"/bin/true\".*\"time\":.*\"wall\":\"$(date -u +%Y-%m-%dT)" && is states "" "$(states)"
}

# The path that failed.
open_failed() {
	watching "$samples/open_failed.dp" --sym "$vmlinux" || return 1
	cat /no/such/file 2>/dev/null
	watched '5.2 .*"/no/such/file"'
}

# Records the tasks that change a variable.
watch_variable() {
	local old
	old=$(cat /proc/sys/kernel/panic)
	watching "$samples/watch_variable.dp" --log PROCNAME,CSEIP || return 1
	echo 77 >/proc/sys/kernel/panic
	echo "$old" >/proc/sys/kernel/panic
	# The words of the stack, the top first: the address, then the value.
	watched ' (bash|tool.sh) .*: 0x[0-9a-f]* 0x4d$'
}

# An object that does not exist before: records the tasks that take references to credentials.
references() {
	watching "$samples/references.dp" --log PROCNAME || return 1
	python3 -c 'import os, time
os.setuid(1)
time.sleep(0.5)
if os.fork() == 0: os._exit(0)
os.wait()'
	watched ' 34\.3 later python3: 0x[0-9a-f]+ 0x[0-9a-f]+$'
}

# Places in the file of a module: in the file from the list of modules, in the one of --sym, before
# and after it is loaded.
module_places() {
	local ko=$MODULE_DIR/samples/relay_c_client.ko dir text start place behind=5
	dir=/lib/modules/$(uname -r)
	text=$(readelf -SW "$ko" | sed -n 's/.* \.text  *PROGBITS  *[0-9a-f]*  *\([0-9a-f]*\) .*/\1/p')
	start=$(nm "$ko" | awk '$3 == "create_buf_file" { print $1 }')
	# The instruction after the call of ftrace, which has a landing pad before it on some kernels.
	if grep -qx CONFIG_X86_KERNEL_IBT=y "$FERROTRACE_KDIR/.config"; then behind=9; fi
	place=$((16#$text + 16#$start + behind))
	# program OFFSET
	program() { printf 'name = relay_c_client\nvars = 1\noffset = %d\ninc lv,0\nexit\n' "$1" >"$work/place.dp"; }
	program $place
	mkdir -p "$dir/extra" && rm -f "$dir/modules.dep" || return 1
	refused "there is no $dir/modules.dep" tool insert "$work/place.dp" || return 1
	echo 'extra/other.ko:' >"$dir/modules.dep"
	refused 'there is no module relay_c_client in' tool insert "$work/place.dp" || return 1
	echo 'extra/relay-c-client.ko.xz: extra/other.ko' >"$dir/modules.dep"
	refused 'relay-c-client.ko.xz is compressed' tool insert "$work/place.dp" || return 1
	echo 'extra/relay-c-client.ko: extra/other.ko' >"$dir/modules.dep"
	cp "$ko" "$dir/extra/relay-c-client.ko" && tool insert "$work/place.dp" || return 1
	is place "waiting relay_c_client relay_c_client:create_buf_file+0x$behind" "$(states)" || return 1
	insmod "$ko" && active && [ "$(local_variable relay_c_client 0)" -ge 1 ] || return 1
	tool insert "$work/place.dp" --replace && active || return 1
	# Another file.
	cp "$MODULE_DIR/samples/kprobe_fork_c.ko" "$dir/extra/relay-c-client.ko" || return 1
	refused 'is not what the loaded relay_c_client is from' tool insert "$work/place.dp" --replace || return 1
	tool insert "$work/place.dp" --replace --sym "$ko" && active || return 1
	# A place without code, and one after the end of the file.
	program 0
	refused 'there is no code' tool insert "$work/place.dp" --replace --sym "$ko" || return 1
	program 100000000
	refused 'ends before this place' tool insert "$work/place.dp" --replace --sym "$ko" || return 1
	is points 1 "$(states | wc -l)"
}

# after_module_places: also cleans up after a failure.
after_module_places() {
	module_places
	local status=$?
	if [ -e /sys/module/relay_c_client ]; then rmmod relay_c_client; fi
	rm -f "/lib/modules/$(uname -r)/modules.dep"
	return $status
}

# One read in three fails.
read_fails() {
	head -c 9000 /dev/zero >"$work/zeros"
	cat >"$work/fails.py" <<-'END'
		import os, subprocess, sys
		tool, sample, zeros = sys.argv[1:]
		f = os.open(zeros, os.O_RDONLY)
		subprocess.run([tool, "dprobes", "insert", sample, "--unsafe-writes", "-D", f"PID={os.getpid()}", "-D", "ONE_IN=3"],
		               check=True, close_fds=True)
		failed = 0
		for _ in range(90):
		    try:
		        os.read(f, 10)
		    except OSError as error:
		        failed += error.errno == 5
		print(failed, flush=True)
		os._exit(0)
	END
	python3 "$work/fails.py" "$FERROTRACE" "$samples/read_fails.dp" "$work/zeros" >"$work/failed" || return 1
	cat "$work/failed"
	# Reads of its own before it counts, if there are any, count for the program too.
	[ "$(tail -n 1 "$work/failed")" -ge 29 ] && [ "$(tail -n 1 "$work/failed")" -le 31 ]
}

# An argument is changed.
short_writes() {
	sample short_writes --unsafe-writes -D MOST=1000 || return 1
	python3 -c 'import os, sys
f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
assert os.write(f, b"x" * 5000) == 1000 and os.write(f, b"x" * 1000) == 1000' "$work/short" || return 1
	[ "$(local_variable vmlinux 0)" -ge 1 ]
}

# User space: processes that start later, strings in their memory.
user_points() {
	sample malloc_sizes && active || return 1
	for _ in {1..3}; do /bin/ls / >"$work/ls"; done
	tool getvars /lib/x86_64-linux-gnu/libc.so.6 | awk '$1 == "lv" { sum += $4 } END { exit sum < 100 }' || return 1
	tool remove --all || return 1
	watching "$samples/lookups.dp" || return 1
	getent ahosts localhost >/dev/null
	watched '28.0 .*"localhost"' || return 1
	watching "$samples/shell_history.dp" || return 1
	bash -c 'set -o history; history -s typed by a test'
	watched '"typed by a test"'
}

# The probed code is the code that runs: of functions with one name the one at the given place, of
# versions the default.
which_one() {
	local d=$work/which places place
	mkdir "$d"
	cat >"$d/a.c" <<-'END'
		static __attribute__((noinline)) int f(int x) { return x * 3 + 1; }
		int first(int x) { return f(x) + f(x + 1); }
	END
	cat >"$d/b.c" <<-'END'
		#include <stdlib.h>
		int f(int x)
		{
			if (x > 5) return abs(x) * 7;
			for (int i = 0; i < x; i++) x += rand() % 3;
			return x == 9 ? -1 : x ^ 55;
		}
	END
	cat >"$d/use.c" <<-'END'
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		int f(int), first(int);
		int main(void)
		{
			pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
			long sum = 0;
			srand(1);
			for (int i = 1; i <= 5; i++) sum = sum * 31 + f(i) + first(i);
			for (int i = 0; i < 10; i++) pthread_cond_signal(&cond);
			printf("sum=%ld\n", sum);
		}
	END
	gcc -O2 -g -fPIC -shared -o "$d/lib.so" "$d/a.c" "$d/b.c" && objcopy --only-keep-debug "$d/lib.so" "$d/lib.debug" &&
		strip "$d/lib.so" && gcc -O1 -o "$d/use" "$d/use.c" "$d/lib.so" -Wl,-rpath,"$d" || return 1
	local sum
	sum=$("$d/use") || return 1
	# both OFFSET: the entry, and the returns.
	both() { printf 'name = %s\nvars = 2\noffset = %s\ninc lv,0\nexit\noffset = %s\nreturn = yes\ninc lv,1\nexit\n' "$d/lib.so" "$1" "$1" >"$d/f.dp"; }
	both f
	refused 'several symbols f, at 0x' tool insert "$d/f.dp" --sym "$d/lib.debug" || return 1
	places=$(tool insert "$d/f.dp" --sym "$d/lib.debug" 2>&1 | grep 'several symbols f, at ' | grep -o '0x[0-9a-f]*' | sort -u)
	is places 2 "$(wc -w <<<"$places")" || return 1
	for place in $places; do
		both "$place"
		tool insert "$d/f.dp" --sym "$d/lib.debug" --replace && active || return 1
		is "sum with $place" "$sum" "$("$d/use")" || return 1
		is "returns at $place" "$(local_variable "$d/lib.so" 0)" "$(local_variable "$d/lib.so" 1)" || return 1
		is "calls at $place" 1 $(($(local_variable "$d/lib.so" 0) >= 5)) || return 1
	done
	# The one that others see is all that is known without the symbols.
	both f
	tool insert "$d/f.dp" --replace && is sum "$sum" "$("$d/use")" && is returns 5 "$(local_variable "$d/lib.so" 1)" || return 1
	# Each place within an instruction is refused.
	both 'first + 1'
	sed -i '/^return/d' "$d/f.dp"
	refused 'is not the start of an instruction' tool insert "$d/f.dp" --replace || return 1
	local libc=/lib/x86_64-linux-gnu/libc.so.6
	printf 'name = %s\nvars = 1\noffset = pthread_cond_signal\ninc lv,0\nexit\n' $libc >"$d/cond.dp"
	tool insert "$d/cond.dp" && "$d/use" && is signals 10 "$(local_variable $libc 0)"
}

# Points in user space and in the kernel, in one set, with variables that all share.
leak() {
	sample leak && active && is programs 2 "$(tool query --json | grep -c '"kind": "\(user\|kernel\)"')" || return 1
	python3 -c 'import mmap
for _ in range(5): mmap.mmap(-1, 1 << 20)'
	[ "$(global_variable 3)" -ge 5 ] && [ "$(global_variable 1)" -ge 1000 ] || return 1
	classic -g -a --reset >/dev/null && is reset 1 $(($(global_variable 3) < 1000000))
}

# Time between points, callers, arithmetic.
counters() {
	sample fork_delay && active || return 1
	for _ in {1..20}; do (:); done
	[ "$(global_variable 2)" -ge 10 ] && [ "$(global_variable 3)" -gt "$(global_variable 4)" ] || return 1
	tool remove --all && sample callers && active || return 1
	for _ in {1..20}; do (:); done
	[ "$(local_variable vmlinux 1)" -ge 20 ] && is full 0 "$(local_variable vmlinux 63)" || return 1
	# The global ones alone, which are still there: the local ones stay.
	tool getvars --global --reset >/dev/null && is "global variables" 0 "$(global_variable 2)" &&
		[ "$(local_variable vmlinux 1)" -ge 20 ]
}

# The first module is seen, and then the probe is removed.
removes_itself() {
	watching "$samples/once.dp" || return 1
	insmod "$MODULE_DIR/samples/relay_c_client.ko" && rmmod relay_c_client || return 1
	insmod "$MODULE_DIR/samples/relay_c_client.ko" && rmmod relay_c_client || return 1
	states
	watched relay_c_client && is records 1 "$(grep -c relay_c_client "$work/out")"
}

# Without permission, or without an engine, the command says so.
absent() {
	refused 'modprobe rust_dprobes' tool query --dir $DEBUGFS/none || return 1
	chmod 755 $DEBUGFS "$work"
	refused 'permission denied' setpriv --reuid 1 --clear-groups "$FERROTRACE" dprobes query
}

# A reader that closes the pipe is no error, and ends a watch, also while nothing is logged.
pipes() {
	sample fork_kill && tool query | head -n 1 && tool getvars | head -n 1 && is status 0 "${PIPESTATUS[0]}" || return 1
	timeout 60 "$FERROTRACE" dprobes watch | head -c 0
	is status 0 "${PIPESTATUS[0]}"
}

# shellcheck source=tools/testing/selftests/dprobes/samples.sh
. "$here/samples.sh"

ln -s "$FERROTRACE" "$work/dprobes"
load_ours ferrotrace_fast_relay rust_relay rust_kprobes ferrotrace_kprobe rust_dprobes
echo "TAP version 13"
one paper paper
one errors errors
one version5 version5
one built built
one groups groups
one samples all_samples
for name in "${ran_samples[@]}"; do one "sample.$name" "ran_$name"; done
one lost lost
one for_a_time for_a_time
one told told
one records records
one recorded recorded
one command with_command
one open_failed open_failed
one watch_variable watch_variable
one references references
one module_places after_module_places
one read_fails read_fails
one short_writes short_writes
one user user_points
one which_one which_one
one leak leak
one counters counters
one removes removes_itself
one absent absent
one pipes pipes
classic -r -a
finish
