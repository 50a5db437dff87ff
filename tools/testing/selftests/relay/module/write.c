// SPDX-License-Identifier: GPL-2.0
/*
 * Writers: one-shot writes on a chosen CPU in task or hard interrupt context,
 * and the storm: a thread and a timer a CPU.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/hardirq.h>
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>
#include <trace/events/lock.h>

#include "relay_selftest.h"
#include "threads.h"

static const char * const fn_names[RST_NR_FNS] = {
	[RST_WRITE] = "write",
	[RST_WRITE_PREEMPT] = "__write",
	[RST_RESERVE] = "reserve",
	[RST_TRY] = "try",
};

struct request {
	struct irq_work work;
	unsigned int cpu;
	enum rst_ctx ctx;
	enum rst_fn fn;
	bool vary;
	bool in_irq;
	bool nmi;
	u32 len;
	u32 count;
	u32 accepted;
};

static int parse_cpu(const struct ctl_args *a, unsigned int *cpu)
{
	u64 val = 0;
	int ret = ctl_num(a, "cpu", &val);

	if (!ret && (val >= nr_cpu_ids || !cpu_online(val)))
		ret = -ENXIO;
	*cpu = val;
	return ret;
}

static int parse_request(const struct ctl_args *a, struct request *r)
{
	u64 len = 64, count = 1, vary = 0;
	int ret, fn;

	ret = ctl_num(a, "len", &len) ?: ctl_num(a, "count", &count) ?:
	      ctl_num(a, "vary", &vary);
	if (ret)
		return ret;
	fn = match_string(fn_names, RST_NR_FNS, ctl_str(a, "fn", "write"));
	if (fn < 0)
		return fn;
	if (len > RST_MAX_LEN || count > U32_MAX)
		return -EINVAL;
	if (vary && len < sizeof(struct rst_head))
		return -EINVAL;
	r->fn = fn;
	r->len = len;
	r->count = count;
	r->vary = vary;
	return 0;
}

/* Prepare the next record of this CPU and context; returns its length. */
static u32 next_record(struct request *r, u8 **data)
{
	struct rst_cpu *c = &rst.cpu[r->cpu];
	u32 seq = atomic_fetch_inc(&c->seq[r->ctx]);
	u32 len = r->vary ? rst_vary(seq, r->len) : r->len;

	*data = c->scratch[r->ctx];
	rst_fill(*data, r->cpu, r->ctx, seq, len);
	return len;
}

static void put_record(enum rst_fn fn, const u8 *data, u32 len)
{
	void *slot;

	switch (fn) {
	case RST_WRITE:
		relay_write(rst.chan, data, len);
		break;
	case RST_WRITE_PREEMPT:
		__relay_write(rst.chan, data, len);
		break;
	default:
		slot = relay_reserve(rst.chan, len);
		if (slot)
			memcpy(slot, data, len);
	}
}

/* Is @data the last thing in the buffer? Interrupts are off. */
static bool landed(const u8 *data, u32 len)
{
	struct rchan_buf *buf = *this_cpu_ptr(rst.chan->buf);

	return len && buf->offset >= len &&
	       buf->offset <= rst.chan->subbuf_size &&
	       !memcmp(buf->data + buf->offset - len, data, len);
}

static void lock_buffer(unsigned long *flags)
{
	if (rst.global)
		raw_spin_lock_irqsave(&rst.write_lock, *flags);
	else
		local_irq_save(*flags);
}

static void unlock_buffer(unsigned long flags)
{
	if (rst.global)
		raw_spin_unlock_irqrestore(&rst.write_lock, flags);
	else
		local_irq_restore(flags);
}

/* Writes through the engine's own exclusion of other CPUs, without a lock of ours. */
static bool try_record(const u8 *data, u32 len)
{
	unsigned long flags;
	bool written;

	local_irq_save(flags);
#if IS_ENABLED(CONFIG_RELAY_RUST)
	written = relay_try_write(rst.chan, data, len);
#else
	relay_write(rst.chan, data, len);
	written = landed(data, len);
#endif
	local_irq_restore(flags);
	return written;
}

u64 rst_lost(void)
{
#if IS_ENABLED(CONFIG_RELAY_RUST)
	return relay_try_write_lost(rst.chan);
#else
	return 0;
#endif
}

