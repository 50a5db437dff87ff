// SPDX-License-Identifier: GPL-2.0
/*
 * Channels that are opened without a name, before there can be files, and get their files later.
 * CPU 3 is taken offline and online.
 */
#include "relay_test.h"

#include <sys/stat.h>

RELAY_CPU_FIXTURE(early);

static long long size_of(unsigned int cpu)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), CLIENT_DIR "/cpu%u", cpu);
	return stat(path, &st) ? -errno : st.st_size;
}

TEST_F(early, what_was_written_before_is_in_the_files)
{
	CTL("open subbuf=4096 n=8 noname=1 early=1");
	CTL("write cpu=1 len=1000 count=10");
	ASSERT_EQ(-ENOENT, open_cpu(1));
	CTL("latesetup");
	ASSERT_EQ(8000, size_of(1));
	ASSERT_EQ(0, size_of(0));
	CTL("write cpu=1 len=1000 count=5");
	ASSERT_EQ(12000, size_of(1));
	ASSERT_TRUE(cpu_reads_records(1, 0, 1000, 15));
	CTL("close");
	ASSERT_TRUE(state("live=0 bad_removes=0"));
	ASSERT_EQ(-ENOENT, open_cpu(1));
}

TEST_F(early, a_cpu_that_has_gone)
{
	CTL("open subbuf=4096 n=4 noname=1 early=1");
	CTL("write cpu=3 len=1000 count=10");
	ASSERT_EQ(0, set_cpu_online(CPU, false));
	CTL("latesetup");
	ASSERT_EQ(8000, size_of(CPU));
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 1000, 10));
}

TEST_F(early, a_cpu_that_comes_later)
{
	ASSERT_EQ(0, set_cpu_online(CPU, false));
	CTL("open subbuf=4096 n=4 noname=1 early=1");
	CTL("latesetup");
	ASSERT_EQ(-ENOENT, open_cpu(CPU));
	ASSERT_EQ(0, set_cpu_online(CPU, true));
	CTL("write cpu=3 len=1000 count=10");
	ASSERT_TRUE(cpu_reads_records(CPU, 0, 1000, 10));
}

TEST_F(early, global)
{
	struct bytes want = {};

	CTL("open subbuf=4096 n=4 noname=1 early=1 global=1");
	CTL("write cpu=2 len=1000 count=10");
	CTL("latesetup");
	ASSERT_EQ(8000, size_of(0));
	ASSERT_EQ(-ENOENT, open_cpu(1));
	bytes_records(&want, 2, 0, 1000, 10);
	ASSERT_TRUE(cpu_reads(0, &want));
}

TEST_F(early, a_channel_with_files_keeps_them)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(-EEXIST, ctl("latesetup name=other"));
	ASSERT_EQ(4, info("live"));
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu0"));
	CTL("close");
	CTL("open subbuf=4096 n=4 noname=1 early=1");
	ASSERT_EQ(-EINVAL, ctl("latesetup noname=1"));
	CTL("latesetup");
	ASSERT_EQ(-EEXIST, ctl("latesetup name=other"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/other0"));
}

TEST_F(early, a_failure_changes_nothing)
{
	CTL("open subbuf=4096 n=4 noname=1 early=1");
	CTL("write cpu=1 len=1000 count=10");
	ASSERT_EQ(-ENOSPC, ctl("latesetup fail=2 failerr=1"));
	ASSERT_TRUE(state("live=0 bad_removes=0"));
	ASSERT_EQ(-ENOENT, open_cpu(0));
	ASSERT_EQ(-EINVAL, ctl("latesetup fail=2"));
	ASSERT_EQ(0, info("live"));
	CTL("latesetup");
	ASSERT_TRUE(cpu_reads_records(1, 0, 1000, 10));
}

/* The size is the amount of data written, also while all CPUs write. */
TEST_F_TIMEOUT(early, while_it_is_written, 60)
{
	unsigned int cpu;

	CTL("open subbuf=4096 n=128 noname=1 early=1");
	CTL("storm count=2000 fn=write len=200 vary=1 irq=1 period=2000");
	CTL("latesetup");
	CTL("stormwait");
	CTL("flush");
	for (cpu = 0; cpu < online_cpus(); cpu++) {
		struct bytes got = {};
		int fd = open_cpu(cpu);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, read_all(fd, &got, 65536));
		ASSERT_LT(2000 * 16, got.len);
		ASSERT_EQ(got.len, size_of(cpu));
		close(fd);
		bytes_free(&got);
	}
}

TEST_HARNESS_MAIN
