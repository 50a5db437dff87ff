#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Configures and builds a kernel variant in the cache.
#
#   kernel.sh build VARIANT           build it; prints the image's path
#   kernel.sh config VARIANT          only configure it; prints the configuration's path
#   kernel.sh kdir VARIANT            print the build directory (for M=, for modules and symbols)
#   kernel.sh image VARIANT           print the image's path
#   kernel.sh make VARIANT ARGS...    run kbuild there, e.g. "modules", "M=/some/module"
#   kernel.sh tools VARIANT           print its build tools, as arguments of kbuild, a line each
#   kernel.sh clippy VARIANT          compile the repository's Rust with clippy, in a separate build
#                                     directory
#
# FERROTRACE_TOOLS=NAME builds in a separate directory, for tools that FERROTRACE_CC=, RUSTC=,
# BINDGEN= and LIBCLANG_PATH= choose.
# FERROTRACE_DEBUG_INFO=1 builds in a separate directory, too, with debugging information
# ("make vm GDB=1").
#
# A tree of the cache is one kernel version with one state of the patches; a variant is built in a
# directory directly below it, so that kbuild names every file relatively and ccache shares objects
# between trees.
#
# Locks, outermost first: the build directory's, where one kbuild runs at a time; the tree's, which
# all variants read: shared while kbuild runs, exclusive while kernel/ferrotrace changes there.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

usage() { die "usage: kernel.sh build|config|kdir|image|make|tools|clippy VARIANT [ARGS...]; variants: $(variants)"; }

variants() {
	(cd "$REPO/integration/config" && printf '%s ' *.config | sed -e 's/[a-z-]*base\.config //g' -e 's/\.config//g')
	echo stock stock-cloud stock-rt stock-sid
}

# fragments: prints the variant's configuration fragments, in order.
fragments() {
	local dir=$REPO/integration/config base=base
	case $VARIANT in
	uml*) base=uml-base ;;
	distro*) base=distro-base ;;
	own) base= ;;
	esac
	if [ "$base" ]; then printf '%s\n' "$dir/$base.config"; fi
	case $VARIANT in
	size) printf '%s\n' "$dir/builtin.config" ;;
	coverage | cfi | lto | kcsan | tiny) printf '%s\n' "$dir/modular.config" ;;
	distro) printf '%s\n' "$dir/builtin.config" ;;
	distro-mainline) printf '%s\n' "$dir/mainline.config" ;;
	esac
	printf '%s\n' "$dir/$VARIANT.config"
	if [ "${FERROTRACE_DEBUG_INFO:-}" ]; then printf '%s\n' "$dir/debug-info.fragment"; fi
}

# other_architectures: a pattern for their options, which have the names of directories, except two.
other_architectures() {
	printf '%s|' ALPHA ARC ARM ARM64 CSKY HEXAGON LOONGARCH M68K MICROBLAZE MIPS NIOS2 OPENRISC PARISC PPC RISCV S390 SPARC SUPERH
	echo XTENSA
}

# asked_for PATTERN: succeeds if the variant's configuration asks for such an option.
asked_for() {
	local files=("$REPO/integration/config/$VARIANT.config")
	if [ "$VARIANT" = own ]; then files+=("$KCONFIG"); fi
	grep -qxE "CONFIG_($1)=y" "${files[@]}"
}