/* As the entry code of an NMI does, as far as in_nmi() is concerned. */
static bool try_record_in_nmi(const u8 *data, u32 len)
{
	unsigned long flags;
	bool written;

	local_irq_save(flags);
	preempt_count_add(NMI_OFFSET + HARDIRQ_OFFSET);
	written = try_record(data, len);
	preempt_count_sub(NMI_OFFSET + HARDIRQ_OFFSET);
	local_irq_restore(flags);
	return written;
}

/*
 * nest at=wake|lock|start|none [len=]: within each record that is written, write another one
 * from where the work that wakes pollers raises its interrupt, or where this CPU has waited for a
 * lock, or, by relay_write(), from subbuf_start(), before and after it has reserved bytes. None is an NMI.
 */
static struct {
	u32 len;
	bool wake;
	bool lock;
	bool start;
	atomic_t tried;
	atomic_t written;
} nest;

static DEFINE_PER_CPU(bool, writing);

unsigned int rst_nested(void)
{
	return atomic_read(&nest.tried);
}

unsigned int rst_nested_ok(void)
{
	return atomic_read(&nest.written);
}

static void notrace write_nested(void)
{
	unsigned long flags;
	u8 *data;

	local_irq_save(flags);
	if (this_cpu_read(writing)) {
		this_cpu_write(writing, false);
		data = rst.cpu[raw_smp_processor_id()].scratch[RST_IRQ];
		atomic_inc(&nest.tried);
		if (try_record(data, nest.len))
			atomic_inc(&nest.written);
		this_cpu_write(writing, true);
	}
	local_irq_restore(flags);
}

/* As a tracer of a function that subbuf_start() calls, or an NMI, would. */
void rst_nest_at_start(void)
{
	const u8 *data;

	if (!nest.start || !this_cpu_read(writing))
		return;
	this_cpu_write(writing, false);
	data = rst.cpu[raw_smp_processor_id()].scratch[RST_IRQ];
	atomic_inc(&nest.tried);
	relay_write(rst.chan, data, nest.len);
	if (landed(data, nest.len))
		atomic_inc(&nest.written);
	this_cpu_write(writing, true);
}

static void notrace at_queue(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			     struct ftrace_regs *regs)
{
	write_nested();
}

static struct ftrace_ops queue_ops = { .func = at_queue };

static void notrace at_locked(void *unused, void *lock, int ret)
{
	write_nested();
}

void rst_nest_stop(void)
{
	if (nest.wake)
		unregister_ftrace_function(&queue_ops);
	if (nest.lock) {
		unregister_trace_contention_end(at_locked, NULL);
		tracepoint_synchronize_unregister();
	}
	nest.wake = false;
	nest.lock = false;
	nest.start = false;
}

static int nest_command(const struct ctl_args *a)
{
	char queue[] = "arch_irq_work_raise";
	const char *at = ctl_str(a, "at", "none");
	u64 len = 64;
	int ret, cpu;

	ret = ctl_num(a, "len", &len);
	if (!ret && len > RST_MAX_LEN)
		ret = -EINVAL;
	if (ret)
		return ret;
	rst_nest_stop();
	if (!strcmp(at, "none"))
		return 0;
	nest.len = len;
	atomic_set(&nest.tried, 0);
	atomic_set(&nest.written, 0);
	for_each_possible_cpu(cpu)
		rst_fill(rst.cpu[cpu].scratch[RST_IRQ], cpu, RST_IRQ, 0, len);
	if (!strcmp(at, "wake")) {
		ret = ftrace_set_filter(&queue_ops, queue, strlen(queue), 1) ?:
		      register_ftrace_function(&queue_ops);
		nest.wake = !ret;
	} else if (!strcmp(at, "lock")) {
		ret = register_trace_contention_end(at_locked, NULL);
		nest.lock = !ret;
	} else if (!strcmp(at, "start")) {
		nest.start = true;
	} else {
		ret = -EINVAL;
	}
	return ret;
}

static long write_here(void *arg)
{
	struct request *r = arg;
	unsigned long flags;
	u32 i, len;
	u8 *data;

	r->in_irq = in_hardirq();
	for (i = 0; i < r->count; i++) {
		len = next_record(r, &data);
		if (r->fn == RST_TRY) {
			local_irq_save(flags);
			this_cpu_write(writing, true);
			r->accepted += r->nmi ? try_record_in_nmi(data, len) :
						try_record(data, len);
			this_cpu_write(writing, false);
			local_irq_restore(flags);
			continue;
		}
		lock_buffer(&flags);
		this_cpu_write(writing, true);
		put_record(r->fn, data, len);
		r->accepted += landed(data, len);
		this_cpu_write(writing, false);
		unlock_buffer(flags);
	}
	return 0;
}

