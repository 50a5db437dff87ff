#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The cases that run in gkhi_selftest. The refusals find some exits, and leave them as they were, with their counts.
# shellcheck source=tools/testing/selftests/gkhi/common.sh
. "$(dirname "$0")/common.sh"

# in_module CASE: runs it and prints its output.
in_module() {
	local start=${EPOCHREALTIME/./}
	said=() ms=-
	if ! echo "$1" >$SELF/run; then return 1; fi
	ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	mapfile -t said <$SELF/run
	printf '%s\n' "${said[@]}"
	case ${said[0]} in
	ok) return 0 ;;
	skipped) skip=${said[1]} ;;
	*) return 1 ;;
	esac
}

refusal() {
	in_module "$1" && fires gst_ro "middle()/3 =0" && ctl disarm middle && ctl arm middle || return 1
	# the call just now is all that may have happened
	[ "$(field gst_ro hits middle)" = $((hits + 1)) ]
}

echo "TAP version 13"
reg gst_ro middle && reg gst_ro first 1 && reg gst_ro last 2 && reg gst_zero only 3 && ctl arm middle || failed=1
while read -r name; do
	case $name in
	refuse.*)
		hits=$(field gst_ro hits middle)
		check "$name" refusal "$name"
		;;
	*) ;;
	esac
done <$SELF/cases
ctl deregister middle first last only || failed=1
was=
while read -r name; do
	case $name in
	refuse.*) ;;
	*)
		# the rounds are many, and mostly waiting
		if [ "$name" = churn.rounds ]; then echo 1 >/sys/kernel/rcu_expedited; fi
		ms=
		check "$name" in_module "$name"
		echo 0 >/sys/kernel/rcu_expedited
		if [ "$ms" ]; then echo "# $ms ms ${said[*]:1}"; fi
		;;
	esac
done <$SELF/cases
finish
