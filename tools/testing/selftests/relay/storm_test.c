// SPDX-License-Identifier: GPL-2.0
/*
 * All CPUs write, in threads and in hard interrupts, while others read. Every byte that is read is
 * checked, and every missing record is counted.
 */
#include "relay_test.h"

#define MAX_CPUS	64

FIXTURE(storm) { int none; };

FIXTURE_SETUP(storm)
{
	relay_setup("storm", _metadata->name);
	if (online_cpus() < 2)
		SKIP(return, "needs 2 CPUs");
}

FIXTURE_TEARDOWN(storm)
{
	relay_teardown();
}

/* Takes a stream of bytes apart into records. */
struct checker {
	unsigned int cpus;		/* writers to expect */
	long long next[MAX_CPUS][RST_NR_CTX];
	unsigned long long got, missing, bytes;
	unsigned int bad;
	uint8_t carry[8192];
	size_t carried;
};

static bool check_record(struct checker *c, const uint8_t *p, size_t len)
{
	struct rst_head head;
	uint8_t want[4096];

	memcpy(&head, p, sizeof(head));
	rst_fill(want, head.cpu, head.ctx, head.seq, len);
	if (memcmp(p, want, len) || head.cpu >= c->cpus || head.ctx >= RST_NR_CTX)
		return false;
	if (head.seq < c->next[head.cpu][head.ctx])
		return false;
	c->missing += head.seq - c->next[head.cpu][head.ctx];
	c->next[head.cpu][head.ctx] = head.seq + 1ll;
	c->got++;
	c->bytes += len;
	return true;
}

/* Checks whole records at the start of @p; returns the size of the rest. */
static size_t check_bytes(struct checker *c, const uint8_t *p, size_t len)
{
	struct rst_head head;

	while (len >= sizeof(head)) {
		memcpy(&head, p, sizeof(head));
		if (head.magic != RST_MAGIC || head.len > 4096 ||
		    head.len < sizeof(head)) {
			c->bad++;
			return 0;
		}
		if (head.len > len)
			break;
		if (!check_record(c, p, head.len)) {
			c->bad++;
			return 0;
		}
		p += head.len;
		len -= head.len;
	}
	return len;
}

struct drain {
	pthread_t thread;
	unsigned int cpu;
	unsigned int subbuf, n;
	bool map, pipe;
	int *finished;
	long long consumed;
	struct checker check;
};

static void drain_read(struct drain *d, int fd)
{
	int pipes[2] = {};
	struct checker *c = &d->check;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool last = false;
	ssize_t n;

	if (d->pipe && pipe(pipes)) {
		c->bad++;
		return;
	}
	for (;;) {
		bool finished = __atomic_load_n(d->finished, __ATOMIC_ACQUIRE);

		n = take(fd, pipes, c->carry + c->carried,
			 sizeof(c->carry) - c->carried);
		if (n < 0) {
			c->bad++;
			return;
		}
		if (n > 0) {
			size_t left, have = c->carried + n;

			left = check_bytes(c, c->carry, have);
			if (c->bad)
				return;
			memmove(c->carry, c->carry + have - left, left);
			c->carried = left;
			last = false;
			continue;
		}
		/* nothing there: twice, once the writers have finished */
		if (finished && last)
			break;
		last = finished;
		if (!finished)
			poll(&p, 1, 10);
	}
	c->bad += c->carried != 0;
}

static void drain_map(struct drain *d, int fd)
{
	struct checker *c = &d->check;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t total = d->subbuf * d->n;
	long long produced, consumed = d->consumed;
	uint8_t *map;

	map = mmap(NULL, total, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		c->bad++;
		return;
	}
	for (;;) {
		bool finished = __atomic_load_n(d->finished, __ATOMIC_ACQUIRE);

		produced = info("cpu%u.produced", d->cpu);
		if (produced - consumed > d->n) {
			c->bad++;
			break;
		}
		for (; consumed < produced && !c->bad; consumed++) {
			unsigned int at = consumed % d->n;
			long long pad = info("cpu%u.padding%u", d->cpu, at);

			/* only whole records in a sub-buffer */
			if (check_bytes(c, map + at * d->subbuf, d->subbuf - pad))
				c->bad++;
			if (ctl("consumed cpu=%u n=1", d->cpu))
				c->bad++;
		}
		if (c->bad)
			break;
		/* the count was read after that */
		if (finished)
			break;
		poll(&p, 1, 10);
	}
	d->consumed = consumed;
	munmap(map, total);
}

static void *drain_thread(void *arg)
{
	struct drain *d = arg;
	int fd = open_cpu(d->cpu);

	if (fd < 0) {
		d->check.bad++;
		return NULL;
	}
	if (d->map)
		drain_map(d, fd);
	else
		drain_read(d, fd);
	close(fd);
	return NULL;
}

struct storm {
	const char *open;	/* how the channel is opened */
	const char *how;	/* how it is written */
	unsigned int subbuf, n;
	unsigned int count;
	bool global, map, pipe, callback;
	bool flush;		/* flush all the time */
	bool hotplug;		/* the last CPU does not write, but is taken down and up */
};

