# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For commands that measure; sourced after integration/lib.sh. With RESULTS=1 they write their results, which the documents
# include, to Documentation/results/.

# versions VARIANT: prints the compilers that kernel.sh uses for it.
versions() {
	local tools tool cc="" rustc="" bindgen=""
	mapfile -t tools < <("$REPO/integration/kernel.sh" tools "$1")
	for tool in "${tools[@]}"; do
		case $tool in
		CC=*) cc=$(${tool#CC=ccache } --version | head -n 1) ;;
		RUSTC=*) rustc=$("${tool#RUSTC=}" --version | awk '{print $2}') ;;
		BINDGEN=*) bindgen=$("${tool#BINDGEN=}" --version | awk '{print $2}') ;;
		esac
	done
	printf '%s, rustc %s, bindgen %s\n' "$(sed -E 's/^.*(gcc|clang)[^ ]* .* ([0-9.]+)( .*)?$/\1 \2/' <<<"$cc")" "$rustc" "$bindgen"
}

# results NAME FILE COMMAND [VARIANT]: with RESULTS=1 writes FILE, which has the output of COMMAND, to Documentation/results/NAME.txt,
# below COMMAND, the date, the commit, the version of the kernel, and the compilers of VARIANT.
results() {
	local out=$REPO/Documentation/results/$1.txt tree commit compilers=
	[ "${RESULTS:-}" ] || return 0
	commit=$(git -C "$REPO" rev-parse --short HEAD) || return 1
	git -C "$REPO" diff --quiet HEAD -- . ':!Documentation' || commit="$commit with changes"
	if [ "${4:-}" ]; then compilers=", $(versions "$4")"; fi
	tree=$("$REPO/integration/source.sh") || return 1
	mkdir -p "${out%/*}"
	{
		printf '# %s\n# %s, commit %s, Linux %s%s\n\n' "$3" "$(date -u +%F)" "$commit" \
			"$(make -s -C "$tree" kernelversion)" "$compilers"
		cat "$2"
	} >"$out.new" && mv "$out.new" "$out" && say "results: ${out#"$REPO/"}"
}
