#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# debugfs gkhi/: its contents, and arming by writing.
# shellcheck source=tools/testing/selftests/gkhi/common.sh
. "$(dirname "$0")/common.sh"

the_list_has_its_form() {
	local number='[0-9]+' names='[a-z0-9_,]+|-'
	reg gst_ro one 0 2 && reg gst_ro two 8 && ctl arm one || return 1
	! grep -vE "^hook=[A-Za-z0-9_.-]+ module=[a-z0-9_-]+ context=(sleep|task|atomic) access=(ro|rw)(_ret)? params=($names) sites=($number|-) active=[01] hits=$number exits=$number\$|^  exit=[A-Za-z0-9_.-]+ order=$number priority=(first|last|only|unspecified) conditions=(none|irqs_off|cpus_stopped) params=$number armed=[01] hits=$number stops=$number module=[a-z0-9_-]+ pinned=[01]( |\$)" $GKHI/hooks || return 1
	grep -E '^hook=gst_ro module=gkhi_selftest context=task access=ro params=a,b,c sites=1 active=1 hits=[0-9]+ exits=2$' \
		$GKHI/hooks || return 1
	grep -E '^  exit=one order=1 priority=unspecified conditions=none params=2 armed=1 hits=0 stops=0 module=gkhi_selftest pinned=0( |$)' \
		$GKHI/hooks || return 1
	grep -E '^  exit=two order=2 .* conditions=irqs_off params=0 armed=0 ' $GKHI/hooks || return 1
	[ "$(field gst_rw_ret access) $(field gst_zero params) $(field gst_a context)" = "rw_ret - atomic" ] || return 1
	ctl deregister one two && [ "$(field gst_ro active)" = 0 ]
}

points_are_there() {
	local point
	for point in int3 debug kernel_fault task_fork task_exit uprobe_done module_event cpu_prepare; do
		echo $point
		[ "$(field $point module)" = - ] && [ "$(field $point sites)" -gt 0 ] || return 1
	done
}

an_exit_has_a_file() {
	reg gst_zero x && [ "$(cat $GKHI/gst_zero/x)" = 0 ] && put gst_zero/x 1 || return 1
	[ "$(cat $GKHI/gst_zero/x)" = 1 ] && fires gst_zero "x()/0 =0" || return 1
	refused "Invalid argument" put gst_zero/x 2 || return 1
	refused "Invalid argument" put gst_zero/x yesterday && [ "$(cat $GKHI/gst_zero/x)" = 1 ] || return 1
	put gst_zero/x 0 && [ "$(cat $GKHI/gst_zero/x)" = 0 ] && fires gst_zero "=0" || return 1
	ctl deregister x && [ ! -e $GKHI/gst_zero/x ] && [ -d $GKHI/gst_zero ]
}

an_open_file_outlives_its_exit() {
	reg gst_zero x && exec 5<>$GKHI/gst_zero/x && ctl deregister x || return 1
	# shellcheck disable=SC2320
	if echo 1 >&5 || cat <&5; then return 1; fi
	reg gst_zero x || return 1
	if echo 1 >&5; then return 1; fi
	exec 5>&-
	[ "$(cat $GKHI/gst_zero/x)" = 0 ] && ctl deregister x
}

lists() {
	reg gst_zero x && reg gst_ro y && reg gst_a z && put arm "gst_zero/x gst_ro/y" || return 1
	[ "$(cat $GKHI/gst_zero/x $GKHI/gst_ro/y $GKHI/gst_a/z | xargs)" = "1 1 0" ] || return 1
	# any space, and one that is armed already
	put_text arm "$(printf '\n gst_a/z\tgst_zero/x\n\n')" && put disarm gst_ro/y || return 1
	[ "$(cat $GKHI/gst_zero/x $GKHI/gst_ro/y $GKHI/gst_a/z | xargs)" = "1 0 1" ] || return 1
	put disarm "gst_zero/x gst_ro/y gst_a/z" && ctl deregister x y z
}

