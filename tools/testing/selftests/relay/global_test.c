// SPDX-License-Identifier: GPL-2.0
/*
 * Channels with one buffer for all CPUs.
 */
#include "relay_test.h"

RELAY_FIXTURE(global);

TEST_F(global, one_file)
{
	CTL("open subbuf=4096 n=4 global=1");
	ASSERT_TRUE(state("creates=1 is_global=1"));
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu0"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu1"));
	CTL("close");
	ASSERT_TRUE(state("removes=1 live=0"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu0"));
}

TEST_F(global, writes_of_every_cpu_in_order)
{
	unsigned int cpu, round, ncpus = online_cpus();
	struct bytes want = {};

	CTL("open subbuf=4096 n=4 global=1");
	for (round = 0; round < 3; round++) {
		for (cpu = 0; cpu < ncpus; cpu++) {
			ASSERT_EQ(1, result_of("write cpu=%u len=500", cpu));
			bytes_records(&want, cpu, round, 500, 1);
		}
	}
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(global, every_cpu_has_the_same_buffer)
{
	unsigned int cpu;

	CTL("open subbuf=4096 n=4 global=1");
	CTL("write cpu=1 len=123");
	for (cpu = 0; cpu < online_cpus(); cpu++) {
		ASSERT_EQ(123, info("cpu%u.offset", cpu));
		ASSERT_EQ(0, info("cpu%u.bufcpu", cpu));
	}
}

TEST_F(global, interrupt_and_task)
{
	struct bytes want = {};

	CTL("open subbuf=4096 n=4 global=1");
	CTL("write cpu=1 len=100 ctx=irq");
	CTL("write cpu=2 len=100 ctx=task");
	CTL("write cpu=3 len=100 ctx=irq");
	bytes_record(&want, 1, RST_IRQ, 0, 100);
	bytes_record(&want, 2, RST_TASK, 0, 100);
	bytes_record(&want, 3, RST_IRQ, 0, 100);
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(global, subbuf_start_once)
{
	CTL("open subbuf=4096 n=4 global=1 mode=nooverwrite");
	ASSERT_TRUE(state("starts=1 first_starts=1"));
}

TEST_F(global, drops_when_full)
{
	CTL("open subbuf=4096 n=2 global=1");
	CTL("write cpu=1 len=4096 count=1");
	ASSERT_EQ(1, result_of("write cpu=2 len=4096 count=4"));
	ASSERT_EQ(3, result_of("stats flags=1"));
}

TEST_F(global, stats_big)
{
	CTL("open subbuf=4096 n=2 global=1");
	CTL("write cpu=2 len=5000 count=4");
	ASSERT_EQ(4, result_of("stats flags=2"));
}

TEST_F(global, flush_once)
{
	CTL("open subbuf=4096 n=4 global=1");
	CTL("write cpu=1 len=100");
	CTL("flush");
	ASSERT_TRUE(state("cpu0.produced=1 cpu0.padding0=3996"));
}

TEST_F(global, reset)
{
	CTL("open subbuf=4096 n=4 global=1 mode=nooverwrite");
	CTL("write cpu=1 len=4096 count=3");
	CTL("reset");
	ASSERT_TRUE(state("cpu0.produced=0 cpu0.offset=0 first_starts=2"));
}

TEST_F(global, consumed_through_any_cpu)
{
	CTL("open subbuf=4096 n=4 global=1");
	CTL("write cpu=1 len=4096 count=4");
	CTL("consumed cpu=2 n=1");
	CTL("consumed cpu=0 n=1");
	ASSERT_EQ(2, info("cpu0.consumed"));
}

TEST_F(global, mapped)
{
	struct bytes want = {};
	uint8_t *p;
	int fd;

	CTL("open subbuf=4096 n=4 global=1");
	fd = open_cpu(0);
	p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	CTL("write cpu=1 len=100");
	CTL("write cpu=3 len=100");
	bytes_records(&want, 1, 0, 100, 1);
	bytes_records(&want, 3, 0, 100, 1);
	ASSERT_EQ(0, memcmp(p, want.data, want.len));
}

TEST_F(global, without_a_name)
{
	CTL("open subbuf=4096 n=4 global=1 noname=1");
	ASSERT_TRUE(state("creates=1 null_names=1"));
	ASSERT_EQ(1, result_of("write cpu=2 len=100"));
	ASSERT_EQ(100, info("cpu0.offset"));
	CTL("close");
	ASSERT_EQ(1, info("removes"));
}

TEST_F(global, create_fails)
{
	ASSERT_EQ(-ENOMEM, ctl("open subbuf=4096 n=4 global=1 fail=0"));
	ASSERT_TRUE(state("creates=1 removes=0 live=0"));
}

/*
 * The writers bring no lock of their own ("try"), and CPU 1 is kept inside of a
 * switch for a while.
 */
#define HELD_SWITCH							\
	do {								\
		ASSERT_EQ(0, pin_to(0));				\
		CTL("open subbuf=4096 n=4 global=1 mode=nooverwrite");	\
		CTL("write cpu=1 len=1024 count=4 fn=try");		\
		ASSERT_EQ(4, info("result"));				\
		CTL("hold cpu=1 len=1024 fn=try ms=300");		\
	} while (0)

/* Reads CPU 1's five records, and after them @count of CPU 0 from @seq on. */
static bool five_and(unsigned int seq, unsigned int count)
{
	struct bytes want = {};

	bytes_records(&want, 1, 0, 1024, 5);
	bytes_records(&want, 0, seq, 1024, count);
	return cpu_reads(0, &want);
}

TEST_F(global, writers_of_two_cpus_take_turns)
{
	HELD_SWITCH;
	ASSERT_EQ(1, result_of("write cpu=0 len=1024 fn=try"));
	ASSERT_EQ(1, result_of("release"));
	ASSERT_TRUE(five_and(0, 1));
}

/* A tracer of locks writes where CPU 0 has just waited for CPU 1. */
TEST_F(global, a_tracer_of_the_lock_writes)
{
	HELD_SWITCH;
	CTL("nest at=lock len=64");
	ASSERT_EQ(1, result_of("write cpu=0 len=1024 fn=try"));
	CTL("nest at=none");
	CTL("release");
	ASSERT_EQ(info("nested") - info("nested_ok"), info("lost"));
	if (!info("nested_ok"))
		ASSERT_TRUE(five_and(0, 1));
}

TEST_F(global, flush_waits_for_a_writer)
{
	HELD_SWITCH;
	CTL("flush");
	ASSERT_EQ(1, result_of("release"));
	ASSERT_TRUE(state("cpu0.produced=2 cpu0.padding0=0 cpu0.padding1=3072"));
	ASSERT_TRUE(five_and(0, 0));
}

TEST_F(global, an_nmi_does_not_wait_and_is_counted)
{
	HELD_SWITCH;
	ASSERT_EQ(0, result_of("write cpu=0 len=1024 fn=try ctx=nmi"));
	ASSERT_EQ(1, info("lost"));
	CTL("release");
	ASSERT_EQ(1, result_of("write cpu=0 len=1024 fn=try ctx=nmi"));
	ASSERT_EQ(1, info("lost"));
	ASSERT_TRUE(five_and(1, 1));
}

TEST_HARNESS_MAIN
