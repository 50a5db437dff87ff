// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that stay where a jump is placed or removed: preempted among the displaced instructions,
 * preempted in their copies, and asleep in a function that the last of them has called.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <asm/irq_regs.h>

#include "jump.h"
#include "rows.h"

/* Memory that the task writes to: one page, again and again. It takes about a second. */
#define PAGES	(64 * 1024)
#define SIZE	((unsigned long)PAGES * PAGE_SIZE)

/* As long as the task is held at the most, in milliseconds. */
#define HELD_MS	10000

/* A task, and another of the same CPU that keeps it from running. */
static struct task_struct *writer, *holder;
static unsigned int held_cpu;
static u8 *to;
static unsigned long written;
static struct hrtimer timer;
/* The range to hold the task in, and a variable that is not 0 by then. */
static unsigned long held_from, held_to;
static const unsigned int *held_after;
static bool held, released, gave_up, wrote;

static enum hrtimer_restart on_timer(struct hrtimer *unused)
{
	struct pt_regs *regs = get_irq_regs();

	if (READ_ONCE(wrote))
		return HRTIMER_NORESTART;
	if (current == writer && regs && regs->ip >= held_from && regs->ip < held_to &&
	    (!held_after || READ_ONCE(*held_after))) {
		wake_up_process(holder);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(&timer, ns_to_ktime(500000));
	return HRTIMER_RESTART;
}

static int write_all(void *unused)
{
	hrtimer_start(&timer, ns_to_ktime(500000), HRTIMER_MODE_REL_PINNED_HARD);
	written = kst_fills(to, SIZE) - (unsigned long)to;
	WRITE_ONCE(wrote, true);
	hrtimer_cancel(&timer);
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

/* Has a higher priority. Only the task that it holds is to hold up grace periods. */
static int hold(void *unused)
{
	unsigned long end = jiffies + msecs_to_jiffies(HELD_MS);

	WRITE_ONCE(held, true);
	while (!READ_ONCE(released)) {
		if (time_after(jiffies, end)) {
			WRITE_ONCE(gave_up, true);
			break;
		}
		rcu_tasks_qs(current, false);
		cpu_relax();
	}
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static bool make_room(void)
{
	struct page **pages = kvcalloc(PAGES, sizeof(*pages), GFP_KERNEL), *page = alloc_page(GFP_KERNEL);
	unsigned int i;

	to = NULL;
	for (i = 0; pages && page && i < PAGES; i++)
		pages[i] = page;
	if (pages && page)
		to = vmap(pages, PAGES, 0, PAGE_KERNEL);
	kvfree(pages);
	if (!to && page)
		__free_page(page);
	return EXPECT(to);
}

static void free_room(void)
{
	struct page *page = vmalloc_to_page(to);

	vunmap(to);
	__free_page(page);
	to = NULL;
}

/*
 * Starts the task, and waits until it is held in that range, and until @after is not 0, if @after
 * is not NULL.
 */
static bool hold_in(unsigned long from, unsigned long end, const unsigned int *after)
{
	unsigned int i;

	held_from = from;
	held_to = end;
	held_after = after;
	held = released = gave_up = wrote = false;
	held_cpu = cpumask_last(cpu_online_mask);
	if (!make_room())
		return false;
	hrtimer_setup(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	holder = kthread_create_on_cpu(hold, NULL, held_cpu, "kst_holder/%u");
	writer = kthread_create_on_cpu(write_all, NULL, held_cpu, "kst_writer/%u");
	if (!EXPECT(!IS_ERR(holder) && !IS_ERR(writer)))
		return false;
	sched_set_fifo(holder);
	set_cpus_allowed_ptr(current, cpumask_of(cpumask_first(cpu_online_mask)));
	wake_up_process(writer);
	for (i = 0; i < 3000 && !READ_ONCE(held) && !READ_ONCE(wrote); i++)
		msleep(20);
	return EXPECT(held);
}

/* Lets it go on, and expects that it has done its work. */
static void let_go(void)
{
	EXPECT(!READ_ONCE(gave_up));
	WRITE_ONCE(released, true);
	while (!IS_ERR_OR_NULL(writer) && to && !READ_ONCE(wrote))
		msleep(20);
	if (!IS_ERR_OR_NULL(writer))
		kthread_stop(writer);
	if (!IS_ERR_OR_NULL(holder))
		kthread_stop(holder);
	/* The next case may have none. */
	writer = holder = NULL;
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	if (!to)
		return;
	EXPECT_EQ(written, SIZE + 1);
	free_room();
}

static bool can_hold(void)
{
	if (num_online_cpus() < 2) {
		case_skip("one CPU");
		return false;
	}
	if (!preempt_model_full()) {
		case_skip("the kernel is not preempted");
		return false;
	}
	return true;
}

/*
 * While a task is preempted among the bytes to be displaced, no jump is placed; when the task has
 * left them, one is.
 */
static void preempted_inside(void)
{
	unsigned long fill = (unsigned long)kst_places[KST_FILLS_FILL];
	const void *place = kst_places[KST_FILLS];
	static struct kst_hit a;

	if (!can_hold())
		return;
	if (hold_in(fill, fill + 1, NULL) && EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0)) {
		msleep(500);
		EXPECT_EQ(kst_opcode(place), KST_INT3);
		EXPECT(!READ_ONCE(wrote));
	}
	let_go();
	EXPECT(kst_becomes(place, KST_JUMP));
	EXPECT_EQ(a.pre, 0);
	unregister_kprobe(&a.kp);
}

/*
 * Registers and unregisters many probes. The engine copies their instructions for jumps, so the
 * memory of the first is reused.
 */
static void others_come_and_go(void)
{
	enum { OTHERS = 100 };
	struct kst_hit *others = kcalloc(OTHERS, sizeof(*others), GFP_KERNEL);
	struct kprobe **list = kcalloc(OTHERS, sizeof(*list), GFP_KERNEL);
	unsigned int i, round;

	for (round = 0; EXPECT(others && list) && round < 3; round++) {
		for (i = 0; i < OTHERS; i++)
			list[i] = kst_hit_at(&others[i], kst_many + i * KST_MANY_SIZE + KST_MANY_AT, 0);
		if (!EXPECT_EQ(register_kprobes(list, OTHERS), 0))
			break;
		/* then the engine waits for the task, and looks at no more */
		for (i = 0; !round && i < 250 && !(list[OTHERS - 1]->flags & KPROBE_FLAG_OPTIMIZED); i++)
			msleep(20);
		EXPECT(round || (list[OTHERS - 1]->flags & KPROBE_FLAG_OPTIMIZED));
		unregister_kprobes(list, OTHERS);
	}
	kfree(list);
	kfree(others);
}

/*
 * A task is preempted in the copies of displaced instructions. The probe is unregistered without
 * waiting for it, other probes are registered and unregistered, and the task continues undisturbed.
 */
static void preempted_in_copies(void)
{
	u8 *place = kst_places[KST_FILLS];
	static struct kst_hit a;
	unsigned long detour;

	if (!can_hold())
		return;
	if (!EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0))
		return;
	if (EXPECT(kst_becomes(place, KST_JUMP))) {
		detour = (unsigned long)place + 5 + *(s32 *)(place + 1);
		/* Not in front of the call of the handler: its first run takes long. */
		if (hold_in(detour, detour + 1024, &a.pre))
			EXPECT_EQ(a.pre, 1);
	}
	unregister_kprobe(&a.kp);
	EXPECT(READ_ONCE(held) && !READ_ONCE(gave_up) && !READ_ONCE(wrote));
	others_come_and_go();
	EXPECT(!READ_ONCE(gave_up) && !READ_ONCE(wrote));
	let_go();
	EXPECT_EQ(a.pre, 1);
}

static DECLARE_COMPLETION(may_wake);
static bool is_asleep;

unsigned long kst_asleep(unsigned long a)
{
	WRITE_ONCE(is_asleep, true);
	wait_for_completion(&may_wake);
	return a + 1;
}

static int sleep_inside(void *result)
{
	*(unsigned long *)result = kst_sleeps(40);
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static void wake(struct work_struct *work)
{
	WRITE_ONCE(gave_up, true);
	complete_all(&may_wake);
}

/*
 * A task sleeps in a function that the last of the displaced instructions has called, through the
 * jump. The probe is unregistered, registered again with its jump, and unregistered. No call waits
 * for the task, which returns to its caller.
 */
static void sleeps(void)
{
	void *place = kst_places[KST_SLEEPS];
	static DECLARE_DELAYED_WORK(late, wake);
	unsigned long result = 0;
	static struct kst_hit a;
	struct task_struct *task;
	unsigned int i;

	reinit_completion(&may_wake);
	is_asleep = gave_up = false;
	EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0);
	EXPECT(kst_becomes(place, KST_JUMP));
	task = kthread_run(sleep_inside, &result, "kst_asleep");
	if (EXPECT(!IS_ERR(task))) {
		for (i = 0; i < 3000 && !READ_ONCE(is_asleep); i++)
			msleep(20);
		schedule_delayed_work(&late, 30 * HZ);
		EXPECT_EQ(a.pre, 1);
		unregister_kprobe(&a.kp);
		EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0);
		EXPECT(kst_becomes(place, KST_JUMP));
		unregister_kprobe(&a.kp);
		EXPECT(!READ_ONCE(gave_up));
		cancel_delayed_work_sync(&late);
		EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0);
		complete_all(&may_wake);
		kthread_stop(task);
		EXPECT_EQ(result, 42);
		EXPECT_EQ(a.pre, 0);
	}
	unregister_kprobe(&a.kp);
}

