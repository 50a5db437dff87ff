# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
refused load
refused [ -e /sys/kernel/debug/file_table_built_in ]
