#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the clients of run_pass/ on the running kernel, as root, and prints KTAP.
#
#	run.sh [NAME...]	all without one
#
# The modules are in $SOUNDNESS_CLIENTS. The README describes clients.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../selftests/lib/testlib.sh"
export MODULES=${SOUNDNESS_CLIENTS:-$FERROTRACE_KDIR/soundness/run_pass}
clients=${*:-$(cd "$here/run_pass" && printf '%s\n' *.rs *.sh | sed 's/\.[a-z]*$//' | sort -u)}
export ALLOWED=$work/allowed

load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_ftrace

# client NAME: its script, or load and unload.
client() (
	set -e
	# shellcheck source=tools/testing/soundness/lib.sh
	. "$here/lib.sh"
	cd "$(mktemp -d -p "$work")"
	NAME=$1
	if [ -e "$here/run_pass/$1.sh" ]; then
		# shellcheck disable=SC1090
		. "$here/run_pass/$1.sh"
	else
		load "$NAME"
		unload "$NAME"
	fi
)

# complaints: lines of the log that report harm to the kernel, except those that the client
# announced.
complaints() {
	dmesg | grep -E 'WARNING: |BUG: |kernel BUG|Oops|INFO: (task|rcu|possible)|refcount_t:|general protection|kmemleak:|scheduling while' |
		grep -v -F -f "$ALLOWED"
}

echo "TAP version 13"
for name in $clients; do
	dmesg -C
	: >"$ALLOWED"
	echo "# $name"
	client "$name" >"$work/log" 2>&1
	status=$?
	complaints >"$work/complaints"
	if [ $status = 0 ] && ! [ -s "$work/complaints" ]; then
		result ok "run_pass.$name"
	else
		sed 's/^/# /' "$work/log"
		dmesg | tail -n 60 | sed 's/^/# dmesg: /'
		result "not ok" "run_pass.$name"
	fi
done
finish
