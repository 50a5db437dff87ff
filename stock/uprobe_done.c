// SPDX-License-Identifier: GPL-2.0
/*
 * Fires the hook point uprobe_done without patch 0025. While the hook point is active, fprobes are
 * attached to three functions of the kernel. Unlike the patch, they do not report a consumer that has
 * set another instruction pointer, and report false for a uprobe that has just been removed.
 */
#include <linux/fprobe.h>
#include <linux/gkhi_points.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/uprobes.h>

#include "core.h"

/* Data that an fprobe passes from its entry handler to its exit handler. */
struct hit {
	struct pt_regs *regs;
	unsigned long address;
	bool stepped, executed;
};

/* uprobe_notify_resume(regs): calls the consumers, or ends a single step. */
static int resume_entry(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	const struct uprobe_task *utask = current->utask;
	struct hit *hit = data;

	hit->regs = (struct pt_regs *)ftrace_regs_get_argument(fregs, 0);
	hit->stepped = utask && utask->active_uprobe;
	hit->executed = hit->stepped && utask->state == UTASK_SSTEP_ACK;
	hit->address = hit->stepped ? utask->vaddr : hit->regs->ip - UPROBE_SWBP_INSN_SIZE;
	return 0;
}

static void resume_exit(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	const struct uprobe_task *utask = current->utask;
	struct hit *hit = data;
	bool is_elsewhere = hit->regs->ip != hit->address;

	/* Not stepped: if the instruction was emulated, skip_exit() has already fired the hook. */
	if (hit->stepped)
		GKHOOK_3VAR_RO(uprobe_done, hit->regs, hit->address, hit->executed && is_elsewhere);
	else if (!is_elsewhere && !(utask && utask->active_uprobe))
		GKHOOK_3VAR_RO(uprobe_done, hit->regs, hit->address, false);
}

/* arch_uprobe_skip_sstep(auprobe, regs): true if it has emulated the instruction. */
static int skip_entry(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	struct hit *hit = data;

	hit->regs = (struct pt_regs *)ftrace_regs_get_argument(fregs, 1);
	hit->address = hit->regs->ip;
	return 0;
}

static void skip_exit(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	struct hit *hit = data;

	if ((bool)ftrace_regs_get_return_value(fregs))
		GKHOOK_3VAR_RO(uprobe_done, hit->regs, hit->address, true);
}

/* handle_syscall_uprobe(regs, address): runs the consumers of a call in place of a NOP of five bytes. */
static int syscall_entry(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	struct hit *hit = data;

	hit->regs = (struct pt_regs *)ftrace_regs_get_argument(fregs, 0);
	hit->address = ftrace_regs_get_argument(fregs, 1);
	return 0;
}

static void syscall_exit(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *fregs, void *data)
{
	struct hit *hit = data;

	GKHOOK_3VAR_RO(uprobe_done, hit->regs, hit->address, hit->regs->ip == hit->address);
}

#define FPROBE(name) {					\
	.entry_handler = name##_entry,			\
	.exit_handler = name##_exit,			\
	.entry_data_size = sizeof(struct hit),		\
}
static struct fprobe fprobes[] = { FPROBE(resume), FPROBE(skip), FPROBE(syscall) };
static const char *const functions[] = {
	"uprobe_notify_resume", "arch_uprobe_skip_sstep", "handle_syscall_uprobe",
};
static bool is_attached[ARRAY_SIZE(fprobes)];

void ferro_stock_uprobe_done(bool active)
{
	int i, err;

	for (i = 0; i < ARRAY_SIZE(fprobes); i++) {
		if (!active) {
			if (is_attached[i])
				unregister_fprobe(&fprobes[i]);
			is_attached[i] = false;
			continue;
		}
		err = register_fprobe_syms(&fprobes[i], (const char **)&functions[i], 1);
		if (err)
			pr_err("ferrotrace: cannot register an fprobe at %s: error %d\n", functions[i], err);
		is_attached[i] = !err;
	}
}