static void write_irq(struct irq_work *work)
{
	write_here(container_of(work, struct request, work));
}

/* An interrupt on the CPU that this runs on. */
static long interrupt_here(void *arg)
{
	struct request *r = arg;

	irq_work_queue(&r->work);
	irq_work_sync(&r->work);
	return r->in_irq ? 0 : -EDOM;
}

/* write cpu= len= count= fn=write|__write|reserve|try ctx=task|irq|nmi [vary=1] */
static int write_command(const struct ctl_args *a)
{
	struct request r = { .work = IRQ_WORK_INIT_HARD(write_irq) };
	const char *ctx = ctl_str(a, "ctx", "task");
	int ret;

	cpus_read_lock();
	ret = parse_cpu(a, &r.cpu) ?: parse_request(a, &r);
	r.nmi = !strcmp(ctx, "nmi");
	if (!ret && r.nmi && r.fn != RST_TRY)
		ret = -EINVAL;
	if (ret)
		goto out;
	if (!strcmp(ctx, "irq")) {
		r.ctx = RST_IRQ;
		ret = work_on_cpu(r.cpu, interrupt_here, &r);
	} else {
		ret = work_on_cpu(r.cpu, write_here, &r);
	}
	rst.result = r.accepted;
out:
	cpus_read_unlock();
	return ret;
}

/* A request to a buffer, of any length, which may be -1. */
struct length_request {
	size_t len;
	size_t result;
};

static long wrap_here(void *arg)
{
	struct length_request *r = arg;
	unsigned long flags;

	lock_buffer(&flags);
#if IS_ENABLED(CONFIG_RELAY_RUST)
	r->result = relay_try_write(rst.chan, rst.cpu[0].scratch[RST_TASK], r->len);
#else
	/* relay_write() would copy so much */
	r->result = !!relay_reserve(rst.chan, r->len);
#endif
	unlock_buffer(flags);
	return 0;
}

static long switch_here(void *arg)
{
	struct length_request *r = arg;
	unsigned long flags;

	lock_buffer(&flags);
	r->result = relay_switch_subbuf(*this_cpu_ptr(rst.chan->buf), r->len);
	unlock_buffer(flags);
	return 0;
}

/* wrap cpu= len=: make room for a record | switch cpu= len=: relay_switch_subbuf() called directly */
static int length_command(const struct ctl_args *a)
{
	struct length_request r = {};
	unsigned int cpu;
	u64 len = 0;
	int ret;

	cpus_read_lock();
	ret = parse_cpu(a, &cpu) ?: ctl_num(a, "len", &len);
	r.len = len;
	if (!ret)
		ret = work_on_cpu(cpu, ctl_is(a, "wrap") ? wrap_here : switch_here, &r);
	rst.result = r.result;
	cpus_read_unlock();
	return ret;
}

/* The writer that is held in subbuf_start() */
static struct request held;
static struct work_struct held_work;
static bool probing;

static void write_held(struct work_struct *work)
{
	write_here(&held);
}

/* Relay queues the work that wakes pollers between counting a sub-buffer and leaving it. */
static int at_wake(struct kprobe *probe, struct pt_regs *regs)
{
	struct rchan *chan = READ_ONCE(rst.chan);

	if (raw_smp_processor_id() == held.cpu && chan &&
	    regs_get_kernel_argument(regs, 0) ==
		    (unsigned long)&(*per_cpu_ptr(chan->buf, held.cpu))->wakeup_work)
		rst_hold_here(RST_HOLD_WAKE);
	return 0;
}

static struct kprobe wake_probe = {
	.symbol_name = "irq_work_queue",
	.pre_handler = at_wake,
};

static int hold_where(const char *when)
{
	static const char * const names[] = {
		[RST_HOLD_ANY] = "any",
		[RST_HOLD_FULL] = "full",
		[RST_HOLD_WAKE] = "wake",
	};

	return match_string(names + RST_HOLD_ANY, ARRAY_SIZE(names) - RST_HOLD_ANY, when) +
	       RST_HOLD_ANY;
}

