// SPDX-License-Identifier: GPL-2.0
/*
 * relay_open() and relay_close(): files, names, bad input.
 */
#include "relay_test.h"
#include "load.h"

#include <sys/stat.h>

RELAY_FIXTURE(open);

TEST_F(open, one_file_a_cpu)
{
	unsigned int cpu, ncpus = online_cpus();

	CTL("open name=base subbuf=4096 n=4");
	ASSERT_EQ(ncpus, info("creates"));
	for (cpu = 0; cpu < ncpus; cpu++)
		ASSERT_TRUE(file_exists(CLIENT_DIR "/base%u", cpu));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/base%u", ncpus));
	CTL("close");
	ASSERT_EQ(ncpus, info("removes"));
	ASSERT_EQ(0, info("bad_removes"));
	ASSERT_EQ(0, info("live"));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/base0"));
}

TEST_F(open, files_are_for_their_owner_to_read)
{
	struct stat st;

	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(0400, info("create_mode"));
	ASSERT_EQ(0, stat(CLIENT_DIR "/cpu0", &st));
	ASSERT_EQ(S_IFREG | 0400, st.st_mode);
}

TEST_F(open, private_data_is_there_in_the_callback)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(1, info("private_ok"));
}

/* A file can be opened as soon as it exists, which takes a reference. */
TEST_F(open, buffer_is_ready_before_its_file)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(1, info("counted"));
}

TEST_F(open, version_and_size)
{
	CTL("open subbuf=5000 n=3");
	ASSERT_TRUE(state("version=7 alloc_size=16384 is_global=0"));
}

TEST_F(open, buffers_know_their_cpu)
{
	unsigned int cpu;

	CTL("open subbuf=4096 n=4");
	for (cpu = 0; cpu < online_cpus(); cpu++) {
		ASSERT_EQ(1, info("cpu%u.buf", cpu));
		ASSERT_EQ(cpu, info("cpu%u.bufcpu", cpu));
		ASSERT_EQ(0, info("cpu%u.finalized", cpu));
	}
}

TEST_F(open, no_parent_is_the_root)
{
	CTL("open name=rst_root noparent=1 subbuf=4096 n=4");
	ASSERT_EQ(online_cpus(), info("null_parents"));
	ASSERT_TRUE(file_exists(DEBUGFS "/rst_root0"));
	CTL("close");
	ASSERT_FALSE(file_exists(DEBUGFS "/rst_root0"));
}

TEST_F(open, empty_name)
{
	CTL("open name= subbuf=4096 n=4");
	ASSERT_TRUE(file_exists(CLIENT_DIR "/0"));
}

/* Of a name of @len letters a file's has 254, as many as there is room for. */
static bool named_after(unsigned int len, unsigned int cpu)
{
	char base[255] = "";

	memset(base, 'l', 254);
	return !ctl("open longname=%u subbuf=4096 n=4", len) &&
	       file_exists(CLIENT_DIR "/%s%u", base, cpu);
}

TEST_F(open, long_name_is_cut)
{
	ASSERT_TRUE(named_after(300, 0));
}

TEST_F(open, longest_name)
{
	ASSERT_TRUE(named_after(254, 1));
}

TEST_F(open, without_a_name)
{
	unsigned int ncpus = online_cpus();
	struct bytes got = {}, want = {};

	/* the client is asked, without a name or parent, and may make a file */
	CTL("open noname=1 subbuf=4096 n=4");
	ASSERT_EQ(ncpus, info("creates"));
	ASSERT_EQ(ncpus, info("null_names"));
	ASSERT_EQ(ncpus, info("null_parents"));
	ASSERT_EQ(6, result_of("write cpu=0 len=1000 count=6"));
	bytes_records(&want, 0, 0, 1000, 6);
	ASSERT_EQ(0, read_all(open_file("anon0", O_RDONLY), &got, 4096));
	ASSERT_TRUE(bytes_equal(&got, &want));
	/* relay has no dentry of it to give back */
	CTL("close");
	ASSERT_EQ(ncpus, info("removes"));
	ASSERT_EQ(ncpus, info("null_removes"));
}

static bool refused(const char *how)
{
	if (ctl("open %s", how) != -ENOMEM) {
		fprintf(stderr, "# not refused: %s\n", how);
		return false;
	}
	return info("creates") == 0 && info("live") == 0 && info("open") == 0;
}

TEST_F(open, zero_sizes_refused)
{
	ASSERT_TRUE(refused("subbuf=0 n=4"));
	ASSERT_TRUE(refused("subbuf=4096 n=0"));
	ASSERT_TRUE(refused("subbuf=0 n=0"));
}