# setup_env: finds tree, build directory and tools; fails when one is missing.
setup_env() {
	[ -f "$REPO/integration/config/$VARIANT.config" ] || die "no variant '$VARIANT'; there are: $(variants)"
	if [ "$VARIANT" = own ]; then
		[ -n "${KCONFIG:-}" ] || die "the variant own is for a configuration of yours: KCONFIG=file"
		[ -f "$KCONFIG" ] || die "KCONFIG=$KCONFIG is not a file"
		# Kconfig would take defaults for all that it does not find.
		grep -qE '^CONFIG_[A-Z0-9_]+=' "$KCONFIG" || die "KCONFIG=$KCONFIG has no line CONFIG_...=; is it compressed?"
		if grep -qE '^CONFIG_(X86_32|UML)=y' "$KCONFIG" || sed -n 's,^# Linux/\([^ ]*\) .*,\1,p' "$KCONFIG" | grep -vxE 'x86(_64)?' ||
			grep -qxE "CONFIG_($(other_architectures))=y" "$KCONFIG"; then
			die "KCONFIG=$KCONFIG is not for x86_64"
		fi
	elif [ -n "${KCONFIG:-}" ]; then
		die "KCONFIG= is for the variant own, not for $VARIANT"
	fi
	mapfile -t FRAGMENTS < <(fragments)
	ARCH=x86_64 IMAGE=arch/x86/boot/bzImage GOALS="bzImage modules"
	case $VARIANT in uml*) ARCH=um IMAGE=linux GOALS="linux modules" ;; esac
	TREE=$("$REPO/integration/source.sh")
	KDIR=$TREE/build-$VARIANT${FERROTRACE_TOOLS:+-$FERROTRACE_TOOLS}${FERROTRACE_DEBUG_INFO:+-debug-info}
	if [ "${FERROTRACE_DEBUG_INFO:-}" ]; then GOALS="$GOALS scripts_gdb"; fi
}

setup_tools() {
	local rustc libclang bindgen
	CC=${FERROTRACE_CC:-}
	# The kernel has these, or has Rust together with them, with this compiler only.
	if [ -z "$CC" ] && asked_for 'CC_IS_CLANG|KASAN|KCSAN|CFI|LTO_CLANG_(THIN|FULL)'; then
		CC=$(find_clang) || die "variant $VARIANT needs clang; run 'make setup'"
	fi
	CC=${CC:-gcc}
	rustc=$(find_rustc) || die "no rustc >= $MIN_RUSTC with its library source (rust-src); run 'make setup'"
	bindgen=$(find_bindgen) || die "no bindgen >= $MIN_BINDGEN; run 'make setup'"
	libclang=$(find_libclang) || die "no libclang >= $MIN_LIBCLANG; run 'make setup'"
	have ccache || die "no ccache; run 'make setup'"
	export LIBCLANG_PATH=$libclang CCACHE_DIR=$CACHE/ccache CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=4G
	export CCACHE_SLOPPINESS=time_macros
	# It may be a script that runs the compiler.
	if [ "${FERROTRACE_CC:-}" ]; then export CCACHE_COMPILERCHECK='%compiler% --version'; fi
	# Fixed, so that nothing rebuilds because of when and where it was built.
	export KBUILD_BUILD_TIMESTAMP='1970-01-01' KBUILD_BUILD_USER=ferrotrace KBUILD_BUILD_HOST=ferrotrace
	export KBUILD_BUILD_VERSION=1
	MAKE_ARGS=(ARCH="$ARCH" "CC=ccache $CC" RUSTC="$rustc" HOSTRUSTC="$rustc"
		RUSTDOC="$(rust_tool "$rustc" rustdoc)" RUSTFMT="$(rust_tool "$rustc" rustfmt)"
		CLIPPY_DRIVER="$(rust_tool "$rustc" clippy-driver)" BINDGEN="$bindgen")
	# Objects that are not machine code yet are for its own linker.
	if asked_for 'LTO_CLANG_(THIN|FULL)'; then
		if [ ! -x "${CC%clang}ld.lld" ] || [ ! -x "${CC%clang}llvm-ar" ]; then die "variant $VARIANT needs lld and llvm of the version of $CC"; fi
		MAKE_ARGS+=(LD="${CC%clang}ld.lld" AR="${CC%clang}llvm-ar" NM="${CC%clang}llvm-nm")
	fi
	# The files that the tests of coverage examine.
	MAKE_ARGS+=(GCOV_PROFILE_sort.o=y GCOV_PROFILE_list_sort.o=y)
	# Rust for User Mode Linux is position independent, and accesses another crate's statics
	# through a table (GOTPCREL) that the loader of modules does not make. In this model it
	# needs none, at any address of the module.
	if [ "$ARCH" = um ]; then MAKE_ARGS+=("RUSTFLAGS_MODULE=-Crelocation-model=static -Ccode-model=large"); fi
}

