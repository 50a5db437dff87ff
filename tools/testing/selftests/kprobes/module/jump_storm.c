// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps that are placed and removed while all CPUs hit them. For the cases jump.toggled* run.sh
 * switches all of them off and on in the meantime.
 */
#include <linux/random.h>

#include "jump.h"

static bool pass(long i)
{
	return (u32)kst_jump(i) == (u32)i + 6;
}

/* All CPUs pass while the jump is placed and removed. */
static void storm(void)
{
	static struct kst_hit a, b;
	unsigned int rounds = 0, jumps = 0;

	kst_storm_begin(pass);
	kst_while_case_lasts(rounds) {
		void *place = kst_jump_place(rounds % 2);

		if (!EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0))
			break;
		if (rounds % 3)
			jumps += kst_becomes(place, KST_JUMP);
		/* wait for a while, so that they are also switched off while registered */
		schedule_timeout_interruptible(rounds % 8 * HZ / 100);
		if (rounds % 5 == 1)
			EXPECT_EQ(register_kprobe(kst_hit_at(&b, kst_jump_place(2), 0)), 0);
		unregister_kprobe(&a.kp);
		if (rounds % 5 == 1)
			unregister_kprobe(&b.kp);
	}
	EXPECT(kst_storm_end() > 0);
	EXPECT(jumps > 0);
}

static atomic_long_t hits, others;

PRE_HANDLER(steady_pre, atomic_long_inc(&hits));

PRE_HANDLER(other_pre, atomic_long_inc(&others));

POST_HANDLER(other_post, atomic_long_inc(&others));

/* Actions on a neighbour. */
enum step { COMES, GOES, IS_DISABLED, IS_ENABLED, STEPS };

struct neighbour {
	struct kprobe kp;
	bool there;
};

static void step(struct neighbour *n, unsigned int nr, u32 random)
{
	switch (random % STEPS) {
	case COMES:
		if (n->there)
			break;
		n->kp = (struct kprobe){
			.addr = kst_jump_place(nr), .pre_handler = other_pre,
			.post_handler = random & 0x100 ? other_post : NULL,
			.flags = random & 0x200 ? KPROBE_FLAG_DISABLED : 0,
		};
		n->there = EXPECT_EQ(register_kprobe(&n->kp), 0);
		break;
	case GOES:
		if (n->there)
			unregister_kprobe(&n->kp);
		n->there = false;
		break;
	case IS_DISABLED:
		if (n->there)
			EXPECT_EQ(disable_kprobe(&n->kp), 0);
		break;
	case IS_ENABLED:
		if (n->there)
			EXPECT_EQ(enable_kprobe(&n->kp), 0);
		break;
	default:
		break;
	}
}

/*
 * A probe stays at the first instruction, and misses no call, regardless of its neighbours in the
 * bytes that its jump covers. Those are registered, unregistered, disabled and enabled, in any
 * order, while all CPUs pass.
 */
static void neighbours(void)
{
	struct kprobe steady = { .addr = kst_jump_place(0), .pre_handler = steady_pre };
	static struct neighbour n[5];
	unsigned int rounds = 0, jumps = 0, i;
	long calls;

	atomic_long_set(&hits, 0);
	atomic_long_set(&others, 0);
	memset(n, 0, sizeof(n));
	if (!EXPECT_EQ(register_kprobe(&steady), 0))
		return;
	kst_storm_begin(pass);
	kst_while_case_lasts(rounds) {
		u32 random = get_random_u32();

		/* At times there is no neighbour, and the jump is placed. */
		if (rounds % 16 == 0) {
			for (i = 0; i < ARRAY_SIZE(n); i++)
				step(&n[i], i, GOES);
			for (i = 0; i < 300 && kst_opcode(kst_jump_place(0)) != KST_JUMP; i++)
				schedule_timeout_interruptible(1);
			jumps += kst_opcode(kst_jump_place(0)) == KST_JUMP;
		}
		i = (random >> 16) % ARRAY_SIZE(n);
		step(&n[i], i, random);
	}
	for (i = 0; i < ARRAY_SIZE(n); i++)
		step(&n[i], i, GOES);
	calls = kst_storm_end();
	EXPECT_EQ(atomic_long_read(&hits), calls);
	EXPECT_EQ(steady.nmissed, 0);
	EXPECT(jumps > 0);
	case_say("%u rounds, %u with a jump, %ld calls, %ld hits of the others\n", rounds, jumps, calls,
		 atomic_long_read(&others));
	unregister_kprobe(&steady);
}

const struct test_case kst_jump_storm_cases[] = {
	{ "jump.storm", storm },
	{ "jump.toggled", storm },
	{ "jump.neighbours", neighbours },
	{ "jump.toggled_neighbours", neighbours },
	{}
};