/* How long the task of the next case spins at the most, in milliseconds. */
#define SPIN_MS	5000

static int spin(void *unused)
{
	unsigned long end = jiffies + msecs_to_jiffies(SPIN_MS);

	while (!READ_ONCE(released) && time_before(jiffies, end))
		cpu_relax();
	WRITE_ONCE(gave_up, !READ_ONCE(released));
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

/*
 * A task runs without sleeping, so the jump of one probe waits for it. The jump of another probe,
 * which is unregistered, does not.
 */
static void unregistered_beside_busy(void)
{
	const void *place = kst_jump_place(0), *waiting = kst_places[KST_FILLS];
	static struct kst_hit a, b;
	struct task_struct *task;
	unsigned int i;

	if (!can_hold())
		return;
	released = gave_up = false;
	if (!EXPECT_EQ(register_kprobe(kst_hit_at(&a, place, 0)), 0))
		return;
	EXPECT(kst_becomes(place, KST_JUMP));
	task = kthread_run_on_cpu(spin, NULL, cpumask_last(cpu_online_mask), "kst_spin/%u");
	if (EXPECT(!IS_ERR(task)) && EXPECT_EQ(register_kprobe(kst_hit_at(&b, waiting, 0)), 0)) {
		/* now the engine waits for every task */
		for (i = 0; i < 1000 && !(READ_ONCE(b.kp.flags) & KPROBE_FLAG_OPTIMIZED); i++)
			usleep_range(900, 1100);
		msleep(20);
		EXPECT_EQ(kst_opcode(waiting), KST_INT3);
		unregister_kprobe(&a.kp);
		EXPECT(kst_becomes(place, a.kp.opcode));
		EXPECT(!READ_ONCE(gave_up));
		unregister_kprobe(&b.kp);
	} else {
		unregister_kprobe(&a.kp);
	}
	WRITE_ONCE(released, true);
	if (!IS_ERR(task))
		kthread_stop(task);
}

const struct test_case kst_jump_held_cases[] = {
	{ "jump.preempted_inside", preempted_inside },
	{ "jump.preempted_in_copies", preempted_in_copies },
	{ "jump.sleeps", sleeps },
	{ "jump.unregistered_beside_busy", unregistered_beside_busy },
	{}
};
