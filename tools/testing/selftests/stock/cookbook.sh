#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The jobs of Documentation/cookbook.rst, in a guest with reserve_mem=4M:4096:relay_sched and reserve_mem=4M:4096:ferrotrace that
# keeps its memory: the first boot crashes, and the second one finds its records. Arguments are those of cookbook.py. $FERROTRACE
# is the command.
set -euo pipefail

# says TEXT COMMAND...: succeeds if the command fails, and its standard error has the text.
says() {
	local text=$1 error
	shift
	if error=$("$@" 2>&1 >/dev/null); then echo "no error: $*" && return 1; fi
	[[ $error = *"$text"* ]] || { echo "$error" && return 1; }
}

# keep: keeps the hits of probes, with the errors and the end of that. The last ones stay.
keep() {
	local kept=$FERROTRACE_OUT/kept what=('do_sys_openat2 filename how->flags:x' 'vfs_unlink%return')
	says 'reserve_mem=16M:4096:nowhere' "$FERROTRACE" record --keep=nowhere -o other vfs_read
	says 'no hits are being kept' "$FERROTRACE" record --keep --stop
	says 'the memory relay_sched is in use' "$FERROTRACE" record --keep=relay_sched -o other vfs_read
	"$FERROTRACE" record --keep -o first "${what[@]}"
	says 'the hits of 2 probes are being kept already' "$FERROTRACE" record --keep -o other vfs_read
	"$FERROTRACE" kernel probes list | grep '^keep.do_sys_openat2 '
	"$FERROTRACE" record --keep --stop | grep '^2 probes were removed$'
	[ ! -e /sys/kernel/debug/ferrotrace_keep ]
	"$FERROTRACE" record --keep --stack -o "$kept" "${what[@]}"
	cp -r first "$FERROTRACE_OUT/stopped"
	cat /a-file-that-is-not-there || true
	touch victim
	rm victim
}

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
if ! [ -e "$FERROTRACE_OUT/crashed" ]; then
	modprobe relay_sched reserved=1 overwrite=1
	cd "$(mktemp -d)"
	keep
	sleep 0.3
	touch "$FERROTRACE_OUT/crashed"
	sync
	echo c >/proc/sysrq-trigger
fi
modprobe ferrotrace_fast_relay
for memory in relay_sched ferrotrace; do echo "find $memory" >/sys/kernel/debug/ferrotrace_flight/control; done
recover=("$FERROTRACE" recover ferrotrace -o "$(mktemp -d)" --described)
says 'stopped describes the recording' "${recover[@]}" "$FERROTRACE_OUT/stopped"
"${recover[@]}" "$FERROTRACE_OUT/kept"
"$FERROTRACE" show "${recover[4]}" >"$FERROTRACE_OUT/shown"
grep 'do_sys_openat2: .*filename=/a-file-that-is-not-there .*stack=.*do_syscall_64' "$FERROTRACE_OUT/shown"
grep 'vfs_unlink\.ret: .*comm=rm.* ret=0x0' "$FERROTRACE_OUT/shown"
exec tools/testing/cookbook.py "$@"
