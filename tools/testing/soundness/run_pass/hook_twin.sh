# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
load hook_twin_other
refused load
unload hook_twin_other