/* Every record that the writers tried was either read or counted as lost. */
static bool accounted(const struct storm *s, struct drain *d, unsigned int cpu)
{
	unsigned long long tried = 0, lost;
	unsigned int first = s->global ? 0 : cpu, c, ctx;
	unsigned int end = s->global ? online_cpus() : cpu + 1;

	for (c = first; c < end; c++) {
		for (ctx = 0; ctx < RST_NR_CTX; ctx++) {
			long long n = info("cpu%u.%s", c, ctx ? "irq" : "task");

			tried += n;
			/* records after the last one that was seen */
			d->check.missing += n - d->check.next[c][ctx];
		}
	}
	lost = s->callback ? info("cpu%u.refused", cpu) : d->check.missing;
	fprintf(stderr, "# cpu%u: %llu tried, %llu read, %llu lost, %llu bytes, %u bad\n",
		cpu, tried, d->check.got, lost, d->check.bytes, d->check.bad);
	return !d->check.bad && d->check.got > 0 &&
	       tried == d->check.got + lost && lost == d->check.missing;
}

static bool storm(const struct storm *s)
{
	static struct drain d[MAX_CPUS];
	unsigned int cpu, last = online_cpus() - 1;
	unsigned int files = s->global ? 1 : last + !s->hotplug;
	unsigned long long missing = 0;
	int finished = 0;
	char except[16] = "";
	bool ok = true;

	if (s->hotplug)
		snprintf(except, sizeof(except), "except=%u", last);
	if (ctl("open subbuf=%u n=%u %s", s->subbuf, s->n, s->open) ||
	    ctl("storm count=%u %s %s", storm_rounds(s->count), s->how, except))
		return false;
	for (cpu = 0; cpu < files; cpu++) {
		d[cpu].cpu = cpu;
		d[cpu].subbuf = s->subbuf;
		d[cpu].n = s->n;
		d[cpu].map = s->map;
		d[cpu].pipe = s->pipe;
		d[cpu].finished = &finished;
		d[cpu].check.cpus = last + 1;
		pthread_create(&d[cpu].thread, NULL, drain_thread, &d[cpu]);
	}
	if (s->flush) {
		for (cpu = 0; cpu < storm_rounds(200); cpu++)
			if (ctl("flush"))
				ok = false;
	}
	if (s->hotplug) {
		for (cpu = 0; cpu < 4; cpu++)
			if (set_cpu_online(last, false) ||
			    set_cpu_online(last, true))
				ok = false;
	}
	if (ctl("stormwait"))
		ok = false;
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	for (cpu = 0; cpu < files; cpu++)
		pthread_join(d[cpu].thread, NULL);
	if (s->map) {
		/* there is room everywhere: finish the last sub-buffers */
		if (ctl("flush"))
			ok = false;
		for (cpu = 0; cpu < files; cpu++)
			drain_thread(&d[cpu]);
	}
	for (cpu = 0; cpu < files; cpu++) {
		if (!accounted(s, &d[cpu], cpu))
			ok = false;
		missing += d[cpu].check.missing;
	}
	/* without a callback it is the engine that counts, flushes as well */
	if (!s->callback) {
		long long full = ctl("stats flags=1") ? -1 : info("result");

		if (full < (long long)missing ||
		    (!s->flush && full != (long long)missing)) {
			fprintf(stderr, "# %llu missing, %lld counted\n",
				missing, full);
			ok = false;
		}
	}
	return ok;
}

