# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load
unload
says "an unloaded module has left a handler"
# It logs before it registers.
load
unload
