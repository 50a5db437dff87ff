#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions in Rust that ftrace reaches, on the running kernel; as root. Prints KTAP.
#
#	run.sh [CASE...]	CASE: the beginning of a case's name; without one all
#
# The modules are in $FTRACE_RUST_SELFTESTS; the kernel's objects, ours and the sample are in $FERROTRACE_KDIR.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
modules=${FTRACE_RUST_SELFTESTS:-$FERROTRACE_KDIR/selftests-ftrace_rust/module}
self=$DEBUGFS/ftrace_rust_selftest
device=/dev/rust_traced
sample=${RUST_TRACED:-$MODULE_DIR/samples/rust_traced.ko}
tracing=/sys/kernel/tracing

mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"
[ -e $device ] || ! [ -e "$sample" ] || load_file "$sample"
[ -c $device ] || bail "no $device"
# which the client links to, where the engine is a module
load_ours rust_kprobes
load_file "$modules/ftrace_rust_selftest.ko"
echo 16384 >$tracing/buffer_size_kb

# The written text, and the driver's calls for it: one for each word, each line, and each 256 bytes.
WORDS=1500 LINES=500
seq -f 'line %g it' $LINES >"$work/text"
BYTES=$(wc -c <"$work/text")
CHUNKS=$(((BYTES + 255) / 256))

# listed: the functions that ftrace can trace, of modules, too.
listed() { cut -d ' ' -f 1 $tracing/available_filter_functions | sort -u; }

# The names at the beginning: looking up all names takes time.
listed >"$work/names"

# symbol PART: the name of the one function that was listed and that ends so, as Rust mangles it.
symbol() {
	local found
	found=$(grep "^_R.*$1\$" "$work/names") || {
		echo "not listed: $1" >&2
		return 1
	}
	[ "$(wc -l <<<"$found")" = 1 ] || {
		echo "several: $found" >&2
		return 1
	}
	echo "$found"
}

# of_sample FUNCTION...: the names of the sample's.
of_sample() {
	local part
	for part; do symbol "11rust_traced.*$part" || return 1; done
}

# use: writes the text and reads the driver's counts, which must be right.
use() {
	local got
	exec 3<>$device || return 1
	# in one read, which the shell does not
	cat "$work/text" >&3 && got=$(dd bs=64 count=1 status=none <&3)
	exec 3>&-
	[ "$got" = "$LINES $WORDS $BYTES" ] || {
		echo "the driver: $got, not $LINES $WORDS $BYTES"
		return 1
	}
}

# is NAME WANT GOT
is() {
	[ "$2" = "$3" ] || {
		echo "$1: $3, not $2"
		return 1
	}
}

# calls NAME: how many of a function are in the trace.
calls() { grep -cF ": $1 <-" $tracing/trace; }

# no_tracer: as it was.
no_tracer() {
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	echo >$tracing/set_graph_function
	echo >$tracing/trace
}
# A case leaves no tracer and no client, and ftrace intact.
after() {
	no_tracer
	echo stop >$self/ctl
	! dmesg | grep -E 'ftrace bug|WARNING:|BUG:'
}
clean_up() { after >/dev/null; }

# traced NAMES...: with a tracer of these functions uses the driver.
traced() {
	printf '%s\n' "$@" >$tracing/set_ftrace_filter && echo function >$tracing/current_tracer && use
	# lost calls could not be counted
	! grep -h '^overrun: [1-9]' $tracing/per_cpu/cpu*/stats
}

sites_of_the_sample() { of_sample 6Totals4text 6Totals4word 6Totals4line 10write_iter 9read_iter; }

# functions_of PATH...: names of all functions in Rust that are defined in objects there.
functions_of() { find "$@" -name '*.o' -print0 | xargs -0 nm --defined-only 2>/dev/null | awk '$2 ~ /[tTwW]/ && $3 ~ /^_R/ { print $3 }' | sort -u; }

sites_of_the_kernel_crate() {
	local with all
	functions_of "$FERROTRACE_KDIR/rust/kernel.o" >"$work/kernel"
	# Identical functions have several names for one address, one of which is listed.
	all=$(nm --defined-only "$FERROTRACE_KDIR/rust/kernel.o" | awk '$2 ~ /[tTwW]/ && $3 ~ /^_R/ { print $1 }' | sort -u | wc -l)
	with=$(comm -12 "$work/names" "$work/kernel" | wc -l)
	echo "$with of $all functions"
	# all except those in code that is freed after booting
	[ "$with" -gt 100 ] && [ $((with * 10)) -gt $((all * 9)) ]
}

