// SPDX-License-Identifier: GPL-2.0
/*
 * Exits that are registered by commands, and their calls:
 *
 *	register HOOK NAME FLAGS PARAMS ANSWER	an exit with this answer; on a _RET
 *						hook -1 makes it return 500, or 600 if
 *						it is pinned
 *	arm|disarm|deregister NAME...		a list, in this order
 *	fire HOOK				executes the hook; the trace is of this only
 *	hammer HOOK TIMES			executes the hook TIMES times on each
 *						CPU, on all at once
 *	identify|delete HOOK
 *	points on|off|keep_cpus_down		the counters of points.c
 *
 * Each exit on an RW hook adds 10 to the first parameter. A trace has "NAME(p0,p1,p2)/COUNT" of
 * each call and "=ANSWER" of the hook.
 */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "gkhi_selftest.h"

struct pooled {
	struct gkh_record record;
	char hook[GKH_NAME_MAX + 2], name[GKH_NAME_MAX + 2];
	long answer;
	atomic_long_t calls;
};

static struct pooled pool[16];
static char trace[512];
static bool tracing;

static long pooled_exit(const struct gkh_exit *self, unsigned long p0, unsigned long p1,
			unsigned long p2, unsigned long p3, unsigned long p4)
{
	struct pooled *pooled = self->data;
	struct gkhook *hook = gst_hook(pooled->hook);
	size_t len = strlen(trace);

	atomic_long_inc(&pooled->calls);
	if (tracing) {
		bool rw = hook && hook->access & GKH_RW;
		unsigned int *changed = (unsigned int *)p0;

		len += scnprintf(trace + len, sizeof(trace) - len, "%s(", pooled->name);
		if (pooled->record.params > 0)
			len += scnprintf(trace + len, sizeof(trace) - len, "%ld",
					 rw ? (long)*changed : (long)p0);
		if (pooled->record.params > 1)
			len += scnprintf(trace + len, sizeof(trace) - len, ",%ld",
					 rw ? (long)*(unsigned int *)p1 : (long)p1);
		if (pooled->record.params > 2)
			len += scnprintf(trace + len, sizeof(trace) - len, ",%ld", (long)p2);
		scnprintf(trace + len, sizeof(trace) - len, ")/%u ", self->count);
		if (rw && pooled->record.params > 0)
			*changed += 10;
	}
	if (pooled->answer == GKH_RETURN && hook && hook->access >= GKH_RO_RET)
		return gkh_set_return(p4, pooled->record.flags & GKH_PINNED ? 600 : 500);
	return pooled->answer;
}

static struct pooled *find(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pool); i++)
		if (pool[i].record.exit && !strcmp(pool[i].name, name))
			return &pool[i];
	return NULL;
}

static int do_register(const char *args)
{
	struct pooled *pooled;
	unsigned int flags, params;
	long answer;
	int i, err;

	for (i = 0; i < ARRAY_SIZE(pool); i++)
		if (!pool[i].record.exit)
			break;
	if (i == ARRAY_SIZE(pool))
		return -ENOSPC;
	pooled = &pool[i];
	memset(pooled, 0, sizeof(*pooled));
	if (sscanf(args, "%64s %64s %u %u %ld", pooled->hook, pooled->name, &flags, &params, &answer) != 5)
		return -ENOMSG;
	pooled->answer = answer;
	pooled->record = (struct gkh_record){
		.hook = pooled->hook, .name = pooled->name, .exit = pooled_exit, .params = params,
		.flags = flags, .data = pooled,
	};
	err = gkh_register(&pooled->record);
	if (err)
		pooled->record.exit = NULL;
	return err;
}

static int do_list(char *names, int (*op)(struct gkh_record *))
{
	struct gkh_record *first = NULL, **last = &first, *record;
	char *name;
	int err;

	while ((name = strsep(&names, " "))) {
		struct pooled *pooled = find(name);

		if (!pooled)
			return -ENOMSG;
		*last = &pooled->record;
		last = &pooled->record.next;
	}
	*last = NULL;
	err = op(first);
	if (!err && op == gkh_deregister)
		for (record = first; record; record = record->next)
			record->exit = NULL;
	return err;
}

static int do_fire(const char *name)
{
	size_t len;
	long answer = 0;
	int err;

	trace[0] = '\0';
	tracing = true;
	err = gst_fire(name, &answer);
	tracing = false;
	len = strlen(trace);
	scnprintf(trace + len, sizeof(trace) - len, "=%ld", answer);
	return err;
}

struct hammer {
	char name[GKH_NAME_MAX + 2];
	unsigned int times;
};

static void hammer(void *arg)
{
	struct hammer *h = arg;
	unsigned int i;
	long answer;

	for (i = 0; i < h->times; i++) {
		gst_fire(h->name, &answer);
		cond_resched();
	}
}

static int do_hammer(const char *args)
{
	struct hammer h;

	if (sscanf(args, "%64s %u", h.name, &h.times) != 2)
		return -ENOMSG;
	return gst_at_once(hammer, &h);
}

int gst_command(char *text)
{
	char *command = strsep(&text, " ");

	if (!text)
		return -ENOMSG;
	if (!strcmp(command, "register"))
		return do_register(text);
	if (!strcmp(command, "arm"))
		return do_list(text, gkh_arm);
	if (!strcmp(command, "disarm"))
		return do_list(text, gkh_disarm);
	if (!strcmp(command, "deregister"))
		return do_list(text, gkh_deregister);
	if (!strcmp(command, "fire"))
		return do_fire(text);
	if (!strcmp(command, "hammer"))
		return do_hammer(text);
	if (!strcmp(command, "points"))
		return gst_points_command(text);
	if (!strcmp(command, "identify"))
		return gkh_identify(gst_hook(text));
	if (!strcmp(command, "delete"))
		return gkh_delete(gst_hook(text));
	return -ENOMSG;
}

void gst_trace_show(struct seq_file *m)
{
	int i;

	seq_printf(m, "%s\n", trace);
	for (i = 0; i < ARRAY_SIZE(pool); i++)
		if (pool[i].record.exit)
			seq_printf(m, "%s calls=%ld\n", pool[i].name, atomic_long_read(&pool[i].calls));
	gst_points_show(m);
}

void gst_pool_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pool); i++) {
		if (!pool[i].record.exit)
			continue;
		pool[i].record.next = NULL;
		gkh_deregister(&pool[i].record);
	}
	gst_points_command("off");
}
