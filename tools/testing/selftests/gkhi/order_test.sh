#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Order in which exits are called and listed, their parameters, and the effects of their answers.
# shellcheck source=tools/testing/selftests/gkhi/common.sh
. "$(dirname "$0")/common.sh"

# Flags: 1 first, 2 last, 4 LIFO.
priorities() {
	reg gst_zero b && reg gst_zero z 2 && reg gst_zero c && reg gst_zero a 1 && reg gst_zero l 4 || return 1
	[ "$(exits gst_zero)" = "1:a 2:l 3:b 4:c 5:z" ] || { exits gst_zero; return 1; }
	[ "$(field gst_zero priority a) $(field gst_zero priority z)" = "first last" ] || return 1
	[ "$(field gst_zero priority l) $(field gst_zero priority b)" = "unspecified unspecified" ] || return 1
	# in whichever order they are armed, and only those
	fires gst_zero "=0" && ctl arm z c && ctl arm a && ctl arm l b || return 1
	fires gst_zero "a()/0 l()/0 b()/0 c()/0 z()/0 =0" || return 1
	ctl disarm l z && fires gst_zero "a()/0 b()/0 c()/0 =0" || return 1
	[ "$(exits gst_zero)" = "1:a 2:l 3:b 4:c 5:z" ] || return 1
	ctl arm l && fires gst_zero "a()/0 l()/0 b()/0 c()/0 =0" || return 1
	# a place that has been left is free
	ctl deregister a && reg gst_zero first 1 && ctl arm first || return 1
	fires gst_zero "first()/0 l()/0 b()/0 c()/0 =0" || return 1
	ctl deregister first l b c z && fires gst_zero "=0"
}

fifo_and_lifo() {
	reg gst_zero f1 && reg gst_zero l1 4 && reg gst_zero f2 && reg gst_zero l2 4 && ctl arm f1 f2 l1 l2 || return 1
	fires gst_zero "l2()/0 l1()/0 f1()/0 f2()/0 =0" && [ "$(exits gst_zero)" = "1:l2 2:l1 3:f1 4:f2" ] || return 1
	ctl deregister l2 f1 && reg gst_zero f3 && reg gst_zero l3 4 && ctl arm f3 l3 || return 1
	fires gst_zero "l3()/0 l1()/0 f2()/0 f3()/0 =0" || return 1
	ctl deregister f3 l3 f2 l1
}

only() {
	reg gst_zero alone 3 && ctl arm alone && [ "$(field gst_zero priority alone)" = only ] || return 1
	fires gst_zero "alone()/0 =0" && refused busy reg gst_zero other || return 1
	ctl deregister alone && reg gst_zero other && refused busy reg gst_zero alone 3 || return 1
	ctl deregister other
}

parameters_are_read() {
	reg gst_ro three 0 3 && reg gst_ro two 0 2 && reg gst_ro none && ctl arm three || return 1
	fires gst_ro "three(1,2,3)/3 =0" && ctl arm two none || return 1
	fires gst_ro "three(1,2,3)/3 two(1,2)/3 none()/3 =0" || return 1
	ctl deregister three none && fires gst_ro "two(1,2)/3 =0" && ctl deregister two
}

# The place has 100 times the first and 1000 times the second; each exit adds 10 to the first.
parameters_are_changed() {
	reg gst_rw two 0 2 && reg gst_rw one 0 1 && fires gst_rw "=2100" && ctl arm two || return 1
	fires gst_rw "two(1,2)/2 =3100" && ctl arm one || return 1
	fires gst_rw "two(1,2)/2 one(11)/2 =4100" || return 1
	ctl deregister two one && fires gst_rw "=2100"
}

an_answer_ends_it() {
	reg gst_zero a && reg gst_zero b 0 0 5 && reg gst_zero c && ctl arm a b c || return 1
	fires gst_zero "a()/0 b()/0 =5" && ctl disarm b && fires gst_zero "a()/0 c()/0 =0" || return 1
	[ "$(field gst_zero stops b) $(field gst_zero stops a)" = "1 0" ] || return 1
	# alone
	ctl arm b && ctl disarm a c && fires gst_zero "b()/0 =5" && ctl deregister a b c
}

