#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the harmless clients on the running kernel, as root, and prints KTAP.
#
#	run.sh [NAME...]	all without one
#
# The modules are in $SOUNDNESS_CLIENTS. The README says what a client is.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
export MODULES=${SOUNDNESS_CLIENTS:-$FERROTRACE_KDIR/soundness/harmless}
clients=${*:-$(cd "$here/harmless" && printf '%s\n' *.rs | sed 's/\.rs$//')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ALLOWED=$work/allowed

bail() {
	echo "Bail out! $*"
	exit 1
}

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug || bail "no debugfs"
for module in rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe; do
	ko=$FERROTRACE_KDIR/kernel/ferrotrace/$module.ko
	if [ -e "$ko" ] && ! [ -e /sys/module/$module ]; then insmod "$ko" || bail "cannot load $module"; fi
done

# client NAME: its script, or load and unload.
client() (
	set -e
	# shellcheck source=tools/testing/soundness/lib.sh
	. "$here/lib.sh"
	cd "$(mktemp -d -p "$work")"
	NAME=$1
	if [ -e "$here/harmless/$1.sh" ]; then
		# shellcheck disable=SC1090
		. "$here/harmless/$1.sh"
	else
		load "$NAME"
		unload "$NAME"
	fi
)

# complaints: lines of the log that say that the kernel was harmed, but for those that the client announced.
complaints() {
	dmesg | grep -E 'WARNING: |BUG: |kernel BUG|Oops|INFO: (task|rcu|possible)|refcount_t:|general protection|kmemleak:|scheduling while' |
		grep -v -F -f "$ALLOWED"
}

echo "TAP version 13"
count=0 failed=0
for name in $clients; do
	dmesg -C
	: >"$ALLOWED"
	echo "# $name"
	client "$name" >"$work/log" 2>&1
	status=$?
	complaints >"$work/complaints"
	if [ $status = 0 ] && ! [ -s "$work/complaints" ]; then
		echo "ok $((++count)) harmless.$name"
	else
		sed 's/^/# /' "$work/log"
		dmesg | tail -n 60 | sed 's/^/# dmesg: /'
		echo "not ok $((++count)) harmless.$name"
		failed=1
	fi
done
echo "1..$count"
[ $failed = 0 ]