/*
 * hold cpu= len= [when=any|full|wake] [ms=]: writes a record, and returns while that write is
 * inside of subbuf_start(), or where it wakes a poller, with interrupts off. The write is held
 * until "release", or for @ms after the next command was received, which may wait for it.
 */
static int hold_command(const struct ctl_args *a)
{
	int ret, where = hold_where(ctl_str(a, "when", "any"));
	u64 ms = 0;
	ktime_t end;

	if (where <= RST_NO_HOLD)
		return -EINVAL;
	rst_release();
	memset(&held, 0, sizeof(held));
	ret = parse_cpu(a, &held.cpu) ?: parse_request(a, &held) ?: ctl_num(a, "ms", &ms);
	if (ret)
		return ret;
	/* the caller has to be bound to another CPU */
	if (held.cpu == raw_smp_processor_id())
		return -EINVAL;
	if (where == RST_HOLD_WAKE) {
		wake_probe.addr = NULL;
		wake_probe.flags = 0;
		ret = register_kprobe(&wake_probe);
		if (ret)
			return ret;
		probing = true;
	}
	rst.hold_ms = ms;
	atomic_set(&rst.hold, where);
	schedule_work_on(held.cpu, &held_work);
	end = ktime_add_ms(ktime_get(), 60000);
	while (atomic_read(&rst.hold) != RST_HOLDING) {
		if (ktime_after(ktime_get(), end)) {
			rst_release();
			return -ETIMEDOUT;
		}
		cond_resched();
	}
	return 0;
}

/* release: lets the held write continue */
void rst_release(void)
{
	atomic_set(&rst.hold, RST_NO_HOLD);
	flush_work(&held_work);
	if (probing)
		unregister_kprobe(&wake_probe);
	probing = false;
	rst.result = held.accepted;
}

/*
 * flushrace cpu=: does relay_flush() switch a buffer under a writer? The
 * writer has interrupts off, as relay_write() has, and watches its own
 * buffer while another CPU flushes. result: 1 when it was switched.
 */
struct flush_race {
	struct work_struct work;
	struct completion watching;
	struct completion finished;
	bool flushing;
	atomic_t flushed;
	bool switched;
};

static void flush_race_watch(struct work_struct *work)
{
	struct flush_race *race = container_of(work, struct flush_race, work);
	struct rchan_buf *buf;
	unsigned int relaxed = 0;
	unsigned long flags;
	size_t produced;
	ktime_t end;

	local_irq_save(flags);
	buf = *this_cpu_ptr(rst.chan->buf);
	produced = READ_ONCE(buf->subbufs_produced);
	complete(&race->watching);
	while (!READ_ONCE(race->flushing))
		cpu_relax();
	end = ktime_add_ms(ktime_get(), 500);
	/* the host may have had no time for the CPU that flushes, which has some whenever this one relaxes */
	while (ktime_before(ktime_get(), end) || relaxed++ < 200) {
		if (READ_ONCE(buf->subbufs_produced) != produced) {
			race->switched = true;
			break;
		}
		if (atomic_read(&race->flushed))
			break;
		cpu_relax();
	}
	local_irq_restore(flags);
	complete(&race->finished);
}

static int flush_race_command(const struct ctl_args *a)
{
	struct flush_race race = {};
	unsigned int cpu;
	int ret;

	ret = parse_cpu(a, &cpu);
	if (ret)
		return ret;
	/* the caller has to be bound to another CPU */
	if (cpu == raw_smp_processor_id())
		return -EINVAL;
	INIT_WORK_ONSTACK(&race.work, flush_race_watch);
	init_completion(&race.watching);
	init_completion(&race.finished);
	schedule_work_on(cpu, &race.work);
	wait_for_completion(&race.watching);
	WRITE_ONCE(race.flushing, true);
	relay_flush(rst.chan);
	atomic_set(&race.flushed, 1);
	wait_for_completion(&race.finished);
	flush_work(&race.work);
	destroy_work_on_stack(&race.work);
	rst.result = race.switched;
	return 0;
}

/* The storm */

struct writer {
	struct hrtimer timer;
	struct request task_req;
	struct request irq_req;
	ktime_t period;
};

static struct writer writers[NR_CPUS];
static struct cpu_threads threads;

