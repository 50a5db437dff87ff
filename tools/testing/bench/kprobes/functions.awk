# SPDX-License-Identifier: GPL-2.0
#
# objdump -d -j .text vmlinux | awk -f functions.awk: names of functions with an ftrace site and an
# instruction 9 bytes after their beginning that is never patched.

function hex(digits, i, value) {
	value = 0
	for (i = length(digits) > 7 ? length(digits) - 6 : 1; i <= length(digits); i++)
		value = value * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
	return value
}

/^[0-9a-f]+ <.*>:$/ {
	name = substr($2, 2, length($2) - 3)
	start = hex($1)
	seen[name]++
	first = 1
	next
}

name && $1 ~ /:$/ {
	at = hex(substr($1, 1, length($1) - 1)) - start
	if (first && !/__fentry__|nopl +0x0\(%rax,%rax,1\)/)
		name = ""
	first = 0
	# a static key of two bytes is this nop
	if (at == 9 && !/xchg +%ax,%ax/ && $2 !~ /^(nop|jmp|call|ud|int)/ && name !~ /[.]/)
		good[++count] = name
	if (at >= 9)
		name = ""
}

END {
	for (i = 1; i <= count; i++)
		if (seen[good[i]] == 1)
			print good[i]
}
