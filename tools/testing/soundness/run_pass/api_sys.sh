# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
node=/sys/kernel/debug/api_sys/link
load
for text in '1\n' '12\n' 'abc\n' '12345678'; do
	printf '%b' "$text" >$node
done
printf abcde | dd of=$node bs=5 count=1 2>/dev/null || :
[ "$(cat $node)" = 0 ]
unload
refused ls -d /sys/kernel/debug/api_sys
