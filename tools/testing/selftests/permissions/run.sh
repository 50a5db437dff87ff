#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Permissions of our files: as in the table of Documentation/permissions.rst, which this reads. Runs
# in a guest, as root. With the argument "mainline": the kernel has mainline's engines.
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
set -u

repo=$(cd "$(dirname "$0")/../../../.." && pwd)

# flight: an earlier boot leaves records in reserved memory, if there is any.
flight() {
	local flights=$DEBUGFS/ferrotrace_flight sched=$MODULE_DIR/samples/relay_sched.ko
	grep -q 'reserve_mem=.*:relay_sched' /proc/cmdline || return 0
	if ! [ -e "$FERROTRACE_OUT/flight" ]; then
		load_file "$sched" reserved=1 overwrite=1
		echo 1 >$DEBUGFS/relay_sched/enabled
		touch "$FERROTRACE_OUT/flight"
		sync
		echo b >/proc/sysrq-trigger
		sleep 60
	fi
	echo "find relay_sched" >"$flights/control" || bail "nothing in reserved memory"
	# A channel that lasts as long as this file is open.
	exec {kept}>$DEBUGFS/ferrotrace_kprobe_events/keep
	echo "in relay_sched as a-recording" >&"$kept" || bail "no channel"
}

load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_kprobe_events \
	rust_ftrace_tramp ferrotrace_ftrace ferrotrace_ftrace_functions rust_gcov rust_dprobes clients/klog_relay
flight
# A channel that user space makes has files of its own.
if [ -e $DEBUGFS/klog/create ]; then echo 1 >$DEBUGFS/klog/create; fi
# Debugfs keeps all users except root out at its top; this opens it, so that the files themselves
# decide.
mount -o remount,mode=755 $DEBUGFS

# The same files, in the filesystem "ferrotrace".
ferrotracefs=/sys/kernel/ferrotrace
if ! mountpoint -q $ferrotracefs; then mount -t ferrotrace ferrotrace $ferrotracefs || bail "no filesystem ferrotrace"; fi
chmod 755 $ferrotracefs

# rows: "GLOB MODE LEVEL" of each row of the table: a file below debugfs, its mode, and the level of lockdown that refuses it.
rows() {
	# shellcheck disable=SC2016
	sed -n -E 's/^``([a-z_*\/?0-9.]+)`` +(0[0-7]{3}) +(never|integrity|confidentiality) .*/\1 \2 \3/p' "$repo/Documentation/permissions.rst"
}

# ours [TEST...]: our files, relative to debugfs, that pass find's tests. Links lead to files of a
# directory that has the kernel's objects.
ours() { (cd $DEBUGFS && find gkhi kprobes ftrace_tramp gcov ferrotrace_* klog* -type f "$@" 2>/dev/null | sort); }

# in_ferrotracefs [TEST...]: its files that pass find's tests.
in_ferrotracefs() { (cd $ferrotracefs && find . -type f "$@" -printf '%P\n' | sort); }

# row_of FILE: its row: the first one that it is like.
row_of() {
	local glob mode level
	while read -r glob mode level; do
		# shellcheck disable=SC2254
		case $1 in $glob) echo "$glob $mode $level" && return ;; esac
	done < <(rows)
	return 1
}

# as_nobody CMD...: in a process without capabilities.
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"; }

# opens_of MODE CMD...: the files of standard input that CMD can open for it ("<" or ">>").
opens_of() {
	local mode=$1
	shift
	# shellcheck disable=SC2016
	"$@" bash -c 'while read -r f; do if (eval "exec 3'"$mode"'\"\$f\"") 2>/dev/null; then echo "$f"; fi; done'
}

# nobody_opens CMD...: succeeds if CMD can open none of ours, and can open another file.
nobody_opens() {
	local found
	found=$(cd $DEBUGFS && ours | opens_of '<' "$@" && ours | opens_of '>>' "$@")
	found+=$(cd $ferrotracefs && in_ferrotracefs | opens_of '<' "$@" && in_ferrotracefs | opens_of '>>' "$@")
	echo "opened: ${found:-none}"
	[ -z "$found" ] && [ -n "$(echo /proc/version | opens_of '<' "$@")" ]
}

# opened_by CMD...: our files that CMD can open to read or, if they are not readable, to write.
opened_by() { (cd $DEBUGFS && ours -perm /0400 | opens_of '<' "$@" && ours ! -perm /0400 | opens_of '>>' "$@"); }

