// SPDX-License-Identifier: GPL-2.0
#include "testlib.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

int write_text(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = -errno;
	close(fd);
	return ret;
}

ssize_t read_file(const char *path, void *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, to + len, size - len)) > 0)
		len += n;
	if (n < 0)
		n = -errno;
	close(fd);
	return n < 0 ? n : (ssize_t)len;
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

static int command(const char *fmt, va_list ap)
{
	char line[1024];
	int len = vsnprintf(line, sizeof(line), fmt, ap);

	return write_text(CLIENT_DIR "/ctl", line, len);
}

int ctl(const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = command(fmt, ap);
	va_end(ap);
	return ret;
}

/* The state at one time: a line "KEY VALUE" for each. */
struct snapshot {
	char text[32768];
};

static bool take_snapshot(struct snapshot *s)
{
	ssize_t len = read_file(CLIENT_DIR "/info", s->text, sizeof(s->text) - 1);

	if (len < 0)
		return false;
	s->text[len] = '\0';
	return true;
}

static long long value_in(const struct snapshot *s, const char *key, size_t keylen)
{
	for (const char *line = s->text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, keylen) && line[keylen] == ' ')
			return strtoll(line + keylen + 1, NULL, 10);
	}
	return INFO_NONE;
}

long long info(const char *fmt, ...)
{
	struct snapshot now;
	char key[64];
	size_t keylen;
	va_list ap;

	va_start(ap, fmt);
	keylen = vsnprintf(key, sizeof(key), fmt, ap);
	va_end(ap);
	return take_snapshot(&now) ? value_in(&now, key, keylen) : INFO_NONE;
}

bool state(const char *fmt, ...)
{
	struct snapshot now;
	char wanted[1024], *one, *rest = wanted;
	bool same = true;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(wanted, sizeof(wanted), fmt, ap);
	va_end(ap);
	if (!take_snapshot(&now))
		return false;
	while ((one = strsep(&rest, " "))) {
		size_t keylen = strcspn(one, "=");
		long long value = value_in(&now, one, keylen);

		if (!one[keylen])
			abort();
		if (value == strtoll(one + keylen + 1, NULL, 10))
			continue;
		fprintf(stderr, "# not %s: %lld\n", one, value);
		same = false;
	}
	return same;
}

long long result_of(const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = command(fmt, ap);
	va_end(ap);
	return ret ?: info("result");
}

void bytes_free(struct bytes *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

uint8_t *bytes_room(struct bytes *b, size_t len)
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

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	return write_text(path, on ? "1" : "0", 1);
}

bool cpu_can_go(unsigned int cpu)
{
	return file_exists("/sys/devices/system/cpu/cpu%u/online", cpu);
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

int module_unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? -errno : 0;
}

bool module_loaded(const char *name)
{
	/* a built-in one has no such file */
	return file_exists("/sys/module/%s/refcnt", name);
}

void log_case(const char *fixture, const char *test)
{
	char line[256];
	int len = snprintf(line, sizeof(line), "<6>" CLIENT ": RUN %s.%s\n", fixture, test);

	if (write_text("/dev/kmsg", line, len))
		fprintf(stderr, "# cannot write to the kernel's log\n");
}

unsigned int storm_rounds(unsigned int rounds)
{
	const char *storm = getenv("FERROTRACE_STORM");

	return storm && !strcmp(storm, "short") ? (rounds + 4) / 5 : rounds;
}
