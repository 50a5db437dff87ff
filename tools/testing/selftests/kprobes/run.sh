#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the kprobes selftests on the running kernel, as root, and prints KTAP.
#
#	run.sh VARIANT [CASE...]	CASE: the beginning of a case's name; without one all except oops.*
#
# Cases that the list "expected-failures" (mainline) or "expected-failures.rust" names must fail,
# and no others. The modules are in $KPROBES_SELFTESTS, the engine's module (if it is one) is in
# $FERROTRACE_KDIR.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
variant=${1:?usage: run.sh VARIANT [CASE...]}
shift
modules=${KPROBES_SELFTESTS:-$FERROTRACE_KDIR/selftests-kprobes/module}
self=/sys/kernel/debug/kprobes_selftest
list=/sys/kernel/debug/kprobes/list
touch "$work/expected" "$work/complaints" "$work/results"

failures=expected-failures.rust
if [ "$variant" = mainline ]; then failures=expected-failures; fi
grep -v -e '^#' -e '^$' "$here/$failures" >"$work/expected"
load_ours rust_kprobes ferrotrace_jprobe
# mainline registers a batch one by one, and takes a minute for a thousand.
many=1000
if [ "$variant" = mainline ]; then many=150; fi
# Each look at it takes long: every symbol is looked up.
blacklist=$DEBUGFS/kprobes/blacklist
listed_before=$(wc -l <$blacklist)
# Where that is that no module is meant to call: declared.c.
mapfile -t declared < <(awk -v names='get_kprobe kprobes_inc_nmissed_count within_kprobe_blacklist
	kprobe_add_ksym_blacklist kprobe_add_area_blacklist text_poke_copy' '
	BEGIN { for (n = split(names, list); n; n--) wanted[list[n]] }
	$3 in wanted { print $3 "=0x" $1; delete wanted[$3] }' /proc/kallsyms)
early=$(cat /sys/module/rust_kprobes/parameters/post_stops 2>/dev/null)
load_file "$modules/kprobes_selftest.ko" many=$many ms="$(storm_rounds 2000)" returns_early="${early:-N}" "${declared[@]}"
# All at once: bash seeks back in a file between two lines, and this file is then generated again
# from its beginning.
mapfile -t cases <$self/cases
[ ${#cases[@]} != 0 ] || bail "no cases"
# Thousands of probes are registered and unregistered, and each waits.
echo 1 >/sys/kernel/rcu_expedited
# KST_JUMPS=0: cases other than jump.* are about breakpoints; optimising continues for some time
# after a call has returned.
# KST_JUMPS=1: jumps may be placed in all cases.
KST_JUMPS=${KST_JUMPS:-0}
jumps=/proc/sys/debug/kprobes-optimization
echo "$KST_JUMPS" >$jumps

# selected NAME [CASE...]: succeeds if the case was asked for.
selected() {
	local name=$1 want
	shift
	if [ $# = 0 ]; then
		case $name in oops.*) return 1 ;; *) return 0 ;; esac
	fi
	for want; do
		case $name in "$want"*) return 0 ;; *) ;; esac
	done
	return 1
}

# shows PATTERN [COUNT]: debugfs kprobes/list has so many such lines.
shows() {
	local count
	count=$(grep -cE "$1" "$list")
	[ "$count" = "${2:-1}" ] && return
	echo "# $count lines, not ${2:-1}, of '$1':"
	sed 's/^/# /' "$list"
	return 1
}

# more FIELD: waits until there are more probes that were registered (1) or refused (2).
more() {
	local counts=/sys/module/kprobes_selftest/parameters/unload_counts before tries=0
	before=$(cut -d ' ' -f "$1" $counts)
	until [ "$(cut -d ' ' -f "$1" $counts)" -gt "$before" ]; do
		if [ $((tries += 1)) = 3000 ]; then
			echo "# no probes any more: $(<$counts)"
			return 1
		fi
		sleep 0.02
	done
}

