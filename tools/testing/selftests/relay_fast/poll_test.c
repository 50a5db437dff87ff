// SPDX-License-Identifier: GPL-2.0
/*
 * Sleeping until there is as much as the watermark asks for.
 */
#include "relay_test.h"
#include "reader.h"

#include <sys/epoll.h>

RELAY_FIXTURE(poll);

TEST_F(poll, empty)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(0, poll_now(open_cpu(0)));
}

RELAY_FIXTURE(watermark);
FIXTURE_VARIANT(watermark)
{
	uint64_t asked;		/* value that the reader writes there */
	uint64_t start;		/* position of the reader, a multiple of 128 */
	uint64_t due;		/* bytes that are then to be there */
	bool epoll;
};

FIXTURE_VARIANT_ADD(watermark, subbuf) { .asked = 0, .due = 4096 };
FIXTURE_VARIANT_ADD(watermark, subbuf_epoll) { .asked = 0, .due = 4096, .epoll = true };
FIXTURE_VARIANT_ADD(watermark, subbuf_from_its_middle) { .asked = 0, .start = 1024, .due = 3072 };
FIXTURE_VARIANT_ADD(watermark, one_record) { .asked = 8, .due = 128 };
FIXTURE_VARIANT_ADD(watermark, one_record_epoll) { .asked = 8, .start = 4096 - 128, .due = 128, .epoll = true };
FIXTURE_VARIANT_ADD(watermark, some) { .asked = 512, .due = 512 };
FIXTURE_VARIANT_ADD(watermark, no_whole_record) { .asked = 513, .due = 640 };
FIXTURE_VARIANT_ADD(watermark, across_subbufs) { .asked = 1024, .start = 3584, .due = 1024 };
FIXTURE_VARIANT_ADD(watermark, half) { .asked = 8192, .due = 8192 };
FIXTURE_VARIANT_ADD(watermark, more_than_the_buffer) { .asked = 100000, .due = 8192 };
FIXTURE_VARIANT_ADD(watermark, more_than_all) { .asked = ~0ull, .start = 4224, .due = 8192 };

/* Woken when as much is there, and not a record before; nothing is flushed or padded for it. */
TEST_F(watermark, wakes)
{
	struct waiter w = { .epoll = variant->epoll };
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");

	if (variant->start) {
		CTL("write cpu=1 len=120 count=%llu", (unsigned long long)variant->start / 128);
		set_consumed(&m, variant->start);
	}
	ASSERT_EQ(variant->start, produced(&m));
	__atomic_store_n(&m.reader->watermark, variant->asked, __ATOMIC_RELAXED);
	ASSERT_EQ(0, poll_now(m.fd));

	start_waiter(&w, m.fd);
	if (variant->due > 128)
		CTL("write cpu=1 len=120 count=%llu", (unsigned long long)variant->due / 128 - 1);
	ASSERT_TRUE(sleeps_on(&w));
	CTL("write cpu=1 len=120 ctx=irq");
	ASSERT_TRUE(woken_with(&w) & POLLIN);
	ASSERT_EQ(READABLE, poll_now(m.fd));
	ASSERT_EQ(variant->start + variant->due, produced(&m));

	set_consumed(&m, produced(&m));
	ASSERT_EQ(0, poll_now(m.fd));
}

/* The watermark may change while there is something already. */
TEST_F(poll, lower_watermark)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");
	struct waiter w = {};

	CTL("write cpu=1 len=120 count=4");
	ASSERT_EQ(0, poll_now(m.fd));
	m.reader->watermark = 512;
	ASSERT_EQ(READABLE, poll_now(m.fd));
	/* the writer's limit was for the end of the sub-buffer, and must be lowered */
	m.reader->watermark = 640;
	start_waiter(&w, m.fd);
	CTL("write cpu=1 len=120");
	ASSERT_EQ(READABLE, woken_with(&w));
	ASSERT_EQ(640, produced(&m));
}

