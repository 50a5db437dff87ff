# SPDX-License-Identifier: GPL-2.0
#
# Hits that the kernel adds up. Part of run.sh.
# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154

# reads SIZE COUNT: a process reads so many bytes so often; no other process reads as many.
reads() { dd if=/dev/zero of=/dev/null bs="$1" count="$2" status=none; }

# on_all_cpus COUNT: a process on each CPU reads 1003 bytes so often.
on_all_cpus() {
	local cpu pids=()
	for cpu in $(seq 0 $(($(nproc) - 1))); do
		taskset -c "$cpu" dd if=/dev/zero of=/dev/null bs=1003 count="$1" status=none &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# Every hit counts, on all CPUs at once, more than any channel has room for.
totals_exact() {
	local count=10000 all cpus
	cpus=$(nproc)
	all=$((count * cpus))
	begin_tool watching probe count --json --by n,comm 'vfs_read n=%dx:u64 if n==1003' || return 1
	watch=$tool_pid
	on_all_cpus $count
	watched || return 1
	tail -n 1 "$work/out" | grep -q "\"dropped\":0,\"hits\":$all,\"missed\":0,.*{\"hits\":$all,\"key\":{\"comm\":\"dd\",\"n\":\"1003\"}}" || return 1
	begin_tool watching probe count --json --by cpu 'vfs_read n=%dx:u64 if n==1003' || return 1
	watch=$tool_pid
	on_all_cpus $count
	watched || return 1
	is CPUs "$cpus" "$(tail -n 1 "$work/out" | grep -o "{\"hits\":$count,\"key\":{\"cpu\"" | wc -l)" || return 1
	# At returns, with an argument of the entry.
	begin_tool watching probe time --json --by n 'vfs_read n=$arg3:u64 if n==1003' || return 1
	watch=$tool_pid
	on_all_cpus $count
	watched || return 1
	tail -n 1 "$work/out" >"$work/last"
	grep -q "\"hits\":$all,.*\"key\":{\"n\":\"1003\"}" "$work/last" || return 1
	is histogram $all "$(grep -o '"hits":[0-9]*,"to_ns"' "$work/last" | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }')"
}

# Keys: stacks, several probes, and memory that cannot be read.
totals_keys() {
	local place
	begin_tool watching probe count --json --by stack 'vfs_read n=%dx:u64 if n==1003' || return 1
	watch=$tool_pid
	reads 1003 50
	watched || return 1
	tail -n 1 "$work/out" | grep -q '{"hits":50,"key":{"stack":"[^"]*ksys_read;vfs_read"}}' || return 1
	begin_tool watching probe count --json --by bad,place 'vfs_read n=%dx:u64 bad=+0(%dx):u64 if n==1003' \
		'vfs_write n=%dx:u64 bad=+0(%dx):u64 if n==1003' || return 1
	watch=$tool_pid
	reads 1003 40
	watched || return 1
	for place in vfs_read vfs_write; do
		tail -n 1 "$work/out" | grep -q "{\"hits\":40,\"key\":{\"bad\":\"(fault)\",\"place\":\"$place\"}}" || return 1
	done
}

# counting ARGS...: a count in the background, $watch, with JSON in $work/out.
counting() {
	begin_tool watching count --json "$@" || return 1
	watch=$tool_pid
}

# last PATTERN: succeeds if the summary has a row like that.
last() {
	tail -n 1 "$work/out" | grep -qE "$1" || {
		echo "no: $1"
		return 1
	}
}

# nice_values COUNT VALUE...: processes called nice that set each of these values so often.
nice_values() {
	local count=$1 value
	shift
	for value; do
		for _ in $(seq "$count"); do nice -n "$value" true; done
	done
}

# Values of arguments: sums, extremes and histograms, of hits on all CPUs, by several keys.
totals_values() {
	local count=10000 all cpus figures
	cpus=$(nproc)
	all=$((count * cpus))
	counting --by comm --sum n 'vfs_read n=%dx:u64 if n==1003' || return 1
	on_all_cpus $count
	watched || return 1
	last "\"lost\":\{\"in_kernel\":0\}.*\"avg\":1003.0,\"hits\":$all,\"key\":\{\"comm\":\"dd\"\},\"max\":1003,\"min\":1003,\"sum\":$((all * 1003)),\"unread\":0" || return 1
	# With other values, an argument that is also a key, and an expression.
	counting --by n --hist %dx:u64 'vfs_read n=%dx:u64 if n>=1001 && n<=1008' || return 1
	reads 1001 30
	reads 1008 50
	watched || return 1
	last '"histogram":\[\{"from":960,"hits":30,"to":1023\}\],"hits":30,"key":\{"n":"1001"\},"max":1001,"min":1001,"sum":30030,' || return 1
	last '"hits":50,.*"key":\{"n":"1008"\},"max":1008,"min":1008,"sum":50400,' || return 1
	counting --by pid,cpu --max n --min n 'vfs_read n=%dx:u64 if n>=1001 && n<=1008' || return 1
	taskset -c 0 dd if=/dev/zero of=/dev/null bs=1002 count=7 status=none &
	local pid=$!
	wait $pid && watched || return 1
	last "\"hits\":7,\"key\":\{\"cpu\":\"0\",\"pid\":\"$pid\"\},\"max\":1002,\"min\":1002,\"sum\":7014," || return 1
	# A sum of more than 64 bits, and values that cannot be read.
	counting --by comm --sum file 'vfs_read file=%di:x64 n=%dx:u64 if n==1003' || return 1
	reads 1003 3000
	watched || return 1
	last '"hits":3000,"key":\{"comm":"dd"\},"max":18446[67][0-9]{14},"min":18446[67][0-9]{14},"sum":"553[34][0-9]{19}",' || return 1
	counting --hist '+0(%dx):u64' 'vfs_read n=%dx:u64 if n==1003' || return 1
	reads 1003 40
	watched || return 1
	figures='"avg":null,"histogram":\[\],"hits":40,"key":\{"place":"vfs_read"\},"max":null,"min":null,"sum":0,"unread":40'
	last "$figures"
}

# Negative values keep their sign, at an entry and at a return.
totals_signed() {
	local figures
	counting --by comm --hist nice 'set_user_nice nice=%si:s64 if comm==nice' || return 1
	nice_values 3 -7 4
	nice_values 2 -20 0
	watched || return 1
	figures='"avg":-4.9,"histogram":\[\{"from":-21,"hits":2,"to":-20\},\{"from":-7,"hits":3,"to":-7\},\{"from":0,"hits":2,"to":0\},\{"from":4,"hits":3,"to":4\}\],"hits":10,'
	last "$figures\"key\":\{\"comm\":\"nice\"\},\"max\":4,\"min\":-20,\"sum\":-49,\"unread\":0" || return 1
	# The argument is kept from the entry.
	counting --by ok --sum nice 'set_user_nice%return nice=$arg2:s32 ok=$arg2:s8 if comm==nice' || return 1
	nice_values 4 -3
	watched || return 1
	last '"hits":4,"key":\{"ok":"-3"\},"max":-3,"min":-3,"sum":-12,' || return 1
	counting --min '$retval:s32' --by comm 'do_sys_openat2%return if comm==cat' || return 1
	for _ in 1 2 3; do cat "$work/nonexistent" 2>/dev/null; done
	watched || return 1
	last '"key":\{"comm":"cat"\},"max":[0-9]+,"min":-2,' || return 1
	# As text.
	begin_tool watching count --hist nice 'set_user_nice nice=%si:s64 if comm==nice' || return 1
	watch=$tool_pid
	nice_values 2 -7
	watched || return 1
	grep -qE '^         2 +-14 +-7 +-7\.0 +-7  set_user_nice$' "$work/out" &&
		tail -n 1 "$work/out" | grep -qE '^ +-7 - -7 +2  #+$'
}

# Returned values and errors are keys, also beside a sum of them.
totals_returned() {
	local count=2000
	counting --by errno,comm --sum '$retval:s32' 'do_sys_openat2%return if comm==returned' || return 1
	bash -c 'exec 2>/dev/null; printf returned >/proc/$$/comm; for ((i = 0; i < $1; i++)); do : </nonexistent; done' returned $count
	watched || return 1
	last "\"lost\":\{\"in_kernel\":0\}.*\"hits\":$count,\"key\":\{\"comm\":\"returned\",\"errno\":\"ENOENT\"\},\"max\":-2,\"min\":-2,\"sum\":-$((2 * count))," || return 1
	counting --by ret 'do_sys_openat2%return if comm==returned' || return 1
	bash -c 'exec 2>/dev/null; printf returned >/proc/$$/comm; for ((i = 0; i < $1; i++)); do : </nonexistent; done' returned $count
	watched || return 1
	last "\"hits\":$count,\"key\":\{\"ret\":\"-2 \(ENOENT\)\"\}"
}

# number AT SIZE: a number in $work/table.
number() { od -An -tu$2 -j$1 -N$2 "$work/table" | tr -d ' '; }

# A full table counts the hits that it leaves out.
totals_full() { full "by n rows=2 words=2" && full "by n value=n classes=1 rows=2 words=3" added; }

# full LINE [added]: the same of a table of two rows, which may have sums of values.
full() {
	local file bytes hits left_out at row count words classes sum=0 values=0 wanted=0
	exec {file}<>$DIR/totals
	printf '%s\n' "$1" >&$file
	printf 'p full vfs_read n=%%dx:u64 if n>=1001 n<=1008\n' >&$file || return 1
	for bytes in 1 2 3 4 5 6 7 8; do reads $((1000 + bytes)) 10; done
	cat <&$file >"$work/table"
	hits=$(field full hits)
	exec {file}>&-
	is version 1 "$(number 0 4)" || return 1
	left_out=$(number 8 8)
	at=16
	for ((row = $(number 4 4); row > 0; row--)); do
		words=$(number $((at + 4)) 2)
		classes=$(number $((at + 6)) 2)
		count=$(number $((at + 8)) 8)
		sum=$((sum + count))
		# The second word of the key is the value, too.
		wanted=$((wanted + count * $(number $((at + 48 + 8)) 8)))
		values=$((values + $(number $((at + 16)) 8)))
		at=$((at + 48 + words * 8 + classes * 16))
	done
	is hits 80 "$hits" && is size "$(stat -c %s "$work/table")" $at || return 1
	is added 80 $((sum + left_out)) || return 1
	if [ -n "${2:-}" ]; then is values "$wanted" $values || return 1; fi
	# Two rows on each CPU at most.
	[ "$left_out" -ge $((80 - 20 * $(nproc))) ]
}

# The probes of a file go with it, also when its process is killed; others do not.
totals_closed() {
	put 'p mine vfs_open' || return 1
	bash -c 'exec 3<>"$1"; printf "by pid rows=8 words=4\n" >&3; printf "p theirs vfs_read\np more vfs_write\n" >&3; exec sleep 1000' closed $DIR/totals &
	local pid=$!
	until [ "$(wc -l <"$PROBES")" = 3 ]; do
		kill -0 $pid || return 1
		sleep 0.1
	done
	kill -KILL $pid
	wait $pid 2>/dev/null
	until [ "$(wc -l <"$PROBES")" = 1 ]; do sleep 0.1; done
	is left mine "$(sed 's/.*name=\([^ ]*\).*/\1/' "$PROBES")" && put '-mine'
}

# refused_by LINE...: the last line is refused, by a new file.
refused_by() {
	local file line status=0
	exec {file}<>$DIR/totals
	for line; do
		status=0
		if { printf '%s\n' "$line" >&"$file"; } 2>"$work/refused"; then status=1; fi
	done
	exec {file}>&-
	cat "$work/refused"
	return $status
}

totals_refused() {
	local line table='by n rows=8 words=40'
	for line in 'p a vfs_read' 'by n' 'by n rows=8 words=40 classes=1' 'by n rows=8 words=40 value=n times=1' 'by n rows=0 words=1' 'by n rows=1 words=0' 'by n rows=1 words=1 x=1' '' \
		'by n rows=18446744073709551615 words=1' 'by n rows=1000000 words=100000'; do
		refused_by "$line" || { echo "taken: $line"; return 1; }
	done
	# A key without room, a name that is taken, a value that is a text or missing.
	refused_by 'by n value=s rows=8 words=40' 'p a do_sys_openat2 s=+0(%si):string' &&
		refused_by 'by n value=m rows=8 words=40' 'p a vfs_read n=%dx' &&
		refused_by 'by n value=n rows=8 words=2' 'p a vfs_read n=%dx' &&
		refused_by 'by n rows=8 words=1' 'p a vfs_read n=%dx' && refused_by "$table" 'p a vfs_read n=%dx' 'p a vfs_write n=%dx' &&
		refused_by "$table" 'p a do_sys_openat2 n=+0(%si):string256' || return 1
	# Nothing is left of any of them; a read needs a table.
	none_left || return 1
	if cat $DIR/totals; then return 1; fi
	# The command takes records where the kernel cannot add up.
	begin_tool watching probe count --json --by n 'do_sys_openat2 n=+0(%si):string256' || return 1
	watch=$tool_pid
	cat "$work/nonexistent" 2>/dev/null
	watched || return 1
	tail -n 1 "$work/out" | grep -q "{\"hits\":1,\"key\":{\"n\":\"\\\\\"$work/nonexistent\\\\\"\"}}"
}

# Values that cannot be added up have messages.
totals_no_values() {
	local line
	while read -r line; do
		# shellcheck disable=SC2086
		if eval "\"\$FERROTRACE\" count $line" >"$work/out" 2>"$work/err"; then
			echo "taken: $line"
			return 1
		fi
		cat "$work/err"
	done <<-'EOF'
		'do_sys_openat2 s=+0(%si):string' --sum s
		vfs_read --sum '%dx:string'
		vfs_read --sum 'a b'
		vfs_read --sum '%dx' --max '%si'
		vfs_read --sum '$retval'
		--sum nothing
	EOF
	grep -q 'sum nothing\|nothing: no probe' "$work/err"
}

# Tables come and go, with timers and system calls that hit on all CPUs, also when the command is
# killed. What a late hit would write into freed memory shows as a splat.
totals_storm() {
	local round kind signal places=('*hrtimer*' 'tick_*' 'vfs_*' do_sys_openat2)
	# One by one, all of these take minutes.
	if on_mainline; then places=('hrtimer_i*' 'vfs_r*' do_sys_openat2); fi
	load_up
	for round in $(seq "$(storm_rounds 8)"); do
		for kind in count time; do
			begin_tool watching probe $kind --by comm,place "${places[@]}" || return 1
			sleep 0.5
			signal=INT
			if [ $((round % 2)) = 0 ]; then signal=KILL; fi
			kill -$signal "$tool_pid"
			wait "$tool_pid" 2>/dev/null
			until none_left >/dev/null; do sleep 0.1; done
		done
	done
	load_down
}

# Several commands count the same calls at a time.
totals_together() {
	local first second
	"$FERROTRACE" probe count --json --by n 'vfs_read n=%dx:u64 if n==1003' >"$work/counted" 2>"$work/counted.err" &
	first=$!
	"$FERROTRACE" probe time --json --by n 'vfs_read n=$arg3:u64 if n==1003' >"$work/timed" 2>"$work/timed.err" &
	second=$!
	until grep -q watching "$work/counted.err" && grep -q watching "$work/timed.err"; do
		if ! kill -0 $first $second; then
			cat "$work"/*.err
			return 1
		fi
		sleep 0.1
	done
	reads 1003 3000
	kill -INT $first $second
	wait $first && wait $second || return 1
	tail -n 1 "$work/counted" | grep -q '"hits":3000,"missed":0' && tail -n 1 "$work/timed" | grep -q '"histogram":.*"hits":3000,"missed":0'
}
