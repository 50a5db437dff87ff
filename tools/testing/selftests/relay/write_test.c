// SPDX-License-Identifier: GPL-2.0
/*
 * Writing: the three write functions, both modes, switching, statistics.
 */
#include "relay_test.h"

RELAY_FIXTURE(write);

#define FULL	1	/* RELAY_STATS_BUF_FULL */
#define BIG	2	/* RELAY_STATS_WRT_BIG */

static long long stats(int flags)
{
	return ctl("stats flags=%d", flags) ? INFO_NONE : info("result");
}

/* Each function, in the contexts that it is for. */
RELAY_FIXTURE(written_by);
FIXTURE_VARIANT(written_by)
{
	const char *how;
	unsigned int ctx;
};

FIXTURE_VARIANT_ADD(written_by, relay_write) { "fn=write", RST_TASK };
FIXTURE_VARIANT_ADD(written_by, relay_write_in_interrupt) { "fn=write ctx=irq", RST_IRQ };
FIXTURE_VARIANT_ADD(written_by, relay_write_preempt) { "fn=__write", RST_TASK };
FIXTURE_VARIANT_ADD(written_by, relay_reserve) { "fn=reserve", RST_TASK };
FIXTURE_VARIANT_ADD(written_by, relay_reserve_in_interrupt) { "fn=reserve ctx=irq", RST_IRQ };
FIXTURE_VARIANT_ADD(written_by, relay_try_write) { "fn=try", RST_TASK };
FIXTURE_VARIANT_ADD(written_by, relay_try_write_in_interrupt) { "fn=try ctx=irq", RST_IRQ };
FIXTURE_VARIANT_ADD(written_by, relay_try_write_in_nmi) { "fn=try ctx=nmi", RST_TASK };

TEST_F(written_by, reads_back)
{
	struct bytes want = {};

	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(40, result_of("write cpu=1 len=300 count=40 %s", variant->how));
	for (int i = 0; i < 40; i++)
		bytes_record(&want, 1, variant->ctx, i, 300);
	ASSERT_TRUE(cpu_reads(1, &want));
}

/* offset + length, in a size_t */
TEST_F(write, a_length_that_wraps_is_refused)
{
	int i, lengths[] = { -100, -50, -1 };

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100 fn=try");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, result_of("wrap cpu=0 len=%d", lengths[i]));
		ASSERT_EQ(100, info("cpu0.offset"));
		ASSERT_EQ(i + 1, info("lost"));
	}
	CTL("write cpu=0 len=100 fn=try");
	ASSERT_TRUE(cpu_reads_records(0, 0, 100, 2));
}

TEST_F(write, each_cpu_its_own_buffer)
{
	unsigned int cpu, ncpus = online_cpus();

	CTL("open subbuf=4096 n=4");
	for (cpu = 0; cpu < ncpus; cpu++)
		CTL("write cpu=%u len=100 count=%u", cpu, cpu + 1);
	for (cpu = 0; cpu < ncpus; cpu++) {
		struct bytes want = {};

		bytes_records(&want, cpu, 0, 100, cpu + 1);
		ASSERT_TRUE(cpu_reads(cpu, &want));
	}
}

TEST_F(write, zero_length_changes_nothing)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	CTL("write cpu=0 len=0 count=3");
	CTL("write cpu=0 len=0 count=3 fn=reserve");
	ASSERT_TRUE(state("cpu0.offset=100 cpu0.produced=0"));
	ASSERT_TRUE(cpu_reads_records(0, 0, 100, 1));
}

TEST_F(write, as_large_as_a_subbuf)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(2, result_of("write cpu=0 len=4096 count=2"));
	ASSERT_TRUE(state("cpu0.produced=1 cpu0.padding0=0"));
	ASSERT_EQ(0, stats(BIG));
}

