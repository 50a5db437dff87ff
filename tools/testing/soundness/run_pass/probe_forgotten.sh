# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load
(true)
unload
# A fork after it: a breakpoint that had stayed would call freed code.
(true)
