/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks on the stack of a task in a section for which a task, possibly itself, may wait. A list of
 * such tasks would keep tasks that die in the section.
 *
 * Contexts: process.
 */
#ifndef _FERROTRACE_SYS_STACK_MARK_H
#define _FERROTRACE_SYS_STACK_MARK_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

/*
 * Returns a value that is a mark of this kind only at this address, so that a copy is not a mark.
 * @kind is the address of any object.
 */
static inline unsigned long ferro_stack_mark(const unsigned long *mark, const void *kind)
{
	return (unsigned long)mark ^ (unsigned long)kind;
}

/*
 * Returns the next mark of this kind on the current task's stack, in the direction of its callers;
 * NULL if there is none. @after is NULL for the first. The caller runs on the task's own stack.
 */
static inline const unsigned long *ferro_next_stack_mark(const unsigned long *after, const void *kind)
{
	const unsigned long *word = after ? after + 1 : __builtin_frame_address(0);
	const unsigned long *end = task_stack_page(current) + THREAD_SIZE;

	for (; word < end; word++)
		if (READ_ONCE_NOCHECK(*word) == ferro_stack_mark(word, kind))
			return word;
	return NULL;
}

#endif /* _FERROTRACE_SYS_STACK_MARK_H */
