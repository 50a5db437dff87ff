// SPDX-License-Identifier: GPL-2.0
/*
 * poll(2) and epoll(7) on relay files.
 */
#include "relay_test.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

RELAY_FIXTURE(poll);

#define READABLE	(POLLIN | POLLRDNORM)

static int poll_now(int fd)
{
	struct pollfd p = { .fd = fd, .events = READABLE };

	return poll(&p, 1, 0) < 0 ? -errno : p.revents;
}

TEST_F(poll, empty_no_event)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(0, poll_now(open_cpu(0)));
}

TEST_F(poll, unfinished_subbuf_no_event)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=4");
	ASSERT_EQ(0, poll_now(open_cpu(0)));
}

TEST_F(poll, finished_subbuf_readable)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=5");
	ASSERT_EQ(READABLE, poll_now(open_cpu(0)));
}

TEST_F(poll, finished_subbuf_readable_plain_file)
{
	CTL("open subbuf=4096 n=4 file=plain");
	CTL("write cpu=0 len=1000 count=5");
	ASSERT_EQ(READABLE, poll_now(open_cpu(0)));
}

TEST_F(poll, flushed_subbuf_readable)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000");
	CTL("flush");
	ASSERT_EQ(READABLE, poll_now(open_cpu(0)));
}

TEST_F(poll, full_buffer_readable)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=17");
	ASSERT_EQ(16, info("result"));
	ASSERT_EQ(READABLE, poll_now(open_cpu(0)));
}

TEST_F(poll, read_clears)
{
	struct bytes got = {};
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=5");
	fd = open_cpu(0);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, consumed_clears)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=9");
	fd = open_cpu(0);
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(READABLE, poll_now(fd));
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, reset_clears)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=9");
	fd = open_cpu(0);
	CTL("reset");
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, cpus_are_independent)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=5");
	ASSERT_EQ(READABLE, poll_now(open_cpu(0)));
	ASSERT_EQ(0, poll_now(open_cpu(1)));
}

TEST_F(poll, write_only_no_event)
{
	int fd;

	CTL("open subbuf=4096 n=4 perm=0600");
	CTL("write cpu=0 len=1000 count=5");
	fd = open_file("cpu0", O_WRONLY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, poll_now(fd));
}

/* A thread that waits in poll() or epoll_wait() */
struct waiter {
	pthread_t thread;
	int fd;
	bool epoll;
	int timeout;
	pid_t tid;
	int ret;
	int revents;
	bool woken;		/* rather than timed out */
};

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

	if (w->epoll) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDNORM };
		int ep = epoll_create1(0);

		epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &ev);
		__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
		w->ret = epoll_wait(ep, &ev, 1, w->timeout);
		w->revents = w->ret == 1 ? ev.events : 0;
		close(ep);
	} else {
		struct pollfd p = { .fd = w->fd, .events = READABLE };

		__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
		w->ret = poll(&p, 1, w->timeout);
		w->revents = p.revents;
	}
	w->woken = now_ms() - start < w->timeout;
	return NULL;
}

static void start_waiter(struct waiter *w)
{
	if (!w->timeout)
		w->timeout = LONG_MS;
	pthread_create(&w->thread, NULL, wait_here, w);
	while (!__atomic_load_n(&w->tid, __ATOMIC_ACQUIRE))
		;
	wait_asleep(w->tid);
}

TEST_F(poll, switch_wakes)
{
	struct waiter w = {};

	CTL("open subbuf=4096 n=4");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("write cpu=0 len=1000 count=5");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_EQ(READABLE, w.revents);
}

TEST_F(poll, switch_wakes_plain_file)
{
	struct waiter w = {};

	CTL("open subbuf=4096 n=4 file=plain");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("write cpu=0 len=1000 count=5");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_EQ(READABLE, w.revents);
}

TEST_F(poll, switch_in_interrupt_wakes)
{
	struct waiter w = {};

	CTL("open subbuf=4096 n=4");
	w.fd = open_cpu(1);
	start_waiter(&w);
	CTL("write cpu=1 len=1000 count=5 ctx=irq");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_EQ(READABLE, w.revents);
}

TEST_F(poll, switch_wakes_epoll)
{
	struct waiter w = { .epoll = true };

	CTL("open subbuf=4096 n=4");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("write cpu=0 len=1000 count=5");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_EQ(READABLE, w.revents);
}

TEST_F(poll, flush_wakes)
{
	struct waiter w = {};

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=1 len=1000");
	w.fd = open_cpu(1);
	start_waiter(&w);
	CTL("flush");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_EQ(READABLE, w.revents);
}

TEST_F(poll, switch_wakes_all)
{
	struct waiter w[6] = {};
	int i;

	CTL("open subbuf=4096 n=4");
	for (i = 0; i < 6; i++) {
		w[i].fd = open_cpu(0);
		w[i].epoll = i % 2;
		start_waiter(&w[i]);
	}
	CTL("write cpu=0 len=1000 count=5");
	for (i = 0; i < 6; i++) {
		pthread_join(w[i].thread, NULL);
		ASSERT_TRUE(w[i].woken);
		ASSERT_EQ(1, w[i].ret);
		ASSERT_EQ(READABLE, w[i].revents);
	}
}

/* mainline only times out here: do not let it take the long time */
static int close_ms(void)
{
	const char *variant = getenv("RELAY_VARIANT");

	return variant && !strcmp(variant, "mainline") ? 5000 : LONG_MS;
}

TEST_F(poll, close_wakes)
{
	struct waiter w = { .timeout = close_ms() };

	CTL("open subbuf=4096 n=4");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("close");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_TRUE(w.revents & POLLERR);
}

TEST_F(poll, close_wakes_plain_file)
{
	struct waiter w = { .timeout = close_ms() };

	CTL("open subbuf=4096 n=4 file=plain");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("close");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_TRUE(w.revents & POLLHUP);
}

TEST_F(poll, close_wakes_epoll)
{
	struct waiter w = { .timeout = close_ms(), .epoll = true };

	CTL("open subbuf=4096 n=4");
	w.fd = open_cpu(0);
	start_waiter(&w);
	CTL("close");
	pthread_join(w.thread, NULL);
	ASSERT_TRUE(w.woken);
	ASSERT_EQ(1, w.ret);
	ASSERT_TRUE(w.revents & EPOLLERR);
}

TEST_F(poll, closed_is_an_error)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_cpu(0);
	CTL("close");
	ASSERT_TRUE(poll_now(fd) & POLLERR);
}

TEST_F(poll, closed_is_a_hangup)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_cpu(0);
	CTL("close");
	ASSERT_TRUE(poll_now(fd) & POLLHUP);
}

TEST_F(poll, closed_is_a_hangup_plain_file)
{
	int fd;

	CTL("open subbuf=4096 n=4 file=plain");
	fd = open_cpu(0);
	CTL("close");
	ASSERT_TRUE(poll_now(fd) & POLLHUP);
}

TEST_F(poll, closed_still_readable_while_data_is_left)
{
	struct bytes got = {};
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=5");
	fd = open_cpu(0);
	CTL("close");
	ASSERT_EQ(READABLE, poll_now(fd) & READABLE);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_EQ(5000, got.len);
	ASSERT_EQ(0, poll_now(fd) & READABLE);
}

TEST_HARNESS_MAIN