# No code that callbacks execute, or that is called from everywhere.
no_sites_elsewhere() {
	local crate has
	load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_jprobe \
		ferrotrace_kprobe_events rust_ftrace_tramp clients/klog_relay
	# not of the sample
	find "$MODULE_DIR" -name '*.o' ! -name 'rust_traced*' >"$work/objects"
	find "$FERROTRACE_KDIR"/rust -maxdepth 1 -name '*.o' ! -name kernel.o >>"$work/objects"
	xargs nm --defined-only 2>/dev/null <"$work/objects" | awk '$2 ~ /[tTwW]/ && $3 ~ /^_R/ { print $3 }' | sort -u >"$work/out"
	wc -l "$work/out"
	# an empty list would be right of anything
	for crate in 4core 10ferro_core 9ferro_sys 10ferro_gkhi 10ferro_klog 18ferro_kprobes_core 21ferro_fast_relay_core 14kprobes_engine 12relay_engine; do
		has=$(grep -c "$crate" "$work/out")
		echo "$crate: $has"
		[ "$has" -gt 10 ] || return 1
	done
	listed | comm -12 - "$work/out" | tee "$work/both"
	! [ -s "$work/both" ]
}

# Modules outside of the tree: the one with RUST_FTRACE, not the other.
sites_of_modules() {
	load_file "$modules/ftrace_rust_chosen.ko"
	load_file "$modules/ftrace_rust_left.ko"
	listed >"$work/with"
	grep '18ftrace_rust_chosen6length$' "$work/with" && grep -q '16ftrace_rust_left6length' /proc/kallsyms && ! grep 16ftrace_rust_left "$work/with"
	is "what is listed" 0 $? || return 1
	rmmod ftrace_rust_chosen ftrace_rust_left || return 1
	! listed | grep -E 'ftrace_rust_(chosen|left)'
}

tracer_function() {
	local names
	mapfile -t names < <(of_sample 6Totals4text 6Totals4word 6Totals4line)
	traced "${names[@]}" || return 1
	is text $CHUNKS "$(calls "${names[0]}")" && is word $WORDS "$(calls "${names[1]}")" &&
		is line $LINES "$(calls "${names[2]}")" || return 1
	# called from where they are
	is "words in a text" $WORDS "$(grep -cF ": ${names[1]} <-${names[0]}" $tracing/trace)"
}

# Calls of the kernel crate by the driver: one string, with three numbers in it, which it writes
# twice, first for its length.
tracer_kernel_crate() {
	local string number
	string=$(symbol '3str.*7CString12try_from_fmt') && number=$(symbol '6kernel3fmty.*7Display3fmt') || return 1
	traced "$string" "$number" || return 1
	is strings 1 "$(calls "$string")" && is numbers 6 "$(calls "$number")"
}

tracer_function_graph() {
	local names
	mapfile -t names < <(of_sample 6Totals4text 6Totals4word)
	[ -w $tracing/set_graph_function ] || {
		skip="no function_graph"
		return
	}
	echo "${names[0]}" >$tracing/set_graph_function && echo function_graph >$tracing/current_tracer && use || return 1
	# a call, of a module or not, with words in it, which an interrupt may be in
	is texts $CHUNKS "$(grep -cE "\| +${names[0]}( \[rust_traced\])?\(\) \{" $tracing/trace)" &&
		is words $WORDS "$(grep -cE "\|    +${names[1]}( \[rust_traced\])?\(\)(;| \{)" $tracing/trace)"
}

# Everything that ftrace has, with Rust called and calling.
tracer_all() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo function >$tracing/current_tracer && use && echo 0 >$tracing/tracing_on
	is word $WORDS "$(calls "$word")"
	local failed=$?
	echo 1 >$tracing/tracing_on
	echo nop >$tracing/current_tracer
	[ -w $tracing/set_graph_function ] && echo function_graph >$tracing/current_tracer && use
	return $failed
}

# counted CALLS HITS: checks the clients' counts of one use.
counted() {
	use && printf 'calls %d\nhits %d\nwrong 0\n' "$1" "$2" >"$work/want" && diff "$work/want" $self/info
}

clients_ops() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo "ops function=$word" >$self/ctl && counted $WORDS 0 && echo stop >$self/ctl && counted 0 0
}

