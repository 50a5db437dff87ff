/* SPDX-License-Identifier: GPL-2.0 */
/* Work item of live coverage. */
#ifndef _FERROTRACE_COVERAGE_WORKER_H
#define _FERROTRACE_COVERAGE_WORKER_H

#include <linux/types.h>

/* Lets the work item run. Context: process. */
void ferro_coverage_worker_begin(void);
/*
 * Queues the work item, now or within a tick. Returns false on a CPU that is not online, where that
 * is not possible. Context: any, NMI included.
 */
bool ferro_coverage_worker_ask(bool now);
/* Waits for the work item, which does nothing afterwards. Context: process; sleeps. */
void ferro_coverage_worker_end(void);

/* worker.rs. Context: process; sleeps. */
void ferro_coverage_work(void);

#endif /* _FERROTRACE_COVERAGE_WORKER_H */
