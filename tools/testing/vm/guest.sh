#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest, as root: prepares it, runs the command, writes its exit status for the host.
# The host (run.py) shares one directory: env, cmd, status and out/ are in it.
share=$1

set -a
# shellcheck source=/dev/null
. "$share/env"
set +a
# The system's tools, then the host user's: those may be wrappers, such as pyenv's of python3, which take ten times as long.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH

cd "$FERROTRACE_REPO" || exit 1

# Our modules are installed on the distribution's kernel; one of them is what other kernels have in their images.
installed=lib/modules/$(uname -r)
if [ -d "$FERROTRACE_KDIR/$installed" ]; then
	mkdir -p "/$installed"
	mount --bind "$FERROTRACE_KDIR/$installed" "/$installed"
	modprobe ferrotrace_core || exit 1
fi

# Where a test copies the image's counters before it resets them.
if [ -d "$share/coverage" ]; then export FERROTRACE_COUNTED=$share/coverage; fi

bash "$share/cmd"
status=$?
if [ -d "$share/coverage" ]; then
	cp -r /sys/kernel/debug/gcov/. "$share/coverage" || echo "what has been counted was not copied" >&2
fi
sync
echo $status >"$share/status.new"
mv "$share/status.new" "$share/status"
exit $status
