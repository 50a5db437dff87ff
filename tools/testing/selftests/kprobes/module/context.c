// SPDX-License-Identifier: GPL-2.0
/*
 * Probes that are hit in interrupts, in NMIs, and in handlers of probes.
 */
#include <linux/array_size.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/smp.h>
#include <linux/stacktrace.h>
#include <asm/apic.h>
#include <asm/nmi.h>

#include "jump.h"

static atomic_t hits, wrong_context, calls;

static int in_irq_only(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	if (!in_hardirq())
		atomic_inc(&wrong_context);
	return 0;
}
NOKPROBE_SYMBOL(in_irq_only);

PRE_HANDLER(count, atomic_inc(&hits));

static void clear(void)
{
	atomic_set(&hits, 0);
	atomic_set(&calls, 0);
	atomic_set(&wrong_context, 0);
}

#define ROUNDS 100

static DECLARE_COMPLETION(timer_done);

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	if (kst_call_bytes(7) != 7 || kst_target(1) != 4)
		atomic_inc(&wrong_context);
	if (atomic_inc_return(&calls) == ROUNDS) {
		complete(&timer_done);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(200000));
	return HRTIMER_RESTART;
}

static void timer(void)
{
	struct kprobe inside = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = in_irq_only };
	struct kprobe entry = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = in_irq_only };
	struct hrtimer timer;

	clear();
	reinit_completion(&timer_done);
	EXPECT_EQ(register_kprobe(&inside), 0);
	EXPECT_EQ(register_kprobe(&entry), 0);
	hrtimer_setup_on_stack(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&timer, ns_to_ktime(100000), HRTIMER_MODE_REL_HARD);
	EXPECT(wait_for_completion_timeout(&timer_done, 60 * HZ));
	hrtimer_cancel(&timer);
	destroy_hrtimer_on_stack(&timer);
	unregister_kprobe(&entry);
	unregister_kprobe(&inside);
	EXPECT_EQ(atomic_read(&hits), 2 * ROUNDS);
	EXPECT_EQ(atomic_read(&wrong_context), 0);
	EXPECT_EQ(inside.nmissed + entry.nmissed, 0);
}

static DEFINE_PER_CPU(bool, nmi_sent);

static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	if (!__this_cpu_read(nmi_sent))
		return NMI_DONE;
	if (kst_call_bytes(9) != 9)
		atomic_inc(&wrong_context);
	atomic_inc(&calls);
	/* pairs with send_nmi() */
	smp_store_release(this_cpu_ptr(&nmi_sent), false);
	return NMI_HANDLED;
}

/* Sends one NMI, and waits for it. */
static void send_nmi(unsigned int cpu)
{
	bool *sent = per_cpu_ptr(&nmi_sent, cpu);

	/* the NMI finds it */
	smp_store_release(sent, true);
	__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
	/* pairs with on_nmi() */
	while (smp_load_acquire(sent))
		cpu_relax();
}

static void nmi(void)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	unsigned int i, cpu;

	clear();
	if (!EXPECT_EQ(register_nmi_handler(NMI_LOCAL, on_nmi, 0, "kprobes_selftest"), 0))
		return;
	EXPECT_EQ(register_kprobe(&kp), 0);
	for (i = 0; i < ROUNDS; i++)
		for_each_online_cpu(cpu)
			send_nmi(cpu);
	/*
	 * Hits on a CPU in a handler of another probe are missed; no other probe is registered
	 * here.
	 */
	EXPECT_EQ(atomic_read(&hits), atomic_read(&calls));
	EXPECT_EQ(kp.nmissed, 0);
	EXPECT_EQ(atomic_read(&calls), ROUNDS * num_online_cpus());
	EXPECT_EQ(atomic_read(&wrong_context), 0);
	unregister_kprobe(&kp);
	unregister_nmi_handler(NMI_LOCAL, "kprobes_selftest");
}

static int send_in_handler(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	send_nmi(smp_processor_id());
	return 0;
}
NOKPROBE_SYMBOL(send_in_handler);

POST_HANDLER(send_in_post_handler, send_nmi(smp_processor_id()));

/*
 * Sends NMIs while handlers of @outer run: the hits of the NMIs are missed, and counted as missed.
 * Both probes may have jumps.
 */
static void nmis_in(struct kprobe *outer, unsigned int each, bool jumps)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	unsigned int i;

	clear();
	if (!EXPECT_EQ(register_nmi_handler(NMI_LOCAL, on_nmi, 0, "kprobes_selftest"), 0))
		return;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(register_kprobe(outer), 0);
	if (jumps) {
		EXPECT(kst_becomes(kp.addr, KST_JUMP));
		EXPECT(kst_becomes(outer->addr, KST_JUMP));
	}
	for (i = 0; i < ROUNDS; i++)
		EXPECT_EQ(kst_call_endbr(i), i + 9);
	EXPECT_EQ(atomic_read(&hits), ROUNDS);
	EXPECT_EQ(atomic_read(&calls), each * ROUNDS);
	EXPECT_EQ(kp.nmissed, each * ROUNDS);
	EXPECT_EQ(outer->nmissed, 0);
	EXPECT_EQ(atomic_read(&wrong_context), 0);
	unregister_kprobe(outer);
	unregister_kprobe(&kp);
	unregister_nmi_handler(NMI_LOCAL, "kprobes_selftest");
}

