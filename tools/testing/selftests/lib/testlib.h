/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers that the test programs share: files, the module that they drive (CLIENT, which the
 * Makefile names), bytes, CPUs, modules, the kernel's log.
 */
#ifndef _SELFTEST_KIT_H
#define _SELFTEST_KIT_H

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

#define DEBUGFS		"/sys/kernel/debug"
#define CLIENT_DIR	DEBUGFS "/" CLIENT

#ifndef __printf
#define __printf(a, b)	__attribute__((format(printf, a, b)))
#endif

/* All in one write; 0 or -errno. */
int write_text(const char *path, const char *text, size_t len);
/* To its end, or @size bytes; how many, or -errno. */
ssize_t read_file(const char *path, void *to, size_t size);
bool file_exists(const char *fmt, ...) __printf(1, 2);

/* A command to the client; 0 or a negative errno. */
int ctl(const char *fmt, ...) __printf(1, 2);

/* Value of a line of the client's state; INFO_NONE when there is no such line. */
#define INFO_NONE	(-1000000LL)
long long info(const char *fmt, ...) __printf(1, 2);

/* Returns true if the client's state is as in "KEY=VALUE KEY=VALUE ..."; reports differences. */
bool state(const char *fmt, ...) __printf(1, 2);

/* Sends a command to the client. Returns the value of "result", or a negative errno. */
long long result_of(const char *fmt, ...) __printf(1, 2);

/* Bytes that a reader has to see. */
struct bytes {
	uint8_t *data;
	size_t len;
	size_t cap;
};

void bytes_free(struct bytes *b);
/* Returns room for @len more bytes at the end. */
uint8_t *bytes_room(struct bytes *b, size_t len);
void bytes_add(struct bytes *b, const void *data, size_t len);
/* Says where they differ. */
bool bytes_equal(const struct bytes *a, const struct bytes *b);
/* Reads to the end of the available data, at most @step bytes at a time. */
int read_all(int fd, struct bytes *b, size_t step);

unsigned int online_cpus(void);
int pin_to(unsigned int cpu);
int set_cpu_online(unsigned int cpu, bool on);
bool cpu_can_go(unsigned int cpu);

int module_load_file(const char *path);
int module_unload(const char *name);
bool module_loaded(const char *name);

/* Logs the name of a case: the runner attributes later kernel messages to it. */
void log_case(const char *fixture, const char *test);

/*
 * Returns how many of @rounds to run: all where storms are long, some where they are short
 * (FERROTRACE_STORM, suites/lib.sh).
 */
unsigned int storm_rounds(unsigned int rounds);

#endif
