/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SELFTEST_THREAD_H
#define _SELFTEST_THREAD_H

#include <linux/kthread.h>
#include <linux/sched.h>

/* The end of a thread that is done before it is stopped. */
static inline int sleep_until_stopped(void)
{
	set_current_state(TASK_IDLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_IDLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

#endif