kmake() { nice make -C "$TREE" O="$KDIR" "${MAKE_ARGS[@]}" -j"$JOBS" "$@"; }

# in_kdir CMD...: run CMD while nothing else is built in the directory.
in_kdir() { with_lock "$(basename "$TREE")-$(basename "$KDIR")" "$@"; }

# state: a hash of all inputs of the build directory.
state() {
	{
		(cd "$REPO" && part_files | xargs -r sha256sum)
		cat "${FRAGMENTS[@]}"
		if [ "$VARIANT" = own ]; then cat "$KCONFIG"; fi
		"${MAKE_ARGS[2]#RUSTC=}" --version
		"$CC" --version
		printf '%s\n' "${MAKE_ARGS[@]}"
	} | sha256sum
}

# link_in: makes kernel/ferrotrace of the tree the repository's kernel part. By content and without times:
# a file that changed is newer than its objects whatever its date in the checkout, one that did not stays.
link_in() {
	local dest=$TREE/kernel/ferrotrace
	mkdir -p "$dest"
	(cd "$REPO" && part_files | rsync -rlpc --files-from=- . "$dest/")
	# --files-from cannot delete: remove files that the repository no longer has.
	(cd "$dest" && find . -type f -printf '%P\n' | LC_ALL=C sort) |
		LC_ALL=C comm -23 - <(part_files) | (cd "$dest" && xargs -r -d '\n' rm -f)
	find "$dest" -mindepth 1 -type d -empty -delete
}

# to_link: lists the changes that link_in would make.
to_link() {
	local dest=$TREE/kernel/ferrotrace
	mkdir -p "$dest"
	(cd "$REPO" && part_files | rsync -rlpcni --files-from=- . "$dest/") | grep -v '^\.d' || true
	(cd "$dest" && find . -type f -printf '%P\n' | LC_ALL=C sort) | LC_ALL=C comm -23 - <(part_files)
}

# linked CMD...: run CMD while kernel/ferrotrace of the tree is the repository's kernel part.
# Returns CMD's status, as with_lock.
linked() {
	local tree fd status
	tree=$(basename "$TREE")
	mkdir -p "$CACHE/locks"
	exec {fd}>"$CACHE/locks/$tree"
	wait_for "$fd" "$tree" -s
	# To exchange a lock is to give it up for a moment.
	while [ "$(to_link)" ]; do
		wait_for "$fd" "$tree" -x
		link_in
		wait_for "$fd" "$tree" -s
	done
	"$@" {fd}>&-
	status=$?
	exec {fd}>&-
	return $status
}

# check_config: every option the fragments ask for is as asked.
check_config() {
	local f line name want have bad=0
	declare -A wanted=()
	for f in "${FRAGMENTS[@]}"; do
		while read -r line; do
			case $line in
			"# CONFIG_"*" is not set") name=${line#\# } name=${name%% *} && wanted[$name]="" ;;
			CONFIG_*=n) wanted[${line%%=*}]="" ;;
			CONFIG_*=*) wanted[${line%%=*}]=$line ;;
			esac
		done <"$f"
	done
	for name in "${!wanted[@]}"; do
		want=${wanted[$name]}
		have=$(grep "^$name=" "$KDIR/.config" || true)
		if [ "$want" != "$have" ]; then
			say "asked for ${want:-$name=n}, got ${have:-$name=n}"
			bad=1
		fi
	done
	[ $bad = 0 ]
}

