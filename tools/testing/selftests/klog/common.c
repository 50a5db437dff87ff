// SPDX-License-Identifier: GPL-2.0
#include "common.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/klog.h>
#include <sys/syscall.h>
#include <sys/wait.h>

ssize_t last_message(void *to, size_t size)
{
	return read_file(DEBUGFS "/klog_selftest/last", to, size);
}

int open_in(const char *app, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), DEBUGFS "/%s/%s", app, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int control(const char *app, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), DEBUGFS "/%s/%s", app, name);
	return write_text(path, text, strlen(text));
}

int control_number(const char *app, const char *name, unsigned long long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", value);
	return control(app, name, text);
}

long long control_value(const char *app, const char *name)
{
	char path[256], text[64];
	ssize_t len;

	snprintf(path, sizeof(path), DEBUGFS "/%s/%s", app, name);
	len = read_file(path, text, sizeof(text) - 1);
	if (len < 0)
		return len;
	text[len] = '\0';
	return strtoll(text, NULL, 10);
}

int start(const char *app, size_t subbuf_size, size_t n_subbufs, const char *mode)
{
	return control_number(app, "subbuf_size", subbuf_size) ?:
	       control_number(app, "n_subbufs", n_subbufs) ?: control(app, "mode", mode) ?:
	       control(app, "create", "1") ?: control(app, "enabled", "1");
}

int reader_open(struct reader *r, const char *app, unsigned int cpu, size_t subbuf_size,
		size_t n_subbufs)
{
	char name[16];
	void *map;

	memset(r, 0, sizeof(*r));
	snprintf(r->app, sizeof(r->app), "%s", app);
	snprintf(name, sizeof(name), "cpu%u", cpu);
	r->cpu = cpu;
	r->subbuf_size = subbuf_size;
	r->n_subbufs = n_subbufs;
	r->fd = open_in(app, name, O_RDONLY | O_NONBLOCK);
	if (r->fd < 0)
		return r->fd;
	map = mmap(NULL, subbuf_size * n_subbufs, PROT_READ, MAP_SHARED, r->fd, 0);
	if (map == MAP_FAILED) {
		close(r->fd);
		return -errno;
	}
	r->map = map;
	return 0;
}

void reader_close(struct reader *r)
{
	if (!r->map)
		return;
	munmap((void *)r->map, r->subbuf_size * r->n_subbufs);
	close(r->fd);
	r->map = NULL;
}

static long long count(const struct reader *r, const char *what)
{
	char path[256];
	size_t value;
	ssize_t len;

	snprintf(path, sizeof(path), DEBUGFS "/%s/cpu%u.%s", r->app, r->cpu, what);
	len = read_file(path, &value, sizeof(value));
	return len == sizeof(value) ? (long long)value : len < 0 ? len : -EIO;
}

long long reader_produced(const struct reader *r)
{
	return count(r, "produced");
}

long long reader_consumed(const struct reader *r)
{
	return count(r, "consumed");
}

int reader_consume(const struct reader *r, size_t delta)
{
	char path[256];

	snprintf(path, sizeof(path), DEBUGFS "/%s/cpu%u.consumed", r->app, r->cpu);
	return write_text(path, (const char *)&delta, sizeof(delta));
}

bool reader_take(struct reader *r, struct bytes *b)
{
	long long consumed = reader_consumed(r), produced = reader_produced(r), k;

	if (consumed < 0 || produced < consumed)
		return false;
	for (k = consumed; k < produced; k++) {
		const uint8_t *subbuf = r->map + k % r->n_subbufs * r->subbuf_size;
		size_t padding;

		memcpy(&padding, subbuf, sizeof(padding));
		if (padding > r->subbuf_size - sizeof(padding)) {
			fprintf(stderr, "# cpu %u: sub-buffer %lld has %zu bytes of padding\n",
				r->cpu, k, padding);
			return false;
		}
		bytes_add(b, subbuf + sizeof(padding),
			  r->subbuf_size - sizeof(padding) - padding);
	}
	return k == consumed || reader_consume(r, k - consumed) == 0;
}

int module_load(const char *env)
{
	const char *path = getenv(env);

	return module_load_file(path ? path : "");
}

/* Returns true if @pid waits for the operations of a file that it removes. */
static bool removes_a_file(pid_t pid)
{
	char path[64], where[128] = "";

	snprintf(path, sizeof(path), "/proc/%d/wchan", pid);
	read_file(path, where, sizeof(where) - 1);
	return !strncmp(where, "__debugfs_file_removed", 22) || !strncmp(where, "remove_one", 10);
}

/* The exit status of a child, or -1 if it has none yet after that many tenths of a second. */
static int reap(pid_t pid, int tenths)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (!tenths--)
			return -1;
		usleep(100000);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int unload_while_creating(const char *app, const char *module, int *unloaded)
{
	pid_t creator, remover;
	int ret;

	ctl("stall");
	creator = fork();
	if (!creator) {
		int page = open(DEBUGFS "/klog_selftest/stall", O_RDONLY);
		void *one = mmap(NULL, 4096, PROT_READ, MAP_SHARED, page, 0);
		int fd = open_in(app, "create", O_WRONLY);

		if (one == MAP_FAILED || fd < 0)
			_exit(255);
		_exit(write(fd, one, 1) == 1 ? 0 : errno);
	}
	for (int i = 0; i < 600 && info("stalled") != 1; i++)
		usleep(100000);
	remover = fork();
	if (!remover)
		_exit(syscall(SYS_delete_module, module, O_NONBLOCK) ? errno : 0);
	for (int i = 0; i < 600 && !removes_a_file(remover); i++)
		usleep(100000);
	ret = removes_a_file(remover) ? 0 : -ETIMEDOUT;
	ctl("release");
	*unloaded = reap(remover, 600);
	return ret ?: reap(creator, 600);
}

bool read_data(const char *app, size_t subbuf_size, size_t step, struct bytes *b)
{
	const size_t head = sizeof(size_t);
	struct bytes raw = {};
	size_t at = 0, padding;
	int fd = open_in(app, "cpu0", O_RDONLY);
	bool ok = fd >= 0 && !read_all(fd, &raw, step) && raw.len >= head;

	while (ok && at < raw.len - head) {
		memcpy(&padding, raw.data + at, head);
		ok = padding <= subbuf_size - head && at + subbuf_size - padding <= raw.len - head;
		if (ok)
			bytes_add(b, raw.data + at + head, subbuf_size - head - padding);
		at += subbuf_size - padding;
	}
	bytes_free(&raw);
	close(fd);
	return ok;
}

unsigned int log_lines(const char *since, const char *text)
{
	static char log[1 << 20];
	unsigned int lines = 0;
	char *at, *next;
	/* 3: read all of the log */
	int len = klogctl(3, log, sizeof(log) - 1);

	if (len < 0)
		return 0;
	log[len] = '\0';
	for (at = log; (next = strstr(at, since)); at = next + 1)
		;
	while ((at = strstr(at, text))) {
		at++;
		lines++;
	}
	return lines;
}
