#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Who may use our files: as the table of Documentation/permissions.rst says, which this reads. Runs in a guest, as root.
# "mainline" as the argument: mainline's engines are there.
# shellcheck source=tools/testing/selftests/lib/kit.sh
. "$(dirname "$0")/../lib/kit.sh"
set -u

repo=$(cd "$(dirname "$0")/../../../.." && pwd)

load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_kprobe_events \
	rust_ftrace_tramp ferrotrace_ftrace ferrotrace_ftrace_functions rust_gcov rust_dprobes klog/klog_relay
# Debugfs keeps all but root out at its top; let them come to the files themselves.
mount -o remount,mode=755 $DEBUGFS

# rows: "GLOB MODE LOCKDOWN" of each row of the table: a file below debugfs, its mode, and what lockdown leaves of it.
rows() {
	# shellcheck disable=SC2016
	sed -n -E 's/^``([a-z_*\/?0-9.]+)`` +(0[0-7]{3}) +(open|refused) .*/\1 \2 \3/p' "$repo/Documentation/permissions.rst"
}

# ours: every file of ours, relative to debugfs. Links lead to files of a directory that has the kernel's objects.
ours() { (cd $DEBUGFS && find gkhi kprobes ftrace_tramp gcov ferrotrace_* klog* -type f 2>/dev/null | sort); }

# row_of FILE: its row's mode and lockdown.
row_of() {
	local glob mode lockdown
	while read -r glob mode lockdown; do
		# shellcheck disable=SC2254
		case $1 in $glob) echo "$mode $lockdown" && return ;; esac
	done < <(rows)
	return 1
}

# as_nobody CMD...: in a process without capabilities.
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"; }

# opens_of MODE WHO...: the files of standard input that WHO can open for it ("<" or ">>").
opens_of() {
	local mode=$1
	shift
	# shellcheck disable=SC2016
	"$@" bash -c 'while read -r f; do if (eval "exec 3'"$mode"'\"\$f\"") 2>/dev/null; then echo "$f"; fi; done'
}

# nobody_opens WHO...: whether WHO can open none of ours, and can open something at all.
nobody_opens() {
	local found
	found=$(cd $DEBUGFS && ours | opens_of '<' "$@" && ours | opens_of '>>' "$@")
	echo "opened: ${found:-none}"
	[ -z "$found" ] && [ -n "$(echo /proc/version | opens_of '<' "$@")" ]
}

table() {
	local file mode bad=0 glob
	[ "$(rows | wc -l)" -ge 10 ] || return 1
	while read -r file; do
		read -r mode _ < <(row_of "$file") || { echo "no row: $file $(stat -c '%a' "$DEBUGFS/$file")" && bad=1 && continue; }
		if [ "$(stat -c '0%a %u %g' "$DEBUGFS/$file")" != "$mode 0 0" ]; then
			echo "$file: $(stat -c '0%a %u %g' "$DEBUGFS/$file"), in the table $mode" && bad=1
		fi
	done < <(ours)
	[ "$engines" = mainline ] || while read -r glob _; do
		[ -n "$(cd $DEBUGFS && compgen -G "$glob")" ] || { echo "no file: $glob" && bad=1; }
	done < <(rows)
	return $bad
}

nobody() { nobody_opens as_nobody; }

# in_user_namespace CMD...: as root of a user namespace that an unprivileged user makes.
in_user_namespace() { as_nobody unshare --user --map-root-user "$@"; }

user_namespace() {
	[ -e /proc/self/ns/user ] || { skip="no user namespaces" && return; }
	[ "$(in_user_namespace id -u)" = 0 ] && nobody_opens in_user_namespace
}

# under_lockdown: what root can open is what the table says. It cannot be undone.
under_lockdown() {
	local level=/sys/kernel/security/lockdown wanted=$1 file bad=0 want is mode
	mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
	[ -e $level ] || { skip="no lockdown" && return; }
	echo "$wanted" >$level || return 1
	while read -r file; do
		read -r mode want < <(row_of "$file")
		is=refused
		# What nobody may read is opened for writing.
		if [ $((mode & 0400)) = 0 ]; then set -- '>>'; else set -- '<'; fi
		if [ -n "$(cd $DEBUGFS && echo "$file" | opens_of "$1" env)" ]; then is=open; fi
		if [ "$is" != "$want" ]; then echo "$file: $is, in the table $want" && bad=1; fi
	done < <(ours)
	probes "$wanted" || bad=1
	return $bad
}

# What makes probes on either engine, and the words that add one and remove it.
ways=(/sys/kernel/tracing/kprobe_events "p:permissions/probe vfs_read" "-:permissions/probe"
	"$DEBUGFS/ferrotrace_kprobe_events/probes" "p probe vfs_read" "-probe")
declare -A opened

# open_ways: of these the files that this kernel has.
open_ways() {
	local i fd
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	for i in $(seq 0 3 $((${#ways[@]} - 1))); do
		if [ -e "${ways[i]}" ]; then exec {fd}>>"${ways[i]}" && opened[$i]=$fd; fi
	done
}

# probes LEVEL: below confidentiality they can be made by a file that was opened before, above they can only be removed.
probes() {
	local i
	for i in "${!opened[@]}"; do
		echo "${ways[i]}"
		if [ "$1" = confidentiality ]; then
			echo "${ways[i + 2]}" >&"${opened[$i]}" || return 1
			refused "Operation not permitted" bash -c "echo '${ways[i + 1]}' >&${opened[$i]}" || return 1
		else
			echo "${ways[i + 1]}" >&"${opened[$i]}" || return 1
		fi
	done
}

integrity() { under_lockdown integrity; }
confidentiality() { under_lockdown confidentiality; }

engines=${1:-ours}
echo "TAP version 13"
checks "" table nobody user_namespace
open_ways
checks lockdown. integrity confidentiality
finish
