// SPDX-License-Identifier: GPL-2.0
/*
 * Writing records: by plan, by command, and in step with a reader.
 */
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hw_breakpoint.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

#include "selftest.h"

const char * const fst_ctx_names[FST_NR_CTX] = {
	[FST_TASK] = "task",
	[FST_SOFTIRQ] = "softirq",
	[FST_IRQ] = "irq",
	[FST_NMI] = "nmi",
};

static bool reserve(struct relay_fast_slot *slot, u16 type, size_t len, bool timed)
{
	return timed ? relay_fast_reserve_timed(fst.chan, slot, type, len) :
		       relay_fast_reserve(fst.chan, slot, type, len);
}

static void write_in_place(enum fst_ctx ctx, unsigned int depth, unsigned int cpu, u32 seq,
			   const struct fst_plan *p)
{
	struct fst_lane *lane = &fst.lane[ctx][cpu];
	struct relay_fast_slot slot;
	unsigned int i;

	if (!reserve(&slot, fst_type(ctx, seq), p->len, p->timed)) {
		lane->refused++;
		return;
	}
	/* the reader must not see this */
	memset(slot.data, 0xee, p->len);
	for (i = 0; i < p->delay; i++)
		cpu_relax();
	if (p->nmi && ctx != FST_NMI)
		fst_send_nmi(cpu);
	if (p->nest && depth < 2)
		fst_put(ctx, depth + 1);
	rst_fill(slot.data, cpu, ctx, seq, p->len);
	if (p->discard) {
		lane->discarded++;
		relay_fast_discard(&slot);
	} else {
		relay_fast_commit(&slot);
	}
}

/* The next record of this CPU and context, by its plan. Preemption is off. */
void fst_put(enum fst_ctx ctx, unsigned int depth)
{
	unsigned int cpu = smp_processor_id();
	struct fst_lane *lane = &fst.lane[ctx][cpu];
	u32 in_flight = READ_ONCE(fst_ctl(cpu)->reserve) & RELAY_FAST_IN_FLIGHT;
	u32 seq = lane->seq++;
	struct fst_plan p = fst_plan(ctx, seq, fst.subbuf);
	bool ok;

	if (!depth && in_flight) {
		lane->inside++;
		lane->deepest = max(lane->deepest, in_flight);
	}
	if (p.in_place || p.len > sizeof(lane->scratch)) {
		write_in_place(ctx, depth, cpu, seq, &p);
		return;
	}
	rst_fill(lane->scratch, cpu, ctx, seq, p.len);
	ok = p.timed ? relay_fast_write_timed(fst.chan, fst_type(ctx, seq), lane->scratch, p.len) :
		       relay_fast_write(fst.chan, fst_type(ctx, seq), lane->scratch, p.len);
	if (!ok)
		lane->refused++;
}

struct request {
	struct irq_work work;
	enum fst_ctx ctx;
	u64 len, count, timed;
	u32 accepted;
};

static void write_one(struct request *r)
{
	unsigned int cpu = smp_processor_id();
	struct fst_lane *lane = &fst.lane[r->ctx][cpu];
	u32 seq = lane->seq++;
	struct relay_fast_slot slot;

	if (!reserve(&slot, fst_type(r->ctx, seq), r->len, r->timed)) {
		lane->refused++;
		return;
	}
	rst_fill(slot.data, cpu, r->ctx, seq, r->len);
	relay_fast_commit(&slot);
	r->accepted++;
}

static void write_irq(struct irq_work *work)
{
	struct request *r = container_of(work, struct request, work);

	while (r->count--)
		write_one(r);
}

static long write_here(void *arg)
{
	struct request *r = arg;

	if (r->ctx == FST_IRQ) {
		irq_work_queue(&r->work);
		irq_work_sync(&r->work);
		return 0;
	}
	preempt_disable();
	while (r->count--)
		write_one(r);
	preempt_enable();
	return 0;
}

static int parse_cpu(const struct ctl_args *a, unsigned int *cpu)
{
	u64 val = 0;
	int ret = ctl_num(a, "cpu", &val);

	*cpu = val;
	return ret ?: val < nr_cpu_ids && cpu_online(val) ? 0 : -ENXIO;
}

