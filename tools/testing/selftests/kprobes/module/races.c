// SPDX-License-Identifier: GPL-2.0
/*
 * Races and orders that mainline has had bugs with, by their CVE numbers. Those at the removal of a
 * module are in unload.c.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kprobes_selftest.h"

static atomic_long_t hits, wrong;

static void calls_begin(void)
{
	atomic_long_set(&hits, 0);
	atomic_long_set(&wrong, 0);
	kst_storm_begin(kst_storm_pass);
}

static void calls_end(void)
{
	long calls = kst_storm_end();

	EXPECT_EQ(atomic_long_read(&wrong), 0);
	case_say("%ld calls, %ld hits\n", calls, atomic_long_read(&hits));
}

/* Waits for hits in the first rounds; in the others timing is left to chance. */
static void come_by(unsigned int round)
{
	if (round < 3)
		EXPECT(kst_wait(&hits, atomic_long_read(&hits) + 10));
}

/* Memory that is a client's as long as it is registered. */
struct client {
	struct kprobe kp[3];
	struct kretprobe ret[2];
	/* The value that handlers must find. */
	unsigned long magic;
	unsigned long where[3];
};

#define MAGIC	0x600df00dUL

static void check(struct kprobe *p, struct client *client, unsigned int nr)
{
	atomic_long_inc(&hits);
	if (READ_ONCE(client->magic) != MAGIC || (unsigned long)READ_ONCE(p->addr) != client->where[nr] || p->nmissed)
		atomic_long_inc(&wrong);
}
NOKPROBE_SYMBOL(check);

#define HANDLERS(nr)								\
static int pre_##nr(struct kprobe *p, struct pt_regs *regs)			\
{										\
	check(p, container_of(p, struct client, kp[nr]), nr);			\
	return 0;								\
}										\
NOKPROBE_SYMBOL(pre_##nr);							\
										\
static void post_##nr(struct kprobe *p, struct pt_regs *regs, unsigned long f)	\
{										\
	check(p, container_of(p, struct client, kp[nr]), nr);			\
}										\
NOKPROBE_SYMBOL(post_##nr)

HANDLERS(0);
HANDLERS(1);
HANDLERS(2);

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);

	atomic_long_inc(&hits);
	/* none when it has been unregistered */
	if (rp && (READ_ONCE(rp->handler) != on_return || rp->data_size != 8 || *(long *)ri->data != (long)current))
		atomic_long_inc(&wrong);
	return 0;
}
NOKPROBE_SYMBOL(on_return);

static int on_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);

	*(long *)ri->data = (long)current;
	if (rp && (READ_ONCE(rp->entry_handler) != on_entry || !rp->kp.addr))
		atomic_long_inc(&wrong);
	return 0;
}
NOKPROBE_SYMBOL(on_entry);

static struct client *make(bool post)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return NULL;
	/* two in one place, and one on an ftrace site; by their names, so that registering finds out where they are */
	c->kp[0] = (struct kprobe){ .symbol_name = "kst_bytes", .offset = 10, .pre_handler = pre_0 };
	c->kp[1] = (struct kprobe){ .symbol_name = "kst_bytes", .offset = 10, .pre_handler = pre_1 };
	c->kp[2] = (struct kprobe){ .symbol_name = "kst_target", .pre_handler = pre_2 };
	if (post) {
		c->kp[0].post_handler = post_0;
		c->kp[1].post_handler = post_1;
	}
	c->ret[0] = (struct kretprobe){
		.kp.symbol_name = "kst_target", .handler = on_return, .entry_handler = on_entry, .data_size = 8,
	};
	c->ret[1] = (struct kretprobe){
		.kp.symbol_name = "kst_endbr", .handler = on_return, .entry_handler = on_entry, .data_size = 8,
	};
	c->where[0] = (unsigned long)kst_bytes_inside;
	c->where[1] = (unsigned long)kst_bytes_inside;
	c->where[2] = (unsigned long)kst_target + KST_PAD;
	c->magic = MAGIC;
	return c;
}

static void destroy(struct client *c)
{
	/* a stray look at it is wrong, and a stray call is an oops */
	memset(c, 0x6b, sizeof(*c));
	kfree(c);
}

/*
 * All CPUs hit probes and return probes while these are registered and unregistered. Their memory
 * is freed as soon as unregistering has returned (CVE-2026-64075: without a grace period;
 * CVE-2023-53557: data that returns need was freed first). They are hit before registering has
 * returned (CVE-2025-40042: the data of the handler was not there yet).
 */
