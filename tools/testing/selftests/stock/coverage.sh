#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel without our patches, as root: ferrotrace cov live, by the module and by ftrace. $FERROTRACE is the command.

# shellcheck source=tools/testing/selftests/stock/lib.sh
. "$(dirname "$0")/lib.sh"

control=/sys/kernel/debug/ferrotrace_coverage/control

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing

run 0 cov live 'vfs_*' --json -- sh -c "mkdir $work/made && rmdir $work/made"
python3 - "$work/out" <<'END' || bail "the blocks of vfs_mkdir, vfs_rmdir and vfs_rename"
import json, sys
functions = {one["function"]: one for one in json.load(open(sys.argv[1]))["functions"]}
for name in "vfs_mkdir", "vfs_rmdir":
    blocks = functions[name]["blocks"]
    assert blocks[0]["executed"], name
    assert any(block["executed"] is False for block in blocks), name
    assert functions[name]["executed"] < functions[name]["watched"], name
assert functions["vfs_rename"]["executed"] == 0
END
run 3 cov live vfs_read -- sh -c 'cat /etc/hostname >/dev/null; exit 3'
has '^ *[1-9][0-9]*/[0-9]+ +[0-9.]+% +vfs_read$' out
run 0 cov live 'vfs_*' --missed -d 0.1
has '^ *0/[0-9]+ +0.0% +vfs_rename$' out

# In the background: one session, which can be asked, and which leaves nothing.
run 0 cov live start 'vfs_*'
run 0 cov live status
has '^state=armed .* armed=[1-9]' out
run 1 cov live vfs_read -d 0.1
has 'another process watches' err
mkdir "$work/made" && rmdir "$work/made"
run 0 cov live report
has '%  vfs_rmdir$' out
run 0 cov live reset
run 0 cov live report --missed
has '%  vfs_rmdir$' out
run 1 cov live report --lines
has '\-\-vmlinux' err
run 0 cov live stop --top 1
has '^functions ' out
for ((i = 0; i < 100; i++)); do if grep -q state=none $control; then break; else sleep 0.1; fi; done
grep -q '^state=none places=0 armed=0 ' $control || bail "the session has not ended"
run 1 cov live report
has 'no blocks are watched' err
run 0 cov live start vfs_read
pid=$(pgrep -f 'cov live start')
kill -9 "$pid"
for ((i = 0; i < 100; i++)); do if grep -q state=none $control; then break; else sleep 0.1; fi; done
grep -q '^state=none' $control || bail "a killed session has left breakpoints"
run 0 cov live vfs_read -d 0.1

# Without the module. The command runs where its own reads make records.
taskset -p -c 0 $$ >/dev/null
run 0 cov live --functions-only 'vfs_*' -- sh -c "mkdir $work/made && rmdir $work/made"
has '^vfs_rmdir$' out
! grep -q '^vfs_rename$' "$work/out" || bail "vfs_rename was not executed"
run 1 cov live --functions-only 'no_function*' -d 0.1
has 'no such function' err
run 1 cov live 'no_function*' -d 0.1
has 'no such function' err
rmmod ferrotrace_coverage
run 0 cov live vfs_read -d 0.1
