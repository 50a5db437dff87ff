// SPDX-License-Identifier: GPL-2.0
/*
 * poll(2) and epoll(7) on relay files.
 */
#include "relay_test.h"

#include <sys/epoll.h>

RELAY_FIXTURE(poll);

/* Returns poll()'s result for a CPU's file after a command. */
static int polled(const char *open, const char *command)
{
	if (ctl("open subbuf=4096 n=4 %s", open) || ctl("%s", command))
		return -1;
	return poll_now(open_cpu(0));
}

TEST_F(poll, empty_no_event)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(0, poll_now(open_cpu(0)));
}

TEST_F(poll, unfinished_subbuf_no_event)
{
	ASSERT_EQ(0, polled("", "write cpu=0 len=1000 count=4"));
}

TEST_F(poll, finished_subbuf_readable)
{
	ASSERT_EQ(READABLE, polled("", "write cpu=0 len=1000 count=5"));
}

TEST_F(poll, finished_subbuf_readable_plain_file)
{
	ASSERT_EQ(READABLE, polled("file=plain", "write cpu=0 len=1000 count=5"));
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
	ASSERT_EQ(READABLE, polled("", "write cpu=0 len=1000 count=17"));
	ASSERT_EQ(16, info("result"));
}

TEST_F(poll, read_clears)
{
	struct bytes got = {};
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=5");
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, consumed_clears)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=9");
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(READABLE, poll_now(fd));
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, reset_clears)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=9");
	CTL("reset");
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, cpus_are_independent)
{
	ASSERT_EQ(READABLE, polled("", "write cpu=0 len=1000 count=5"));
	ASSERT_EQ(0, poll_now(open_cpu(1)));
}

TEST_F(poll, write_only_no_event)
{
	CTL("open subbuf=4096 n=4 perm=0600");
	CTL("write cpu=0 len=1000 count=5");
	ASSERT_EQ(0, poll_now(open_file("cpu0", O_WRONLY)));
}

/* The events that a waiter is woken with by a command, after another one; 0 if that fails. */
static int woken_by(struct waiter *w, unsigned int cpu, const char *open, const char *before, const char *command)
{
	if (ctl("open subbuf=4096 n=4 %s", open) || (before && ctl("%s", before)))
		return 0;
	start_waiter(w, open_cpu(cpu));
	if (ctl("%s", command))
		return 0;
	return woken_with(w);
}

TEST_F(poll, switch_wakes)
{
	struct waiter w = {};

	ASSERT_EQ(READABLE, woken_by(&w, 0, "", NULL, "write cpu=0 len=1000 count=5"));
}

TEST_F(poll, switch_wakes_plain_file)
{
	struct waiter w = {};

	ASSERT_EQ(READABLE, woken_by(&w, 0, "file=plain", NULL, "write cpu=0 len=1000 count=5"));
}

TEST_F(poll, switch_in_interrupt_wakes)
{
	struct waiter w = {};

	ASSERT_EQ(READABLE, woken_by(&w, 1, "", NULL, "write cpu=1 len=1000 count=5 ctx=irq"));
}

TEST_F(poll, switch_wakes_epoll)
{
	struct waiter w = { .epoll = true };

	ASSERT_EQ(READABLE, woken_by(&w, 0, "", NULL, "write cpu=0 len=1000 count=5"));
}

TEST_F(poll, flush_wakes)
{
	struct waiter w = {};

	ASSERT_EQ(READABLE, woken_by(&w, 1, "", "write cpu=1 len=1000", "flush"));
}

TEST_F(poll, switch_wakes_all)
{
	struct waiter w[6] = {};
	int i;

	CTL("open subbuf=4096 n=4");
	for (i = 0; i < 6; i++) {
		w[i].epoll = i % 2;
		start_waiter(&w[i], open_cpu(0));
	}
	CTL("write cpu=0 len=1000 count=5");
	for (i = 0; i < 6; i++)
		ASSERT_EQ(READABLE, woken_with(&w[i]));
}

/* mainline only times out here: the long timeout is for other engines */
static int close_ms(void)
{
	const char *variant = getenv("RELAY_VARIANT");

	return variant && !strcmp(variant, "mainline") ? 5000 : LONG_MS;
}

TEST_F(poll, close_wakes)
{
	struct waiter w = { .timeout = close_ms() };

	ASSERT_TRUE(woken_by(&w, 0, "", NULL, "close") & POLLERR);
}

TEST_F(poll, close_wakes_plain_file)
{
	struct waiter w = { .timeout = close_ms() };

	ASSERT_TRUE(woken_by(&w, 0, "file=plain", NULL, "close") & POLLHUP);
}

TEST_F(poll, close_wakes_epoll)
{
	struct waiter w = { .timeout = close_ms(), .epoll = true };

	ASSERT_TRUE(woken_by(&w, 0, "", NULL, "close") & EPOLLERR);
}

static int polled_closed(const char *open)
{
	int fd;

	if (ctl("open subbuf=4096 n=4 %s", open))
		return 0;
	fd = open_cpu(0);
	return ctl("close") ? 0 : poll_now(fd);
}

TEST_F(poll, closed_is_an_error)
{
	ASSERT_TRUE(polled_closed("") & POLLERR);
}

TEST_F(poll, closed_is_a_hangup)
{
	ASSERT_TRUE(polled_closed("") & POLLHUP);
}

TEST_F(poll, closed_is_a_hangup_plain_file)
{
	ASSERT_TRUE(polled_closed("file=plain") & POLLHUP);
}

TEST_F(poll, closed_still_readable_while_data_is_left)
{
	struct bytes got = {};
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=5");
	CTL("close");
	ASSERT_EQ(READABLE, poll_now(fd) & READABLE);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_EQ(5000, got.len);
	ASSERT_EQ(0, poll_now(fd) & READABLE);
}

TEST_HARNESS_MAIN
