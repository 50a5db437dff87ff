#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Finds the functions of the kernel that are called often: in a guest, as root.
#
#	hot.sh FILE	their addresses, as offsets from _stext in hexadecimal, a line each
#
# The load starts processes, reads and writes files, walks directories, and sends through pipes and sockets. Often is once for each
# process that it starts, or more (the function profiler counts).
set -euo pipefail

out=${1:?usage: hot.sh FILE}
tracing=/sys/kernel/tracing
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OFTEN=200

load() {
	local i
	for ((i = 0; i < OFTEN; i++)); do
		/bin/true
		echo $i >>"$work/log"
	done
	dd if=/dev/zero of="$work/file" bs=4k count=500 status=none
	sync "$work/file"
	dd if="$work/file" bs=1k status=none | md5sum >/dev/null
	find /proc/self /sys/kernel /usr/share/doc -maxdepth 2 >/dev/null 2>&1 || :
	tar c -C /etc . 2>/dev/null | gzip -1 >/dev/null
	python3 -c '
import socket, threading
a, b = socket.socketpair()
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
d, _ = s.accept()
for _ in range(300):
    a.send(b"x" * 100); b.recv(100)
    c.send(b"x" * 1000); d.recv(1000)
    t = threading.Thread(target=int); t.start(); t.join()
'
}

mountpoint -q $tracing || mount -t tracefs tracefs $tracing
ip link set lo up 2>/dev/null || :
echo 0 >$tracing/function_profile_enabled
echo 1 >$tracing/function_profile_enabled
load
echo 0 >$tracing/function_profile_enabled
# Of names that more than one function has it is not known which was called.
awk -v often=$OFTEN '
	FNR == 1 { file++ }
	file == 1 { if ($2 ~ /^[tT]$/ && NF == 3) { at[$3] = $1; times[$3]++ } if ($3 == "_stext") stext = $1; next }
	$2 + 0 > 0 { hits[$1] += $2 }
	END { for (name in hits) if (hits[name] >= often && times[name] == 1) print at[name], stext }
' /proc/kallsyms <(cat $tracing/trace_stat/function*) | while read -r at stext; do
	printf '%x\n' $((0x$at - 0x$stext))
done >"$out"
[ -s "$out" ]
