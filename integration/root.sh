# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Roots of a Debian suite, by mmdebstrap from the machine's own mirror. Source it after lib.sh and apt.sh; needs root.

# make_root SUITE DIR PACKAGES...: makes a minimal root in DIR, which must not exist, with these
# packages. apt's settings other than the suite's sources are the machine's.
make_root() {
	local suite=$1 root=$2 conf
	shift 2
	have mmdebstrap || apt-get -q -y --no-install-recommends install mmdebstrap >&2 || die "cannot install mmdebstrap"
	private_sources "$suite" || die "no Debian mirror is configured here to take $suite from"
	mkdir -p "$(dirname "$root")"
	conf=$(mktemp)
	apt-config dump | grep '^Acquire::' >"$conf" || true
	say "making a root of $suite in $root"
	mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$conf" ${1:+--include="$*"} "$suite" "$root" "$CACHE/apt/$suite/src"/*.* >&2 ||
		{ rm -f "$conf" && die "mmdebstrap failed"; }
	rm -f "$conf"
}
