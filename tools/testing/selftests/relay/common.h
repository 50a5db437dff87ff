/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers that the test programs of relay share in addition to testlib: the files of the open
 * channel, and their expected content.
 */
#ifndef _RELAY_SELFTEST_COMMON_H
#define _RELAY_SELFTEST_COMMON_H

#include "testlib.h"

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
/* The same, compared with those records of that CPU. */
bool cpu_reads_records(unsigned int cpu, unsigned int seq, unsigned int len, unsigned int count);
/* Compares the rest of a file, read @step bytes at a time, with those records. */
bool reads_records(int fd, size_t step, unsigned int cpu, unsigned int seq, unsigned int len,
		   unsigned int count);

/*
 * A writer of CPU 0 that writes records of all lengths, keeps a copy in @written, and flushes now
 * and then.
 */
struct random_writer {
	unsigned int subbuf;
	unsigned int state;
	unsigned int rounds;		/* remaining */
	unsigned int seq;
	struct bytes written;
};

/* Opens a channel for the writer, for many rounds. Returns its file. */
int open_random(struct random_writer *w, unsigned int n);
/* A round: one or two records. False if there was no room for them, or no round is left. */
bool write_random(struct random_writer *w);

/*
 * From CPU 0, opens a channel in which CPU 1 has written @count records of 1024 bytes from the
 * first on, and may be held with the next one. Returns CPU 1's file.
 */
int open_to_hold(const char *how, unsigned int count);

/*
 * Takes a CPU down while a channel is opened, which makes the directory @dir and then waits for the
 * CPU. Returns the result of opening; 1 if the CPU stayed up.
 */
int open_while_cpu_goes(const char *open, const char *dir, unsigned int cpu);

/* Runs a command in a child process; returns true if the child was killed in it. */
bool killed_in(const char *command);

/* A thread that sleeps in poll() or epoll_wait(). */
struct waiter {
	pthread_t thread;
	int fd;
	bool epoll;
	int timeout;		/* LONG_MS if it is 0 */
	pid_t tid;
	int revents;
	int done;
};

#define READABLE	(POLLIN | POLLRDNORM)

/* Returns the events of the file; -errno if it cannot be polled or opened. */
int poll_for(int fd, int ms);
int poll_now(int fd);
/* Until it is asleep on that file. */
void start_waiter(struct waiter *w, int fd);
/* Returns true if the waiter still sleeps, after it had time to wake up. */
bool sleeps_on(struct waiter *w);
/* The events that it was woken by, 0 if that was the time. */
int woken_with(struct waiter *w);

/* As read(), through a pipe if there is one: if p[1] is not 0. */
ssize_t take(int fd, const int *p, uint8_t *buf, size_t len);

/*
 * Returns true if four threads that take 64 bytes at a time of CPU 0's file, by read() or through
 * pipes, get each of the 512 records of that length there once, whole.
 */
bool each_record_comes_once(bool by_pipe);

/* Returns once the thread is asleep in the kernel. */
void wait_asleep(pid_t tid);

int module_load(void);			/* the client */

void relay_setup(const char *fixture, const char *test);
void relay_teardown(void);

#endif
