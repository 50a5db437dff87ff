# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load
# While it is under way.
unload
# Those of the beginning, of the end, and the one that was dropped.
is_done() { [ "$(dmesg | grep -c 'errand_forgotten: the errand is done')" = "$1" ]; }
is_done 3
load
unload
is_done 6