# start_config: makes the configuration that the fragments are merged into: an empty one, or the
# distribution's except for its modules, most of which are drivers, or the user's (KCONFIG=).
start_config() {
	local config
	case $VARIANT in
	distro*)
		config=$("$REPO/integration/source.sh" --config) &&
			sed 's/^\(CONFIG_[A-Z0-9_a-z]*\)=m$/# \1 is not set/' "$config" >"$KDIR/.config"
		;;
	own) cat "$KCONFIG" >"$KDIR/.config" ;;
	*) kmake tinyconfig ;;
	esac
}

configure() {
	local log=$KDIR/config.log
	mkdir -p "$KDIR"
	say "configuring $VARIANT"
	if ! kmake rustavailable >"$log" 2>&1; then
		grep -v '^make' "$log" >&2
		if ! grep -qi rust "$log"; then die "kbuild does not take the tree; log: $log"; fi
		die "the kernel does not accept this Rust toolchain (${MAKE_ARGS[2]})"
	fi
	# Copies, as merge_config.sh takes no path with spaces.
	mkdir -p "$KDIR/fragments"
	if ! {
		start_config && cp "${FRAGMENTS[@]}" "$KDIR/fragments/" &&
			"$TREE/scripts/kconfig/merge_config.sh" -m -Q -O "$KDIR" "$KDIR/.config" "${FRAGMENTS[@]/#*\//$KDIR/fragments/}" &&
			kmake olddefconfig
	} >>"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "configuring failed; log: $log"
	fi
	if [ "$VARIANT" = own ]; then tell_lost; fi
	if check_config; then return; fi
	# Users decide about options that their own configuration excludes, as PREEMPT_RT does
	# DProbes; but not about all of ours.
	if [ "$VARIANT" != own ] || ! grep -qx CONFIG_FERROTRACE=y "$KDIR/.config"; then
		die "the configuration did not take every option of $VARIANT"
	fi
	say "warning: $KCONFIG does not go together with these options, the kernel is without them"
}

# tell_lost: prints options that the user's configuration has switched on and the kernel has not:
# those of another version, or of another compiler. Options that describe the tools are set by
# kconfig itself.
tell_lost() {
	local lost=$KDIR/lost-options
	grep -E '^CONFIG_[A-Za-z0-9_]+=[ym]' "$KCONFIG" | cut -d= -f1 |
		grep -vE '^CONFIG_(CC|AS|LD|GCC|CLANG|RUSTC|BINDGEN|TOOLS|HAVE|ARCH)_' |
		grep -vxFf <(grep -E '^CONFIG_.*=[ym]' "$KDIR/.config" | cut -d= -f1) >"$lost" || true
	if [ -s "$lost" ]; then
		say "$(wc -l <"$lost") options of $KCONFIG are not in this kernel ($lost): $(head -n 8 "$lost" | paste -sd ' ')"
	fi
}

# run_logged GOALS...: run kbuild with its output in the log and progress on the terminal.
run_logged() {
	local log=$KDIR/build.log
	: >"$log"
	if ! kmake "$@" 2>&1 | tee "$log" | "$REPO/integration/progress.sh" >&2; then
		say "the build of $VARIANT failed; errors of $log:"
		grep -n -E -A12 'error(\[|:)|Error [0-9]|undefined (reference|symbol)|ERROR: ' "$log" | grep -v ' CC ' | head -n 60 >&2
		return 1
	fi
}

# configure_if_changed: makes the configuration that the fragments and our Kconfig files ask for.
configure_if_changed() {
	local hash
	hash=$({
		cat "${FRAGMENTS[@]}"
		if [ "$VARIANT" = own ]; then cat "$KCONFIG"; fi
		find "$TREE/kernel/ferrotrace" -name 'Kconfig*' -print0 | LC_ALL=C sort -z | xargs -0 -r cat
		printf '%s\n' "${MAKE_ARGS[@]}"
	} | sha256sum)
	if [ "$(cat "$KDIR/.ferrotrace-config" 2>/dev/null)" != "$hash" ]; then
		rm -f "$KDIR/.ferrotrace-config"
		configure
		printf '%s\n' "$hash" >"$KDIR/.ferrotrace-config"
	fi
}

