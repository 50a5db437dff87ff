# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The cases of hook_exits.rs, by their numbers.
hooks=/sys/kernel/debug/gkhi/hooks
mkfifo never
exec 9<>never

# pause SECONDS: without a fork.
pause() { read -r -t "$1" -u 9 || :; }

# another: loads and unloads a module.
another() { load hook_twin_other && unload hook_twin_other; }

# 1 to 3: an exit on task_fork drops, disarms itself, sleeps. 8: the exit after one that sleeps is
# dropped, by the second change after the dispatch began. 9: the data of an exit that has slept
# needs a lock which another user of the registry has. The fork is not one of this shell's, which
# then unloads the module while the exit is being called. A kernel that checks it complains about
# each sleep.
for case in 1 2 3 8 9; do
	rm -f go
	(
		until [ -e go ]; do :; done
		(:)
	) &
	load hook_exits case=$case
	: >go
	pause 1
	unload
	wait $!
done
if grep -qx CONFIG_DEBUG_ATOMIC_SLEEP=y "$FERROTRACE_KDIR/.config"; then
	complains 'BUG: scheduling in a non-blocking section: '
fi

# 4: an exit on module_event drops itself.
load hook_exits case=4
timeout 60 insmod "$MODULES/hook_twin_other.ko"
unload
unload hook_twin_other

# 5: an exit on cpu_prepare is forgotten. Other modules then get the place of this one.
load hook_exits case=5
grep 'exit=sound .* module=hook_exits ' $hooks
unload
refused grep 'exit=sound ' $hooks
for _ in 1 2 3 4; do another; done
echo 0 >/sys/devices/system/cpu/cpu1/online
echo 1 >/sys/devices/system/cpu/cpu1/online

# 6: an exit of one hook is disarmed while one of another waits for that.
load hook_exits case=6
load hook_twin_other &
pause 1
unload
wait $!
unload hook_twin_other

# 7: an exit drops itself with preemption off.
load hook_exits case=7
unload
