/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks on the stack of a task that is in something which another task, or the same one, may wait
 * for. A list of such tasks would keep those that die in there.
 *
 * Contexts: process.
 */
#ifndef _FERROTRACE_SYS_STACK_MARK_H
#define _FERROTRACE_SYS_STACK_MARK_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

/*
 * A value that is a mark of this kind at this address only, so that no copy of it is one. @kind is
 * the address of any object.
 */
static inline unsigned long ferro_stack_mark(const unsigned long *mark, const void *kind)
{
	return (unsigned long)mark ^ (unsigned long)kind;
}

/*
 * Returns the next mark of this kind that the current task has, in the direction of its callers;
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
