// SPDX-License-Identifier: GPL-2.0
/*
 * Files of debugfs kprobes/, read and written. The steps are cases that run.sh runs one after the
 * other; it checks the files between them.
 */
#include "jump.h"

static atomic_t hits;

PRE_HANDLER(count, atomic_inc(&hits));

RETURN_HANDLER(on_return, atomic_inc(&hits));

static struct kprobe inside, disabled, entry_1, entry_2, late;
static struct kretprobe ret;

static void hold(void)
{
	inside = (struct kprobe){ .symbol_name = "kst_bytes", .offset = 10, .pre_handler = count };
	disabled = (struct kprobe){
		.symbol_name = "kst_endbr", .offset = 4, .pre_handler = count, .flags = KPROBE_FLAG_DISABLED,
	};
	entry_1 = (struct kprobe){ .symbol_name = "kst_target_2", .pre_handler = count };
	entry_2 = (struct kprobe){ .symbol_name = "kst_target_2", .pre_handler = count };
	ret = (struct kretprobe){ .kp.symbol_name = "kst_target", .handler = on_return };
	EXPECT_EQ(register_kprobe(&inside), 0);
	EXPECT_EQ(register_kprobe(&disabled), 0);
	EXPECT_EQ(register_kprobe(&entry_1), 0);
	EXPECT_EQ(register_kprobe(&entry_2), 0);
	EXPECT_EQ(register_kretprobe(&ret), 0);
}

static int come_by(void)
{
	atomic_set(&hits, 0);
	EXPECT_EQ(kst_call_bytes(1), 1);
	EXPECT_EQ(kst_call_endbr(1), 10);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(kst_target_2(1), 7);
	return atomic_read(&hits);
}

/* Returns true if there is a breakpoint, or with KST_JUMPS=1 a jump. */
static bool is_armed(const void *where)
{
	return kst_opcode(where) == INT3_INSN_OPCODE || kst_opcode(where) == KST_JUMP;
}

static void armed(void)
{
	EXPECT_EQ(come_by(), 4);
	EXPECT(is_armed(kst_bytes_inside));
}

/* Nothing is hit, and newly registered or enabled probes are not armed. */
static void all_disarmed(void)
{
	EXPECT_EQ(come_by(), 0);
	EXPECT_EQ(kst_opcode(kst_bytes_inside), 0x48);
	EXPECT(!kprobe_disabled(&inside));
	late = (struct kprobe){ .symbol_name = "kst_bytes", .pre_handler = count };
	EXPECT_EQ(register_kprobe(&late), 0);
	EXPECT_EQ(come_by(), 0);
	EXPECT_EQ(kst_opcode(kst_bytes), 0x48);
}

static void armed_again(void)
{
	EXPECT(is_armed(kst_bytes));
	EXPECT_EQ(come_by(), 5);
}

static void release(void)
{
	struct kprobe *list[] = { &inside, &disabled, &entry_1, &entry_2, &late };

	unregister_kprobes(list, ARRAY_SIZE(list));
	unregister_kretprobe(&ret);
	EXPECT_EQ(come_by(), 0);
}

const struct test_case kst_debugfs_cases[] = {
	{ "debugfs.1_hold", hold },
	{ "debugfs.2_armed", armed },
	{ "debugfs.3_all_disarmed", all_disarmed },
	{ "debugfs.4_armed_again", armed_again },
	{ "debugfs.5_release", release },
	{ }
};