TEST_F(poll, lower_watermark_of_an_offline_cpu)
{
	struct mapped m;

	if (online_cpus() < 4)
		SKIP(return, "needs 4 CPUs");
	CTL("open subbuf=4096 n=4");
	ASSERT_TRUE(map_buffer(&m, 3));
	CTL("write cpu=3 len=120 count=4");
	ASSERT_EQ(0, set_cpu_online(3, false));
	m.reader->watermark = 640;
	ASSERT_EQ(0, poll_now(m.fd));
	ASSERT_EQ(0, set_cpu_online(3, true));
	CTL("write cpu=3 len=120");
	ASSERT_EQ(READABLE, poll_now(m.fd));
}

/*
 * Returns how often the interrupt of irq_work is raised, if everything is written in it and before
 * it, to a reader that waits by epoll and does not read. A few are the kernel's own.
 */
#define FEW	12

static bool wakes_few_times(int flags)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);
	bool few, ready;

	if (ctl("open subbuf=4096 n=4 flags=%d", flags) || epoll_ctl(ep, EPOLL_CTL_ADD, open_cpu(1), &ev) ||
	    ctl("exits cpu=1 count=1000"))
		return false;
	few = info("result") > 0 && info("result") < FEW;
	ready = epoll_wait(ep, &ev, 1, LONG_MS) == 1;
	close(ep);
	fprintf(stderr, "# woken %lld times\n", info("result"));
	return few && ready;
}

/*
 * One wake-up for the first sub-buffer, one for lost records; none for records that the wake-ups
 * themselves cause.
 */
TEST_F(poll, wakes_once_for_what_is_lost)
{
	ASSERT_TRUE(wakes_few_times(0));
	ASSERT_LT(0, info("lost"));
}

TEST_F(poll, overwriting_wakes_once)
{
	ASSERT_TRUE(wakes_few_times(1));
	ASSERT_EQ(0, info("lost"));
}

/* How often the thread ran that stop_one_cpu() uses, which everything else on that CPU makes way for. */
static long long stops(unsigned int cpu)
{
	char comm[32], want[32], line[128], path[64];
	long long n = -1;

	snprintf(want, sizeof(want), "migration/%u", cpu);
	for (int pid = 2; pid < 300 && n < 0; pid++) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/status", pid);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(line, sizeof(line), f) && sscanf(line, "Name: %31s", comm) == 1 && !strcmp(comm, want))
			while (fgets(line, sizeof(line), f) && sscanf(line, "voluntary_ctxt_switches: %lld", &n) != 1)
				;
		fclose(f);
	}
	return n;
}

RELAY_FIXTURE(rounds);
FIXTURE_VARIANT(rounds)
{
	unsigned int subbuf, n, bytes, step;
	uint64_t watermark;
};

FIXTURE_VARIANT_ADD(rounds, small) { .subbuf = 4096, .n = 4, .bytes = 8, .step = 8, .watermark = 8 };
FIXTURE_VARIANT_ADD(rounds, some) { .subbuf = 4096, .n = 4, .bytes = 512, .step = 64, .watermark = 512 };
FIXTURE_VARIANT_ADD(rounds, subbuf) { .subbuf = 1024, .n = 4, .bytes = 1024, .step = 128, .watermark = 0 };
FIXTURE_VARIANT_ADD(rounds, half) { .subbuf = 64, .n = 2, .bytes = 64, .step = 32, .watermark = ~0ull };

/*
 * The writer writes exactly as much as the reader waits for, while the reader is about to sleep. A
 * lost wake-up ends in a timeout, a wasted sub-buffer in another position.
 */
