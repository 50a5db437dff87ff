#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Live coverage of many machines: 20 guests of Debian's own kernel, with a name and a job each, save runs of the functions below.
# The runs are merged, and DuckDB and Spark answer the questions of Documentation/live-coverage.rst from their tables. Arguments
# choose guests. Spark has a root of its own in the cache (1 GB), and the lines are those of the kernel's package with
# debugging information (a download of 1.2 GB). Of "stock" only, in "make check-long".
# Seconds: 600
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

root=$CACHE/roots/spark
readers=$CACHE/tools/readers
stock=$REPO/integration/stock.sh
fleet=$REPO/tools/testing/fleet.py
# Of the kernel, and of its modules that a guest needs for its root.
FUNCTIONS="vfs_* do_* ksys_* sched_* task_* copy_* mmap_* futex_* pipe_* ep_* shmem_* proc_* sock_* inet_* tcp_* udp_* unix_* ovl_* p9_*"

# guests: the name of each guest, and its command. Some names look like numbers and dates.
guests() {
	cat <<-'END'
		007|ls -lR /etc/apt
		1e5|find /etc/apt -type f -size +4k
		2026-01-01|sort -u /etc/services
		archive|tar c /etc/apt | tar t
		block|dd if=/dev/zero of=/tmp/zeros bs=64k count=16 conv=fsync
		mounts|mount -t tmpfs tmpfs /mnt && cp -r /etc/apt /mnt && umount /mnt
		namespaces|unshare --mount --pid --uts --net --fork true
		pipes|cat /etc/services | grep tcp | wc -l
		tcp|python3 -c 'import socket as s; l = s.create_server(("127.0.0.1", 0)); c = s.create_connection(l.getsockname()); l.accept()[0].send(b"x"); c.recv(1)'
		udp|python3 -c 'import socket as s; u = s.socket(s.AF_INET, s.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"x", u.getsockname()); u.recv(1)'
		unix|python3 -c 'import socket as s; a, b = s.socketpair(); a.send(b"x"); b.recv(1)'
		signals|sleep 60 & kill $!; wait $! || true
		names|cd /tmp && touch a && ln a b && ln -s b c && mv c d && mkdir e && rmdir e && rm a b d
		attributes|python3 -c 'import os; os.setxattr("/dev/shm", b"user.x", b"y"); os.listxattr("/dev/shm")'
		locks|flock /tmp/lock true
		memory|python3 -c 'import mmap; m = mmap.mmap(-1, 1 << 20); m[5] = 1; m.madvise(mmap.MADV_DONTNEED); m.resize(2 << 20)'
		threads|python3 -c 'import threading as t; e = t.Event(); h = t.Thread(target=e.wait); h.start(); e.set(); h.join()'
		epoll|python3 -c 'import os, select as s; p = s.epoll(); r, w = os.pipe(); p.register(r); os.write(w, b"x"); p.poll()'
		proc|cat /proc/self/maps /proc/meminfo /proc/interrupts
		holes|fallocate -l 1M /dev/shm/holes && fallocate -p -o 4096 -l 8192 /dev/shm/holes
	END
}

# boot NAME JOB: a guest, which saves its run.
boot() {
	SUITE=$SUITE-$1 OUT=$out CPUS=2 run_vm "$variant" \
		"hostname $1 && set -f && $FERROTRACE cov live $FUNCTIONS --save \$FERROTRACE_OUT/$1.run -- sh -c $(printf %q "$2") >/dev/null" >"$LOGS/$SUITE-$1.log" 2>&1
}

# boot_all: all guests, one at a time for each processor; prints their results.
boot_all() {
	local name job pid
	declare -A names=()
	# end_one: waits for one that runs.
	end_one() {
		local status=0
		wait -n -p pid "${!names[@]}" || status=$?
		if [ $status = 0 ]; then tap_ok "fleet: ${names[$pid]}"; else tap_not_ok "fleet: ${names[$pid]} (exit status $status, $LOGS/$SUITE-${names[$pid]}.log)"; fi
		unset "names[$pid]"
	}
	while IFS='|' read -r name job; do
		if [ ${#names[@]} -ge "$(nproc)" ]; then end_one; fi
		boot "$name" "$job" </dev/null &
		names[$!]=$name
	done < <(guests | grep -E "^($(tr ' ' '|' <<<"${*:-.*}"))\|")
	while [ ${#names[@]} -gt 0 ]; do end_one; done
}

# spark_root: makes the root with a JRE and Spark, unless the last run has left it.
spark_root() {
	[ -d "$root" ] && return
	if [ "$(id -u)" != 0 ] || ! unshare --mount --propagation private true; then return 1; fi
	rm -rf "$root.new"
	make_root trixie "$root.new" openjdk-21-jre-headless python3 &&
		"$readers/bin/python3" -m pip -q --disable-pip-version-check install --target "$root.new/opt/spark" pyspark && mv "$root.new" "$root"
}

# ask_spark: as fleet.py, in the root.
ask_spark() {
	# shellcheck disable=SC2016
	unshare --mount --propagation private sh -e -c '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mkdir -p "$1$2" "$1$3"
		mount --bind "$2" "$1$2"
		mount --bind "$3" "$1$3"
		exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp PYTHONPATH=/opt/spark SPARK_LOCAL_IP=127.0.0.1 \
			JAVA_HOME=/usr/lib/jvm/java-21-openjdk-amd64 python3 "$2/tools/testing/fleet.py" spark "$3"' \
		sh "$root" "$REPO" "$out" </dev/null
}

for variant in $VARIANTS; do
	if [ "$variant" != stock ]; then
		tap_skip "fleet: $variant" "a long test of stock"
		continue
	fi
	if ! release=$("$stock" release) || ! "$stock" build "$release" >&2 || ! image=$("$stock" debug "$release"); then
		tap_skip "fleet" "Debian's kernel, or its debugging information, cannot be had here"
	elif ! "$readers/bin/python3" -c 'import duckdb'; then
		tap_skip "fleet" "DuckDB cannot be had here"
	elif ! with_lock spark-root spark_root >&2; then
		tap_skip "fleet" "a root with a JRE and Spark cannot be made here"
	else
		FERROTRACE=$(tool) || die "the command does not build"
		out=$LOGS/fleet
		rm -rf "$out"
		mkdir -p "$out"
		began=$SECONDS
		boot_all "$@"
		say "the guests took $((SECONDS - began)) seconds"
		tap_run "fleet: tables" "$FERROTRACE" cov merge "$out"/*.run --vmlinux "$image" --parquet "$out/tables"
		tap_run "fleet: DuckDB answers" "$readers/bin/python3" "$fleet" duckdb "$out"
		tap_run "fleet: Spark answers" ask_spark
		tap_nest "fleet: the same answers" "$fleet" compare "$out" "$FERROTRACE" "$image"
	fi
done
tap_plan
