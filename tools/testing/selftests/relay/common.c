// SPDX-License-Identifier: GPL-2.0
#include "common.h"

#include <sched.h>

int open_file(const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), CLIENT_DIR "/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_cpu(unsigned int cpu)
{
	char name[16];

	snprintf(name, sizeof(name), "cpu%u", cpu);
	return open_file(name, O_RDONLY);
}

void bytes_record(struct bytes *b, unsigned int cpu, unsigned int ctx,
		  unsigned int seq, unsigned int len)
{
	rst_fill(bytes_room(b, len), cpu, ctx, seq, len);
	b->len += len;
}

void bytes_records(struct bytes *b, unsigned int cpu, unsigned int seq,
		   unsigned int len, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bytes_record(b, cpu, RST_TASK, seq + i, len);
}

bool cpu_reads(unsigned int cpu, const struct bytes *want)
{
	struct bytes got = {};
	int fd = open_cpu(cpu);
	bool equal;

	if (fd < 0)
		return false;
	equal = read_all(fd, &got, 65536) == 0 && bytes_equal(&got, want);
	close(fd);
	bytes_free(&got);
	return equal;
}

static char thread_state(pid_t tid)
{
	char path[64], text[512], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] ? p[2] : 0;
}

void wait_asleep(pid_t tid)
{
	char state;

	/* one that has ended sleeps no more */
	while ((state = thread_state(tid)) && state != 'S' && state != 'Z')
		sched_yield();
}

int module_load(void)
{
	const char *path = getenv("RELAY_SELFTEST_KO");

	return module_load_file(path ? path : CLIENT ".ko");
}

void relay_setup(const char *fixture, const char *test)
{
	log_case(fixture, test);
	if (!module_loaded(CLIENT))
		module_load();
	ctl("close");
	ctl("sweep");
}

void relay_teardown(void)
{
	ctl("repair");
	ctl("ungrab");
	ctl("unpin");
	ctl("close");
	ctl("sweep");
}
