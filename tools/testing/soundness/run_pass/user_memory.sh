# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Forks, so that user_memory.rs looks.
load
(:)
(:)
unload