clients_ops_regs() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo "ops function=$word regs=1" >$self/ctl && counted $WORDS 0
}

clients_kprobe() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo "probe function=$word" >$self/ctl || return 1
	grep -F "$word" $DEBUGFS/kprobes/list
	grep -F "$word" $DEBUGFS/kprobes/list | grep -qF '[FTRACE]' && counted 0 $WORDS
}

# All at once, on one function.
clients_together() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo "ops function=$word regs=1" >$self/ctl && echo "probe function=$word" >$self/ctl &&
		echo "$word" >$tracing/set_ftrace_filter && echo function >$tracing/current_tracer &&
		counted $WORDS $WORDS && is "function tracer" $WORDS "$(calls "$word")"
}

# The code of probes and trampolines has no traced site in Rust: there are as many calls with them
# as without.
clients_callbacks() {
	local word with without
	word=$(of_sample 6Totals4word) || return 1
	echo '_R*' >$tracing/set_ftrace_filter && echo '!*11rust_traced*' >>$tracing/set_ftrace_filter &&
		echo function >$tracing/current_tracer && use || return 1
	without=$(grep -c ': _R.* <-' $tracing/trace)
	echo nop >$tracing/current_tracer
	echo >$tracing/trace
	echo "ops function=$word regs=1" >$self/ctl && echo "probe function=$word" >$self/ctl || return 1
	echo function >$tracing/current_tracer && counted $WORDS $WORDS || return 1
	with=$(grep -c ': _R.* <-' $tracing/trace)
	echo "$(wc -l <$tracing/set_ftrace_filter) functions, $without calls, $with with probes"
	[ "$without" -gt 0 ] && [ "$with" = "$without" ]
}

module_comes_and_goes() {
	local i rounds word
	word=$(of_sample 6Totals4word) || return 1
	rounds=$(storm_rounds 6)
	echo function >$tracing/current_tracer
	for ((i = 0; i < rounds; i++)); do
		rmmod rust_traced || return 1
		! listed | grep 11rust_traced || return 1
		insmod "$sample" && use || return 1
	done
	echo nop >$tracing/current_tracer
	# Before the module is loaded, its name waits; then its functions are traced.
	rmmod rust_traced || return 1
	echo '*:mod:rust_traced' >$tracing/set_ftrace_filter && echo >$tracing/trace && echo function >$tracing/current_tracer || return 1
	insmod "$sample" && use && is word $WORDS "$(calls "$word")"
}

# Neither an ops nor a kprobe keeps it from being unloaded.
module_goes_from_clients() {
	local word
	word=$(of_sample 6Totals4word) || return 1
	echo "ops function=$word" >$self/ctl && counted $WORDS 0 && rmmod rust_traced && insmod "$sample" && use &&
		echo stop >$self/ctl || return 1
	echo "probe function=$word" >$self/ctl && counted 0 $WORDS && rmmod rust_traced && echo stop >$self/ctl &&
		insmod "$sample" && counted 0 0
}

wanted=("$@")
# some NAME CMD...: a check, if it was asked for.
some() {
	local prefix
	for prefix in "${wanted[@]:-}"; do
		case $1 in "$prefix"*) check "$@"; return ;; *) ;; esac
	done
}

echo "TAP version 13"
some sites.of_the_sample sites_of_the_sample
some sites.of_the_kernel_crate sites_of_the_kernel_crate
some sites.not_of_others no_sites_elsewhere
some sites.of_modules sites_of_modules
some use use
some tracer.function tracer_function
some tracer.kernel_crate tracer_kernel_crate
some tracer.function_graph tracer_function_graph
some tracer.all tracer_all
some clients.ops clients_ops
some clients.ops_regs clients_ops_regs
some clients.kprobe clients_kprobe
some clients.together clients_together
some clients.callbacks clients_callbacks
if [ -e "$sample" ]; then
	some module.comes_and_goes module_comes_and_goes
	some module.goes_from_clients module_goes_from_clients
fi
finish
