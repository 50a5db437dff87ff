# SPDX-License-Identifier: GPL-2.0
#
# Output of a watch, and its behaviour with interference, without a reader, or on a terminal. Part
# of run.sh.
# shellcheck shell=bash disable=SC2086,SC2154
# shellcheck shell=bash disable=SC2086,SC2154

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
	# A CPU may be stopped between taking the time and writing; then the watch reports how many
	# events were late.
	late=$(sed -n 's/.*"time":\([0-9]*\).*/\1/p' "$work/out" |
		awk '$1 < last { late++ } $1 > last { last = $1 } END { print late + 0 }')
	tail -n 1 "$work/out" | grep -q "\"dropped\":0,\"events\":[0-9]*,\"late\":$late\\b" && put '-*'
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

# In a container processes have other numbers than in the kernel's records; the watch says so, and
# only there.
container() {
	contained() { unshare -m -p -f --mount-proc "$FERROTRACE" probe watch -d 0.1 "$@" 2>"$work/err" && cat "$work/err"; }
	probe watch do_exit -p 1 -d 0.1 2>"$work/err" && ! grep "PID namespace" "$work/err" || return 1
	contained do_exit -p 1 && grep "PID namespace" "$work/err" || return 1
	contained 'do_exit if pid==1' && grep "PID namespace" "$work/err"
}

# A watch and a recording of the channel do not take hits from each other. relay list finds the
# channel.
two_readers() {
	"$FERROTRACE" relay list | grep "^$DIR/cpu  *fast " || return 1
	watching kernel_clone || return 1
	refused "another process is reading" "$FERROTRACE" relay record $DIR/cpu -o "$work/second" -d 0.1 || return 1
	(:)
	watched && grep '^[1-9][0-9]* events, 0 dropped' "$work/out" && none_left || return 1
	"$FERROTRACE" relay record $DIR/cpu -o "$work/second" -q &
	local recorder=$!
	until [ -e "$work/second/cpu0" ]; do sleep 0.1; done
	refused "another process is reading" probe watch kernel_clone && none_left || return 1
	kill -INT $recorder && wait $recorder
}

# Another process removes the watched probes.
removed() {
	watching kernel_clone do_exit || return 1
	(:)
	probe remove --all && watched || return 1
	grep '^kernel_clone: [1-9][0-9]* events, 0 missed$' "$work/out"
}

# Without a reader, events that do not fit are counted.
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

# Output of "relay record" and "relay merge" for the channel.
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
	# Probes of a file, which their instance still has.
	program && mount_tracing && watching "$work/program:inner" "$work/program:outer%return" || return 1
	kill -KILL "$watch"
	wait "$watch" 2>/dev/null
	grep -q "ferrotrace/watch_${watch}_" /sys/kernel/tracing/uprobe_events || return 1
	watching "$work/program:inner" 2>/dev/null && run_program && watched || return 1
	is left "" "$(cat /sys/kernel/tracing/uprobe_events && ls /sys/kernel/tracing/instances)"
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
		# Only changes are drawn, unless the size is another. Not at once: a key that
		# arrives with a new size waits for the next key.
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
