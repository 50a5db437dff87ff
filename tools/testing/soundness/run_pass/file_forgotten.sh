# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/file_forgotten
load
exec 5<$dir/file
refused unload
[ "$(cat <&5)" = here ]
exec 5<&-
unload
says "an unloaded module has left a file"
refused cat $dir/file
refused ls -d $dir
