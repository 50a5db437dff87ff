/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the relay test programs share: talking to relay_selftest.ko, expected
 * bytes, CPUs and modules.
 */
#ifndef _RELAY_SELFTEST_COMMON_H
#define _RELAY_SELFTEST_COMMON_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#include <linux/types.h>

#include "module/record.h"

#define RELAY_DEBUGFS	"/sys/kernel/debug"
/* The client, which other tests that use this have of their own. */
#ifndef RELAY_MODULE
#define RELAY_MODULE	"relay_selftest"
#endif
#define RELAY_DIR	RELAY_DEBUGFS "/" RELAY_MODULE

/* Long enough for a loaded machine without hardware virtualisation. */
#define LONG_MS		60000

#ifndef __printf
#define __printf(a, b)	__attribute__((format(printf, a, b)))
#endif

/* A command to the module; 0 or a negative errno. */
int ctl(const char *fmt, ...) __printf(1, 2);

/* One value of the module's state; INFO_NONE when there is no such line. */
#define INFO_NONE	(-1000000LL)
long long info(const char *fmt, ...) __printf(1, 2);

/* relay_selftest/NAME of the open channel, or -errno. */
int open_file(const char *name, int flags);
int open_cpu(unsigned int cpu);

bool file_exists(const char *fmt, ...) __printf(1, 2);

/* Bytes that a reader has to see. */
struct bytes {
	uint8_t *data;
	size_t len;
	size_t cap;
};

void bytes_free(struct bytes *b);
void bytes_add(struct bytes *b, const void *data, size_t len);
/* the record @seq of @cpu and @ctx */
void bytes_record(struct bytes *b, unsigned int cpu, unsigned int ctx,
		  unsigned int seq, unsigned int len);
/* @count records from @seq on */
void bytes_records(struct bytes *b, unsigned int cpu, unsigned int seq,
		   unsigned int len, unsigned int count);

/* Read to the end of what is there, at most @step bytes at a time. */
int read_all(int fd, struct bytes *b, size_t step);
bool bytes_equal(const struct bytes *a, const struct bytes *b);
/* The whole file CPU @cpu against @want. */
bool cpu_reads(unsigned int cpu, const struct bytes *want);

unsigned int online_cpus(void);
int pin_to(unsigned int cpu);
int set_cpu_online(unsigned int cpu, bool on);

/* Returns once the thread is asleep in the kernel. */
void wait_asleep(pid_t tid);

int module_load(void);			/* the client */
int module_load_file(const char *path);
int module_unload(const char *name);
bool module_loaded(const char *name);

void relay_setup(const char *fixture, const char *test);
void relay_teardown(void);

#endif