TEST_F_TIMEOUT(rounds, no_wake_up_is_lost, 120)
{
	const unsigned int rounds = storm_rounds(1000);
	uint64_t position = 0;
	struct seen seen = { .cpu = 1 };
	struct mapped m;
	long long before;

	ASSERT_EQ(0, pin_to(0));
	CTL("open subbuf=%u n=%u", variant->subbuf, variant->n);
	ASSERT_TRUE(map_buffer(&m, 1));
	m.reader->watermark = variant->watermark;
	before = stops(1);
	ASSERT_LE(0, before);
	CTL("rounds cpu=1 count=%u bytes=%u step=%u", rounds, variant->bytes, variant->step);
	for (unsigned int i = 0; i < rounds; i++) {
		ASSERT_EQ(READABLE, poll_for(m.fd, LONG_MS)) {
			TH_LOG("round %u, %llu to read", i, (unsigned long long)(produced(&m) - position));
		}
		ASSERT_EQ(position + variant->bytes, produced(&m));
		while (position < produced(&m))
			drain_mapped(&m, &seen, &position);
		ASSERT_FALSE(seen.bad);
		set_consumed(&m, position);
	}
	CTL("roundsend");
	/*
	 * the writer predicts the reader's next watermark; other writers stop the CPU now and then
	 */
	ASSERT_GT(rounds / 10, stops(1) - before);
	ASSERT_EQ((uint64_t)rounds * variant->bytes, produced(&m));
	ASSERT_EQ(rounds * (variant->bytes / variant->step), seen.records);
	ASSERT_EQ(0, m.ctl->lost);
}

/* Full below the watermark: the writer's failed record wakes the reader. */
TEST_F(poll, stall_wakes)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=64 n=2");
	struct waiter w = {};

	CTL("write cpu=1 len=48");
	set_consumed(&m, 56);
	m.reader->watermark = 64;
	start_waiter(&w, m.fd);
	/* at 64, so that 24 bytes are unread */
	CTL("write cpu=1 len=8");
	ASSERT_TRUE(sleeps_on(&w));
	ASSERT_EQ(0, result_of("write cpu=1 len=56"));
	ASSERT_EQ(READABLE, woken_with(&w));
	ASSERT_EQ(80, produced(&m));
	ASSERT_NE(0, m.ctl->stalled);
	ASSERT_EQ(1, m.ctl->lost);
	/* until it has made room */
	set_consumed(&m, 80);
	ASSERT_EQ(0, poll_now(m.fd));
	ASSERT_EQ(1, result_of("write cpu=1 len=56"));
	ASSERT_EQ(0, m.ctl->stalled);
	ASSERT_EQ(1, m.ctl->lost);
}

/* A record that fits nowhere is nothing that a reader could do something about. */
TEST_F(poll, too_long_does_not_wake)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");
	struct waiter w = {};

	start_waiter(&w, m.fd);
	CTL("write cpu=1 len=8");
	ASSERT_EQ(0, result_of("write cpu=1 len=4089"));
	ASSERT_TRUE(sleeps_on(&w));
	ASSERT_EQ(1, m.ctl->lost);
	ASSERT_EQ(0, m.ctl->stalled);
	CTL("close");
	woken_with(&w);
}

TEST_F(poll, close_wakes)
{
	struct waiter w = {}, e = { .epoll = true };

	CTL("open subbuf=4096 n=4");
	start_waiter(&w, open_cpu(1));
	start_waiter(&e, w.fd);
	CTL("close");
	ASSERT_EQ(POLLHUP | POLLERR, woken_with(&w));
	ASSERT_TRUE(woken_with(&e) & EPOLLHUP);
	ASSERT_EQ(POLLHUP | POLLERR, poll_now(w.fd));
}

TEST_F(poll, close_wakes_with_something_to_read)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");
	struct waiter w = {};
	uint8_t buf[256];

	CTL("write cpu=1 len=120");
	start_waiter(&w, m.fd);
	CTL("close");
	ASSERT_EQ(READABLE | POLLHUP | POLLERR, woken_with(&w));
	ASSERT_EQ(1, m.ctl->closed);
	ASSERT_EQ(128, read(m.fd, buf, sizeof(buf)));
	ASSERT_EQ(POLLHUP | POLLERR, poll_now(m.fd));
}

TEST_F(poll, read_clears)
{
	uint8_t buf[8192];
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=1 len=1016 count=4");
	fd = open_cpu(1);
	ASSERT_EQ(READABLE, poll_now(fd));
	ASSERT_EQ(4096, read(fd, buf, sizeof(buf)));
	ASSERT_EQ(0, poll_now(fd));
}

TEST_F(poll, write_only_no_event)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=1 len=1016 count=4");
	ASSERT_EQ(0, poll_now(open_file("cpu1", O_WRONLY)));
}

TEST_HARNESS_MAIN