# come_and_go: loads and unloads a probed module. Registering a probe holds the module for a moment.
come_and_go() {
	local rounds tries
	rounds=$(storm_rounds 15)
	while [ $((rounds -= 1)) -ge 0 ]; do
		insmod "$modules/kprobes_selftest_target.ko" && more 1 || return 1
		for tries in 1 2 3 4 5 6 7 8; do
			echo 1 >/sys/module/kprobes_selftest_target/parameters/call || return 1
			sleep 0.03
		done
		tries=0
		until rmmod kprobes_selftest_target 2>/dev/null; do
			if [ $((tries += 1)) = 3000 ]; then
				echo "# the module cannot be removed, $rounds rounds before the end"
				return 1
			fi
			sleep 0.02
		done
		more 2 || return 1
	done
}

# between STEP: actions and checks after a step of a case in several steps.
between() {
	local enabled=/sys/kernel/debug/kprobes/enabled name
	local target=$modules/kprobes_selftest_target.ko
	case $1 in
	debugfs.1_*)
		shows '^[0-9a-f]{16}  k  kst_bytes\+0xa  kprobes_selftest (\[OPTIMIZED\])?$' &&
			shows '^[0-9a-f]{16}  k  kst_endbr\+0x4  kprobes_selftest \[DISABLED\]$' &&
			shows '^[0-9a-f]{16}  k  kst_target_2\+0x[04]  kprobes_selftest \[FTRACE\]$' 2 &&
			shows '^[0-9a-f]{16}  r  kst_target\+0x[04]  kprobes_selftest \[FTRACE\]$' || return 1
		cat $blacklist >"$work/blacklist"
		for name in kst_nokprobe kst_kprobes_text kst_noinstr notify_die asm_exc_int3 exc_int3; do
			grep -qE "^0x[0-9a-f]{16}-0x[0-9a-f]{16}"$'\t'"$name( \\[kprobes_selftest\\])?$" "$work/blacklist" && continue
			echo "# $name is not in the blacklist"
			return 1
		done
		[ "$(<$enabled)" = 1 ]
		;;
	debugfs.2_*) echo 0 >$enabled && [ "$(<$enabled)" = 0 ] ;;
	debugfs.3_*) shows 'kst_bytes' 2 && echo 1 >$enabled && [ "$(<$enabled)" = 1 ] ;;
	unload.1_*) insmod "$target" ;;
	unload.2_*) shows 'kst_target_module' 5 && echo 1 >/sys/module/kprobes_selftest_target/parameters/call ;;
	unload.3_*) rmmod kprobes_selftest_target && shows '\[GONE\]' 5 ;;
	unload.4_*) insmod "$target" ;;
	unload.5_*) rmmod kprobes_selftest_target && insmod "$target" ;;
	unload.6_*) echo 1 >/sys/module/kprobes_selftest_target/parameters/call ;;
	unload.7_*) rmmod kprobes_selftest_target ;;
	unload.8_*) come_and_go ;;
	races.in_any_order) echo 0 >$enabled ;;
	races.in_any_order_disarmed) echo 1 >$enabled ;;
	*) ;;
	esac
}

# reasons PATTERN...: the log gives each of them for a jprobe that was refused.
reasons() {
	local reason
	for reason; do
		# Not -q, which dmesg might not outlive.
		dmesg | grep -E "no jprobe.*: $reason\$" >/dev/null && continue
		echo "# the log does not say: $reason"
		return 1
	done
}

# graph TRACER: sets the tracer for a handler of jprobe.c, for the functions that it calls, and for
# the caller of the probed function.
graph() {
	local tracing=/sys/kernel/tracing
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	echo nop >$tracing/current_tracer
	echo on_six_below below returns_after >$tracing/set_ftrace_filter
	echo "$1" >$tracing/current_tracer
}

