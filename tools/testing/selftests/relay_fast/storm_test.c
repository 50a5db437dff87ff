// SPDX-License-Identifier: GPL-2.0
/*
 * Records from tasks, softirqs, interrupts and NMIs of all CPUs at once, one within the other, against
 * readers that check every byte.
 */
#include "relay_test.h"
#include "reader.h"

RELAY_FIXTURE(storm);

static const char * const ctx_name[] = { "task", "softirq", "irq", "nmi" };

#define MAX_CPUS	8

struct storm {
	unsigned int subbuf, n;
	bool overwrite;
	unsigned int period;		/* microseconds between the timers' interrupts */
	uint64_t watermark;
	size_t step;			/* bytes a read(), 0 for 65536 */
	bool (*how)(unsigned int cpu);	/* returns true if the CPU's buffer is mapped */
	unsigned int inside;		/* NMIs to see inside of other contexts' records */
};

static bool mapped(unsigned int cpu)
{
	return true;
}

static bool by_read(unsigned int cpu)
{
	return false;
}

static bool by_turns(unsigned int cpu)
{
	return cpu % 2;
}

static long long sum(const char *ctx, const char *what)
{
	long long total = 0;

	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++)
		total += info("cpu%u.%s.%s", cpu, ctx, what);
	return total;
}

static bool storm_on(const struct storm *s)
{
	unsigned int rounds = 0;

	do {
		if (ctl("storm ms=%u period=%u", storm_rounds(1000), s->period) || ctl("stormwait"))
			return false;
		rounds++;
		/* on a slow machine as many as it takes */
	} while (rounds < 3 || sum("nmi", "inside") < storm_rounds(s->inside));
	for (int i = 0; i < FST_NR_CTX; i++)
		fprintf(stderr, "# %s: %lld tried, %lld refused, %lld inside of others' records\n", ctx_name[i],
			sum(ctx_name[i], "tried"), sum(ctx_name[i], "refused"), sum(ctx_name[i], "inside"));
	return true;
}

/*
 * Without overwriting, each record that was tried has been read, given up, or refused and counted.
 */
static bool adds_up(struct seen *seen, bool all)
{
	unsigned long long lost = 0;
	struct mapped m;
	bool ok = true;

	for (int i = 0; i < FST_NR_CTX; i++) {
		long long tried = info("cpu%u.%s.tried", seen->cpu, ctx_name[i]);
		long long refused = info("cpu%u.%s.refused", seen->cpu, ctx_name[i]);
		long long discarded = info("cpu%u.%s.discarded", seen->cpu, ctx_name[i]);

		lost += refused;
		if (!all ? seen->ctx[i].got > tried :
		    tried != seen->ctx[i].got + discarded + refused || seen->ctx[i].discarded != discarded) {
			fprintf(stderr, "# cpu%u %s: tried %lld, refused %lld, discarded %lld;", seen->cpu, ctx_name[i],
				tried, refused, discarded);
			fprintf(stderr, " read %u and %u discarded\n", seen->ctx[i].got, seen->ctx[i].discarded);
			ok = false;
		}
	}
	if (!map_buffer(&m, seen->cpu))
		return false;
	if (m.ctl->lost != lost) {
		fprintf(stderr, "# cpu%u: %llu lost, %llu refused\n", seen->cpu, (unsigned long long)m.ctl->lost, lost);
		ok = false;
	}
	if (m.ctl->reserve & RELAY_FAST_IN_FLIGHT) {
		fprintf(stderr, "# cpu%u: records in flight for ever\n", seen->cpu);
		ok = false;
	}
	if (all && consumed(&m) != produced(&m)) {
		fprintf(stderr, "# cpu%u: consumed %llu of %llu\n", seen->cpu, (unsigned long long)consumed(&m),
			(unsigned long long)produced(&m));
		ok = false;
	}
	unmap_buffer(&m);
	return ok;
}

static bool weather(const struct storm *s)
{
	unsigned int cpu, ncpus = online_cpus();
	struct reader r[MAX_CPUS] = {};
	uint64_t records = 0, sleeps = 0;
	long long lost = 0;
	bool ok;

	if (ncpus > MAX_CPUS || ctl("open subbuf=%u n=%u flags=%d", s->subbuf, s->n, s->overwrite))
		return false;
	for (cpu = 0; cpu < ncpus; cpu++) {
		r[cpu].cpu = cpu;
		r[cpu].how = s->how(cpu) ? MAPPED : READ;
		r[cpu].step = s->step ? s->step : 65536;
		r[cpu].watermark = s->watermark;
		r[cpu].subbuf = s->subbuf;
		reader_start(&r[cpu]);
	}
	ok = storm_on(s);
	for (cpu = 0; cpu < ncpus; cpu++) {
		ok &= reader_stop(&r[cpu]);
		records += r[cpu].seen.records;
		sleeps += r[cpu].sleeps;
	}
	for (cpu = 0; cpu < ncpus; cpu++)
		ok &= adds_up(&r[cpu].seen, !s->overwrite);
	for (int i = 0; i < FST_NR_CTX; i++)
		lost += sum(ctx_name[i], "refused");
	ok &= info("lost") == lost;
	fprintf(stderr, "# %llu records read, %llu polls, %lld lost\n", (unsigned long long)records,
		(unsigned long long)sleeps, lost);
	return ok;
}

#define NMIS		2000
/* most of them are refused, as there is room for two records */
#define NMIS_TINY	300

