# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load
(true)
unload
says "an unloaded module has left a tracer"
# Calls after it, and the name is free again.
(cat /dev/null)
load
unload
(cat /dev/null)
