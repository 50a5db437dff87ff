# SPDX-License-Identifier: GPL-2.0
#
# judge.awk -v tests="..." EXPECTED COMPLAINTS RESULTS: prints the results as KTAP, against the
# expected ones.
#
# EXPECTED	NAME fail|norun DEFECT REASON...
# COMPLAINTS	NAME TEXT...
# RESULTS	NAME ok|not|skip
#
# The exit status is 1 if anything differs.

function result(ok, name, text) {
	printf "%s %d %s%s\n", ok ? "ok" : "not ok", ++count, name, text
	if (!ok)
		failed = 1
}

FILENAME == ARGV[1] {
	name = $1
	kind[name] = $2
	$1 = $2 = ""
	sub(/^ */, "")
	reason[name] = $0
	next
}

FILENAME == ARGV[2] {
	name = $1
	$1 = ""
	if (!(name in complaint))
		complaint[name] = $0
	next
}

{
	name = $1
	seen[name] = 1
	bad = $2 == "not" || (name in complaint)
	if (name in complaint)
		print "# " name ":" complaint[name]
	if ($2 == "skip" && !bad)
		result(1, name, " # SKIP")
	else if (kind[name] == "fail" && bad)
		result(1, name, " # XFAIL " reason[name])
	else if (kind[name] == "fail")
		result(0, name, " (passed, but is listed in expected-failures)")
	else
		result(!bad, name, "")
}

END {
	split(tests, list, " ")
	for (i in list)
		ran[list[i]] = 1
	for (name in kind) {
		if ((name in seen) || !(substr(name, 1, index(name, ".") - 1) in ran))
			continue
		if (kind[name] == "norun")
			result(1, name, " # SKIP " reason[name])
		else
			result(0, name, " (is listed in expected-failures, but is no test)")
	}
	for (name in complaint)
		if (!(name in seen))
			result(0, name, " (" complaint[name] ")")
	printf "1..%d\n", count
	exit failed
}
