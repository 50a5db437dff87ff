#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The runner of the guests itself: statuses and output that it passes on, and its results for a hang
# and for a panic. Without this a suite could pass because nothing ran.
# Seconds: 100
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

variant=${VARIANTS%% *}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# vm CMD: writes stdout, stderr and the exit status to $work.
vm() {
	TIMEOUT=${TIMEOUT:-900} APPEND=kunit.enable=0 "$REPO/tools/testing/vm/run.py" "$variant" "$1" >"$work/out" 2>"$work/err"
	echo $? >"$work/status"
}

# status_is N, out_is TEXT: of the last run; on failure its stderr is shown.
status_is() {
	[ "$(cat "$work/status")" = "$1" ] || {
		echo "status $(cat "$work/status"), not $1"
		cat "$work/err"
		return 1
	}
}
out_is() { [ "$(cat "$work/out")" = "$1" ]; }

# Bytes of every value, more than any pipe holds.
SECONDS=0
# shellcheck disable=SC2016
vm 'echo to stderr >&2
	for i in 1 2 3 4 5 6 7 8; do cat "$FERROTRACE_KDIR/include/generated/autoconf.h" "$FERROTRACE_KDIR/init/main.o"; done
	exit 42'
# How long a guest takes here and now, in seconds.
took=$SECONDS
tap_run "vm: the exit status is the command's" status_is 42
kdir=$("$REPO/integration/kernel.sh" kdir "$variant")
for _ in 1 2 3 4 5 6 7 8; do cat "$kdir/include/generated/autoconf.h" "$kdir/init/main.o"; done >"$work/want"
tap_run "vm: the output is the command's, byte for byte" cmp "$work/want" "$work/out"
tap_run "vm: stderr is apart" grep -x "to stderr" "$work/err"

LC_ALL=C make -s -C "$REPO" vm VARIANT="$variant" CMD='echo of the command; exit 3' >"$work/out" 2>"$work/err"
tap_run "vm: the output of \"make vm\" is the command's" out_is "of the command"
tap_run "vm: its exit status is said" grep "Error 3$" "$work/err"

# shellcheck disable=SC2016
OUT=$work/kept vm 'id -u; pwd; nproc; echo kept >"$FERROTRACE_OUT/file"; touch /usr/made-in-the-guest'
tap_run "vm: root, in the repository, on two CPUs" out_is "0
$REPO
2"
tap_run "vm: what is written to FERROTRACE_OUT is kept" grep -x kept "$work/kept/file"
tap_run "vm: what is written elsewhere is not" test ! -e /usr/made-in-the-guest

# The time is over before the guest is up where the host is busier now: again with more.
for timeout in $((5 + took)) $((60 + 8 * took)); do
	TIMEOUT=$timeout vm 'echo before; sleep 100000'
	if [ -s "$work/out" ]; then break; fi
done
tap_run "vm: a hang is status 124" status_is 124
tap_run "vm: its output until then is passed on" out_is before

vm 'echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger; sleep 1000'
tap_run "vm: a panic is status 125" status_is 125
tap_run "vm: the log's end is shown" grep "^    .*Kernel panic" "$work/err"
tap_run "vm: what happened is said" grep "^ferrotrace: console: Kernel panic" "$work/err"
tap_run "vm: and how it came there" grep "^ferrotrace: console:  .*sysrq.*+0x" "$work/err"

vm 'busybox poweroff -f'
tap_run "vm: a guest that ends without an answer is status 125" status_is 125

STRICT=1 vm 'echo "WARNING: CPU: 0 PID: 1 at a test" >/dev/kmsg'
tap_run "vm: a warning of the kernel is status 126 where asked for" status_is 126
tap_run "vm: the warning is said" grep "^ferrotrace: console: WARNING: CPU: 0 PID: 1 at a test" "$work/err"
# gdb_stops: runs the command line of gdb that the guest's runner prints, and lets it stop where a process is made.
gdb_stops() {
	local gdb='' runner tries
	GDB=1 CPUS=1 APPEND=kunit.enable=0 "$REPO/tools/testing/vm/run.py" "$variant" 'echo goes on' >"$work/out" 2>"$work/err" &
	runner=$!
	for ((tries = 0; tries < 300; tries++)); do
		gdb=$(sed -n 's/^ferrotrace:  *\(gdb .*\)/\1/p' "$work/err")
		if [ "$gdb" ]; then break; fi
		sleep 0.2
	done
	timeout 600 bash -c "$gdb -nx -batch -ex 'hbreak kernel_clone' -ex continue -ex 'info registers rip' -ex delete -ex detach" \
		</dev/null >"$work/gdb" 2>&1
	cat "$work/gdb" "$work/err"
	# The guest waits for gdb without end.
	grep -q '<kernel_clone>' "$work/gdb" || kill $runner
	wait $runner && out_is "goes on"
}

if have gdb; then
	tap_run "vm: gdb stops the guest at a breakpoint" gdb_stops
else
	tap_skip "vm: gdb stops the guest at a breakpoint" "no gdb on this machine"
fi
tap_plan
