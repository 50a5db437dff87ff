# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the suites that run the relay selftests; REPO is the repository.

# selftests_relay_build VARIANT [NAME]: builds programs and module of relay, or another directory beside it, in the
# variant's build directory, where run.sh looks.
selftests_relay_build() {
	local kdir name=${2:-relay}
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	if ! [ -f "$kdir/Module.symvers" ]; then
		echo "no kernel $1 here; run 'make kernel VARIANT=$1'"
		return 1
	fi
	make -C "$REPO/tools/testing/selftests/$name" KDIR="$kdir" OUT="$kdir/selftests-$name" \
		MAKE_MODULE="$REPO/integration/kernel.sh make $1"
}