pinned_exits_are_left_alone() {
	reg gst_zero x 32 && reg gst_zero y && [ "$(field gst_zero pinned x) $(field gst_zero pinned y)" = "1 0" ] || return 1
	refused "Operation not permitted" put gst_zero/x 1 || return 1
	refused "Operation not permitted" put arm "gst_zero/y gst_zero/x" || return 1
	[ "$(cat $GKHI/gst_zero/x $GKHI/gst_zero/y | xargs)" = "0 0" ] && ctl arm x || return 1
	refused "Operation not permitted" put gst_zero/x 0 || return 1
	[ "$(cat $GKHI/gst_zero/x)" = 1 ] && ctl deregister x y
}

lists_are_all_or_none() {
	reg gst_zero x && reg gst_ro y || return 1
	refused "No such file" put arm "gst_zero/x gst_ro/nothing" || return 1
	refused "No such file" put arm "gst_zero/x nothing/y" || return 1
	refused "Invalid argument" put arm "gst_zero/x gst_ro" || return 1
	refused "Invalid argument" put arm " " || return 1
	refused "Argument list too long" put_text arm "gst_zero/x$(printf '%70000s' '')" || return 1
	[ "$(cat $GKHI/gst_zero/x $GKHI/gst_ro/y | xargs)" = "0 0" ] || return 1
	refused "Invalid argument" cat $GKHI/arm || return 1
	ctl deregister x y
}

hooks_come_and_go() {
	ctl delete gst_ro && [ ! -e $GKHI/gst_ro ] && [ -z "$(field gst_ro sites)" ] || return 1
	refused "No such file" reg gst_ro x || return 1
	ctl identify gst_ro && [ -d $GKHI/gst_ro ] && reg gst_ro x && ctl arm x && fires gst_ro "x()/3 =0" || return 1
	# with an exit, which stays to be deregistered, and cannot be armed
	ctl delete gst_ro && [ ! -e $GKHI/gst_ro ] && fires gst_ro "=0" || return 1
	refused "No such device" ctl arm x || return 1
	ctl identify gst_ro && [ "$(field gst_ro exits)" = 0 ] && ctl deregister x && reg gst_ro x && ctl deregister x || return 1
	# to the place in the list where it was
	local hook
	for hook in gst_rw gst_ret gst_rw_ret gst_sleep gst_no_stop gst_exclusive gst_a gst_b gst_task_a gst_task_b; do
		ctl delete $hook && ctl identify $hook || return 1
	done
}

reading_while_it_changes() {
	local i reader arming rounds reads fail=0
	rounds=$(storm_rounds 50) reads=$(storm_rounds 20)
	reg gst_a steady && put gst_a/steady 1 || return 1
	: >"$work/reads"
	(while cat $GKHI/hooks >"$work/read" && grep -q '^  exit=steady order=1 .* armed=1 ' "$work/read"; do
		echo >>"$work/reads"
	done
		echo "lost it" >"$work/lost") &
	reader=$!
	(while :; do put arm "gst_a/come gst_a/steady"; put disarm gst_a/come; cat $GKHI/gst_a/*; done) >/dev/null 2>&1 &
	arming=$!
	for ((i = 0; ; i++)); do
		if [ $i -ge "$rounds" ] && [ "$(wc -l <"$work/reads")" -ge "$reads" ]; then break; fi
		[ ! -e "$work/lost" ] && reg gst_a come && ctl arm come && ctl deregister come && continue
		fail=1
		break
	done
	kill $reader $arming
	wait $reader $arming 2>/dev/null
	ctl deregister steady && [ $fail = 0 ] && [ ! -e "$work/lost" ] && [ ! -e $GKHI/gst_a/come ]
}

echo "TAP version 13"
checks debugfs. the_list_has_its_form points_are_there an_exit_has_a_file an_open_file_outlives_its_exit lists \
	lists_are_all_or_none pinned_exits_are_left_alone hooks_come_and_go reading_while_it_changes
finish