TEST_F_TIMEOUT(storm, mapped, 120)
{
	struct storm s = { .subbuf = 4096, .n = 8, .period = 1000, .how = mapped, .inside = NMIS };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, mapped_tiny, 120)
{
	struct storm s = { .subbuf = 64, .n = 2, .period = 1000, .how = mapped, .watermark = 8, .inside = NMIS_TINY };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, read, 120)
{
	struct storm s = { .subbuf = 4096, .n = 8, .period = 1000, .how = by_read, .inside = NMIS };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, read_tiny, 120)
{
	struct storm s = { .subbuf = 64, .n = 2, .period = 1000, .how = by_read, .inside = NMIS_TINY };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, read_in_odd_pieces, 120)
{
	struct storm s = { .subbuf = 1024, .n = 4, .period = 1000, .how = by_read, .step = 1025 };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, both_large, 120)
{
	struct storm s = { .subbuf = 262144, .n = 4, .period = 400, .how = by_turns, .step = 262144,
			   .watermark = 1 << 30, .inside = NMIS };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, overwrite, 120)
{
	struct storm s = { .subbuf = 4096, .n = 4, .overwrite = true, .period = 500, .how = mapped,
			   .inside = NMIS };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, overwrite_tiny, 120)
{
	struct storm s = { .subbuf = 64, .n = 2, .overwrite = true, .period = 500, .how = mapped, .watermark = 8 };

	ASSERT_TRUE(weather(&s));
}

/* A reader that was overtaken continues at a record, not in the middle of one. */
TEST_F_TIMEOUT(storm, overwrite_read, 120)
{
	struct storm s = { .subbuf = 4096, .n = 4, .overwrite = true, .period = 500, .how = by_read };

	ASSERT_TRUE(weather(&s));
}

TEST_F_TIMEOUT(storm, overwrite_read_in_odd_pieces, 120)
{
	struct storm s = { .subbuf = 1024, .n = 4, .overwrite = true, .period = 500, .how = by_read, .step = 1101 };

	ASSERT_TRUE(weather(&s));
}

/* A flight recorder: without a reader, the last records are left, without a gap. */
TEST_F_TIMEOUT(storm, what_is_left_after_overwriting, 120)
{
	struct storm s = { .subbuf = 4096, .n = 8, .overwrite = true, .period = 500 };

	CTL("open subbuf=4096 n=8 flags=1");
	ASSERT_TRUE(storm_on(&s));
	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++) {
		struct seen seen = { .cpu = cpu, .subbuf = 4096 };
		uint64_t position, kept, refused = 0;
		struct mapped m;

		ASSERT_TRUE(map_buffer(&m, cpu));
		kept = position = relay_fast_kept(m.ctl);
		ASSERT_LT(0, kept);
		ASSERT_EQ(kept, m.ctl->overwritten);
		ASSERT_LT(7 * 4096, produced(&m) - kept);
		drain_mapped(&m, &seen, &position);
		ASSERT_FALSE(seen.bad);
		ASSERT_EQ(produced(&m), position);
		for (int i = 0; i < FST_NR_CTX; i++) {
			struct fst_plan plan;
			uint32_t tried = info("cpu%u.%s.tried", cpu, ctx_name[i]);

			/* records that fit nowhere are still refused */
			refused += info("cpu%u.%s.refused", cpu, ctx_name[i]);
			if (!seen.ctx[i].next)
				continue;
			do {
				plan = fst_plan(i, --tried, 4096);
			} while (plan.len > 4096 - (plan.timed ? 16 : 8));
			/* by the known part of its number, if the record is too short to have it */
			ASSERT_EQ((tried + 1) & FST_SEQ_MASK, seen.ctx[i].next & FST_SEQ_MASK);
		}
		ASSERT_EQ(m.ctl->lost, refused);
		unmap_buffer(&m);
	}
}

TEST_F(storm, read_gives_whole_records)
{
	uint8_t buf[4096];
	int fd;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=1 len=100 count=10");
	fd = open_cpu(1);
	ASSERT_EQ(-1, read(fd, buf, 111));
	ASSERT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(112, read(fd, buf, 112));
	ASSERT_EQ(112, read(fd, buf, 223));
	ASSERT_EQ(2 * 112, read(fd, buf, 2 * 112));
	ASSERT_EQ(6 * 112, read(fd, buf, sizeof(buf)));
	ASSERT_EQ(0, read(fd, buf, 8));
}

/* Records that are reserved and not committed are invisible, as are all after them. */
TEST_F(storm, uncommitted_is_not_seen)
{
	struct seen seen = { .cpu = 1 };
	uint64_t position = 0;
	struct mapped m;
	uint8_t buf[4096];

	ASSERT_EQ(0, pin_to(0));
	CTL("open subbuf=4096 n=4");
	ASSERT_TRUE(map_buffer(&m, 1));
	CTL("write cpu=1 len=100 count=3");
	CTL("hold cpu=1 len=200");
	ASSERT_EQ(3 * 112 + 208, produced(&m));
	drain_mapped(&m, &seen, &position);
	ASSERT_FALSE(seen.bad);
	/* it may be less than all complete records, never more */
	ASSERT_GE(3 * 112, position);
	ASSERT_EQ(position, read(m.fd, buf, sizeof(buf)));
	ASSERT_EQ(0, read(m.fd, buf, sizeof(buf)));
	CTL("release");
	drain_mapped(&m, &seen, &position);
	ASSERT_FALSE(seen.bad);
	ASSERT_EQ(3 * 112 + 208, position);
	ASSERT_EQ(4, seen.records);
}

TEST_HARNESS_MAIN
