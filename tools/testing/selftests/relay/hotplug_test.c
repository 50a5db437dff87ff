// SPDX-License-Identifier: GPL-2.0
/* CPUs that go offline and online while a channel is open. CPU 3 is the one that does. */
#include "relay_test.h"

#include <sched.h>

RELAY_CPU_FIXTURE(hotplug);

TEST_F(hotplug, new_cpu_gets_a_buffer)
{
	OFFLINE();
	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	ASSERT_TRUE(state("creates=3 cpu3.buf=0"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu3"));
	ONLINE();
	ASSERT_EQ(4, info("creates"));
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu3"));
	ASSERT_EQ(CPU, info("cpu3.bufcpu"));
	ASSERT_EQ(4, info("first_starts"));
	ASSERT_EQ(9, result_of("write cpu=3 len=1000 count=9"));
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 1000, 9));
	CTL("close");
	ASSERT_TRUE(state("removes=4 live=0"));
}

TEST_F(hotplug, offline_cpu_stays_readable)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=3 len=1000 count=9");
	OFFLINE();
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu3"));
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 1000, 9));
}

TEST_F(hotplug, offline_cpu_stays_mapped)
{
	uint8_t *p, want[1000];

	CTL("open subbuf=4096 n=4");
	p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, open_cpu(CPU), 0);
	ASSERT_NE(MAP_FAILED, p);
	CTL("write cpu=3 len=1000");
	OFFLINE();
	rst_fill(want, CPU, RST_TASK, 0, 1000);
	ASSERT_EQ(0, memcmp(p, want, 1000));
}

TEST_F(hotplug, cpu_that_comes_back_goes_on)
{
	CTL("open subbuf=4096 n=4 mode=nooverwrite");
	CTL("write cpu=3 len=1000 count=3");
	OFFLINE();
	ONLINE();
	ASSERT_TRUE(state("creates=4 cpu3.buf=1 first_starts=4"));
	ASSERT_EQ(3, result_of("write cpu=3 len=1000 count=3"));
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 1000, 6));
}

TEST_F(hotplug, stats_count_offline_cpus)
{
	CTL("open subbuf=4096 n=2");
	CTL("write cpu=3 len=4096 count=5");
	CTL("write cpu=3 len=5000 count=4");
	CTL("write cpu=0 len=5000 count=1");
	OFFLINE();
	ASSERT_EQ(3, result_of("stats flags=1"));
	ASSERT_EQ(5, result_of("stats flags=2"));
}

TEST_F(hotplug, flush_reaches_offline_cpus)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=3 len=100");
	OFFLINE();
	CTL("flush");
	ASSERT_TRUE(state("cpu3.produced=1 cpu3.padding0=3996"));
}

TEST_F(hotplug, reset_reaches_offline_cpus)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=3 len=4096 count=3");
	OFFLINE();
	CTL("reset");
	ASSERT_TRUE(state("cpu3.produced=0 cpu3.offset=0"));
}

TEST_F(hotplug, consumed_of_an_offline_cpu)
{
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=3 len=4096 count=3");
	OFFLINE();
	CTL("consumed cpu=3 n=1");
	ASSERT_EQ(1, info("cpu3.consumed"));
}

TEST_F(hotplug, close_reaches_offline_cpus)
{
	CTL("open subbuf=4096 n=4");
	OFFLINE();
	CTL("close");
	ASSERT_TRUE(state("removes=4 live=0"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu3"));
}

/* Opening takes long, for large buffers. CPUs need not wait for it. */
TEST_F(hotplug, a_cpu_goes_down_while_a_channel_is_opened)
{
	ASSERT_EQ(0, open_while_cpu_goes("open subbuf=4096 n=4 subdir=1 waitdown=0", "sub", CPU));
	ASSERT_EQ(1, info("went_down"));
}

TEST_F(hotplug, failing_create_keeps_the_cpu_offline)
{
	OFFLINE();
	CTL("open subbuf=4096 n=4 fail=3");
	ASSERT_EQ(-ENOMEM, set_cpu_online(CPU, true));
	ASSERT_EQ(3, online_cpus());
	ASSERT_TRUE(state("cpu3.buf=0 live=3"));
}

TEST_F(hotplug, failing_create_spares_cpu0)
{
	OFFLINE();
	CTL("open subbuf=4096 n=4 fail=3");
	ASSERT_EQ(-ENOMEM, set_cpu_online(CPU, true));
	/* a write would dereference it */
	ASSERT_EQ(1, info("cpu0.buf"));
	CTL("write cpu=0 len=100");
	ASSERT_TRUE(cpu_reads_records(0, 0, 100, 1));
}

TEST_F(hotplug, second_try_after_a_failing_create)
{
	OFFLINE();
	CTL("open subbuf=4096 n=4 fail=3");
	ASSERT_EQ(-ENOMEM, set_cpu_online(CPU, true));
	CTL("repair");
	ONLINE();
	ASSERT_EQ(5, info("creates"));
	CTL("write cpu=3 len=100");
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 100, 1));
}

static void *bring_up(void *ret)
{
	*(int *)ret = set_cpu_online(CPU, true);
	return NULL;
}

/* After relay has prepared for the CPU, before the CPU counts as online. */
TEST_F(hotplug, open_while_a_cpu_comes_up)
{
	pthread_t thread;
	int ret = -1;

	OFFLINE();
	CTL("slowcpu cpu=3");
	pthread_create(&thread, NULL, bring_up, &ret);
	while (!info("coming_up"))
		sched_yield();
	CTL("open subbuf=4096 n=4");
	pthread_join(thread, NULL);
	ASSERT_EQ(0, ret);
	/* a write would dereference it */
	ASSERT_EQ(1, info("cpu3.buf"));
	CTL("write cpu=3 len=100");
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 100, 1));
}

TEST_F(hotplug, global_buffer_takes_new_cpus)
{
	struct bytes want = {};

	OFFLINE();
	CTL("open subbuf=4096 n=4 global=1");
	ONLINE();
	ASSERT_EQ(1, info("creates"));
	CTL("write cpu=0 len=100");
	ASSERT_EQ(1, result_of("write cpu=3 len=100"));
	bytes_records(&want, 0, 0, 100, 1);
	bytes_records(&want, CPU, 0, 100, 1);
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(hotplug, reader_across_a_full_cycle)
{
	struct bytes want = {}, got = {};
	int i, fd;

	CTL("open subbuf=4096 n=4");
	fd = open_cpu(CPU);
	for (i = 0; i < 3; i++) {
		CTL("write cpu=3 len=500 count=5");
		bytes_records(&want, CPU, 5 * i, 500, 5);
		OFFLINE();
		ASSERT_EQ(0, read_all(fd, &got, 700));
		ASSERT_EQ(want.len, got.len);
		ONLINE();
	}
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_HARNESS_MAIN