#define STORM(name, ...)						\
	static const struct storm name##_storm = { __VA_ARGS__ };	\
	TEST_F_TIMEOUT(storm, name, 120)				\
	{								\
		ASSERT_TRUE(storm(&name##_storm));			\
	}

/* Common to most of them. */
#define REFUSES		.open = "mode=nooverwrite", .callback = true
#define PAGES(subbufs)	.subbuf = 4096, .n = (subbufs), .count = 6000
#define FROM_IRQS(fn)	.how = "fn=" fn " len=200 vary=1 irq=3 period=700"

STORM(read_with_interrupts, REFUSES, PAGES(8), FROM_IRQS("write"))
STORM(splice_with_interrupts, REFUSES, PAGES(8), FROM_IRQS("write"), .pipe = true)
STORM(map_with_interrupts, REFUSES, PAGES(8), FROM_IRQS("write"), .map = true)
STORM(map_reserve_with_interrupts, REFUSES, PAGES(8), FROM_IRQS("reserve"), .map = true)
STORM(read_default_mode, .open = "mode=default", PAGES(4), FROM_IRQS("write"))
STORM(map_default_mode, .open = "mode=default", PAGES(4), FROM_IRQS("write"), .map = true)

STORM(map_preempt_only_writer, REFUSES, PAGES(8), .map = true,
	.how = "fn=__write len=200 vary=1")

STORM(splice_odd_subbufs, FROM_IRQS("try"), .pipe = true,
	.open = "mode=default",
	.subbuf = 1003, .n = 40, .count = 6000)

STORM(map_plain_file,
	.open = "mode=nooverwrite file=plain", .callback = true, .map = true,
	.how = "fn=write len=300 vary=1 irq=3 period=700",
	.subbuf = 3000, .n = 8, .count = 4000)

/* A flush between the records loses and tears none of them. */
STORM(read_while_flushing, PAGES(8), FROM_IRQS("write"),
	.open = "mode=nooverwrite", .flush = true)

#define GLOBAL(fn)						\
	.open = "mode=nooverwrite global=1", .global = true,	\
	.subbuf = 8192, .n = 8, .count = 3000,			\
	.how = "fn=" fn " len=200 vary=1 irq=2 period=1000"

STORM(read_global, GLOBAL("write"), .callback = true)
STORM(map_global, GLOBAL("reserve"), .callback = true, .map = true)
/* The writers bring no lock of their own. */
STORM(read_global_without_a_lock, GLOBAL("try"), .callback = true)
STORM(map_global_without_a_lock, GLOBAL("try"), .map = true, .flush = true)

TEST_F_TIMEOUT(storm, map_while_a_cpu_comes_and_goes, 120)
{
	struct storm s = {
		REFUSES, PAGES(8), FROM_IRQS("write"), .map = true, .hotplug = true,
	};

	if (online_cpus() < 4)
		SKIP(return, "needs 4 CPUs");
	ASSERT_TRUE(storm(&s));
}

/* All operations of users on a channel that is being written, at once. */
static void *meddle(void *arg)
{
	int *finished = arg;
	unsigned int i = (uintptr_t)&i, cpus = online_cpus();
	uint8_t buf[5000];

	while (!__atomic_load_n(finished, __ATOMIC_RELAXED)) {
		struct pollfd p = { .events = POLLIN };
		uint8_t *map;

		i = i * 1103515245 + 12345;
		p.fd = open_cpu((i >> 8) % cpus);
		if (p.fd < 0)
			continue;
		switch ((i >> 16) % 6) {
		case 0:
			ctl("flush");
			break;
		case 1:
			ctl("consumed cpu=%u n=%u", (i >> 8) % cpus, (i >> 20) % 9);
			break;
		case 2:
			map = mmap(NULL, 32768, PROT_READ, MAP_SHARED, p.fd, 0);
			if (map == MAP_FAILED)
				break;
			buf[0] = map[(i >> 10) % 32768];
			munmap(map, 32768);
			break;
		case 3:
			poll(&p, 1, 1);
			break;
		default:
			while (read(p.fd, buf, 1 + (i >> 12) % sizeof(buf)) > 0)
				;
		}
		close(p.fd);
	}
	return NULL;
}

TEST_F_TIMEOUT(storm, everything_at_once, 120)
{
	struct bytes want = {}, got = {};
	pthread_t thread[6];
	int i, fd, finished = 0;

	CTL("open subbuf=4096 n=8 mode=nooverwrite");
	CTL("storm count=%u fn=write len=200 vary=1 irq=3 period=700", storm_rounds(8000));
	for (i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, meddle, &finished);
	CTL("stormwait");
	__atomic_store_n(&finished, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);

	/* the channel is still in order */
	fd = open_cpu(1);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	bytes_free(&got);
	i = info("cpu1.task");
	ASSERT_EQ(20, result_of("write cpu=1 len=500 count=20"));
	bytes_records(&want, 1, i, 500, 20);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

/* After an overwriting storm the last records are left, whole. */
TEST_F_TIMEOUT(storm, overwrite_leaves_the_last, 120)
{
	static struct checker c[MAX_CPUS];
	unsigned int cpu;

	CTL("open subbuf=4096 n=8 mode=overwrite");
	CTL("storm count=%u fn=write len=200 vary=1 irq=3 period=700", storm_rounds(5000));
	CTL("stormwait");
	for (cpu = 0; cpu < online_cpus(); cpu++) {
		struct bytes got = {};
		long long task = info("cpu%u.task", cpu);
		long long irq = info("cpu%u.irq", cpu);
		long long firsts;

		c[cpu].cpus = online_cpus();
		ASSERT_EQ(0, read_all(open_cpu(cpu), &got, 4096));
		ASSERT_LT(6 * 4096, got.len);
		ASSERT_EQ(0, check_bytes(&c[cpu], got.data, got.len));
		ASSERT_EQ(0, c[cpu].bad);
		/* all that is missing was before the first one read */
		ASSERT_EQ(task, c[cpu].next[cpu][RST_TASK]);
		firsts = task + irq - c[cpu].got;
		ASSERT_EQ(firsts, c[cpu].missing +
			  (irq - c[cpu].next[cpu][RST_IRQ]));
		ASSERT_EQ(0, info("cpu%u.refused", cpu));
		bytes_free(&got);
	}
}

/*
 * A reader's report about a buffer that is being reset does not count as a report about the new
 * one.
 */
TEST_F(storm, reset_while_a_reader_reports)
{
	CTL("open subbuf=256 n=4");
	EXPECT_EQ(0, result_of("resetstorm n=%u", storm_rounds(40000)));
}

TEST_HARNESS_MAIN