# Each file has a row, and each row a file.
table() {
	local file mode bad=0 glob
	declare -A used
	[ "$(rows | wc -l)" -ge 10 ] || return 1
	while read -r file; do
		read -r glob mode _ < <(row_of "$file") || { echo "no row: $file $(stat -c '%a' "$DEBUGFS/$file")" && bad=1 && continue; }
		used[$glob]=$file
		if [ "$(stat -c '0%a %u %g' "$DEBUGFS/$file")" != "$mode 0 0" ]; then
			echo "$file: $(stat -c '0%a %u %g' "$DEBUGFS/$file"), in the table $mode" && bad=1
		fi
	done < <(ours)
	[ "$engines" = mainline ] || while read -r glob _; do
		# There only after another boot.
		if [[ $glob = ferrotrace_@(flight/\*|keep/*) ]] && ! grep -q reserve_mem= /proc/cmdline; then continue; fi
		[ "${used[$glob]:-}" ] || { echo "no file: $glob" && bad=1; }
	done < <(rows)
	return $bad
}

# ferrotracefs has all directories of the table, except gcov's and those of mainline's engines, and each has the same files.
filesystem() {
	local dir other='gcov' shown='%p %m %U %G\n'
	if [ "$engines" = mainline ]; then other='gcov|kprobes'; fi
	for dir in $(ours | cut -d/ -f1 | sort -u | grep -vxE "$other"); do
		[ -d "$ferrotracefs/$dir" ] || { echo "no directory: $dir" && return 1; }
	done
	for dir in "$ferrotracefs"/*; do
		diff <(cd $DEBUGFS && find "${dir##*/}" -type f -printf "$shown" | sort) \
			<(cd $ferrotracefs && find "${dir##*/}" -type f -printf "$shown" | sort) || return 1
	done
}

# Files that user 0 cannot open without capabilities are those that need one by the table.
capability() {
	local file can said is bad=0
	can=$(opened_by setpriv --bounding-set=-all --inh-caps=-all)
	while read -r file; do
		said=no
		if grep -F "\`\`$file\`\` " "$repo/Documentation/permissions.rst" | grep -q CAP_; then said=yes; fi
		is=yes
		if grep -qxF "$file" <<<"$can"; then is=no; fi
		if [ $is != $said ]; then echo "$file: takes a capability: $is, in the table $said" && bad=1; fi
	done < <(ours)
	return $bad
}

# our_modules: the names of those that this kernel has, loaded or built in.
our_modules() {
	local module
	for module in rust_{relay,kprobes,ftrace_tramp,gcov,dprobes} gkhi klog klog_relay ferrotrace_{kprobe_events,ftrace_functions,fast_relay,ftrace,kprobe}; do
		if [ -d "/sys/module/$module" ]; then echo "$module"; fi
	done
}

# others: files elsewhere: the sysctl, which all may read, and the modules' parameters, which have
# no writers.
others() {
	local sysctl=/proc/sys/debug/kprobes-optimization module written seen=0
	if [ -e $sysctl ]; then
		[ "$(stat -c '0%a %u %g' $sysctl)" = "0644 0 0" ] && refused "Permission denied" as_nobody bash -c "echo 0 >$sysctl" || return 1
	fi
	while read -r module; do
		module=/sys/module/$module
		[ -d "$module/parameters" ] || continue
		seen=1
		written=$(find "$module/parameters" -type f -perm /222)
		[ -z "$written" ] || { echo "$written" && return 1; }
	done < <(our_modules)
	[ "$engines" = mainline ] || [ $seen = 1 ] || { echo "no module of ours has parameters" && return 1; }
}

nobody() { nobody_opens as_nobody; }

# in_user_namespace CMD...: as root of a user namespace that an unprivileged user makes.
in_user_namespace() { as_nobody unshare --user --map-root-user "$@"; }

user_namespace() {
	[ -e /proc/self/ns/user ] || { skip="no user namespaces" && return; }
	[ "$(in_user_namespace id -u)" = 0 ] && nobody_opens in_user_namespace
}

# under_lockdown: root can open the files that the table says. Lockdown cannot be undone.
under_lockdown() {
	local level=/sys/kernel/security/lockdown wanted=$1 file can bad=0 from want is
	mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
	[ -e $level ] || { skip="no lockdown" && return; }
	echo "$wanted" >$level || return 1
	can=$(opened_by env)
	while read -r file; do
		read -r _ _ from < <(row_of "$file")
		want=refused is=refused
		case $from:$wanted in never:* | confidentiality:integrity) want=open ;; esac
		if grep -qxF "$file" <<<"$can"; then is=open; fi
		if [ "$is" != "$want" ]; then echo "$file: $is, in the table refused from: $from" && bad=1; fi
	done < <(ours)
	# In ferrotracefs all files are closed with "confidentiality", and none before.
	[ "$(in_ferrotracefs | wc -l)" -ge 5 ] || bad=1
	can=$(cd $ferrotracefs && in_ferrotracefs -perm /0400 | opens_of '<' env && in_ferrotracefs ! -perm /0400 | opens_of '>>' env)
	want=$(if [ "$wanted" = integrity ]; then in_ferrotracefs; fi)
	diff <(sort <<<"$can") <(sort <<<"$want") || bad=1
	probes "$wanted" || bad=1
	return $bad
}

# The files that add probes with either engine, and the words that add one and remove it.
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
checks "" table filesystem capability nobody others user_namespace
open_ways
checks lockdown. integrity confidentiality
finish
