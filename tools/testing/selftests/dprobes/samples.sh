# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Each of samples/dprobes that no other case of tool.sh runs: it behaves as its head describes.
# tool.sh reads this, and calls ran_NAME for each of ran_samples.
# shellcheck disable=SC2034,SC2154,SC2317,SC2329

ran_samples=(big_writes follow exits softirqs hundred heap new_module execute_watch page_faults switches user_context
	stack_words panic_message sleepers malloc_dump connect subroutines signals)

# sum ARGS...: of the variables that "getvars" shows.
sum() { tool getvars "$@" | awk '{ sum += $4 } END { print sum + 0 }'; }

# shows NAME PATTERN CMD...: "watch" of a sample shows a line that ends with the pattern when the command has run.
shows() {
	watching "$samples/$1.dp" || return 1
	"${@:3}" >/dev/null 2>&1
	watched " [^:]*: $2\$"
}

# The output of watch for a word, and for memory after the first byte.
word='0x[0-9a-f]+' more='( [0-9a-f]{2})'

ran_big_writes() { shows big_writes '0x200000, \[00( 00){31}\]' dd if=/dev/zero "of=$work/big" bs=2M count=1; }

# Most chains leave memory: its exception handler shows where.
ran_follow() { shows follow "$word $word" cat /etc/hostname; }

ran_exits() { shows exits 0x300 bash -c '(exit 3)'; }

ran_softirqs() { sample softirqs && sleep 0.3 && [ "$(sum vmlinux)" -ge 1 ]; }

# Of 1,500 reads, and the reads of others: exactly 100.
ran_hundred() {
	shows hundred "$word 0x7" dd if=/dev/zero of=/dev/null bs=7 count=1500 >/dev/null &&
		is records 100 "$(grep -c ' 16\.0 ' "$work/out")"
}

# Ten with an a among the first 32 bytes, and ten with one after them.
ran_heap() {
	local n
	sample heap || return 1
	for n in {1..10}; do printf '%031d%s\n' "$n" a && printf '%032d%s\n' "$n" a; done >"$work/some"
	tool getvars vmlinux
	[ "$(local_variable vmlinux 0)" -ge 10 ] && [ "$(local_variable vmlinux 1)" -ge $(($(local_variable vmlinux 0) + 10)) ]
}

ran_new_module() {
	sample new_module -D MODULE=relay_c_client -D FUNCTION=create_buf_file || return 1
	is state waiting "$(states | cut -d' ' -f1)" && is calls 0 "$(local_variable relay_c_client 0)" || return 1
	insmod "$MODULE_DIR/samples/relay_c_client.ko" || return 1
	[ "$(local_variable relay_c_client 0)" -ge 1 ]
	local status=$?
	rmmod relay_c_client && return $status
}

ran_execute_watch() {
	sample execute_watch || return 1
	for _ in {1..5}; do sync; done
	is calls 5 "$(local_variable vmlinux 0)"
}

ran_page_faults() {
	# Other tests may have left values there.
	sample page_faults && tool getvars --global --reset >/dev/null || return 1
	for _ in {1..5}; do ls / >"$work/ls"; done
	[ "$(sum --global)" -ge 200 ]
}

ran_switches() { sample switches && sleep 0.1 && [ "$(sum vmlinux)" -ge 2 ]; }

ran_user_context() {
	shows user_context "$word $word, \[[0-9a-f]{2}$more{63}\]" dd if=/dev/zero "of=$work/synced" count=1 conv=fsync
}

ran_stack_words() { touch "$work/victim" && shows stack_words "($word, ){15}$word" rm "$work/victim"; }

# It would run once: crash.sh has a panic.
ran_panic_message() { sample panic_message --log-target KLOG && active; }

ran_sleepers() { shows sleepers 0x47868c00 sleep 1.2; }

# 128 and SIGABRT; less is given.
ran_malloc_dump() {
	sample malloc_dump --unsafe-writes || return 1
	# allocates SIZE
	allocates() { (ulimit -c 0 && python3 -c 'import ctypes, os, sys
ctypes.CDLL(None).malloc(ctypes.c_size_t(int(sys.argv[1], 16)))
os.getppid()' "$1"); }
	allocates 0x1ffffff0 || return 1
	allocates 0x20000000
	is status 134 $?
}

ran_connect() { shows connect '\[02 00 00 09 7f 00 00 01\]' bash -c ': </dev/tcp/127.0.0.1/9'; }

ran_subroutines() {
	local bytes="\[[0-9a-f]{2}$more{7}\]"
	shows subroutines "$bytes, $word, $bytes, $word" cat /etc/hostname
}

ran_signals() {
	watching "$samples/signals.dp" -D SIGNAL=10 || return 1
	bash -c 'trap : USR1; kill -USR1 $$'
	watched " 14\.0 [^:]*: $word 0xa\$"
}
