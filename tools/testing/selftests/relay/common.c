// SPDX-License-Identifier: GPL-2.0
#include "common.h"

#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

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

/* @step bytes at a time */
static bool reads(int fd, size_t step, const struct bytes *want)
{
	struct bytes got = {};
	bool equal = read_all(fd, &got, step) == 0 && bytes_equal(&got, want);

	bytes_free(&got);
	return equal;
}

bool reads_records(int fd, size_t step, unsigned int cpu, unsigned int seq, unsigned int len,
		   unsigned int count)
{
	struct bytes want = {};
	bool equal;

	bytes_records(&want, cpu, seq, len, count);
	equal = reads(fd, step, &want);
	bytes_free(&want);
	return equal;
}

bool cpu_reads(unsigned int cpu, const struct bytes *want)
{
	int fd = open_cpu(cpu);
	bool equal = fd >= 0 && reads(fd, 65536, want);

	close(fd);
	return equal;
}

bool cpu_reads_records(unsigned int cpu, unsigned int seq, unsigned int len, unsigned int count)
{
	int fd = open_cpu(cpu);
	bool equal = fd >= 0 && reads_records(fd, 65536, cpu, seq, len, count);

	close(fd);
	return equal;
}

int open_random(struct random_writer *w, unsigned int n)
{
	w->rounds = 400;
	return ctl("open subbuf=%u n=%u", w->subbuf, n) ? -1 : open_cpu(0);
}

bool write_random(struct random_writer *w)
{
	unsigned int len, count;

	if (!w->rounds)
		return false;
	w->state = w->state * 1103515245 + 12345;
	len = 1 + (w->state >> 8) % (w->subbuf / 3);
	count = 1 + (w->state >> 20) % 2;
	if (result_of("write cpu=0 len=%u count=%u", len, count) != count) {
		fprintf(stderr, "# record %u or the one after it was lost\n", w->seq);
		return false;
	}
	bytes_records(&w->written, 0, w->seq, len, count);
	w->seq += count;
	if ((w->state >> 12) % 7 == 0 && ctl("flush"))
		return false;
	w->rounds--;
	return true;
}

int open_to_hold(const char *how, unsigned int count)
{
	if (pin_to(0) || ctl("open subbuf=4096 n=4 %s", how) ||
	    result_of("write cpu=1 len=1024 count=%u", count) != count)
		return -1;
	return open_cpu(1);
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

	/* A thread that has ended no longer sleeps. */
	while ((state = thread_state(tid)) && state != 'S' && state != 'Z')
		sched_yield();
}

struct opening {
	const char *command;
	int ret;
};

static void *open_channel(void *arg)
{
	struct opening *o = arg;

	o->ret = ctl("%s", o->command);
	return NULL;
}

int open_while_cpu_goes(const char *open, const char *dir, unsigned int cpu)
{
	struct opening o = { .command = open, .ret = 1 };
	pthread_t thread;
	int ret;

	pthread_create(&thread, NULL, open_channel, &o);
	/* The module checks the number of offline CPUs before it makes the directory. */
	while (!file_exists(CLIENT_DIR "/%s", dir))
		sched_yield();
	ret = set_cpu_online(cpu, false);
	pthread_join(thread, NULL);
	return ret ? 1 : o.ret;
}

bool killed_in(const char *command)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		ctl("%s", command);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGKILL;
}

int poll_for(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = READABLE };

	/* poll() passes over such a file */
	if (fd < 0)
		return fd;
	return poll(&p, 1, ms) < 0 ? -errno : p.revents;
}

int poll_now(int fd)
{
	return poll_for(fd, 0);
}

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

static void *wait_here(void *arg)
{
	struct waiter *w = arg;
	long long start = now_ms();
	int revents;

	__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	if (w->epoll) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDNORM };
		int ep = epoll_create1(0);

		epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &ev);
		revents = epoll_wait(ep, &ev, 1, w->timeout) == 1 ? (int)ev.events : 0;
		close(ep);
	} else {
		revents = poll_for(w->fd, w->timeout);
	}
	/* at its end poll() looks once more */
	w->revents = now_ms() - start < w->timeout ? revents : 0;
	__atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

void start_waiter(struct waiter *w, int fd)
{
	w->fd = fd;
	if (!w->timeout)
		w->timeout = LONG_MS;
	pthread_create(&w->thread, NULL, wait_here, w);
	while (!__atomic_load_n(&w->tid, __ATOMIC_ACQUIRE))
		;
	wait_asleep(w->tid);
}

bool sleeps_on(struct waiter *w)
{
	usleep(50000);
	wait_asleep(w->tid);
	return !__atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
}

int woken_with(struct waiter *w)
{
	pthread_join(w->thread, NULL);
	return w->revents;
}

ssize_t take(int fd, const int *p, uint8_t *buf, size_t len)
{
	ssize_t n, got = 0, r;

	if (!p[1])
		return read(fd, buf, len);
	n = splice(fd, NULL, p[1], NULL, len, SPLICE_F_NONBLOCK);
	for (; got < n; got += r) {
		r = read(p[0], buf + got, n - got);
		if (r <= 0)
			return -1;
	}
	return n;
}

#define RECORDS	512

struct taker {
	pthread_t thread;
	bool by_pipe;
	unsigned int count, bad;
	uint8_t *seen;
};

static void *take_records(void *arg)
{
	struct taker *t = arg;
	uint8_t got[64], want[64];
	int p[2] = {}, fd = open_cpu(0);
	struct rst_head head;
	ssize_t n;

	if (t->by_pipe && pipe2(p, O_NONBLOCK))
		abort();
	while ((n = take(fd, p, got, sizeof(got))) > 0) {
		memcpy(&head, got, sizeof(head));
		rst_fill(want, 0, RST_TASK, head.seq, 64);
		if (n != 64 || head.seq >= RECORDS || memcmp(got, want, 64)) {
			t->bad++;
			continue;
		}
		__atomic_fetch_add(&t->seen[head.seq], 1, __ATOMIC_RELAXED);
		t->count++;
	}
	close(fd);
	if (t->by_pipe) {
		close(p[0]);
		close(p[1]);
	}
	return NULL;
}

bool each_record_comes_once(bool by_pipe)
{
	struct taker t[4] = {};
	uint8_t seen[RECORDS] = {};
	unsigned int i, total = 0;
	bool ok = true;

	for (i = 0; i < 4; i++) {
		t[i].by_pipe = by_pipe;
		t[i].seen = seen;
		pthread_create(&t[i].thread, NULL, take_records, &t[i]);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i].thread, NULL);
		ok &= !t[i].bad;
		total += t[i].count;
	}
	for (i = 0; i < RECORDS; i++)
		ok &= seen[i] == 1;
	fprintf(stderr, "# %u records of %u\n", total, RECORDS);
	return ok && total == RECORDS;
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
