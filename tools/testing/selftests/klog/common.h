/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers that the klog test programs share in addition to testlib: the controls of a relay
 * application, and a reader of its channel.
 */
#ifndef _KLOG_SELFTEST_COMMON_H
#define _KLOG_SELFTEST_COMMON_H

#include "testlib.h"

#include "module/record.h"

#define MAX_CPUS	64

/* The last message that the handler "last" got; its length. */
ssize_t last_message(void *to, size_t size);

/* A text to the control debugfs/APP/NAME; 0 or -errno. */
int control(const char *app, const char *name, const char *text);
int control_number(const char *app, const char *name, unsigned long long value);
/* The number in it, or -errno. */
long long control_value(const char *app, const char *name);
/* debugfs/APP/NAME, opened; -errno */
int open_in(const char *app, const char *name, int flags);
/* Sets the sizes, makes the channel and enables it. */
int start(const char *app, size_t subbuf_size, size_t n_subbufs, const char *mode);

/* A relay file of an application, mapped. */
struct reader {
	char app[32];
	unsigned int cpu;
	size_t subbuf_size, n_subbufs;
	int fd;
	const uint8_t *map;
};

int reader_open(struct reader *r, const char *app, unsigned int cpu, size_t subbuf_size,
		size_t n_subbufs);
void reader_close(struct reader *r);
long long reader_produced(const struct reader *r);
long long reader_consumed(const struct reader *r);
/* Adds to the count of consumed sub-buffers; 0 or -errno. */
int reader_consume(const struct reader *r, size_t delta);
/* Reads the finished sub-buffers: the data after the headers. False if a header is not possible. */
bool reader_take(struct reader *r, struct bytes *b);

int module_load(const char *env);
/*
 * Appends the data that read() returns for CPU 0, @step bytes at a time, without the sub-buffers'
 * headers and padding; the header of the sub-buffer that has just been begun is read, too. False if
 * the data is inconsistent.
 */
bool read_data(const char *app, size_t subbuf_size, size_t step, struct bytes *b);

/*
 * Unloads an application's module while a writer is about to make its channel. Returns the result
 * of writing to "create", and in @unloaded the result of unloading: 0 or an errno, or -1 if it has
 * not ended within a minute.
 */
int unload_while_creating(const char *app, const char *module, int *unloaded);
/* Lines of the kernel's log, since @since, with @text in them. */
unsigned int log_lines(const char *since, const char *text);

#endif
