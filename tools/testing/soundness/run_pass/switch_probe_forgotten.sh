# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load
sleep 0.1
unload
says "an unloaded module has left a probe on a tracepoint"
# Switches after it, and the name is free again.
sleep 0.1
load
unload