/* write cpu= len= [count=] [ctx=task|irq] [timed=1]: result: how many were accepted */
int fst_write(const struct ctl_args *a)
{
	struct request r = { .work = IRQ_WORK_INIT_HARD(write_irq), .count = 1 };
	unsigned int cpu;
	int ret;

	cpus_read_lock();
	ret = parse_cpu(a, &cpu) ?: ctl_num(a, "len", &r.len) ?: ctl_num(a, "count", &r.count) ?:
	      ctl_num(a, "timed", &r.timed);
	if (!ret) {
		r.ctx = strcmp(ctl_str(a, "ctx", "task"), "irq") ? FST_TASK : FST_IRQ;
		ret = work_on_cpu(cpu, write_here, &r);
	}
	cpus_read_unlock();
	fst.result = r.accepted;
	return ret;
}

/* A writer that stays between reserve and commit. */
static struct request held;
static struct work_struct held_work;
static atomic_t hold;
enum { HOLD_NONE, HOLD_ASKED, HOLD_THERE };

static void write_held(struct work_struct *work)
{
	ktime_t end = ktime_add_ms(ktime_get(), 15000);
	struct relay_fast_slot slot;
	unsigned int cpu = get_cpu();
	u32 seq = fst.lane[FST_TASK][cpu].seq++;

	if (!reserve(&slot, fst_type(FST_TASK, seq), held.len, false)) {
		fst.lane[FST_TASK][cpu].refused++;
		atomic_set(&hold, HOLD_NONE);
	} else {
		memset(slot.data, 0xee, held.len);
		atomic_set(&hold, HOLD_THERE);
		while (atomic_read(&hold) == HOLD_THERE && ktime_before(ktime_get(), end))
			cpu_relax();
		rst_fill(slot.data, cpu, FST_TASK, seq, held.len);
		relay_fast_commit(&slot);
	}
	put_cpu();
}

/* hold cpu= len=: returns while a record of that CPU is being written; for 15 s at most */
int fst_hold(const struct ctl_args *a)
{
	unsigned int cpu;
	int ret;

	fst_release();
	ret = parse_cpu(a, &cpu) ?: ctl_num(a, "len", &held.len);
	if (ret)
		return ret;
	/* the caller has to be bound to another CPU */
	if (cpu == raw_smp_processor_id())
		return -EINVAL;
	atomic_set(&hold, HOLD_ASKED);
	schedule_work_on(cpu, &held_work);
	while (atomic_read(&hold) == HOLD_ASKED)
		cond_resched();
	return atomic_read(&hold) == HOLD_THERE ? 0 : -ENOSPC;
}

/* release: have it commit */
void fst_release(void)
{
	atomic_set(&hold, HOLD_NONE);
	flush_work(&held_work);
}

#ifdef CONFIG_HAVE_HW_BREAKPOINT
/* Source of a copied record; reading the last 8 bytes kills the kernel. */
static u8 cut_data[40] __aligned(8);

static void cut_here(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	panic("a record was cut\n");
}

static long write_cut(void *arg)
{
	u32 seq = fst.lane[FST_TASK][raw_smp_processor_id()].seq;

	relay_fast_write_timed(fst.chan, fst_type(FST_TASK, seq), cut_data, sizeof(cut_data));
	return -EIO;
}

/* cut cpu=: the kernel panics on that CPU in the middle of relay_fast_write_timed() */
int fst_cut(const struct ctl_args *a)
{
	struct perf_event * __percpu *breakpoint;
	struct perf_event_attr attr;
	unsigned int cpu;
	int ret = parse_cpu(a, &cpu);

	if (ret)
		return ret;
	hw_breakpoint_init(&attr);
	attr.bp_addr = (unsigned long)&cut_data[sizeof(cut_data) - 8];
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.bp_type = HW_BREAKPOINT_RW;
	rst_fill(cut_data, cpu, FST_TASK, 0, sizeof(cut_data));
	breakpoint = register_wide_hw_breakpoint(&attr, cut_here, NULL);
	if (IS_ERR_PCPU(breakpoint))
		return PTR_ERR_PCPU(breakpoint);
	ret = work_on_cpu(cpu, write_cut, NULL);
	unregister_wide_hw_breakpoint(breakpoint);
	return ret;
}
#else
int fst_cut(const struct ctl_args *a)
{
	return -EOPNOTSUPP;
}
#endif

