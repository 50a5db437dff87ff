# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Places in which the module registers: 1, the drop of an exit's data when its module is unloaded;
# 2, the same of an exit that is being called then; 3, the module's exit function; 4, the drops of a
# handler's data during all of the unloading. Then the leaked registrations are called.
mkfifo never
exec 9<>never

# pause SECONDS: without a fork.
pause() { read -r -t "$1" -u 9 || :; }

for case in 1 2 3 4; do
	rm -f go
	(
		until [ -e go ]; do :; done
		(:)
	) &
	load late_registrations case=$case
	: >go
	pause 0.3
	unload
	says "late_registrations: over"
	wait $!
	# Other modules get the place of this one.
	load hook_twin_other
	(true)
	cat /etc/hostname >/dev/null
	refused grep -E "sound_(late|early)" /sys/kernel/debug/gkhi/hooks
	refused ls -d /sys/kernel/debug/sound_late*
	unload hook_twin_other
	dmesg | refused grep "BUG: "
done
