# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
mount -t ferrotrace ferrotrace /sys/kernel/ferrotrace

# goes NAME: waits until it is removed.
goes() {
	for _ in {1..50}; do
		[ -e $dir/"$1" ] || return 0
		sleep 0.1
	done
	echo "$1 is there"
	return 1
}

# reads NAME: ends in time. Reading after the removal is an error.
reads() {
	timeout -s KILL 10 cat $dir/"$1"/node || [ $? = 1 ]
	goes "$1"
}

for dir in /sys/kernel/debug /sys/kernel/ferrotrace; do
	load
	reads sound_opened
	reads sound_read
	reads sound_dir_first
	timeout -s KILL 10 bash -c "echo 1 >$dir/sound_written/node"
	goes sound_written
	unload
done
umount /sys/kernel/ferrotrace