# traced TRACER: makes that tracer trace the functions that breakpoints and interrupts execute, and
# none of this module: its text is compared.
traced() {
	local tracing=/sys/kernel/tracing
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return 1
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	echo >$tracing/set_ftrace_notrace
	[ "$1" = nop ] && return
	echo '*int3*' '*kgdb*' '*kprobe*' '*notif*' '*rcu*' '*irq*' 'vfs_*' 'ksys_*' >$tracing/set_ftrace_filter
	echo '*:mod:kprobes_selftest' >$tracing/set_ftrace_notrace
	echo "$1" >$tracing/current_tracer
}

# toggle: switches jumps off and on until it is killed.
toggle() {
	while :; do
		echo 0 >$jumps
		echo 1 >$jumps
		# Some get there in between.
		sleep 0.2
	done
}

# through NAME: has the module run it, jump.perf_* while perf watches.
through() {
	local perf=${modules%/module}/perf_test
	case $1 in
	jump.perf_pages) "$perf" pages $self/run "$1" >"$work/perf" ;;
	jump.perf_trace)
		mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || return 1
		"$perf" trace $self/run "$1" >"$work/perf"
		;;
	*) echo "$1" >$self/run ;;
	esac
}

# perf_saw NAME: checks the events that perf got, /proc/kallsyms and the log.
perf_saw() {
	local name
	case $1 in
	jump.perf_pages)
		# They are written to, and at least one is freed.
		awk -v min="$((many / 100))" '
			$1 == "kprobe_optinsn_page" { found = $2 >= min && $3 > 0 && $4 >= $2 * 4 }
			END { exit !found }' "$work/perf" && grep -q kprobe_optinsn_page /proc/kallsyms && return
		sed "s/^/# $1: /" "$work/perf"
		return 1
		;;
	*) ;;
	esac
	# The probed function, with its registers at hand, and its caller: those frames are sure.
	dmesg | sed 's/^\[[^]]*\] *//' >"$work/said"
	for name in kst_jump kst_jump_dumped; do
		if ! grep -qx $name "$work/perf"; then
			echo "# $1: $name is not in the call chains:"
			sort "$work/perf" | uniq -c | sed "s/^/# $1: /"
			return 1
		elif ! grep -qE "^(RIP: 0010:)?$name\\+0x" "$work/said"; then
			echo "# $1: $name is not in the stack dump:"
			sed "s/^/# $1: /" "$work/said"
			return 1
		fi
	done
}

# oops_names NAME: the last Oops is of kst_dies, with the address that it could not read: in RIP for the first of the instructions that
# a jump displaces, in a line of its own for those after it.
oops_names() {
	local register=RDI where='RIP: 0010:kst_dies\+0x[15]/'
	case $1 in
	*_second) register=RSI where='instruction at kst_dies\+0x[37] .*runs in a detour' ;;
	*) ;;
	esac
	# shellcheck disable=SC2016
	dmesg | sed -n '/cut here\|BUG: /h;//!H;${g;p}' >"$work/oops"
	grep -qE "$where" "$work/oops" && grep -qE "$register: 0000000000000dea" "$work/oops" && return
	sed "s/^/# $1: /" "$work/oops"
	return 1
}

# whole VARIABLE FILE: reads the file without a new process, and without jumps, which are placed at
# any time.
whole() {
	IFS= read -rd '' "$1" <"$2"
	printf -v "$1" %s "${!1//\[OPTIMIZED\]/}"
}