# Flag 32.
pinned_exits_are_called_anyway() {
	reg gst_zero b 0 0 5 && reg gst_zero c && reg gst_zero p 34 && ctl arm b c p || return 1
	fires gst_zero "b()/0 p()/0 =5" && ctl deregister b c p
}

# After the end of a dispatch, a pinned exit neither changes the value nor makes the function return.
pinned_exits_do_not_answer() {
	reg gst_ret r 0 1 -1 && reg gst_ret p 34 1 -1 && ctl arm r p || return 1
	fires gst_ret "r(7)/1 p(7)/1 =500" && ctl disarm r && fires gst_ret "p(7)/1 =600" || return 1
	ctl deregister r && reg gst_ret t 1 1 1 && ctl arm t || return 1
	fires gst_ret "t(7)/1 p(7)/1 =1000" && ctl deregister t p
}

# The log says why, since several reasons have the same number; not at once after many refusals.
refusals_are_told() {
	local tries
	reg gst_zero told || return 1
	for ((tries = 0; tries < 80; tries++)); do
		refused exists reg gst_zero told || return 1
		dmesg | grep "gkhi: exit told on hook gst_zero refused: the name is taken" && break
		sleep 0.1
	done
	ctl deregister told && [ $tries -lt 80 ]
}

# The function itself returns 1000, the exit makes it return 500.
the_function_returns() {
	reg gst_ret a 0 1 && reg gst_ret r 0 1 -1 && reg gst_ret z 0 1 && fires gst_ret "=1000" || return 1
	ctl arm a z && fires gst_ret "a(7)/1 z(7)/1 =1000" && ctl arm r || return 1
	fires gst_ret "a(7)/1 r(7)/1 =500" && ctl disarm a z && fires gst_ret "r(7)/1 =500" || return 1
	# to end the dispatch is not to return
	ctl deregister r && reg gst_ret t 1 0 1 && ctl arm t z && fires gst_ret "t()/1 =1000" || return 1
	ctl deregister a z t
}

a_changed_parameter_and_a_return() {
	reg gst_rw_ret a 0 1 && reg gst_rw_ret r 0 1 -1 && fires gst_rw_ret "=7000" && ctl arm a || return 1
	fires gst_rw_ret "a(7)/1 =17000" && ctl arm r && fires gst_rw_ret "a(7)/1 r(17)/1 =500" || return 1
	ctl deregister a r
}

# Each CPU executes the hook 500 times while the first exit is armed alone, then while both are,
# then while the second is alone.
hits_are_calls() {
	local hits each=$((500 * $(nproc)))
	hits=$(field gst_a hits)
	reg gst_a x && reg gst_a y 1 && ctl arm x && ctl hammer gst_a 500 && ctl arm y && ctl hammer gst_a 500 || return 1
	ctl disarm x && ctl hammer gst_a 500 || return 1
	grep -E ' calls=' $SELF/ctl
	grep -A 2 '^hook=gst_a ' $GKHI/hooks
	[ "$(calls x) $(calls y)" = "$((2 * each)) $((2 * each))" ] || return 1
	[ "$(field gst_a hits x)" = "$(calls x)" ] && [ "$(field gst_a hits y)" = "$(calls y)" ] || return 1
	hits=$((hits + 3 * each))
	[ "$(field gst_a hits)" = $hits ] || return 1
	# the hook keeps its count
	ctl deregister x y && [ "$(field gst_a hits)" = "$hits" ]
}

echo "TAP version 13"
checks order. priorities fifo_and_lifo only parameters_are_read parameters_are_changed an_answer_ends_it \
	pinned_exits_are_called_anyway pinned_exits_do_not_answer refusals_are_told the_function_returns \
	a_changed_parameter_and_a_return hits_are_calls
finish
