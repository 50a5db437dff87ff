#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests the README's promises on a bare Debian: makes a minimal root of SUITE (bookworm, trixie,
# ...) by mmdebstrap, clones this checkout's HEAD into it, installs make, and runs there, each to
# its last line and with its time,
#   clean_install.sh SUITE                  "make demo", then "make check"
#   clean_install.sh SUITE CMD...           these shell commands instead
#   clean_install.sh --again SUITE [CMD...] as above, with a new clone in the last run's root
# SEED=1 also copies the cache of compiled objects from here, which serves a Debian with the same
# compiler: the test then takes a third of the time, and its times are not those of a new machine.
# The root and the commands' logs stay in $FRESH, else in the cache (10 GB); the next run without
# --again removes them. Needs root. The root's mounts and processes are in new namespaces, which end
# with the script.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

# Settings by which this machine reaches the registries: the environment (by name), and files.
ENVIRONMENT='^([a-z]+_proxy|[A-Z]+_PROXY|PIP_[A-Z_]+|CARGO_(HTTP|NET|REGISTR|SOURCE)[A-Z_]*|SSL_CERT_[A-Z]+|[A-Z_]+_CA_BUNDLE|GIT_SSL_CAINFO)='
FILES="/etc/resolv.conf /etc/hosts /etc/pip.conf $HOME/.config/pip/pip.conf ${CARGO_HOME:-$HOME/.cargo}/config.toml"

again=
if [ "${1:-}" = --again ]; then
	again=1
	shift
fi
suite=${1:-}
[[ $suite =~ ^[a-z]+$ ]] || die "usage: clean_install.sh [--again] SUITE [CMD...]"
shift
[ $# -gt 0 ] || set -- "make demo" "make check"
[ "$(id -u)" = 0 ] || die "root is needed to make a root directory"
dir=${FRESH:-$CACHE/fresh}/$suite
root=$dir/root
mkdir -p "$(dirname "$dir")"
exec {lock}>"$dir.lock"
flock -n "$lock" || die "another run uses $dir"

# Certificates of the machine's own go where the package ca-certificates looks for them when it is installed.
pass_on() {
	local f to
	for f in $FILES; do
		[ -e "$f" ] || continue
		to=$root$f
		case $f in "$HOME"/*) to=$root/root/${f#"$HOME"/} ;; esac
		mkdir -p "$(dirname "$to")"
		cp -L "$f" "$to"
	done
	mkdir -p "$root/usr/local/share"
	if [ -d /usr/local/share/ca-certificates ]; then cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
}

# seed: this machine's compiled objects, for a compiler of the same version and date.
seed() {
	local to=$root/root/.cache/ferrotrace
	mkdir -p "$to"
	rm -rf "$to/ccache"
	cp -r "$CACHE/ccache" "$to/"
}

# in_root CMD: become a process that runs the shell command CMD in the clone, as a login on that machine would.
in_root() {
	local variables
	mapfile -t variables < <(env | grep -E "$ENVIRONMENT" || true)
	# shellcheck disable=SC2016
	exec unshare --mount --pid --fork --kill-child --propagation private sh -e -c '
		mount -t proc proc "$1/proc"
		mount -t sysfs sys "$1/sys"
		mount --rbind /dev "$1/dev"
		root=$1 cmd=$2
		shift 2
		exec chroot "$root" /usr/bin/env -i "$@" HOME=/root TERM="${TERM:-dumb}" \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			/bin/sh -c "cd ~/ferrotrace && $cmd"' sh "$root" "$1" "${variables[@]}" </dev/null
}

# run CMD LOG: run it with its output in LOG, and shown.
run() {
	local status=0
	: >"$2"
	in_root "$1" >"$2" 2>&1 &
	inside=$!
	tail -n +1 -f --pid=$inside "$2" &
	wait $inside || status=$?
	inside=
	wait
	return $status
}
inside=
trap '[ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

minutes() { printf '%d:%02d minutes' $(($1 / 60)) $(($1 % 60)); }

if [ -z "$again" ]; then
	rm -rf "$dir"
	make_root "$suite" "$root"
elif ! [ -d "$root" ]; then
	die "no root of an earlier run in $root"
fi
pass_on
[ "${SEED:-0}" = 0 ] || seed
[ -z "$(git -C "$REPO" status --porcelain)" ] || say "what is not committed is not tried"
rm -rf "$root/root/ferrotrace"
git clone -q --no-hardlinks "$REPO" "$root/root/ferrotrace"
say "trying $(git -C "$REPO" log -1 --format='%h (%s)') in $root"
run "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install make" "$dir/make.log" >/dev/null || {
	tail -n 20 "$dir/make.log" >&2
	die "cannot install make; log: $dir/make.log"
}

n=0 summary="" failed=0
for cmd; do
	n=$((n + 1)) began=$SECONDS status=0
	log=$dir/$n.log
	say "$suite: $cmd"
	run "$cmd" "$log" || status=$?
	used=$(du -s -BM "$root" | cut -f1)
	summary+="$suite: $cmd: status $status, $(minutes $((SECONDS - began))), $used in all; log: $log"$'\n'
	[ $status = 0 ] || failed=1
done
printf '%s' "$summary"
exit $failed