up_to_date() { [ -f "$KDIR/$IMAGE" ] && [ "$(cat "$KDIR/.ferrotrace-state" 2>/dev/null)" = "$1" ]; }

# build_now: the state is the one from before linking, so edits during the build are built the next
# time.
build_now() {
	local want
	want=$(state)
	linked build_linked "$want"
}

build_linked() {
	local start=$SECONDS want=$1
	config_now
	say "building kernel $VARIANT $(make -s -C "$TREE" kernelversion) with $("${MAKE_ARGS[2]#RUSTC=}" --version)"
	# shellcheck disable=SC2086
	run_logged $GOALS || die "no kernel $VARIANT"
	printf '%s\n' "$want" >"$KDIR/.ferrotrace-state"
	say "built $VARIANT in $((SECONDS - start)) s"
}

# config_now: an existing image no longer matches the rest.
config_now() {
	rm -f "$KDIR/.ferrotrace-state"
	configure_if_changed
	write_wrapper
}

# write_wrapper: make prefers this file to the Makefile that kbuild makes, so that "make -C KDIR
# M=..." runs the tools that built the kernel, regardless of PATH. A variable of the caller's has
# priority.
write_wrapper() {
	local arg
	{
		echo "# Made by Ferrotrace's integration/kernel.sh: kbuild with the tools of this directory."
		for arg in "${MAKE_ARGS[@]}"; do
			printf "tools += \$(if \$(filter command,\$(firstword \$(origin %s))),,'%s')\n" "${arg%%=*}" "${arg//\$/\$\$}"
		done
		cat <<-'EOF'
			goals := $(or $(MAKECMDGOALS),all)
			.PHONY: $(goals) ferrotrace-kbuild
			$(goals): ferrotrace-kbuild ; @:
			ferrotrace-kbuild: ; +@$(MAKE) --no-print-directory -f Makefile $(tools) $(MAKECMDGOALS)
		EOF
	} >"$KDIR/GNUmakefile"
}

config() {
	setup_tools
	in_kdir linked config_now
	printf '%s\n' "$KDIR/.config"
}

build() {
	setup_tools
	if up_to_date "$(state)"; then
		say "kernel $VARIANT ($(cat "$KDIR/include/config/kernel.release")) is up to date"
	else
		in_kdir build_now
	fi
	printf '%s\n' "$KDIR/$IMAGE"
}

# clippy: only our directory, each time from scratch, since warnings of compiled files are not
# reported again.
clippy() {
	configure_if_changed
	rm -rf "$KDIR/kernel/ferrotrace"
	run_logged CLIPPY=1 kernel/ferrotrace/ || return 1
	# A warning of ours is a failure; the kernel's own are not ours to judge.
	if grep -A4 -E '^(warning|error)' "$KDIR/build.log" | grep -E -- '--> .*kernel/ferrotrace/' >&2; then return 1; fi
}

run_make() {
	setup_tools
	kmake "$@"
}

main() {
	local command
	[ $# -ge 2 ] || usage
	command=$1 VARIANT=$2
	shift 2
	# The distribution's own kernel is not built here.
	if [ "${VARIANT%%-*}" = stock ]; then
		exec "$REPO/integration/stock.sh" "$command" "$("$REPO/integration/stock.sh" release "$VARIANT")" "$@"
	fi
	setup_env
	case $command in
	build) build ;;
	config) config ;;
	kdir) printf '%s\n' "$KDIR" ;;
	image) printf '%s\n' "$KDIR/$IMAGE" ;;
	tools) setup_tools && printf '%s\n' "${MAKE_ARGS[@]}" ;;
	clippy) setup_tools && KDIR=$TREE/build-clippy && in_kdir linked clippy ;;
	make) in_kdir with_lock -s "$(basename "$TREE")" run_make "$@" ;;
	*) usage ;;
	esac
}

main "$@"