# run NAME: the module's verdict, and a check of the state after the case. Programs are slow here:
# only the shell's own are used.
run() {
	local name=$1 verdict=not before said now toggles=
	whole before "$list"
	case $name in debugfs.1_* | unload.1_*) before_steps=$before ;; *) ;; esac
	# a probe that is registered twice is warned of, once
	case $name in
	refuse.twice | refuse.batch_same_twice | fault.refused | several.register_again) dmesg -n 1 ;;
	jprobe.traced_*) graph function_graph ;;
	context.function_tracer*) traced function ;;
	context.graph_tracer*) traced function_graph ;;
	jump.*) echo 1 >$jumps ;;
	oops.in_*) echo 1 >$jumps && echo 0 >/proc/sys/kernel/panic_on_oops ;;
	oops.*) echo 0 >/proc/sys/kernel/panic_on_oops ;;
	*) ;;
	esac
	case $name in
	jump.toggled*)
		toggle &
		toggles=$!
		;;
	*) ;;
	esac
	if through "$name"; then
		whole said $self/run
		case $said in
		ok*) verdict=ok ;;
		skipped*) verdict=skip ;;
		*) ;;
		esac
		said=${said#ok$'\n'} said=${said%$'\n'}
		if [ "$said" ]; then printf '# %s: %s\n' "$name" "${said//$'\n'/$'\n'# $name: }"; fi
	fi
	if [ "$toggles" ]; then
		kill $toggles
		wait $toggles 2>/dev/null
		echo 1 >$jumps
	fi
	case $name in
	refuse.twice | refuse.batch_same_twice | fault.refused | several.register_again) dmesg -n 7 ;;
	*) ;;
	esac
	case $name in
	debugfs.* | unload.* | races.*) between "$name" || verdict=not ;;
	jprobe.refuse)
		reasons NULL 'it has no handler' 'it has handlers of a kprobe' 'its handler is not code of the kernel' \
			'not the start of a function' 'it is registered already' 'error -[0-9]+ from kprobes' || verdict=not
		;;
	jprobe.traced_*)
		# Each call is there, and no return of them.
		[ "$(grep -c 'below.*{$' /sys/kernel/tracing/trace)" -ge 70 ] || verdict=not
		graph nop
		;;
	context.*_tracer*) traced nop || verdict=not ;;
	oops.in_*)
		oops_names "$name" || verdict=not
		echo "$KST_JUMPS" >$jumps
		;;
	jump.*) echo "$KST_JUMPS" >$jumps ;;
	*) ;;
	esac
	case $name in jump.perf_*) perf_saw "$name" || verdict=not ;; *) ;; esac
	case $name in
	# these go on with the next step
	debugfs.[1-4]_* | unload.[1-35-68]_*) whole before "$list" ;;
	debugfs.5_* | unload.[479]_*) before=$before_steps ;;
	*) ;;
	esac
	# In the storm they change.
	whole now "$list"
	if [ "${name%%_*}" != unload.8 ] && [ "$before" != "$now" ]; then
		verdict=not
		sed "s/^/# $name: left: /" "$list"
	fi
	echo "$name $verdict" >>"$work/results"
}

echo "TAP version 13"
tests=
norun=" $(awk '$2 == "norun" { printf "%s ", $1 }' "$work/expected")"
dmesg -C
for name in "${cases[@]}"; do
	selected "$name" "$@" || continue
	case " $tests " in *" ${name%%.*} "*) ;; *) tests="$tests ${name%%.*}" ;; esac
	case $norun in *" $name "*) continue ;; *) ;; esac
	run "$name"
done
if grep -qE 'kst_(nokprobe|kprobes_text|noinstr)' $blacklist; then black=1; else black=; fi

