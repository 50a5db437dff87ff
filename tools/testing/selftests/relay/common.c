// SPDX-License-Identifier: GPL-2.0
#include "common.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

int ctl(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int fd, len, ret = 0;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fd = open(RELAY_DIR "/ctl", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, line, len) != len)
		ret = -errno;
	close(fd);
	return ret;
}

long long info(const char *fmt, ...)
{
	char key[64], text[32768], *line, *rest = text;
	long long val = INFO_NONE;
	size_t len = 0, keylen;
	va_list ap;
	ssize_t n;
	int fd;

	va_start(ap, fmt);
	keylen = vsnprintf(key, sizeof(key), fmt, ap);
	va_end(ap);
	fd = open(RELAY_DIR "/info", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return INFO_NONE;
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += n;
	close(fd);
	text[len] = '\0';

	while ((line = strsep(&rest, "\n"))) {
		if (!strncmp(line, key, keylen) && line[keylen] == ' ')
			val = strtoll(line + keylen + 1, NULL, 10);
	}
	return val;
}

int open_file(const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), RELAY_DIR "/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_cpu(unsigned int cpu)
{
	char name[16];

	snprintf(name, sizeof(name), "cpu%u", cpu);
	return open_file(name, O_RDONLY);
}

bool file_exists(const char *fmt, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return access(path, F_OK) == 0;
}

void bytes_free(struct bytes *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

static uint8_t *bytes_room(struct bytes *b, size_t len)
{
	if (b->len + len > b->cap) {
		b->cap = 2 * b->cap + len;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			abort();
	}
	return b->data + b->len;
}

void bytes_add(struct bytes *b, const void *data, size_t len)
{
	memcpy(bytes_room(b, len), data, len);
	b->len += len;
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

int read_all(int fd, struct bytes *b, size_t step)
{
	ssize_t n;

	do {
		n = read(fd, bytes_room(b, step), step);
		if (n < 0)
			return -errno;
		b->len += n;
	} while (n);
	return 0;
}

bool bytes_equal(const struct bytes *a, const struct bytes *b)
{
	size_t i, n = a->len < b->len ? a->len : b->len;

	for (i = 0; i < n && a->data[i] == b->data[i]; i++)
		;
	if (i == n && a->len == b->len)
		return true;
	fprintf(stderr, "# %zu and %zu bytes, first difference at %zu\n",
		a->len, b->len, i);
	return false;
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

unsigned int online_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

int pin_to(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

int set_cpu_online(unsigned int cpu, bool on)
{
	char path[64];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online",
		 cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, on ? "1" : "0", 1) != 1)
		ret = -errno;
	close(fd);
	return ret;
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

int module_load_file(const char *path)
{
	int fd, ret = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0))
		ret = -errno;
	close(fd);
	return ret;
}

int module_load(void)
{
	const char *path = getenv("RELAY_SELFTEST_KO");

	return module_load_file(path ? path : RELAY_MODULE ".ko");
}

int module_unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? -errno : 0;
}

bool module_loaded(const char *name)
{
	/* a built-in one has no such file */
	return file_exists("/sys/module/%s/refcnt", name);
}

/* The runner attributes what the kernel logs to the last name seen here. */
static void kernel_log(const char *fixture, const char *test)
{
	char line[256];
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	int len;

	if (fd < 0)
		return;
	len = snprintf(line, sizeof(line), "<6>" RELAY_MODULE ": RUN %s.%s\n",
		       fixture, test);
	if (write(fd, line, len) != len)
		fprintf(stderr, "# cannot write to the kernel log\n");
	close(fd);
}

void relay_setup(const char *fixture, const char *test)
{
	kernel_log(fixture, test);
	if (!module_loaded(RELAY_MODULE))
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
