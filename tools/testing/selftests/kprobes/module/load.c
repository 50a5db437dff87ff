// SPDX-License-Identifier: GPL-2.0
/* Many probes, and probes that are registered and unregistered while all CPUs hit them. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "kprobes_selftest.h"
#include "rows.h"

struct many {
	struct kprobe kp;
	unsigned int pre, post;
};

PRE_HANDLER(many_pre, container_of(p, struct many, kp)->pre++);

POST_HANDLER(many_post, container_of(p, struct many, kp)->post++);

static long call_many(unsigned int i, long x)
{
	return kst_call_code(kst_many + i * KST_MANY_SIZE, x);
}

static u8 *many_at(unsigned int i)
{
	return kst_many + i * KST_MANY_SIZE + KST_MANY_AT;
}

/* Registers and unregisters many in one call each. */
static void batch(void)
{
	struct many *many = kcalloc(KST_MANY, sizeof(*many), GFP_KERNEL);
	struct kprobe **list = kcalloc(KST_MANY, sizeof(*list), GFP_KERNEL);
	unsigned int i, round, bad = 0, count = min_t(unsigned int, kst_many_probes, KST_MANY);

	if (!EXPECT(many && list))
		goto out;
	for (round = 1; round <= 1; round++) {
		for (i = 0; i < count; i++) {
			many[i].kp = (struct kprobe){
				.addr = many_at(i), .pre_handler = many_pre, .post_handler = many_post,
			};
			list[i] = &many[i].kp;
		}
		if (!EXPECT_EQ(register_kprobes(list, count), 0))
			goto out;
		for (i = 0; i < count; i++) {
			bad += kst_opcode(many_at(i)) != INT3_INSN_OPCODE;
			bad += call_many(i, 5) != i + 5;
		}
		unregister_kprobes(list, count);
		for (i = 0; i < count; i++) {
			bad += call_many(i, 5) != i + 5;
			bad += many[i].pre != round || many[i].post != round || many[i].kp.nmissed;
		}
		EXPECT_EQ(bad, 0);
	}
	/* the last is bad: all the others are undone */
	count = count / 8 + 2;
	for (i = 0; i < count; i++)
		many[i].kp = (struct kprobe){ .addr = many_at(i), .pre_handler = many_pre };
	many[count - 1].kp.addr++;
	EXPECT_EQ(register_kprobes(list, count), -EILSEQ);
	for (i = 0; i < count; i++) {
		bad += kst_opcode(many_at(i)) == INT3_INSN_OPCODE;
		bad += call_many(i, 5) != i + 5;
		bad += many[i].pre != 1;
	}
	EXPECT_EQ(bad, 0);
out:
	kfree(list);
	kfree(many);
}

/*
 * Registers @count probes, the last one first, and returns the nanoseconds that took; unregisters
 * them.
 */
static u64 time_batch(struct many *many, struct kprobe **list, unsigned int count, u8 *(*at)(unsigned int i))
{
	unsigned int i;
	u64 from;

	for (i = 0; i < count; i++) {
		many[i].kp = (struct kprobe){ .addr = at(count - 1 - i), .pre_handler = many_pre };
		list[i] = &many[i].kp;
	}
	from = ktime_get_ns();
	if (!EXPECT_EQ(register_kprobes(list, count), 0))
		return 0;
	from = ktime_get_ns() - from;
	EXPECT_EQ(kst_call_code(kst_long, 0), KST_MANY);
	unregister_kprobes(list, count);
	return from;
}

static u8 *long_at(unsigned int i)
{
	return kst_long_first + i * KST_LONG_STEP;
}

/* Many probes of one function are registered in the time of as many of different ones: it is not decoded again for each. */
static void one_function(void)
{
	struct many *many = kcalloc(KST_MANY, sizeof(*many), GFP_KERNEL);
	struct kprobe **list = kcalloc(KST_MANY, sizeof(*list), GFP_KERNEL);
	unsigned int i, bad = 0, count = min_t(unsigned int, kst_many_probes, KST_MANY);
	u64 of_many, of_one;

	if (EXPECT(many && list)) {
		of_many = time_batch(many, list, count, many_at);
		of_one = time_batch(many, list, count, long_at);
		for (i = 0; i < count; i++)
			bad += many[i].pre != 1;
		EXPECT_EQ(bad, 0);
		case_say("%llu us of one function, %llu us of %u functions\n", of_one / 1000, of_many / 1000, count);
		EXPECT(of_one < 5 * of_many);
	}
	kfree(list);
	kfree(many);
}

static atomic_long_t storm_hits, storm_others;

PRE_HANDLER(storm_pre, atomic_long_inc(&storm_hits));

PRE_HANDLER(storm_other, atomic_long_inc(&storm_others));

POST_HANDLER(storm_other_post, atomic_long_inc(&storm_others));

RETURN_HANDLER(storm_other_ret, atomic_long_inc(&storm_others));

