// SPDX-License-Identifier: GPL-2.0
/* CPUs that go offline and online while a channel is open. CPU 3 is the one that does. */
#include "relay_test.h"
#include "reader.h"

#include <sched.h>

RELAY_CPU_FIXTURE(hotplug);

static bool drain(struct seen *seen)
{
	uint64_t position;
	struct mapped m;

	if (!map_buffer(&m, seen->cpu))
		return false;
	position = consumed(&m);
	drain_mapped(&m, seen, &position);
	set_consumed(&m, position);
	unmap_buffer(&m);
	return !seen->bad;
}

/* The first thing that a CPU does when it is up is not lost. */
TEST_F(hotplug, new_cpu_gets_a_buffer_and_a_file)
{
	struct seen seen = { .cpu = CPU, .subbuf = 4096 };

	OFFLINE();
	CTL("open subbuf=4096 n=4 at_hotplug=1");
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu3"));
	ONLINE();
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu3"));
	ASSERT_TRUE(state("ups=1 lost=0"));
	ASSERT_TRUE(drain(&seen));
	ASSERT_EQ(info("cpu3.task.tried"), seen.records);
	ASSERT_LT(0, seen.records);
}

TEST_F(hotplug, offline_cpu_stays_readable)
{
	struct seen seen = { .cpu = CPU };

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=3 len=1000 count=9");
	OFFLINE();
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu3"));
	ASSERT_TRUE(drain(&seen));
	ASSERT_EQ(9, seen.records);
	ONLINE();
	ASSERT_EQ(9, result_of("write cpu=3 len=1000 count=9"));
	ASSERT_TRUE(drain(&seen));
	ASSERT_EQ(18, seen.records);
}

/* The CPU writes records while it is being taken online and offline, many times over. */
TEST_F_TIMEOUT(hotplug, nothing_is_lost_on_the_way, 120)
{
	struct seen seen = { .cpu = CPU, .subbuf = 65536 };
	unsigned int rounds = storm_rounds(10);

	OFFLINE();
	CTL("open subbuf=65536 n=4 at_hotplug=1");
	for (unsigned int i = 0; i < rounds; i++) {
		ONLINE();
		OFFLINE();
	}
	ASSERT_EQ(2 * rounds, info("ups"));
	ASSERT_TRUE(drain(&seen));
	ASSERT_LE(2 * rounds, info("cpu3.task.tried"));
	/* some are too long for any sub-buffer */
	ASSERT_EQ(info("cpu3.task.tried"), seen.records + info("cpu3.task.refused"));
	ASSERT_EQ(info("cpu3.task.refused"), info("lost"));
}

/* CPUs are taken offline and online in a storm, also the readers' CPUs. */
TEST_F_TIMEOUT(hotplug, in_a_storm, 240)
{
	struct reader r[4] = {};
	unsigned int cpu, i, rounds = storm_rounds(5);

	CTL("open subbuf=4096 n=8 at_hotplug=1");
	for (cpu = 0; cpu < 4; cpu++) {
		r[cpu].cpu = cpu;
		r[cpu].how = cpu % 2 ? MAPPED : READ;
		r[cpu].step = 65536;
		r[cpu].subbuf = 4096;
		reader_start(&r[cpu]);
	}
	for (i = 0; i < rounds; i++) {
		CTL("storm ms=1000 period=1000");
		OFFLINE();
		ONLINE();
		CTL("stormwait");
	}
	for (cpu = 0; cpu < 4; cpu++) {
		static const char * const name[] = { "task", "softirq", "irq", "nmi" };

		ASSERT_TRUE(reader_stop(&r[cpu]));
		for (i = 0; i < FST_NR_CTX; i++)
			ASSERT_EQ(info("cpu%u.%s.tried", cpu, name[i]),
				  r[cpu].seen.ctx[i].got + info("cpu%u.%s.refused", cpu, name[i]) +
				  info("cpu%u.%s.discarded", cpu, name[i]));
	}
	ASSERT_LE(2 * rounds, info("ups"));
}

/* Opening takes long, for large buffers. CPUs need not wait for it. */
TEST_F(hotplug, a_cpu_goes_down_while_a_channel_is_opened)
{
	ASSERT_EQ(0, open_while_cpu_goes("open subbuf=4096 n=4 waitdown=0", "waits", CPU));
	ASSERT_EQ(1, info("went_down"));
}

/* Opening while a CPU is coming up, over and over: each CPU has a buffer or is not there. */
static void *flip(void *arg)
{
	int *stop = arg;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		set_cpu_online(CPU, false);
		set_cpu_online(CPU, true);
	}
	return NULL;
}

TEST_F_TIMEOUT(hotplug, open_while_a_cpu_comes_and_goes, 120)
{
	pthread_t thread;
	int stop = 0;

	pthread_create(&thread, NULL, flip, &stop);
	for (unsigned int i = 0; i < storm_rounds(50); i++) {
		CTL("open subbuf=65536 n=2 at_hotplug=1");
		usleep(20000);
		/* a record of a CPU without a buffer would count here */
		ASSERT_EQ(0, info("uncounted"));
		CTL("close");
	}
	stop = 1;
	pthread_join(thread, NULL);
}

TEST_HARNESS_MAIN