static void storm_write(struct request *r)
{
	unsigned long flags;
	u32 len;
	u8 *data;

	len = next_record(r, &data);
	if (r->fn == RST_TRY) {
		try_record(data, len);
	} else if (rst.global || r->fn == RST_RESERVE) {
		lock_buffer(&flags);
		put_record(r->fn, data, len);
		unlock_buffer(flags);
	} else {
		/* the test is about relay's own protection */
		put_record(r->fn, data, len);
	}
}

static enum hrtimer_restart storm_timer(struct hrtimer *timer)
{
	struct writer *w = container_of(timer, struct writer, timer);
	u32 i;

	for (i = 0; i < w->irq_req.count; i++)
		storm_write(&w->irq_req);
	hrtimer_forward_now(timer, w->period);
	return HRTIMER_RESTART;
}

static int storm_thread(void *arg)
{
	unsigned int cpu = (uintptr_t)arg;
	struct writer *w = &writers[cpu];
	struct request *r = &w->task_req;
	u32 i;

	if (w->irq_req.count)
		hrtimer_start(&w->timer, w->period,
			      HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; i < r->count && !kthread_should_stop(); i++) {
		storm_write(r);
		/* leave the readers a chance, but keep some pressure */
		if (relay_buf_full(rst_buf(r->cpu)) && i % 16 == 0)
			schedule_timeout_uninterruptible(1);
		else if (i % 64 == 0)
			cond_resched();
	}
	if (w->irq_req.count)
		hrtimer_cancel(&w->timer);
	return cpu_thread_ends(&threads, cpu);
}

/*
 * storm count= len= [vary=1] fn= [irq=burst] [period=us] [except=cpu]: on every
 * online CPU, but the one excepted, a thread writes count records while a timer
 * writes bursts in hard interrupt context until the thread has finished.
 */
static int storm_command(const struct ctl_args *a)
{
	u64 burst = 0, period = 1000, except = U64_MAX;
	struct request model = {};
	unsigned int cpu;
	int ret;

	ret = parse_request(a, &model) ?: ctl_num(a, "irq", &burst) ?:
	      ctl_num(a, "period", &period) ?: ctl_num(a, "except", &except);
	if (ret)
		return ret;
	/* __relay_write() is not for buffers that interrupts write too */
	if (burst && model.fn == RST_WRITE_PREEMPT)
		return -EINVAL;
	if (rst.global && model.fn == RST_WRITE_PREEMPT)
		return -EINVAL;
	rst_storm_stop();

	for_each_possible_cpu(cpu) {
		struct writer *w = &writers[cpu];

		w->task_req = model;
		w->task_req.cpu = cpu;
		w->task_req.ctx = RST_TASK;
		w->irq_req = w->task_req;
		w->irq_req.ctx = RST_IRQ;
		w->irq_req.count = burst;
		w->period = us_to_ktime(period);
		hrtimer_setup(&w->timer, storm_timer, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_HARD);
	}
	return cpu_threads_start(&threads, storm_thread, "rst/%u", except);
}

int rst_storm_wait(void)
{
	return cpu_threads_wait(&threads);
}

void rst_storm_stop(void)
{
	cpu_threads_stop(&threads);
}

/* All of them need an open channel. */
int rst_write_command(const struct ctl_args *a)
{
	static const struct ctl_command commands[] = {
		{ "write", write_command },
		{ "wrap", length_command },
		{ "switch", length_command },
		{ "hold", hold_command },
		{ "nest", nest_command },
		{ "flushrace", flush_race_command },
		{ "storm", storm_command },
		{}
	};

	return ctl_run(a, commands);
}

int rst_write_init(void)
{
	unsigned int cpu, ctx;

	INIT_WORK(&held_work, write_held);
	for_each_possible_cpu(cpu) {
		for (ctx = 0; ctx < RST_NR_CTX; ctx++) {
			rst.cpu[cpu].scratch[ctx] = kvmalloc(RST_MAX_LEN,
							     GFP_KERNEL);
			if (!rst.cpu[cpu].scratch[ctx])
				return -ENOMEM;
		}
	}
	return 0;
}

void rst_write_exit(void)
{
	unsigned int cpu, ctx;

	for_each_possible_cpu(cpu)
		for (ctx = 0; ctx < RST_NR_CTX; ctx++)
			kvfree(rst.cpu[cpu].scratch[ctx]);
}