TEST_F(write, larger_than_a_subbuf_is_dropped)
{
	struct bytes want = {};

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	ASSERT_EQ(0, result_of("write cpu=0 len=4097 count=3"));
	ASSERT_EQ(0, result_of("write cpu=0 len=4097 fn=reserve"));
	ASSERT_TRUE(state("cpu0.produced=0 cpu0.offset=100"));
	ASSERT_EQ(4, stats(BIG));
	ASSERT_EQ(0, stats(FULL));
	CTL("write cpu=0 len=100");
	bytes_records(&want, 0, 0, 100, 1);
	bytes_records(&want, 0, 5, 100, 1);
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(write, larger_than_what_a_header_leaves_is_dropped)
{
	CTL("open subbuf=4096 n=4 mode=nooverwrite reserve=100");
	ASSERT_EQ(0, result_of("write cpu=0 len=3997"));
	ASSERT_EQ(1, stats(BIG));
	/* known only after the switch */
	ASSERT_EQ(1, info("cpu0.produced"));
	ASSERT_EQ(1, result_of("write cpu=0 len=3996"));
	ASSERT_EQ(1, stats(BIG));
}

TEST_F(write, default_mode_drops_when_full)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(16, result_of("write cpu=0 len=1000 count=20"));
	ASSERT_TRUE(state("cpu0.full=1 cpu0.produced=4"));
	ASSERT_EQ(4, stats(FULL));
	ASSERT_TRUE(cpu_reads_records(0, 0, 1000, 16));
}

TEST_F(write, default_mode_resumes_after_consumed)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=20");
	CTL("consumed cpu=0 n=2");
	ASSERT_EQ(0, info("cpu0.full"));
	ASSERT_EQ(8, result_of("write cpu=0 len=1000 count=20"));
	ASSERT_TRUE(state("cpu0.produced=6 cpu0.consumed=2"));
}

TEST_F(write, nooverwrite_keeps_the_first)
{
	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	ASSERT_EQ(16, result_of("write cpu=0 len=1000 count=20"));
	ASSERT_EQ(4, info("cpu0.refused"));
	ASSERT_EQ(4, stats(FULL));
	ASSERT_TRUE(cpu_reads_records(0, 0, 1000, 16));
}

TEST_F(write, overwrite_never_refuses)
{
	CTL("open subbuf=4096 n=4 mode=overwrite");
	ASSERT_EQ(100, result_of("write cpu=0 len=1000 count=100"));
	ASSERT_TRUE(state("cpu0.produced=24 cpu0.refused=0"));
}

TEST_F(write, overwrite_cycles_through_the_buffer)
{
	uint8_t *p, want[1000];
	int i;

	CTL("open subbuf=4096 n=4 mode=overwrite");
	CTL("write cpu=0 len=1000 count=32");
	p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, open_cpu(0), 0);
	ASSERT_NE(MAP_FAILED, p);
	for (i = 0; i < 16; i++) {
		rst_fill(want, 0, RST_TASK, 16 + i, 1000);
		ASSERT_EQ(0, memcmp(p + i / 4 * 4096 + i % 4 * 1000, want, 1000));
	}
}

TEST_F(write, stopped_by_the_callback_and_resumed)
{
	CTL("open subbuf=4096 n=4 mode=stop");
	ASSERT_EQ(4, result_of("write cpu=0 len=1000 count=10"));
	ASSERT_EQ(6, info("cpu0.refused"));
	ASSERT_EQ(0, stats(FULL));
	CTL("mode mode=nooverwrite");
	ASSERT_EQ(10, result_of("write cpu=0 len=1000 count=10"));
	ASSERT_EQ(3, info("cpu0.produced"));
}

TEST_F(write, smaller_record_while_full_is_dropped_too)
{
	CTL("open subbuf=4096 n=2");
	ASSERT_EQ(8, result_of("write cpu=0 len=1000 count=9"));
	ASSERT_EQ(0, result_of("write cpu=0 len=10"));
}

TEST_F(write, first_subbuf_start_has_no_previous)
{
	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	ASSERT_EQ(online_cpus(), info("first_starts"));
	ASSERT_EQ(online_cpus(), info("starts"));
	ASSERT_TRUE(state("last_index=0 last_prev=-1"));
}

TEST_F(write, subbuf_start_sees_new_and_previous)
{
	int i, starts;

	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	starts = info("starts");
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(1, result_of("write cpu=0 len=4096"));
		/* the very first one fits where it is */
		if (!i)
			continue;
		ASSERT_EQ(starts + i, info("starts"));
		ASSERT_EQ(i % 4, info("last_index"));
		ASSERT_EQ((i - 1) % 4, info("last_prev"));
		CTL("consumed cpu=0 n=1");
	}
}

TEST_F(write, subbuf_start_is_asked_again_while_full)
{
	int i, starts;

	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	CTL("write cpu=0 len=4096 count=4");
	starts = info("starts");
	for (i = 1; i <= 3; i++) {
		CTL("write cpu=0 len=4096");
		ASSERT_EQ(starts + i, info("starts"));
		ASSERT_TRUE(state("last_index=0 last_prev=3 cpu0.produced=4"));
	}
}

