# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the suite that runs the klog selftests; REPO is the repository.

# selftests_klog_build VARIANT: builds programs and module in the variant's build directory, where run.sh looks.
selftests_klog_build() {
	local kdir
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	if ! [ -f "$kdir/Module.symvers" ]; then
		echo "no kernel $1 here; run 'make kernel VARIANT=$1'"
		return 1
	fi
	make -C "$REPO/tools/testing/selftests/klog" KDIR="$kdir" OUT="$kdir/selftests-klog" \
		MAKE_MODULE="$REPO/integration/kernel.sh make $1"
}
