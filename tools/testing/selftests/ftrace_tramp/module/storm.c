// SPDX-License-Identifier: GPL-2.0
/*
 * Ops over hot functions of the kernel that are registered, unregistered and change their filters
 * on all CPUs, and are freed as soon as they are unregistered: in two steps, between which run.sh
 * gives the kernel work. No callback gets an ops that is not registered.
 */
#include <linux/atomic.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "threads.h"
#include "tramp_selftest.h"

/* Of each thread. */
#define OPS 16
#define REGISTERED 0x600d

static const char * const filters[] = {
	"vfs_*", "do_sys_open*", "kmem_cache_*", "*_read_iter", "dput", "mutex_lock*", "fts_*", "__x64_sys_*", "try_to_wake_up",
};

struct stormy {
	struct ftrace_ops ops;
	unsigned long state;
	/* on each CPU */
	unsigned long calls[];
};

static atomic_long_t bad, failed, changes, calls;
static struct cpu_threads threads;
static bool running;

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct stormy *s = container_of(op, struct stormy, ops);

	if (READ_ONCE(s->state) != REGISTERED)
		atomic_long_inc(&bad);
	else
		/* A call inside this one may be lost. */
		s->calls[raw_smp_processor_id()]++;
}

static bool ok(int err)
{
	atomic_long_inc(&changes);
	if (err)
		atomic_long_inc(&failed);
	return !err;
}

static bool set_filter(struct stormy *s, const char *filter, bool reset)
{
	char name[32];

	strscpy(name, filter);
	return ok(ftrace_set_filter(&s->ops, name, strlen(name), reset));
}

/* Registers it, with its memory; NULL if that fails. */
static struct stormy *comes(u32 random)
{
	static const unsigned long flags[] = {
		0, FTRACE_OPS_FL_RECURSION, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_RCU, FTRACE_OPS_FL_SAVE_REGS,
	};
	struct stormy *s = kzalloc(struct_size(s, calls, nr_cpu_ids), GFP_KERNEL);

	if (!s)
		return NULL;
	s->ops.func = count;
	s->ops.flags = flags[random % ARRAY_SIZE(flags)];
	s->state = REGISTERED;
	if (set_filter(s, filters[random / 4 % ARRAY_SIZE(filters)], true) && ok(register_ftrace_function(&s->ops)))
		return s;
	ftrace_free_filter(&s->ops);
	kfree(s);
	return NULL;
}

static void freed(struct stormy *s)
{
	unsigned int cpu;

	WRITE_ONCE(s->state, 0);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		atomic_long_add(s->calls[cpu], &calls);
	ftrace_free_filter(&s->ops);
	kfree(s);
}

static void goes(struct stormy *s)
{
	if (ok(unregister_ftrace_function(&s->ops)))
		freed(s);
}

/* All of them at once. */
static void all_go(struct stormy **all)
{
	struct ftrace_ops *list[OPS];
	unsigned int i, n = 0;

	for (i = 0; i < OPS; i++)
		if (all[i])
			list[n++] = &all[i]->ops;
	if (!ok(unregister_ftrace_functions(list, n)))
		return;
	for (i = 0; i < OPS; i++)
		if (all[i])
			freed(all[i]);
	memset(all, 0, OPS * sizeof(*all));
}

static int storm(void *cpu)
{
	struct stormy *all[OPS] = { };
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, (unsigned long)cpu + 1);
	for (i = 0; !kthread_should_stop(); i++) {
		u32 random = prandom_u32_state(&rnd);
		struct stormy **s = &all[random % OPS];

		random /= OPS;
		if (i % 64 == 63) {
			all_go(all);
		} else if (!*s) {
			*s = comes(random);
		} else if (random % 4) {
			set_filter(*s, filters[random / 4 % ARRAY_SIZE(filters)], random & BIT(20));
		} else {
			goes(*s);
			*s = NULL;
		}
		cond_resched();
	}
	all_go(all);
	return 0;
}

static void begin(void)
{
	atomic_long_set(&bad, 0);
	atomic_long_set(&failed, 0);
	atomic_long_set(&changes, 0);
	atomic_long_set(&calls, 0);
	running = EXPECT_EQ(cpu_threads_start(&threads, storm, "fts_storm", U64_MAX), 0);
}

static void end(void)
{
	if (!EXPECT(running))
		return;
	running = false;
	cpu_threads_stop(&threads);
	pr_info("ftrace_tramp_selftest: storm of %ld changes, %ld calls\n", atomic_long_read(&changes),
		atomic_long_read(&calls));
	EXPECT_EQ(atomic_long_read(&failed), 0);
	EXPECT_EQ(atomic_long_read(&bad), 0);
	EXPECT(atomic_long_read(&changes) > 20);
	EXPECT(atomic_long_read(&calls) > 1000);
}

const struct test_case fts_storm_cases[] = {
	{ "storm.1_begin", begin },
	{ "storm.2_end", end },
	{ }
};