TEST_F(write, start_reserve_leaves_room_in_each_subbuf)
{
	struct bytes got = {}, want = {};
	uint8_t zero[16] = {};
	int i;

	CTL("open subbuf=4096 n=4 mode=nooverwrite reserve=16");
	ASSERT_EQ(16, info("cpu0.offset"));
	ASSERT_EQ(9, result_of("write cpu=0 len=1020 count=9"));
	for (i = 0; i < 9; i++) {
		if (i % 4 == 0)
			bytes_add(&want, zero, 16);
		bytes_records(&want, 0, i, 1020, 1);
	}
	ASSERT_EQ(0, info("cpu0.padding0"));
	ASSERT_EQ(16 + 1020, info("cpu0.offset"));
	ASSERT_EQ(0, read_all(open_cpu(0), &got, 4096));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(write, padding_of_a_reused_subbuf_is_cleared)
{
	CTL("open subbuf=4096 n=2 mode=overwrite");
	CTL("write cpu=0 len=3000 count=3");
	ASSERT_TRUE(state("cpu0.produced=2 cpu0.padding0=0 cpu0.padding1=1096"));
}

TEST_F(write, padding_is_what_was_left)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=4");
	CTL("write cpu=0 len=3000");
	CTL("write cpu=0 len=4096");
	CTL("write cpu=0 len=1");
	ASSERT_TRUE(state("cpu0.produced=3 cpu0.padding0=96 cpu0.padding1=1096 cpu0.padding2=0 cpu0.padding3=0"));
}

TEST_F(write, stats_bad_flags_are_zero)
{
	CTL("open subbuf=4096 n=2");
	CTL("write cpu=0 len=4096 count=4");
	CTL("write cpu=0 len=5000 count=3");
	ASSERT_EQ(2, stats(FULL));
	ASSERT_EQ(3, stats(BIG));
	ASSERT_EQ(0, stats(0));
	ASSERT_EQ(0, stats(3));
	ASSERT_EQ(0, stats(4));
	ASSERT_EQ(0, stats(0x7fffffff));
}

TEST_F(write, stats_sum_all_cpus)
{
	unsigned int cpu, sum = 0;

	CTL("open subbuf=4096 n=2");
	for (cpu = 0; cpu < online_cpus(); cpu++) {
		CTL("write cpu=%u len=4096 count=%u", cpu, 3 + cpu);
		CTL("write cpu=%u len=5000 count=%u", cpu, 1 + cpu);
		sum += 1 + cpu;
	}
	ASSERT_EQ(sum, stats(FULL));
	ASSERT_EQ(sum, stats(BIG));
}

/* Each counter is 32 bits in <linux/relay.h>, and is set to be about to wrap. */
TEST_F(write, stats_count_beyond_32_bits)
{
	CTL("open subbuf=4096 n=2");
	CTL("write cpu=0 len=4096 count=2");
	CTL("setstats cpu=0 full=0xffffffff big=0xfffffff0");
	CTL("write cpu=0 len=4096 count=3");
	CTL("write cpu=0 len=5000 count=16");
	ASSERT_EQ(0x100000002LL, stats(FULL));
	ASSERT_EQ(0x100000000LL, stats(BIG));
}

TEST_F(write, stats_sum_does_not_wrap)
{
	int cpu;

	CTL("open subbuf=4096 n=2");
	for (cpu = 0; cpu < 2; cpu++) {
		CTL("write cpu=%d len=4096 count=2", cpu);
		CTL("setstats cpu=%d full=0xfffffff0 big=0xfffffff8", cpu);
		CTL("write cpu=%d len=4096", cpu);
		CTL("write cpu=%d len=5000", cpu);
	}
	ASSERT_EQ(2 * 0xfffffff1LL, stats(FULL));
	ASSERT_EQ(2 * 0xfffffff9LL, stats(BIG));
}

TEST_F(write, consumed_more_than_ready_is_all)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=4096 count=3");
	CTL("consumed cpu=0 n=4");
	ASSERT_TRUE(state("cpu0.produced=2 cpu0.consumed=2"));
}

TEST_F(write, consumed_more_than_exist_is_ignored)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=4096 count=3");
	CTL("consumed cpu=0 n=5");
	ASSERT_EQ(0, info("cpu0.consumed"));
	CTL("consumed cpu=0 n=-1");
	ASSERT_EQ(0, info("cpu0.consumed"));
	CTL("consumed cpu=0 n=0");
	ASSERT_EQ(0, info("cpu0.consumed"));
}

