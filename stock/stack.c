// SPDX-License-Identifier: GPL-2.0
/* Stack traces by the exported parts of the kernel's unwinder, in place of rust/sys/trace/stack.c. */
#include <linux/export.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/unwind.h>

#include "../rust/sys/trace/helpers.h"

notrace unsigned int ferro_stack_kernel(const struct pt_regs *regs, unsigned long ip, unsigned long *to, unsigned int size)
{
	struct unwind_state state;
	struct pt_regs at = *regs;
	unsigned int n = 0;

	if (!size)
		return 0;
	/* The unwinder looks up this address, and begins with its caller. */
	at.ip = ip;
	to[n++] = ip;
	for (unwind_start(&state, current, &at, NULL); n < size && !unwind_done(&state);
	     unwind_next_frame(&state)) {
		unsigned long address = unwind_get_return_address(&state);

		if (!address)
			break;
		to[n++] = address;
	}
	return n;
}
EXPORT_SYMBOL_GPL(ferro_stack_kernel);

/* Frame of a function that keeps a frame pointer. */
struct user_frame {
	unsigned long next;
	unsigned long return_address;
};

/*
 * The copy fails while another task's memory is mapped: copy_from_user_nofault() asks
 * nmi_uaccess_okay() itself.
 */
notrace unsigned int ferro_stack_user(unsigned long *to, unsigned int size)
{
	struct pt_regs *regs = task_pt_regs(current);
	unsigned long fp = regs->bp;
	struct user_frame frame;
	unsigned int n = 0;

	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || !current->mm)
		return 0;
	if (!user_mode(regs) || !size)
		return 0;
	to[n++] = regs->ip;
	/* In code without frame pointers the register has something else, such as a pointer to the heap. */
	while (n < size && fp >= regs->sp &&
	       !copy_from_user_nofault(&frame, (const void __user *)fp, sizeof(frame))) {
		if (!frame.return_address)
			break;
		to[n++] = frame.return_address;
		/* Frames of callers are at higher addresses. */
		if (frame.next <= fp)
			break;
		fp = frame.next;
	}
	return n;
}
EXPORT_SYMBOL_GPL(ferro_stack_user);
