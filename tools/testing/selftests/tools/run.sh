#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tools that people use, unchanged, each with one real job: perf, bpftrace, trace-cmd, bcc's
# tools, blktrace. Runs in a guest, as root.
#
#   run.sh ROOT [JOB...]    ROOT is a Debian with these tools (suites/56-tools.sh)
#
# A job's output, without variable parts, is for the host to compare: $FERROTRACE_OUT/JOB.
set -u

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../../.." && pwd)
tree=$(dirname "$FERROTRACE_KDIR")

# enter ROOT ARGS...: runs this script again in that root; its files are at the same paths there.
enter() {
	local root=$1 dir
	shift
	for dir in /proc /sys /dev /run "$repo" "$tree"; do
		mkdir -p "$root$dir" && mount --rbind "$dir" "$root$dir" || exit 1
	done
	mount -t tmpfs tmpfs "$root/tmp" || exit 1
	# Where those look that compile something against the kernel's headers, as an installed kernel has it.
	mkdir -p "$root/lib/modules/$(uname -r)" &&
		ln -sfn "$FERROTRACE_KDIR" "$root/lib/modules/$(uname -r)/build" && ln -sfn "$tree" "$root/lib/modules/$(uname -r)/source" || exit 1
	exec chroot "$root" /usr/bin/env INSIDE=1 LC_ALL=C HOME=/tmp TMPDIR=/tmp \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/bash "$here/run.sh" "$@"
}
if [ -z "${INSIDE:-}" ]; then enter "$@"; fi

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
# shellcheck source=tools/testing/selftests/tools/jobs.sh
. "$here/jobs.sh"

wanted=" $* "
for job in $JOBS; do
	[ $# = 0 ] || [[ $wanted == *" $job "* ]] || continue
	seen=$FERROTRACE_OUT/$job
	check "$job" "${job//-/_}"
	# A job that was left out has nothing to compare.
	[ -z "$skip" ] || rm -f "$seen"
done
finish