static bool nothing_is_consumed(void)
{
	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++)
		if (info("cpu%u.consumed", cpu))
			return false;
	return true;
}

TEST_F(write, consumed_bad_cpu_is_ignored)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=4096 count=3");
	CTL("consumed cpu=0xffffffff n=1");
	CTL("consumed cpu=65536 n=1");
	ASSERT_TRUE(nothing_is_consumed());
}

/* below NR_CPUS, but not a CPU that this machine can have */
TEST_F(write, consumed_impossible_cpu_is_ignored)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=4096 count=3");
	CTL("consumed cpu=%lld n=1", info("cpus"));
	ASSERT_TRUE(nothing_is_consumed());
}

TEST_F(write, reset_starts_anew)
{
	int i, starts, firsts;

	CTL("open subbuf=4096 n=4 mode=nooverwrite reserve=8");
	CTL("write cpu=0 len=1000 count=30");
	CTL("write cpu=0 len=5000");
	CTL("consumed cpu=0 n=1");
	starts = info("starts");
	firsts = info("first_starts");
	CTL("reset");
	ASSERT_TRUE(state("cpu0.produced=0 cpu0.consumed=0 cpu0.offset=8 cpu0.full=0"));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, info("cpu0.padding%d", i));
	ASSERT_EQ(0, stats(FULL));
	ASSERT_EQ(0, stats(BIG));
	ASSERT_EQ(starts + online_cpus(), info("starts"));
	ASSERT_EQ(firsts + online_cpus(), info("first_starts"));
}

TEST_F(write, flush_of_an_empty_buffer_burns_a_subbuf)
{
	CTL("open subbuf=4096 n=4");
	CTL("flush");
	ASSERT_TRUE(state("cpu0.produced=1 cpu0.padding0=4096"));
}

TEST_F(write, flush_finishes_a_subbuf)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	CTL("write cpu=1 len=200");
	CTL("flush");
	ASSERT_TRUE(state("cpu0.produced=1 cpu0.padding0=3996 cpu0.offset=0 cpu1.produced=1 cpu1.padding0=3896"));
}

TEST_F(write, flush_of_a_full_buffer_changes_nothing)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(4, result_of("write cpu=0 len=4096 count=5"));
	CTL("flush");
	CTL("flush");
	ASSERT_TRUE(state("cpu0.produced=4 cpu0.full=1"));
	ASSERT_TRUE(cpu_reads_records(0, 0, 4096, 4));
}

TEST_F(write, flush_into_full_then_write)
{
	struct bytes want = {};

	/* the flush finishes the last sub-buffer; the buffer is full */
	CTL("open subbuf=4096 n=2");
	CTL("write cpu=0 len=4096 count=2");
	CTL("flush");
	ASSERT_EQ(2, info("cpu0.produced"));
	ASSERT_EQ(0, result_of("write cpu=0 len=10"));
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(1, result_of("write cpu=0 len=10"));
	bytes_records(&want, 0, 1, 4096, 1);
	bytes_records(&want, 0, 3, 10, 1);
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(write, flush_does_not_switch_under_a_writer)
{
	ASSERT_EQ(0, pin_to(0));
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=1 len=100");
	ASSERT_EQ(0, result_of("flushrace cpu=1"));
}

TEST_F(write, flush_reaches_every_cpu)
{
	unsigned int cpu;

	CTL("open subbuf=4096 n=4");
	for (cpu = 0; cpu < online_cpus(); cpu++)
		CTL("write cpu=%u len=64", cpu);
	CTL("flush");
	for (cpu = 0; cpu < online_cpus(); cpu++)
		ASSERT_EQ(1, info("cpu%u.produced", cpu));
}

TEST_F(write, switch_subbuf_directly)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	ASSERT_EQ(50, result_of("switch cpu=0 len=50"));
	ASSERT_TRUE(state("cpu0.produced=1 cpu0.padding0=3996"));
	/* the caller moves the offset */
	ASSERT_EQ(0, info("cpu0.offset"));
}

TEST_F(write, switch_subbuf_too_big)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	ASSERT_EQ(0, result_of("switch cpu=0 len=4097"));
	ASSERT_EQ(0, result_of("switch cpu=0 len=-1"));
	ASSERT_EQ(0, result_of("switch cpu=0 len=-4096"));
	ASSERT_TRUE(state("cpu0.produced=0 cpu0.offset=100"));
	ASSERT_EQ(3, stats(BIG));
}

