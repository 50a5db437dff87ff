#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "ferrotrace graph" and "ferrotrace why" on the running kernel, which needs none of our modules. Run as root in a guest, with
# FERROTRACE set to the command; arguments choose cases by the start of their names. Prints KTAP.
# Functions are called by check().
#
# shellcheck disable=SC2317,SC2329
set -u

: "${FERROTRACE:?}"
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"
TRACING=/sys/kernel/tracing
ERRORS=${GRAPH_SELFTESTS:-$FERROTRACE_KDIR/selftests-graph}/errors
cases=("$@")

# one NAME CMD...: a check, if it was asked for.
one() {
	local prefix wanted=0
	[ ${#cases[@]} = 0 ] && wanted=1
	for prefix in "${cases[@]}"; do if [[ $1 == "$prefix"* ]]; then wanted=1; fi; done
	[ $wanted = 1 ] && check "$@"
}

# Each check leaves no instance, no probe and no traced function.
after() {
	local status=0
	if compgen -G "$TRACING/instances/ferrotrace*"; then
		echo "an instance is left"
		status=1
	fi
	if grep ferrotrace_graph $TRACING/dynamic_events; then
		echo "a probe is left"
		status=1
	fi
	if grep -v ferro_ftrace_anchor $TRACING/enabled_functions; then
		echo "still traced"
		status=1
	fi
	return $status
}

graph() { "$FERROTRACE" graph "$@"; }

# origin ERRNO SYSCALL: the function where the last error of a system call arose, and its chain, from $work/why.
origin() {
	grep "\"syscall\":\"$2\"" "$work/why" | grep "\"errno\":\"$1\"" | tail -n 1 | sed 's/.*"origin":"\([^"]*\)".*/\1/'
}

# prepare: the files of errors.c.
prepare() {
	files=$work/files
	# Each filesystem has errors of its own.
	mkdir "$files" && mount -t tmpfs tmpfs "$files" &&
		mkdir "$files/directory" "$files/small" "$files/readonly" &&
		echo text >"$files/file" && echo text >"$files/directory/file" && echo secret >"$files/secret" &&
		chmod 600 "$files/secret" && chmod 755 "$work" "$files" && ln -sfn loop "$files/loop" &&
		printf '\1\2\3' >"$files/script" && chmod 755 "$files/script" && mkfifo "$files/fifo" &&
		mount -t tmpfs -o size=64k tmpfs "$files/small" && mount -t tmpfs -o ro tmpfs "$files/readonly" &&
		cp "$(command -v sleep)" "$files/busy" || return 1
	dd if=/dev/zero of="$files/small/full" bs=4k 2>"$work/dd"
	# The socket stays without its listener.
	perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un($ARGV[0])) or die' "$files/socket" || return 1
	"$files/busy" 1000 &
	busy=$!
	until [ "$(readlink /proc/$busy/exe)" = "$files/busy" ]; do
		kill -0 $busy || return 1
		sleep 0.1
	done
}

# all_errors: one run of all cases.
all_errors() {
	"$FERROTRACE" why --all --json --buffer 64M -- "$ERRORS" "$files" all >"$work/why" 2>"$work/err"
	local status=$?
	cat "$work/err"
	[ $status = 1 ] || { echo "status $status"; return 1; }
	tail -n 1 "$work/why" | grep -q '"lost":0'
}

# error ERRNO SYSCALL PATTERN: the error of a system call arose in a function that the pattern of grep stands for.
error() {
	local found
	found=$(origin "$1" "$2")
	echo "$1 of $2 arose in $found"
	grep "\"errno\":\"$1\"" "$work/why"
	grep -qxE "$3" <<<"$found"
}

# tree: the calls of a command, from its exec on and with its children; the first close() has a file in it.
tree() {
	graph -g '__x64_sys_*' --depth 3 -o "$work/tree" -f -- sh -c "cat '$files/file'; exit 7" >"$work/out" 2>"$work/err"
	local status=$?
	cat "$work/err"
	head -n 50 "$work/tree"
	[ $status = 7 ] && [ "$(cat "$work/out")" = text ] && grep -q ' 0 records lost' "$work/err" &&
		grep -q '^sh [0-9]*:$' "$work/tree" && grep -q '^cat [0-9]*:$' "$work/tree" &&
		grep -qE '^ *[0-9.]+ [mun]?s    file_close_fd' "$work/tree" &&
		! grep -q '^ferrotrace' "$work/tree"
}

# flame: a flame graph, and nothing else on standard output.
flame() {
	rm -f "$work/graph.svg"
	graph --svg "$work/graph.svg" -- true >"$work/out" && ! [ -s "$work/out" ] && grep -q '__x64_sys_execve' "$work/graph.svg"
}

# lost: a small buffer loses records, which is told, and no call has a duration without a record.
lost() {
	graph --json --buffer 4K -o "$work/lost" -f -- cat "$files/file" >"$work/out" 2>"$work/err" || return 1
	cat "$work/err"
	grep -q 'records found no room' "$work/err" && tail -n 1 "$work/lost" | grep -qv '"lost":0,' &&
		! grep '"end":"lost"' "$work/lost" | grep -v '"duration_ns":null'
}

# stopped SIGNAL: a signal ends it, and leaves nothing behind.
stopped() {
	begin_tool 'Ctrl-C ends' graph -g vfs_read || return 1
	kill "-$1" "$tool_pid"
	wait "$tool_pid"
}

# killed: the next run removes what one that was killed has left.
killed() {
	begin_tool 'Ctrl-C ends' graph -- sleep 1000 || return 1
	kill -KILL "$tool_pid"
	wait "$tool_pid"
	graph -g vfs_read --depth 1 -- true >"$work/out"
}

# refused: bad input has a clear error, and starts nothing.
refused() {
	! graph -g no_such_function -- touch "$work/ran" 2>"$work/err" && grep -q 'no_such_function' "$work/err" &&
		! graph -p 999999999 2>"$work/err" && grep -q 'no process 999999999' "$work/err" &&
		! "$FERROTRACE" why 2>"$work/err" && grep -q 'no command' "$work/err" &&
		! "$FERROTRACE" why --errno EWRONG -- true 2>"$work/err" && grep -q 'no error has this name' "$work/err" && ! [ -e "$work/ran" ]
}

mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING || bail "no tracefs"
if ! grep -qw function_graph $TRACING/available_tracers; then
	echo "1..0 # SKIP this kernel has no function graph tracer"
	exit
fi
echo "TAP version 13"
prepare || bail "no files"
one graph.tree tree
one graph.flame flame
one graph.lost lost
one graph.stopped stopped TERM
one graph.killed killed
one refused refused
one why.all all_errors
while read -r errno syscall pattern; do
	one "why.$errno.$syscall" error "$errno" "$syscall" "$pattern"
done <<'END'
ENOENT openat path_openat|open_last_lookups|step_into.*
EACCES openat generic_permission
EISDIR openat may_open|do_open
ENOTDIR openat link_path_walk.*
EEXIST mkdir lookup_one_qstr_excl.*
EINVAL lseek __x64_sys_lseek|ksys_lseek
EBADF read ksys_read|__x64_sys_read
ENOTEMPTY rmdir shmem_rmdir
EXDEV rename filename_renameat2
ELOOP openat pick_link
ENAMETOOLONG openat do_getname|getname_long
EPERM chmod setattr_prepare
ESRCH kill kill_pid_info_type|kill_proc_info
ECHILD wait4 __do_wait|do_wait
ECONNREFUSED connect unix_find_(bsd|other)
ENOTTY ioctl __x64_sys_ioctl|vfs_ioctl|do_vfs_ioctl
ENOSPC write shmem_inode_acct_blocks
EROFS mkdir mnt_want_write|mnt_get_write_access
ETXTBSY openat do_dentry_open
ENOEXEC execve load_[a-z_]*|search_binary_handler
ENODEV mount do_new_mount|path_mount
EADDRINUSE bind unix_bind(_bsd)?
EFBIG write generic_write_checks(_count)?|generic_write_check_limits
EMFILE openat alloc_fd
EBUSY rmdir vfs_rmdir
EPIPE write anon_pipe_write
ENXIO openat fifo_open
ENOTSOCK connect __sys_connect.*
ENODATA getxattr simple_xattr_get
ENOENT newfstatat path_lookupat|walk_component|step_into.*
ENOENT mkdir link_path_walk.*|walk_component|step_into.*
ENOENT unlink lookup_one_qstr_excl
ENOENT execve path_openat|open_last_lookups|step_into.*
ENOTDIR chdir path_lookupat
END
kill "$busy"
wait "$busy" 2>"$work/busy"
umount "$files/small" "$files/readonly" "$files"
finish