/*
 * All CPUs hit a probe that stays, while others are registered, unregistered, disabled and enabled,
 * there and elsewhere: it misses no call. No harm is done where breakpoints are written and
 * removed.
 */
static void storm(void)
{
	struct kprobe steady = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = storm_pre };
	unsigned int rounds = 0;
	long calls;

	atomic_long_set(&storm_hits, 0);
	atomic_long_set(&storm_others, 0);
	if (!EXPECT_EQ(register_kprobe(&steady), 0))
		return;
	kst_storm_begin(kst_storm_pass);
	kst_while_case_lasts(rounds) {
		struct kprobe same = {
			.addr = (kprobe_opcode_t *)kst_bytes_inside,
			.pre_handler = storm_other, .post_handler = rounds & 1 ? storm_other_post : NULL,
		};
		struct kprobe elsewhere = {
			.addr = (kprobe_opcode_t *)(kst_endbr + 4), .pre_handler = storm_other,
		};
		struct kprobe entry = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = storm_other };
		struct kretprobe ret = { .kp.symbol_name = "kst_endbr", .handler = storm_other_ret };
		struct kprobe *list[] = { &same, &elsewhere, &entry };

		if (!EXPECT_EQ(register_kprobes(list, ARRAY_SIZE(list)), 0))
			break;
		if (!EXPECT_EQ(register_kretprobe(&ret), 0)) {
			unregister_kprobes(list, ARRAY_SIZE(list));
			break;
		}
		EXPECT_EQ(disable_kprobe(&elsewhere), 0);
		EXPECT_EQ(disable_kprobe(&same), 0);
		EXPECT_EQ(enable_kprobe(&elsewhere), 0);
		EXPECT_EQ(enable_kprobe(&same), 0);
		if (rounds < 3)
			EXPECT(kst_wait(&storm_others, atomic_long_read(&storm_others)));
		unregister_kretprobe(&ret);
		unregister_kprobes(list, ARRAY_SIZE(list));
	}
	calls = kst_storm_end();
	/* no handler calls it, so none is missed */
	EXPECT_EQ(atomic_long_read(&storm_hits), calls);
	EXPECT_EQ(steady.nmissed, 0);
	case_say("%u rounds, %ld calls, %ld hits of the others\n", rounds, calls, atomic_long_read(&storm_others));
	unregister_kprobe(&steady);
}

static bool spins, spun_too_long;

/* A task that is preempted and never sleeps: RCU's grace periods for tasks do not end. A minute is enough for it. */
static int spin(void *unused)
{
	unsigned long end = jiffies + 60 * HZ;

	WRITE_ONCE(spins, true);
	while (!kthread_should_stop() && !READ_ONCE(spun_too_long)) {
		if (time_after(jiffies, end))
			WRITE_ONCE(spun_too_long, true);
		cpu_relax();
	}
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

/*
 * Probes are registered and unregistered while a task never sleeps: many at breakpoints, and the
 * only one at an ftrace site. No call waits for that task.
 */
static void never_sleeps(void)
{
	struct kprobe entry = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = many_pre };
	unsigned int i, round, count = min_t(unsigned int, kst_many_probes, KST_MANY);
	struct many *many = kcalloc(KST_MANY, sizeof(*many), GFP_KERNEL);
	struct kprobe **list = kcalloc(KST_MANY, sizeof(*list), GFP_KERNEL);
	struct task_struct *task;

	if (!EXPECT(many && list))
		goto out;
	count = min(count, 300U);
	/*
	 * ftrace learns that a probe at its sites was removed after a grace period, and waits for
	 * another with its lock held. The periods of earlier cases must be over, or all users of
	 * ftrace wait for the task.
	 */
	for (round = 0; round < 4; round++)
		synchronize_rcu_tasks();
	spins = false;
	spun_too_long = false;
	task = kthread_run(spin, NULL, "kst_spin");
	if (!EXPECT(!IS_ERR(task)))
		goto out;
	while (!READ_ONCE(spins))
		msleep(20);
	for (round = 0; round < 3 && !READ_ONCE(spun_too_long); round++) {
		for (i = 0; i < count; i++) {
			many[i].kp = (struct kprobe){ .addr = many_at(i), .pre_handler = many_pre };
			list[i] = &many[i].kp;
		}
		if (!EXPECT_EQ(register_kprobes(list, count), 0))
			break;
		unregister_kprobes(list, count);
		EXPECT_EQ(register_kprobe(&entry), 0);
		unregister_kprobe(&entry);
		entry.addr = (kprobe_opcode_t *)kst_target;
	}
	EXPECT(!READ_ONCE(spun_too_long));
	kthread_stop(task);
out:
	kfree(list);
	kfree(many);
}

const struct test_case kst_load_cases[] = {
	{ "load.batch", batch },
	{ "load.one_function", one_function },
	{ "load.storm", storm },
	{ "load.never_sleeps", never_sleeps },
	{ }
};
