// SPDX-License-Identifier: GPL-2.0
/*
 * Measures readers with the channels of the module relay_fill; the argument is their directory.
 * Prints a line "NAME VALUE" for each: bytes per nanosecond (of a guest that counts instructions as
 * nanoseconds), the best of some rounds, and the number of system calls of a reader for RECORDS
 * records.
 *
 * There are two kinds of work. "walk": looks at the header and the first word of each record.
 * "file": puts the records into a file. And there are three readers: read() of a relay file, read()
 * of a fast channel's file, and the control page.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/ptrace.h>
#include <linux/ferrotrace_relay.h>

#define RECORDS	4000
#define ROUNDS	10
#define CHUNK	65536

/* Work of a reader. */
struct work {
	uint64_t records;
	uint64_t bytes;
	uint64_t sum;
};

static int relay, fast, out, fill;
static const struct relay_fast_ctl *ctl;
static struct relay_fast_consumer *consumer;
static const char *data;

/* Takes the whole records among BYTES bytes; returns how many bytes they have. */
static size_t walk(struct work *work, const char *from, size_t bytes)
{
	size_t at = 0;

	while (at + sizeof(struct relay_fast_record) <= bytes) {
		const struct relay_fast_record *record = (const void *)(from + at);
		size_t size = relay_fast_record_size(record);

		if (size > bytes - at)
			break;
		if (!(record->flags & (RELAY_FAST_PADDING | RELAY_FAST_DISCARDED))) {
			work->sum += *(const uint64_t *)(record + 1);
			work->records++;
			work->bytes += size;
		}
		at += size;
	}
	return at;
}

static void walk_read(struct work *work, int fd)
{
	static char buffer[2 * CHUNK] __attribute__((aligned(64)));
	size_t have = 0, taken;
	ssize_t n;

	while ((n = read(fd, buffer + have, CHUNK)) > 0) {
		have += n;
		taken = walk(work, buffer, have);
		have -= taken;
		if (have)
			memmove(buffer, buffer + taken, have);
	}
}

static void file_read(struct work *work, int fd)
{
	static char buffer[CHUNK];
	ssize_t n;

	while ((n = read(fd, buffer, CHUNK)) > 0) {
		if (pwrite(out, buffer, n, work->bytes) != n)
			err(1, "write");
		work->bytes += n;
	}
	work->records = work->bytes / 72;
}

/* Calls TAKE with each piece of the ring that has something new. */
static void drain_mapped(struct work *work, void (*take)(struct work *, const char *, size_t))
{
	uint64_t position = consumer->consumed, size = ctl->mask + 8, end;

	while ((end = relay_fast_committed(ctl)) > position) {
		uint64_t at = position & (size - 1);
		uint64_t bytes = end - position < size - at ? end - position : size - at;

		take(work, data + at, bytes);
		position += bytes;
		__atomic_store_n(&consumer->consumed, position, __ATOMIC_RELEASE);
	}
}

static void take_walk(struct work *work, const char *from, size_t bytes)
{
	walk(work, from, bytes);
}

/* With the padding, which readers of the file skip. */
static void take_file(struct work *work, const char *from, size_t bytes)
{
	if (pwrite(out, from, bytes, work->bytes) != (ssize_t)bytes)
		err(1, "write");
	work->bytes += bytes;
	work->records = RECORDS;
}

static void relay_walk(struct work *work) { walk_read(work, relay); }
static void relay_file(struct work *work) { file_read(work, relay); }
static void fast_read_walk(struct work *work) { walk_read(work, fast); }
static void fast_read_file(struct work *work) { file_read(work, fast); }
static void fast_mapped_walk(struct work *work) { drain_mapped(work, take_walk); }
static void fast_mapped_file(struct work *work) { drain_mapped(work, take_file); }

static const struct reader {
	const char *name;
	void (*drain)(struct work *work);
	/* Reads the records of the other channel. */
	void (*rest)(struct work *work);
} readers[] = {
	{ "drain_walk_relay_read", relay_walk, fast_mapped_walk },
	{ "drain_walk_fast_read", fast_read_walk, relay_walk },
	{ "drain_walk_mapped", fast_mapped_walk, relay_walk },
	{ "drain_file_relay_read", relay_file, fast_mapped_walk },
	{ "drain_file_fast_read", fast_read_file, relay_walk },
	{ "drain_file_mapped", fast_mapped_file, relay_walk },
	{ }
};

static void refill(void)
{
	char number[16];
	int n = snprintf(number, sizeof(number), "%d", RECORDS);

	if (write(fill, number, n) != n)
		err(1, "fill");
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void measure(const struct reader *reader)
{
	uint64_t best = UINT64_MAX;
	struct work work;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct work rest = { 0 };
		uint64_t begin, time;

		work = (struct work){ 0 };
		refill();
		begin = now();
		reader->drain(&work);
		time = now() - begin;
		if (time < best)
			best = time;
		if (work.records != RECORDS)
			errx(1, "%s: %ju records of %d", reader->name, work.records, RECORDS);
		reader->rest(&rest);
	}
	printf("%s %.3f\n", reader->name, (double)work.bytes / best);
}

/* Counts the system calls of a reader in a child between two of getppid(). */
static void count_calls(const struct reader *reader)
{
	struct ptrace_syscall_info info;
	int status, marks = 0;
	long calls = 0;
	pid_t child;

	refill();
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		struct work work = { 0 }, rest = { 0 };

		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		syscall(SYS_getppid);
		reader->drain(&work);
		syscall(SYS_getppid);
		reader->rest(&rest);
		_exit(work.records != RECORDS);
	}
	waitpid(child, &status, 0);
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD);
	while (!ptrace(PTRACE_SYSCALL, child, 0, 0) && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) < 0)
			err(1, "ptrace");
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
			continue;
		if (info.entry.nr == SYS_getppid)
			marks++;
		else if (marks == 1)
			calls++;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) || marks != 2)
		errx(1, "%s: the counted reader failed", reader->name);
	printf("%s_calls %ld\n", reader->name, calls);
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void *map(size_t size, int protection, off_t offset)
{
	void *p = mmap(NULL, size, protection, MAP_SHARED, fast, offset);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

int main(int argc, char **argv)
{
	const struct reader *reader;
	cpu_set_t cpu;

	if (argc != 2)
		errx(2, "usage: drain DIRECTORY");
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		err(1, "sched_setaffinity");
	relay = open_in(argv[1], "relay0", O_RDONLY);
	fast = open_in(argv[1], "fast0", O_RDWR);
	fill = open_in(argv[1], "fill", O_WRONLY);
	out = memfd_create("records", 0);
	if (out < 0)
		err(1, "memfd_create");
	ctl = map(4096, PROT_READ, RELAY_FAST_CTL);
	consumer = map(4096, PROT_READ | PROT_WRITE, RELAY_FAST_CONSUMER);
	data = map(ctl->mask + 8, PROT_READ, RELAY_FAST_DATA);

	for (reader = readers; reader->name; reader++) {
		measure(reader);
		count_calls(reader);
	}
	return 0;
}
