// SPDX-License-Identifier: GPL-2.0
/*
 * How much of the stack a hit takes: the parameter "stack" reads how many bytes below kst_stack() were written when it was called,
 * its second argument a text. run.sh has probes there, at the entry and among the NOPs.
 */
#include <linux/irqflags.h>
#include <linux/module.h>

#include "kprobes_selftest.h"

/* The range that is checked, and the pattern in it, which no code writes. */
#define SPAN	6000
#define MARK	0x5aa5c33c0ff0a55aUL
/* Bytes used by the calls here. */
#define OWN	64

noinline long kst_stack(long number, const char *text);

noinline long kst_stack(long number, const char *text)
{
	asm volatile(".rept 32; nop; .endr" : : "r"(number), "r"(text));
	return number;
}

static noinline __no_sanitize_address unsigned long used(void)
{
	unsigned long *sp, *p, *top, bytes = 0;

	guard(irqsave)();
	asm volatile("mov %%rsp, %0" : "=r"(sp));
	top = sp - OWN / sizeof(*p);
	for (p = sp - SPAN / sizeof(*p); p < top; p++)
		WRITE_ONCE(*p, MARK);
	kst_stack(3, "hello, world");
	for (p = sp - SPAN / sizeof(*p); p < top; p++)
		if (READ_ONCE(*p) != MARK) {
			bytes = (unsigned long)sp - (unsigned long)p;
			break;
		}
	return bytes;
}

static int get(char *to, const struct kernel_param *unused)
{
	/* Instrumented code takes more. */
	if (IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KCSAN) || IS_ENABLED(CONFIG_CFI))
		return -EOPNOTSUPP;
	return sysfs_emit(to, "%lu\n", used());
}

static const struct kernel_param_ops ops = { .get = get };
module_param_cb(stack, &ops, NULL, 0400);
