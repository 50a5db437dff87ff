# SPDX-License-Identifier: GPL-2.0
#
# Prints the figures of a benchmark: awk -f table.awk -v dir=DIR FIGURES REASONS
#
# DIR has a file for each kernel variant, with lines "NAME VALUE"; a name with several lines was
# measured more than once. FIGURES has lines "NAME MAINLINE OURS UNIT GOAL": mainline's and our
# figure as variant:NAME, and "-" or a goal as in ratio<=0.5, ours>=3.5, ours==0. REASONS has lines
# "NAME: why the goal is not reached".
#
# A goal that is not reached and has no reason is a failure.

function better(a, b, unit) { return unit ~ /^(bytes|times)/ ? a > b : a < b }

# Reads a variant's file once.
function load(variant, path, line, w) {
	path = dir "/" variant
	loaded[variant] = 1
	while ((getline line < path) > 0) {
		split(line, w, " ")
		n[variant ":" w[1]]++
		value[variant ":" w[1], n[variant ":" w[1]]] = w[2]
	}
	close(path)
}

# Returns the best of a figure's values; their relative distance is stored in "spread".
function best(key, unit, v, k, worst, b) {
	split(key, v, ":")
	if (!(v[1] in loaded)) load(v[1])
	if (!n[key]) return ""
	b = worst = value[key, 1] + 0
	for (k = 2; k <= n[key]; k++) {
		if (better(value[key, k] + 0, b, unit)) b = value[key, k] + 0
		if (better(worst, value[key, k] + 0, unit)) worst = value[key, k] + 0
	}
	if (b > 0 && worst > 0 && (worst > b ? worst / b : b / worst) - 1 > spread)
		spread = (worst > b ? worst / b : b / worst) - 1
	return b
}

function reached(goal, ratio, ours, op, w, have, bound) {
	if (goal == "-") return 1
	match(goal, /[<>=]=/)
	op = substr(goal, RSTART, 2)
	have = (substr(goal, 1, RSTART - 1) == "ratio" ? ratio : ours) + 0
	bound = substr(goal, RSTART + 2) + 0
	return op == "<=" ? have <= bound : op == ">=" ? have >= bound : have == bound
}

/^#/ || !NF { next }

FILENAME == ARGV[2] {
	name = $1
	sub(/:$/, "", name)
	reason[name] = $0
	next
}

{ figure[++count] = $0 }

END {
	for (i = 1; i <= count; i++) {
		split(figure[i], f, " ")
		spread = 0
		mainline = best(f[2], f[4])
		ours = best(f[3], f[4])
		# Not a variant that was measured.
		if (mainline == "" || ours == "") continue
		ratio = mainline > 0 ? sprintf("%.2f", ours / mainline) : "-"
		printf "bench %s mainline=%.7g ours=%.7g ratio=%s unit=%s\n", f[1], mainline, ours, ratio, f[4]
		if (spread > 0.01) printf "# %s: repeats within %.0f %%\n", f[1], spread * 100
		if (!reached(f[5], ratio, ours)) {
			if (f[1] in reason) {
				printf "# %s (goal %s)\n", reason[f[1]], f[5]
			} else {
				printf "# %s: the goal %s is not reached, and no reason is given\n", f[1], f[5]
				status = 1
			}
		}
	}
	exit status
}