# Of a few cases only these are expected to do anything.
if [ $# != 0 ]; then
	while read -r line; do
		if selected "${line%% *}" "$@"; then echo "$line"; fi
	done <"$work/expected" >"$work/expected.some"
	mv "$work/expected.some" "$work/expected"
fi
# refusals: the reasons of the last refused probes are in debugfs, and not in the log.
refusals() {
	local refused=$DEBUGFS/kprobes/refused lines
	lines=$(wc -l <$refused)
	[ "$lines" -gt 0 ] && [ "$lines" -le 64 ] || return 1
	if grep -vE '^no probe at .+: .+' $refused || dmesg | grep 'no probe at '; then return 1; fi
}

case "$variant $tests " in
mainline*) ;;
*" refuse "*) if refusals; then echo "module.refusals ok"; else echo "module.refusals not"; fi >>"$work/results" ;;
*) ;;
esac
# stack: a hit's use of the stack below the probed code, for any fetched arguments: kprobe_events of
# tracefs take 1240 bytes.
stack() {
	local probes=$DEBUGFS/ferrotrace_kprobe_events/probes used=/sys/module/kprobes_selftest/parameters/stack line bytes worst=0
	cat $used >/dev/null 2>&1 || return 2
	load_ours ferrotrace_fast_relay ferrotrace_kprobe ferrotrace_kprobe_events
	while read -r line; do
		echo "$line" >$probes || return 1
		# The first hit does one-time work.
		cat $used >"$work/stack"
		bytes=$(<$used)
		echo "# stack: $bytes bytes: $line"
		# 1,000, and the unwinder's need once the graph tracer was on.
		if ! [ "$bytes" -le 1100 ]; then worst=1; fi
		echo '-*' >$probes
	done <<-'END'
		p a kst_stack+0x14
		p a kst_stack+0x14 v=%di
		p a kst_stack+0x14 v=+0(%si):string
		p a kst_stack+0x14 v=+0(%si):string if v~hello*
		p a kst_stack+0x14 v=$kstack
		p a kst_stack+0x14 v=$kstack w=$ustack s=+0(%si):string if s~hello*
		r a kst_stack v=$retval
		r a kst_stack v=$kstack s=+0($arg2):string if s~hello*
	END
	# The blacklist must have no entry of them.
	rmmod ferrotrace_kprobe_events ferrotrace_kprobe || return 1
	# It may be built in.
	rmmod ferrotrace_fast_relay 2>/dev/null
	return $worst
}

# With mainline's engine, the stack includes that engine's use.
if selected module.stack "$@" && [ "$variant" != mainline ]; then
	stack
	case $? in
	0) echo "module.stack ok" >>"$work/results" ;;
	2) echo "module.stack skip" >>"$work/results" ;;
	*) echo "module.stack not" >>"$work/results" ;;
	esac
fi
echo 0 >/sys/kernel/rcu_expedited
rmmod kprobes_selftest || echo "module.removal not" >>"$work/results"
cat $blacklist >"$work/blacklist"
if [ -z "$black" ] || grep -q kst_ "$work/blacklist"; then
	echo "module.blacklist_goes_with_it not" >>"$work/results"
else
	echo "module.blacklist_goes_with_it ok" >>"$work/results"
fi
if [ "$(wc -l <"$work/blacklist")" = "$listed_before" ]; then
	echo "module.blacklist_is_as_before ok" >>"$work/results"
else
	echo "module.blacklist_is_as_before not" >>"$work/results"
fi
# forgets: a client is unloaded without unregistering its probes, while a task sleeps in a function
# of theirs.
forgets() {
	local probes
	probes=$(wc -l <$list)
	insmod "$modules/kprobes_selftest_leak.ko" || return 1
	[ "$(wc -l <$list)" = $((probes + 2)) ] || return 1
	sleep 1000 &
	until [ "$(cat "/proc/$!/wchan")" = hrtimer_nanosleep ]; do sleep 0.02; done
	rmmod kprobes_selftest_leak || return 1
	# It returns.
	kill $!
	wait $!
	[ "$(wc -l <$list)" = "$probes" ]
}

if [ "$variant" = mainline ]; then
	# The kernel would die.
	echo "module.forgets skip" >>"$work/results"
elif forgets; then
	echo "module.forgets ok" >>"$work/results"
else
	echo "module.forgets not" >>"$work/results"
fi
# A complaint of the kernel belongs to the case that ran.
dmesg >"$work/dmesg"
took_in_log "$work/dmesg"
grep -vE 'WARNING: .* at (register_k|ferro_registered_twice)' "$work/dmesg" | awk '
	/kprobes_selftest: RUN / { name = $NF }
	# these cases are about an Oops
	name ~ /^oops\./ { next }
	/WARNING: |BUG: |Oops|INFO: (task|rcu|possible)|refcount_t:|general protection/ { print name ? name : "module.log", $0 }
' >"$work/complaints"
awk -v tests="$tests" -f "$here/../relay/judge.awk" "$work/expected" "$work/complaints" "$work/results"