TEST_F(write, switch_subbuf_full)
{
	CTL("open subbuf=4096 n=2");
	CTL("write cpu=0 len=4096 count=2");
	ASSERT_EQ(0, result_of("switch cpu=0 len=10"));
	ASSERT_TRUE(state("cpu0.produced=2 cpu0.full=1"));
}

/*
 * A record that needs a new sub-buffer wakes the poller, and a tracer of that writes another one,
 * which fits after the end of the sub-buffer that is being finished. Records that the writes report
 * as written must be in the buffer.
 */
static bool written_by_a_tracer(const char *global, const char *fn)
{
	struct waiter w = {};
	struct bytes want = {};
	bool ok;

	if (ctl("open subbuf=4096 n=4 %s", global) ||
	    ctl("write cpu=0 len=1000 count=4 %s", fn))
		return false;
	start_waiter(&w, open_cpu(0));
	ok = !ctl("nest at=wake len=64") && !ctl("write cpu=0 len=1000 %s", fn) &&
	     info("result") == 1 && !ctl("nest at=none");
	woken_with(&w);
	close(w.fd);
	fprintf(stderr, "# nested: %lld, of these %lld written and %lld lost\n", info("nested"),
		info("nested_ok"), info("lost"));
	bytes_records(&want, 0, 0, 1000, 5);
	ok = ok && info("nested") == 1 && info("nested_ok") == 0 && info("lost") == 1 &&
	     cpu_reads(0, &want);
	bytes_free(&want);
	return !ctl("close") && ok;
}

TEST_F(write, a_tracer_of_a_switch_writes)
{
	ASSERT_TRUE(written_by_a_tracer("", "fn=try"));
	ASSERT_TRUE(written_by_a_tracer("global=1", "fn=try"));
}

/* It traces relay_write() of <linux/relay.h>. */
TEST_F(write, a_tracer_of_a_switch_in_the_header_writes)
{
	ASSERT_TRUE(written_by_a_tracer("", "fn=write"));
	ASSERT_TRUE(written_by_a_tracer("global=1", "fn=write"));
}

/*
 * A writer that interrupts subbuf_start() and calls relay_write() is refused, and harms no other
 * record; once the callback has reserved bytes in a free sub-buffer, it writes after them.
 */
static bool written_within_subbuf_start(unsigned int reserve, unsigned int nested)
{
	struct bytes got = {}, want = {};
	size_t last;
	bool ok;
	int fd;

	if (ctl("open subbuf=4096 n=4 mode=nooverwrite reserve=%u", reserve) ||
	    ctl("write cpu=0 len=%u count=4", (4096 - 96 - reserve) / 4) || ctl("nest at=start len=64"))
		return false;
	ok = !ctl("write cpu=0 len=1000") && info("result") == 1 && !ctl("nest at=none");
	fprintf(stderr, "# nested: %lld, of these %lld written and %lld lost\n", info("nested"),
		info("nested_ok"), info("lost"));
	ok = ok && info("nested") == 1 + nested && info("nested_ok") == nested && info("lost") == 1;
	fd = open_cpu(0);
	ok = ok && !read_all(fd, &got, 4096);
	/* four records, reserved bytes, the nested record, and the fifth record */
	bytes_records(&want, 0, 0, (4096 - 96 - reserve) / 4, 4);
	ok = ok && got.len == reserve + want.len + reserve + nested * 64 + 1000 &&
	     !memcmp(got.data + reserve, want.data, want.len);
	last = got.len - 1000;
	bytes_free(&want);
	bytes_records(&want, 0, 4, 1000, 1);
	ok = ok && !memcmp(got.data + last, want.data, 1000);
	bytes_free(&want);
	bytes_record(&want, 0, RST_IRQ, 0, 64);
	ok = ok && (!nested || !memcmp(got.data + last - 64, want.data, 64));
	bytes_free(&want);
	bytes_free(&got);
	close(fd);
	return !ctl("close") && ok;
}

TEST_F(write, within_subbuf_start)
{
	ASSERT_TRUE(written_within_subbuf_start(0, 0));
	ASSERT_TRUE(written_within_subbuf_start(32, 1));
}

TEST_F(write, null_channel_is_ignored)
{
	ASSERT_EQ(0, result_of("null"));
}

TEST_HARNESS_MAIN
