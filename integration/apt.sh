# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Packages of suites that the machine is not configured for, from its own Debian mirror. Source it after lib.sh.

# private_apt SUITE CMD ARGS...: run CMD (apt-get, apt-cache) with only SUITE of the machine's own Debian
# mirror configured, and state kept in the cache; the machine's sources are not touched.
private_apt() {
	local suite=$1 dir cmd=$2
	shift 2
	dir=$CACHE/apt/$suite
	mkdir -p "$dir"/{lists,cache,src}/partial "$dir/cache/archives/partial"
	"$cmd" -q -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" -o Dir::Etc::sourcelist=/dev/null \
		-o Dir::Etc::sourceparts="$dir/src" -o APT::Get::List-Cleanup=false -o APT::Sandbox::User=root "$@"
}

# private_sources SUITE: write SUITE's source list, from the configured entry of the running release.
private_sources() {
	local suite=$1 dir=$CACHE/apt/$1/src release f
	mkdir -p "$dir"
	rm -f "$dir"/*.list "$dir"/*.sources
	release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -e "$f" ] || continue
		grep -v '^#' "$f" | awk -v release="$release" -v suite="$suite" '
			BEGIN { RS = ""; FS = "\n"; ORS = "\n\n" }
			{
				hit = 0; out = ""
				for (i = 1; i <= NF; i++) {
					line = $i
					if (line ~ /^Suites:/) {
						n = split(line, w, " ")
						for (k = 2; k <= n; k++) if (w[k] == release) hit = 1
						line = "Suites: " suite
					} else if (line ~ /^Components:/) {
						line = "Components: main"
					} else if (line ~ /^Types:/) {
						line = "Types: deb"
					}
					out = out line (i < NF ? "\n" : "")
				}
				if (hit) print out
			}' >"$dir/$(basename "$f")"
		[ -s "$dir/$(basename "$f")" ] || rm -f "$dir/$(basename "$f")"
	done
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -e "$f" ] || continue
		sed -n -E "s/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+${release}[[:space:]].*/deb \1\2 $suite main/p" \
			"$f" >>"$dir/configured.list"
	done
	[ -s "$dir/configured.list" ] || rm -f "$dir/configured.list"
	compgen -G "$dir/*" >/dev/null
}