/*
 * rounds cpu= count= bytes= [step=]: for each round, wait until the reader has consumed everything, then write
 * @bytes bytes in records of @step bytes, header included, while the reader is on its way to sleep.
 */
static struct task_struct *rounder;
static u64 round_count, round_bytes, round_step;

static bool reader_is_behind(unsigned int cpu)
{
	struct relay_fast_ctl *ctl = fst_ctl(cpu);
	struct relay_fast_consumer *reader = (void *)ctl + RELAY_FAST_CONSUMER;

	/* pairs with the reader's release: data that it has read may be overwritten */
	return smp_load_acquire(&reader->consumed) != READ_ONCE(ctl->reserve) >> RELAY_FAST_POSITION_SHIFT;
}

static int write_rounds(void *arg)
{
	unsigned int cpu = (unsigned long)arg;
	struct request r = { .ctx = FST_TASK };
	u64 i, done, wait;

	r.len = round_step - sizeof(struct relay_fast_record);
	for (i = 0; i < round_count && !kthread_should_stop(); i++) {
		while (reader_is_behind(cpu) && !kthread_should_stop())
			cond_resched();
		/* another moment each time */
		for (wait = i * 37 % 1000; wait; wait--)
			cpu_relax();
		preempt_disable();
		for (done = 0; done < round_bytes; done += round_step)
			write_one(&r);
		preempt_enable();
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

int fst_rounds(const struct ctl_args *a)
{
	unsigned int cpu;
	int ret;

	round_step = 0;
	ret = parse_cpu(a, &cpu) ?: ctl_num(a, "count", &round_count) ?:
	      ctl_num(a, "bytes", &round_bytes) ?: ctl_num(a, "step", &round_step);
	if (ret)
		return ret;
	if (round_step < sizeof(struct relay_fast_record) || rounder)
		return -EINVAL;
	rounder = kthread_create_on_cpu(write_rounds, (void *)(unsigned long)cpu, cpu, "fst_round/%u");
	if (IS_ERR(rounder)) {
		ret = PTR_ERR(rounder);
		rounder = NULL;
		return ret;
	}
	wake_up_process(rounder);
	return 0;
}

/* roundsend: stop it */
int fst_rounds_wait(void)
{
	if (rounder)
		kthread_stop(rounder);
	rounder = NULL;
	return 0;
}

/* A CPU writes a record as soon as it is online, and another one before it is offline. */
static int at_hotplug(unsigned int cpu)
{
	if (!READ_ONCE(fst.at_hotplug))
		return 0;
	preempt_disable();
	fst_put(FST_TASK, 0);
	preempt_enable();
	fst.ups++;
	return 0;
}

static int before_it_goes(unsigned int cpu)
{
	atomic_inc(&fst.downs);
	return at_hotplug(cpu);
}

static enum cpuhp_state state;

int fst_write_init(void)
{
	unsigned int ctx;
	int ret;

	INIT_WORK(&held_work, write_held);
	for (ctx = 0; ctx < FST_NR_CTX; ctx++) {
		fst.lane[ctx] = kvcalloc(nr_cpu_ids, sizeof(*fst.lane[ctx]), GFP_KERNEL);
		if (!fst.lane[ctx]) {
			ret = -ENOMEM;
			goto out;
		}
	}
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "relay_fast_selftest", at_hotplug,
					before_it_goes);
	if (ret < 0)
		goto out;
	state = ret;
	return 0;
out:
	for (ctx = 0; ctx < FST_NR_CTX; ctx++)
		kvfree(fst.lane[ctx]);
	return ret;
}

void fst_write_exit(void)
{
	unsigned int ctx;

	cpuhp_remove_state_nocalls(state);
	for (ctx = 0; ctx < FST_NR_CTX; ctx++)
		kvfree(fst.lane[ctx]);
}
