/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the test programs of relay share beside the kit: the files of the open
 * channel, and what has to be in them.
 */
#ifndef _RELAY_SELFTEST_COMMON_H
#define _RELAY_SELFTEST_COMMON_H

#include "kit.h"

#include "module/record.h"

/* Long enough for a loaded machine without hardware virtualisation. */
#define LONG_MS		60000

/* A file of the open channel, or -errno. */
int open_file(const char *name, int flags);
int open_cpu(unsigned int cpu);

/* the record @seq of @cpu and @ctx */
void bytes_record(struct bytes *b, unsigned int cpu, unsigned int ctx,
		  unsigned int seq, unsigned int len);
/* @count records from @seq on */
void bytes_records(struct bytes *b, unsigned int cpu, unsigned int seq,
		   unsigned int len, unsigned int count);

/* The whole file CPU @cpu against @want. */
bool cpu_reads(unsigned int cpu, const struct bytes *want);

/* Returns once the thread is asleep in the kernel. */
void wait_asleep(pid_t tid);

int module_load(void);			/* the client */

void relay_setup(const char *fixture, const char *test);
void relay_teardown(void);

#endif
