#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Modules with hooks and modules with exits are unloaded, in either order, while all CPUs execute
# the hooks; also modules that forget to unregister.
# shellcheck source=tools/testing/selftests/gkhi/common.sh
. "$(dirname "$0")/common.sh"

HOOK=gkhi_selftest_hook EXIT=gkhi_selftest_exit
calls=/sys/module/$EXIT/parameters/calls
seconds=$(storm_rounds 5)
rounds=$(storm_rounds 6)

# load MODULE [PARAMETER...]
load() { insmod "$GKHI_SELFTESTS/$1.ko" "${@:2}"; }
drop() { rmmod "$1"; }
listed() { grep -q "^ *$1 " $GKHI/hooks; }

# called: the exits are being called.
called() {
	local i before now
	read -r before <$calls
	for ((i = 0; i < 3000; i++)); do
		read -r now <$calls
		[ "$now" -gt "$before" ] && return
		sleep 0.02
	done
	echo "not called"
	return 1
}

still() {
	local before now
	read -r before <$calls
	sleep 0.1
	read -r now <$calls
	[ "$now" = "$before" ]
}

hook_goes_first() {
	load $HOOK && load $EXIT && called && [ "$(field gst_guest module)" = $HOOK ] || return 1
	drop $HOOK && still && ! listed hook=gst_guest && ! listed exit=guest && [ ! -e $GKHI/gst_guest ] || return 1
	# the hook is registered again, the exit is not
	load $HOOK && still && [ "$(field gst_guest exits)" = 0 ] && drop $EXIT || return 1
	load $EXIT && called && drop $EXIT && drop $HOOK
}

exit_goes_first() {
	load $HOOK && load $EXIT && called && [ "$(field gst_guest module guest)" = $EXIT ] || return 1
	drop $EXIT && [ "$(field gst_guest active) $(field gst_guest exits)" = "0 0" ] || return 1
	[ "$(field gst_guest_sleep active)" = 0 ] && drop $HOOK
}

no_hook_no_exit() {
	refused "Unknown symbol" load $EXIT && ! grep -q "^$EXIT " /proc/modules
}

a_hook_is_forgotten() {
	load $HOOK forget=1 && load $EXIT && called && drop $HOOK && still || return 1
	! listed hook=gst_guest && ! listed hook=gst_guest_sleep && drop $EXIT || return 1
	load $HOOK && drop $HOOK
}

an_exit_is_forgotten() {
	local said
	said=$(dmesg | grep -c 'its module goes and has not deregistered it')
	load $HOOK && load $EXIT forget=1 && called && drop $EXIT || return 1
	[ "$(field gst_guest active) $(field gst_guest exits)" = "0 0" ] || return 1
	[ "$(field gst_guest_sleep active) $(field gst_guest_sleep exits)" = "0 0" ] || return 1
	[ "$(dmesg | grep -c 'its module goes and has not deregistered it')" = $((said + 2)) ] || return 1
	load $EXIT && called && drop $EXIT && drop $HOOK
}

both_are_forgotten() {
	load $HOOK forget=1 && load $EXIT forget=1 && called && drop $HOOK && drop $EXIT || return 1
	! listed hook=gst_guest && ! listed exit=guest
}

# hook_rounds, exit_rounds: until the time is over and both modules were loaded and unloaded $rounds
# times. In every other round the hooks stay until an exit has been called, and the exits until they
# are called or have lost their hook; in the others they are unloaded at any time. A line in the
# file for each time: the calls.
hook_rounds() {
	local end=$((SECONDS + seconds)) round=0 before
	while [ $SECONDS -lt $end ] || [ $round -lt "$rounds" ] && [ ! -e "$work/end" ]; do
		load $HOOK forget=$((RANDOM % 2)) || return 1
		before=$(with_calls)
		until [ $((round % 2)) = 0 ] || [ "$(with_calls)" -gt "$before" ] || [ -e "$work/end" ]; do sleep 0.01; done
		sleep 0.0$((RANDOM % 8))
		echo >>"$work/hooks"
		drop $HOOK || return 1
		round=$((round + 1))
	done
	: >"$work/end"
}

exit_rounds() {
	local round=0
	until [ -e "$work/end" ]; do
		# There may be no hook for it.
		load $EXIT forget=$((RANDOM % 2)) 2>/dev/null || continue
		until [ $((round % 2)) = 0 ] || [ "$(cat $calls)" -gt 0 ] || ! listed exit=guest; do sleep 0.01; done
		sleep 0.0$((RANDOM % 4))
		cat $calls >>"$work/exits"
		drop $EXIT || { : >"$work/end"; return 1; }
		round=$((round + 1))
	done
}

# with_calls: how many times the exit was loaded and called.
with_calls() {
	awk '$1 > 0 { n++ } END { print n + 0 }' "$work/exits"
}

all_at_once() {
	local hooks exits arming fail=0
	: >"$work/hooks"
	: >"$work/exits"
	rm -f "$work/end"
	hook_rounds &
	hooks=$!
	exit_rounds &
	exits=$!
	(
		while :; do
			put disarm "gst_guest/guest gst_guest_sleep/guest_sleep"
			put arm "gst_guest/guest gst_guest_sleep/guest_sleep"
			put gst_guest/guest 0
			cat $GKHI/hooks $GKHI/gst_guest/guest
		done
	) >/dev/null 2>&1 &
	arming=$!
	wait $hooks || fail=1
	# also if it has failed
	: >"$work/end"
	wait $exits || fail=1
	kill $arming
	wait $arming 2>/dev/null
	echo "hooks $(wc -l <"$work/hooks") times, exits $(wc -l <"$work/exits") times, $(with_calls) with calls"
	[ $fail = 0 ] && ! listed hook=gst_guest && ! listed exit=guest && [ "$(with_calls)" -ge $((rounds / 2)) ]
}

echo "TAP version 13"
checks unload. hook_goes_first exit_goes_first no_hook_no_exit a_hook_is_forgotten an_exit_is_forgotten \
	both_are_forgotten all_at_once
sed 's/^/# /' "$work/log"
finish
