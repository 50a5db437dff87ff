// SPDX-License-Identifier: GPL-2.0
/*
 * Events while a channel is opened. The engine calls no code of a client then, so a probe takes
 * vmap() over, which is called once for each buffer: the call is delayed, or made after a signal.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "selftest.h"

#define PATIENCE_MS	60000

/* The opening task, the number of buffers that it has reached, and the buffers at which to act. */
static struct task_struct *opener;
static bool inside;
static u64 buffer, kill_at, wait_at, open_at;
static struct dentry *waits;

static DECLARE_COMPLETION(opened);

static void open_another(struct work_struct *work)
{
	struct relay_fast *chan = relay_fast_open("meanwhile", fst.dir, 4096, 2, 0, NULL);

	relay_fast_close(chan);
	if (!IS_ERR(chan))
		complete(&opened);
}

static DECLARE_WORK(another, open_another);

static bool one_goes_down(void)
{
	int downs_before = atomic_read(&fst.downs);
	unsigned int ms;

	/* for the test: now */
	waits = debugfs_create_dir("waits", fst.dir);
	for (ms = 0; ms < PATIENCE_MS; ms++) {
		if (atomic_read(&fst.downs) != downs_before)
			return true;
		fsleep(1000);
	}
	return false;
}

static void *slow_vmap(struct page **pages, unsigned int count, unsigned long flags, pgprot_t prot)
{
	void *mapped;

	if (buffer == kill_at)
		send_sig(SIGKILL, current, 1);
	if (buffer == wait_at)
		fst.went_down = one_goes_down();
	if (buffer == open_at) {
		schedule_work(&another);
		fst.meanwhile = wait_for_completion_timeout(&opened, msecs_to_jiffies(PATIENCE_MS));
	}
	buffer++;
	inside = true;
	mapped = vmap(pages, count, flags, prot);
	inside = false;
	return mapped;
}

static int take_over(struct kprobe *p, struct pt_regs *regs)
{
	if (current != READ_ONCE(opener) || inside)
		return 0;
	instruction_pointer_set(regs, (unsigned long)slow_vmap);
	return 1;
}

/* A probe that has one is not made a jump. */
static void not_optimised(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "vmap",
	.pre_handler = take_over,
	.post_handler = not_optimised,
	.flags = KPROBE_FLAG_DISABLED,
};

void fst_slow_begin(const struct ctl_args *a)
{
	u64 killed = 0;

	kill_at = wait_at = open_at = U64_MAX;
	if (ctl_num(a, "killed", &killed) || ctl_num(a, "kill", &kill_at) || ctl_num(a, "waitdown", &wait_at) ||
	    ctl_num(a, "meanwhile", &open_at))
		return;
	if (killed)
		send_sig(SIGKILL, current, 1);
	if (kill_at == U64_MAX && wait_at == U64_MAX && open_at == U64_MAX)
		return;
	buffer = 0;
	fst.went_down = fst.meanwhile = false;
	reinit_completion(&opened);
	WRITE_ONCE(opener, current);
	enable_kprobe(&probe);
}

void fst_slow_end(void)
{
	if (!opener)
		return;
	disable_kprobe(&probe);
	WRITE_ONCE(opener, NULL);
	flush_work(&another);
	debugfs_remove(waits);
	waits = NULL;
}

int fst_slow_init(void)
{
	return register_kprobe(&probe);
}

void fst_slow_exit(void)
{
	unregister_kprobe(&probe);
}
