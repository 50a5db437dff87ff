// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that <linux/kprobes.h> declares for the kernel itself and that are not exported: run.sh
 * passes their addresses.
 */
#include <linux/module.h>
#include <linux/preempt.h>

#include "kprobes_selftest.h"

/* Parameters of the names that the header declares. */
static unsigned long get_kprobe_is;
module_param_named(get_kprobe, get_kprobe_is, ulong, 0);
static unsigned long inc_nmissed_is;
module_param_named(kprobes_inc_nmissed_count, inc_nmissed_is, ulong, 0);
static unsigned long within_is;
module_param_named(within_kprobe_blacklist, within_is, ulong, 0);
static unsigned long add_ksym_is;
module_param_named(kprobe_add_ksym_blacklist, add_ksym_is, ulong, 0);
static unsigned long add_area_is;
module_param_named(kprobe_add_area_blacklist, add_area_is, ulong, 0);

/* The address of the probe that is found at one. The probe itself may be the C engine's own, which stands for those there. */
static void *at(void *address)
{
	struct kprobe *found;
	void *addr = NULL;

	preempt_disable();
	found = ((typeof(get_kprobe) *)get_kprobe_is)(address);
	if (found)
		addr = found->addr;
	preempt_enable();
	return addr;
}

static bool is_within(void *address)
{
	return ((typeof(within_kprobe_blacklist) *)within_is)((unsigned long)address);
}

static int add_ksym(const void *address)
{
	return ((typeof(kprobe_add_ksym_blacklist) *)add_ksym_is)((unsigned long)address);
}

static int add_area(const void *start, const void *end)
{
	return ((typeof(kprobe_add_area_blacklist) *)add_area_is)((unsigned long)start, (unsigned long)end);
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(pre);

static int try(void *address)
{
	struct kprobe kp = { .addr = address, .pre_handler = pre };
	int err = register_kprobe(&kp);

	if (!err)
		unregister_kprobe(&kp);
	return err;
}

static void get(void)
{
	struct kprobe inside = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = pre };
	struct kprobe entry = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = pre };

	if (!EXPECT(get_kprobe_is))
		return;
	EXPECT_EQ(at(kst_bytes_inside), NULL);
	EXPECT_EQ(register_kprobe(&inside), 0);
	EXPECT_EQ(register_kprobe(&entry), 0);
	EXPECT_EQ(at(kst_bytes_inside), kst_bytes_inside);
	EXPECT_EQ(at(kst_target + KST_PAD), kst_target + KST_PAD);
	EXPECT_EQ(at(kst_bytes_inside + 1), NULL);
	EXPECT_EQ(at(kst_bytes_inside - 1), NULL);
	EXPECT_EQ(at(kst_bytes), NULL);
	EXPECT_EQ(at(NULL), NULL);
	/* A disabled probe is found all the same. */
	EXPECT_EQ(disable_kprobe(&inside), 0);
	EXPECT_EQ(at(kst_bytes_inside), kst_bytes_inside);
	unregister_kprobe(&inside);
	EXPECT_EQ(at(kst_bytes_inside), NULL);
	EXPECT_EQ(at(kst_target + KST_PAD), kst_target + KST_PAD);
	unregister_kprobe(&entry);
	EXPECT_EQ(at(kst_target + KST_PAD), NULL);
}

static void inc_nmissed(void)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = pre };

	if (!EXPECT(inc_nmissed_is))
		return;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(kst_call_bytes(3), 3);
	EXPECT_EQ(kp.nmissed, 0);
	((typeof(kprobes_inc_nmissed_count) *)inc_nmissed_is)(&kp);
	((typeof(kprobes_inc_nmissed_count) *)inc_nmissed_is)(&kp);
	EXPECT_EQ(kp.nmissed, 2);
	unregister_kprobe(&kp);
}

/* Up to the next symbol, and not further. The list keeps the area until the module is unloaded. */
static void ksym(void)
{
	int size;

	if (!EXPECT(add_ksym_is && within_is))
		return;
	EXPECT_EQ(try(kst_listed_1), 0);
	EXPECT(!is_within(kst_listed_1));
	size = add_ksym(kst_listed_1);
	EXPECT_EQ(size, kst_listed_2 - kst_listed_1);
	EXPECT(is_within(kst_listed_1));
	EXPECT(is_within(kst_listed_1 + 1));
	EXPECT(is_within(kst_listed_2 - 1));
	EXPECT(!is_within(kst_listed_2));
	EXPECT(!is_within(kst_listed_1 - 1));
	EXPECT_EQ(try(kst_listed_1), -EINVAL);
	EXPECT_EQ(try(kst_listed_1 + 1), -EINVAL);
	EXPECT_EQ(try(kst_listed_2), 0);
	/* again, which is no error */
	EXPECT_EQ(add_ksym(kst_listed_1), size);
	EXPECT_EQ(add_ksym(NULL), -EINVAL);
	EXPECT_EQ(add_ksym(&add_ksym_is), -EINVAL);
	EXPECT_EQ(add_ksym((void *)0x400000), -EINVAL);
}

static void area(void)
{
	if (!EXPECT(add_area_is && within_is))
		return;
	EXPECT_EQ(add_area(kst_listed_2, kst_listed_2), 0);
	EXPECT_EQ(try(kst_listed_2), 0);
	EXPECT_EQ(add_area(kst_listed_2, kst_listed_4), 0);
	EXPECT(is_within(kst_listed_2));
	EXPECT(is_within(kst_listed_3));
	EXPECT(is_within(kst_listed_4 - 1));
	EXPECT(!is_within(kst_listed_4));
	EXPECT_EQ(try(kst_listed_2), -EINVAL);
	EXPECT_EQ(try(kst_listed_3 + 1), -EINVAL);
	EXPECT_EQ(try(kst_listed_4), 0);
	/* An area without any code. */
	EXPECT_EQ(add_area(&add_area_is, &add_area_is + 1), -EINVAL);
	EXPECT_EQ(add_area(NULL, (void *)1), -EINVAL);
}

const struct test_case kst_declared_cases[] = {
	{ "declared.get_kprobe", get },
	{ "declared.kprobes_inc_nmissed_count", inc_nmissed },
	{ "declared.kprobe_add_ksym_blacklist", ksym },
	{ "declared.kprobe_add_area_blacklist", area },
	{ }
};
