# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Without our patches the owner of such a table is its own module.
if [ -e /sys/module/ferrotrace_core ]; then
	load
	unload
else
	refused load
fi
refused [ -e /sys/kernel/debug/file_table_built_in ]
