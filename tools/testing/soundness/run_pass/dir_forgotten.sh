# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/dir_forgotten
for _ in 1 2; do
	load
	[ "$(cat $dir/link)" = here ] && [ "$(cat ${dir}_link/inner/file)" = here ] && [ -d $dir/inner/innermost ]
	unload
	says "an unloaded module has left a directory"
	says "an unloaded module has left a link"
	refused ls -d $dir
	refused [ -L ${dir}_link ]
done
