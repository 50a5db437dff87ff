# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
node=/sys/kernel/debug/sound_panics

# fire NUMBER: in a task of its own, which may die.
fire() { bash -c "echo $1 >$node" || :; }

# An Oops is not the end of this machine.
was=$(cat /proc/sys/kernel/panic_on_oops)
echo 0 >/proc/sys/kernel/panic_on_oops
trap 'echo $was >/proc/sys/kernel/panic_on_oops' EXIT

# Where exits may sleep, others are disarmed, and the module is unloaded.
load
fire 1
complains "in an exit that may sleep"
complains "kernel BUG at"
complains "Oops: invalid opcode"
fire 0
[ "$(timeout -s KILL 20 cat $node)" = disarmed ]
timeout -s KILL 20 rmmod task_dies_in_exit

# Elsewhere the module stays, until the next boot, and the log says why.
load
fire 3
fire 2
for _ in {1..50}; do
	says "gkhi: a task has died in an exit of task_dies_in_exit" >/dev/null && break
	sleep 0.1
done
says "gkhi: a task has died in an exit of task_dies_in_exit"
timeout -s KILL 20 rmmod task_dies_in_exit 2>rmmod.err && exit 1
grep "in use" rmmod.err
