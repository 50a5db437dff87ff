# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
mount -t ferrotrace ferrotrace /sys/kernel/ferrotrace
load
for dir in /sys/kernel/debug/api_sys /sys/kernel/ferrotrace/api_sys; do
	for text in '1\n' '12\n' 'abc\n' '12345678'; do
		printf '%b' "$text" >$dir/link
	done
	printf abcde | dd of=$dir/inner/node bs=5 count=1 2>/dev/null || :
	[ "$(cat $dir/link)" = 0 ]
done
unload
refused ls -d /sys/kernel/debug/api_sys
refused ls -d /sys/kernel/ferrotrace/api_sys
umount /sys/kernel/ferrotrace
