#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Permissions of our files, in each kernel; and those of our modules that a kernel loads which
# requires signatures ("distro").
# Seconds: 45
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# sign VARIANT: installs the modules, which signs them, and compresses them where it is so configured, below the build directory;
# prints where ours are, without compression.
sign() {
	local kdir
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	rm -rf "$kdir/signed"
	"$REPO/integration/kernel.sh" make "$1" -s INSTALL_MOD_PATH="$kdir/signed" modules_install >&2 || return 1
	find "$kdir/signed" -name '*.ko.xz' -exec xz -d {} + || return 1
	echo "$kdir"/signed/lib/modules/*/kernel/kernel/ferrotrace
}

# signed VARIANT
signed() {
	local modules how
	if ! modules=$(sign "$1"); then
		tap_not_ok "signed modules: $1 (not installed)"
		return
	fi
	for how in module.sig_enforce=1 lockdown=integrity lockdown=confidentiality; do
		APPEND=$how tap_nest "signed modules: $1: $how" run_vm "$1" "tools/testing/selftests/permissions/signed.sh $modules"
	done
}

for variant in $VARIANTS; do
	engines=ours
	case $variant in *mainline) engines=mainline ;; esac
	reboot='' append=''
	# Records that a boot leaves in memory are the same everywhere: on one variant, for time,
	# and on the one with lockdown.
	if [ "$variant" = modular ] || [ "$variant" = distro ]; then reboot=1 append=reserve_mem=8M:4096:relay_sched; fi
	REBOOT=$reboot APPEND="${APPEND:-} $append" tap_nest "permissions: $variant" run_vm "$variant" "tools/testing/selftests/permissions/run.sh $engines"
	if [ $engines = ours ] && grep -qx CONFIG_MODULE_SIG=y "$("$REPO/integration/kernel.sh" kdir "$variant")/.config"; then
		signed "$variant"
	fi
done
tap_plan
