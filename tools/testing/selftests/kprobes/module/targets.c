// SPDX-License-Identifier: GPL-2.0
/* Functions that are probed, and functions that must not be. */
#include <linux/bug.h>
#include <linux/jump_label.h>
#include <linux/static_call.h>
#include <asm/word-at-a-time.h>

#include "kprobes_selftest.h"

/* __init text, which is freed once the module is loaded. */
void *kst_init_text;

noinline int kst_target(int a)
{
	barrier();
	return a * 3 + 1;
}

noinline int kst_target_2(int a)
{
	barrier();
	return a * 5 + 2;
}

noinline void kst_nokprobe(void)
{
	barrier();
}
NOKPROBE_SYMBOL(kst_nokprobe);

void __kprobes kst_kprobes_text(void)
{
	barrier();
}

noinstr void kst_noinstr(void)
{
	barrier();
}

static DEFINE_STATIC_KEY_FALSE(kst_key);

/* A jump label. */
noinline bool kst_has_branch(void)
{
	return static_branch_unlikely(&kst_key);
}

static int called(int a)
{
	return a + 1;
}

DEFINE_STATIC_CALL(kst_call_site, called);

/* A static call, with something to do afterwards. */
noinline int kst_calls_static(int a)
{
	return static_call(kst_call_site)(a) + 1;
}

/* A load that may cross into a page that is not there, which reads as 0. */
noinline unsigned long kst_load_zeropad(const void *from)
{
	return load_unaligned_zeropad(from);
}

/* A WARN(), for its address. */
noinline bool kst_warns(bool now)
{
	return WARN_ON(now);
}