static void freed_at_once(void)
{
	unsigned int rounds = 0;

	calls_begin();
	kst_while_case_lasts(rounds) {
		struct client *c = make(rounds & 1);
		struct kprobe *list[] = { &c->kp[0], &c->kp[1], &c->kp[2] };
		struct kretprobe *rets[] = { &c->ret[0], &c->ret[1] };

		if (!EXPECT(c))
			break;
		if (EXPECT_EQ(register_kprobes(list, 3), 0)) {
			if (EXPECT_EQ(register_kretprobes(rets, 2), 0)) {
				come_by(rounds);
				unregister_kretprobes(rets, 2);
			}
			unregister_kprobes(list, 3);
		}
		destroy(c);
	}
	calls_end();
	case_say("%u rounds\n", rounds);
}

/*
 * The same, one by one, and with the first one unregistered while the other stays at the same
 * address.
 */
static void freed_one_by_one(void)
{
	unsigned int rounds = 0;

	calls_begin();
	kst_while_case_lasts(rounds) {
		struct client *a = make(true), *b = make(rounds & 1);

		if (!EXPECT(a && b))
			break;
		EXPECT_EQ(register_kprobe(&a->kp[0]), 0);
		EXPECT_EQ(register_kprobe(&b->kp[1]), 0);
		EXPECT_EQ(register_kretprobe(&a->ret[0]), 0);
		EXPECT_EQ(register_kprobe(&b->kp[2]), 0);
		EXPECT_EQ(disable_kprobe(&a->kp[0]), 0);
		EXPECT_EQ(enable_kprobe(&a->kp[0]), 0);
		come_by(rounds);
		unregister_kretprobe(&a->ret[0]);
		unregister_kprobe(&a->kp[0]);
		destroy(a);
		unregister_kprobe(&b->kp[1]);
		unregister_kprobe(&b->kp[2]);
		destroy(b);
	}
	calls_end();
	case_say("%u rounds\n", rounds);
}

/* A probe of "random", its expected state, and its number of hits. */
struct one {
	struct kprobe kp;
	bool registered, enabled, site;
	unsigned int hits;
};

PRE_HANDLER(count, container_of(p, struct one, kp)->hits++);

static unsigned long seed;

static unsigned int random(unsigned int below)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (seed >> 33) % below;
}

#define ONES	6

static void step(struct one *one)
{
	switch (one->registered ? 1 + random(3) : 0) {
	case 0:
		one->enabled = random(2);
		one->kp = (struct kprobe){
			.addr = one->site ? (void *)kst_target : (void *)kst_bytes_inside, .pre_handler = count,
			.flags = one->enabled ? 0 : KPROBE_FLAG_DISABLED,
		};
		one->registered = EXPECT_EQ(register_kprobe(&one->kp), 0);
		break;
	case 1:
		EXPECT_EQ(disable_kprobe(&one->kp), 0);
		one->enabled = false;
		break;
	case 2:
		EXPECT_EQ(enable_kprobe(&one->kp), 0);
		one->enabled = true;
		break;
	default:
		unregister_kprobe(&one->kp);
		one->registered = false;
	}
}

/*
 * Probes at an ftrace site and in a function are registered, unregistered, disabled and enabled,
 * also twice, in any order. Those that are enabled are hit, if any are (CVE-2022-50008: a disabled
 * probe was disarmed once more).
 */
static void any_order(bool armed)
{
	static struct one ones[ONES];
	unsigned int i, nr, rounds;

	memset(ones, 0, sizeof(ones));
	seed = 0x5eed;
	for (i = 0; i < ONES; i++)
		ones[i].site = i & 1;
	for (rounds = 0; rounds < 150; rounds++) {
		nr = random(ONES);
		step(&ones[nr]);
		for (i = 0; i < ONES; i++)
			ones[i].hits = 0;
		EXPECT_EQ(kst_target(1), 4);
		EXPECT_EQ(kst_call_bytes(9), 9);
		for (i = 0; i < ONES; i++)
			if (!EXPECT_EQ(ones[i].hits, armed && ones[i].registered && ones[i].enabled)) {
				case_say("round %u: probe %u, after a step of %u\n", rounds, i, nr);
				rounds = -2U;
				break;
			}
	}
	for (i = 0; i < ONES; i++)
		if (ones[i].registered)
			unregister_kprobe(&ones[i].kp);
}

static void in_any_order(void)
{
	any_order(true);
}

/* run.sh has switched all off in debugfs. */
static void in_any_order_disarmed(void)
{
	any_order(false);
}

const struct test_case kst_races_cases[] = {
	{ "races.freed_at_once", freed_at_once },
	{ "races.freed_one_by_one", freed_one_by_one },
	{ "races.in_any_order", in_any_order },
	{ "races.in_any_order_disarmed", in_any_order_disarmed },
	{ "races.in_any_order_again", in_any_order },
	{ }
};