static void nmi_in_handler(void)
{
	struct kprobe outer = {
		.addr = (kprobe_opcode_t *)(kst_endbr + 4),
		.pre_handler = send_in_handler, .post_handler = send_in_post_handler,
	};

	nmis_in(&outer, 2, false);
}

static void nmi_in_detour(void)
{
	struct kprobe outer = { .addr = (kprobe_opcode_t *)(kst_endbr + 4), .pre_handler = send_in_handler };

	nmis_in(&outer, 1, true);
}

static int calls_others(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	if (kst_call_bytes(3) != 3 || kst_target_2(1) != 7)
		atomic_inc(&wrong_context);
	return 0;
}
NOKPROBE_SYMBOL(calls_others);

POST_HANDLER(calls_others_after, calls_others(p, regs));

/* Handlers hit probes, even their own: these hits are missed, counted, and harmless. */
static void recursion(void)
{
	struct kprobe outer = {
		.addr = (kprobe_opcode_t *)(kst_endbr + 4),
		.pre_handler = calls_others, .post_handler = calls_others_after,
	};
	struct kprobe at_entry = {
		.addr = (kprobe_opcode_t *)kst_target,
		.pre_handler = calls_others, .post_handler = calls_others_after,
	};
	struct kprobe inner = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	struct kprobe inner_2 = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	struct kprobe inner_entry = { .addr = (kprobe_opcode_t *)kst_target_2, .pre_handler = count };
	struct kprobe own = {
		.addr = (kprobe_opcode_t *)kst_bytes,
		.pre_handler = calls_others, .post_handler = calls_others_after,
	};
	struct kprobe *all[] = { &outer, &at_entry, &inner, &inner_2, &inner_entry };

	clear();
	EXPECT_EQ(register_kprobes(all, ARRAY_SIZE(all)), 0);
	EXPECT_EQ(kst_call_endbr(1), 10);
	EXPECT_EQ(atomic_read(&hits), 2);
	EXPECT_EQ(inner.nmissed, 2);
	EXPECT_EQ(inner_2.nmissed, 2);
	EXPECT_EQ(inner_entry.nmissed, 2);
	EXPECT_EQ(kst_target(4), 13);
	EXPECT_EQ(atomic_read(&hits), 4);
	EXPECT_EQ(inner.nmissed, 4);
	EXPECT_EQ(inner_2.nmissed, 4);
	EXPECT_EQ(outer.nmissed + at_entry.nmissed, 0);
	EXPECT_EQ(register_kprobe(&own), 0);
	EXPECT_EQ(kst_call_bytes(8), 8);
	/* its two handlers, then the two after it */
	EXPECT_EQ(atomic_read(&hits), 8);
	EXPECT_EQ(own.nmissed, 2);
	unregister_kprobe(&own);
	unregister_kprobes(all, ARRAY_SIZE(all));
	EXPECT_EQ(atomic_read(&wrong_context), 0);
}

static atomic_t traces;

/*
 * Like on_nmi(), at the probe that the other tasks hit all the time; checks the interrupted
 * context, too.
 */
static int on_nmi_anywhere(unsigned int type, struct pt_regs *regs)
{
	unsigned long trace[32];

	if (!__this_cpu_read(nmi_sent))
		return NMI_DONE;
	if (kst_call_bytes(9) != 9)
		atomic_inc(&wrong_context);
	if (stack_trace_save(trace, ARRAY_SIZE(trace), 0))
		atomic_inc(&traces);
	atomic_inc(&calls);
	/* pairs with send_nmi() */
	smp_store_release(this_cpu_ptr(&nmi_sent), false);
	return NMI_HANDLED;
}

static bool pass(long i)
{
	return kst_call_bytes(i) == i;
}

/*
 * NMIs hit all CPUs anywhere on their path through a jump, and hit the jump themselves: no call is
 * lost.
 */
static void nmi_anywhere(void)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	unsigned int rounds = 0, cpu;
	long all;

	clear();
	atomic_set(&traces, 0);
	if (!EXPECT_EQ(register_nmi_handler(NMI_LOCAL, on_nmi_anywhere, 0, "kprobes_selftest"), 0))
		return;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT(kst_becomes(kp.addr, KST_JUMP));
	kst_storm_begin(pass);
	kst_while_case_lasts(rounds) {
		cpus_read_lock();
		for_each_online_cpu(cpu)
			send_nmi(cpu);
		cpus_read_unlock();
		usleep_range(50, 100);
	}
	all = kst_storm_end() + atomic_read(&calls);
	EXPECT_EQ(atomic_read(&hits) + kp.nmissed, all);
	EXPECT_EQ(atomic_read(&wrong_context), 0);
	EXPECT_EQ(atomic_read(&traces), atomic_read(&calls));
	case_say("%d NMIs, %ld calls, %lu missed\n", atomic_read(&calls), all, kp.nmissed);
	unregister_kprobe(&kp);
	unregister_nmi_handler(NMI_LOCAL, "kprobes_selftest");
}

const struct test_case kst_context_cases[] = {
	{ "context.timer", timer },
	{ "context.nmi", nmi },
	{ "context.nmi_in_handler", nmi_in_handler },
	{ "context.recursion", recursion },
	{ "jump.nmi_in_detour", nmi_in_detour },
	{ "jump.nmi_anywhere", nmi_anywhere },
	{ }
};