TEST_F(open, overflowing_sizes_refused)
{
	ASSERT_TRUE(refused("subbuf=65536 n=65536"));
	ASSERT_TRUE(refused("subbuf=4096 n=0x100001"));
	ASSERT_TRUE(refused("subbuf=0x100000000 n=1"));
	ASSERT_TRUE(refused("subbuf=0x100000001 n=0x100000001"));
	ASSERT_TRUE(refused("subbuf=-1 n=1"));
	ASSERT_TRUE(refused("subbuf=1 n=-1"));
	ASSERT_TRUE(refused("subbuf=-1 n=-1"));
	ASSERT_TRUE(refused("subbuf=0x8000000000000000 n=2"));
}

TEST_F(open, no_callbacks_refused)
{
	ASSERT_TRUE(refused("cb=null subbuf=4096 n=4"));
}

TEST_F(open, no_create_callback_refused)
{
	ASSERT_TRUE(refused("cb=nocreate subbuf=4096 n=4"));
}

TEST_F(open, no_remove_callback_refused)
{
	ASSERT_TRUE(refused("cb=noremove subbuf=4096 n=4"));
}

/* Files that were created before the failing call are removed, and no others. */
static bool create_fails_at(unsigned int k, const char *how)
{
	if (ctl("open subbuf=4096 n=4 fail=%u %s", k, how) != -ENOMEM)
		return false;
	fprintf(stderr, "# %lld created, %lld removed, %lld left\n",
		info("creates") - 1, info("removes"), info("live"));
	return info("creates") == k + 1 && info("removes") == k &&
	       info("bad_removes") == 0 && info("live") == 0;
}

TEST_F(open, create_fails_on_cpu0)
{
	ASSERT_TRUE(create_fails_at(0, ""));
}

TEST_F(open, create_fails_on_cpu1)
{
	ASSERT_TRUE(create_fails_at(1, ""));
}

TEST_F(open, create_fails_on_cpu2)
{
	ASSERT_TRUE(create_fails_at(2, ""));
}

TEST_F(open, create_fails_on_the_last_cpu)
{
	ASSERT_TRUE(create_fails_at(online_cpus() - 1, ""));
}

TEST_F(open, create_fails_with_an_error_pointer)
{
	ASSERT_TRUE(create_fails_at(0, "failerr=1"));
}

#define OPEN_LARGE	"open subbuf=1048576 n=8"

TEST_F(open, a_killed_opener_gets_no_memory)
{
	ASSERT_TRUE(killed_in(OPEN_LARGE " killed=1"));
	ASSERT_TRUE(state("open=0 creates=0 live=0"));
}

TEST_F(open, killed_between_two_buffers)
{
	ASSERT_TRUE(killed_in(OPEN_LARGE " kill=0"));
	ASSERT_TRUE(state("open=0 creates=1 removes=1 live=0"));
	CTL(OPEN_LARGE);
}

static bool open_and_be_killed(void)
{
	return killed_in(OPEN_LARGE " kill=1") && !info("open");
}

TEST_F_TIMEOUT(open, a_killed_opener_leaks_nothing, 120)
{
	ASSERT_FALSE(leaks(open_and_be_killed, 20, false));
}

TEST_F(open, create_fails_without_a_name)
{
	ASSERT_TRUE(create_fails_at(0, "noname=1"));
	ASSERT_TRUE(create_fails_at(0, "noname=1 failerr=1"));
}

TEST_F(open, works_after_a_failure)
{
	ASSERT_EQ(-ENOMEM, ctl("open subbuf=4096 n=4 fail=2"));
	CTL("sweep");
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=6");
	ASSERT_TRUE(cpu_reads_records(0, 0, 1000, 6));
}

TEST_F(open, tiny_subbufs)
{
	CTL("open subbuf=16 n=3");
	ASSERT_EQ(3, result_of("write cpu=0 len=16 count=4"));
	ASSERT_TRUE(cpu_reads_records(0, 0, 16, 3));
}

TEST_F(open, one_byte_subbufs)
{
	CTL("open subbuf=1 n=5");
	ASSERT_EQ(5, result_of("write cpu=0 len=1 count=6"));
	ASSERT_EQ(0, result_of("write cpu=0 len=2"));
	ASSERT_TRUE(cpu_reads_records(0, 0, 1, 5));
}

TEST_F(open, large_buffer)
{
	CTL("open subbuf=1048576 n=4");
	ASSERT_EQ(40, result_of("write cpu=1 len=65536 count=40"));
	ASSERT_TRUE(cpu_reads_records(1, 0, 65536, 40));
}

TEST_HARNESS_MAIN
