// SPDX-License-Identifier: GPL-2.0
/* Opening and closing channels: refusals, leaks, and both under load. */
#include "relay_test.h"
#include "load.h"
#include "reader.h"

#include <sched.h>

RELAY_FIXTURE(open);

static unsigned int files(void)
{
	unsigned int n = 0;

	for (unsigned int cpu = 0; cpu < 8; cpu++)
		n += file_exists(CLIENT_DIR "/cpu%u", cpu);
	return n;
}

TEST_F(open, a_file_for_each_cpu)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(online_cpus(), files());
	CTL("close");
	ASSERT_EQ(0, files());
}

TEST_F(open, sizes)
{
	static const unsigned long bad[][2] = {
		{ 0, 4 }, { 4096, 0 }, { 4096, 1 }, { 4096, 3 }, { 4095, 4 }, { 32, 4 }, { 63, 2 }, { 96, 4 },
		{ 1ul << 31, 2 }, { 1ul << 32, 4 }, { 4096, 1ul << 32 }, { 1ul << 63, 2 }, { 64, 1ul << 58 },
		{ 1ul << 33, 1ul << 31 }, { ~0ul, ~0ul },
	};
	static const unsigned long good[][2] = {
		{ 64, 2 }, { 64, 1024 }, { 128, 4 }, { 8192, 2 }, { 1 << 20, 2 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ASSERT_EQ(-EINVAL, ctl("open subbuf=%lu n=%lu", bad[i][0], bad[i][1])) {
			TH_LOG("%lu x %lu", bad[i][0], bad[i][1]);
		}
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct mapped m;

		CTL("open subbuf=%lu n=%lu", good[i][0], good[i][1]);
		ASSERT_TRUE(map_buffer(&m, 0));
		ASSERT_EQ(good[i][0], m.ctl->subbuf_size);
		ASSERT_EQ(good[i][1], m.ctl->n_subbufs);
		ASSERT_EQ(0, m.ctl->flags);
		ASSERT_EQ(0, produced(&m));
		ASSERT_EQ(1, result_of("write cpu=0 len=%lu", good[i][0] - 8));
		ASSERT_EQ(0, result_of("write cpu=0 len=%lu", good[i][0] - 7));
		unmap_buffer(&m);
		CTL("close");
	}
	ASSERT_EQ(0, files());
}

TEST_F(open, flags)
{
	struct mapped m;

	ASSERT_EQ(-EINVAL, ctl("open flags=2"));
	ASSERT_EQ(-EINVAL, ctl("open flags=3"));
	ASSERT_EQ(-EINVAL, ctl("open flags=0x80000000"));
	CTL("open flags=1");
	ASSERT_TRUE(map_buffer(&m, 0));
	ASSERT_EQ(RELAY_FAST_OVERWRITE, m.ctl->flags);
}

TEST_F(open, lengths_that_overflow)
{
	static const unsigned long long len[] = {
		4089, 1ull << 30, (1ull << 30) + 1, (1ull << 31) - 8, 1ull << 32, (1ull << 32) + 8, 1ull << 61,
		1ull << 62, ~0ull - 7, ~0ull - 16, ~0ull,
	};
	struct mapped m = OPEN_MAPPED(0, "subbuf=4096 n=4");

	for (size_t i = 0; i < sizeof(len) / sizeof(*len); i++) {
		ASSERT_EQ(0, result_of("write cpu=0 len=%llu", len[i]));
		ASSERT_EQ(0, result_of("write cpu=0 len=%llu timed=1", len[i]));
		ASSERT_EQ(2 * (i + 1), m.ctl->lost);
		ASSERT_EQ(0, produced(&m));
	}
	ASSERT_EQ(m.ctl->lost, info("lost"));
	ASSERT_EQ(1, result_of("write cpu=0 len=4080 timed=1"));
	ASSERT_EQ(4096, produced(&m));
}

TEST_F(open, no_name)
{
	ASSERT_EQ(-EINVAL, ctl("open noname=1"));
	ASSERT_EQ(0, files());
}

TEST_F(open, in_the_root)
{
	CTL("open dir=root name=fst_root");
	ASSERT_TRUE(file_exists(DEBUGFS "/fst_root0"));
	CTL("close");
	ASSERT_FALSE(file_exists(DEBUGFS "/fst_root0"));
}

TEST_F(open, directory_of_its_own)
{
	char text[8] = "";
	int fd;

	CTL("open dir=root name=fst_own/buf format=text");
	ASSERT_TRUE(file_exists(DEBUGFS "/fst_own/buf1"));
	fd = open(DEBUGFS "/fst_own/format", O_RDONLY);
	ASSERT_EQ(4, read(fd, text, sizeof(text)));
	ASSERT_STREQ("text", text);
	close(fd);
	ASSERT_EQ(-EEXIST, ctl("open other=1 dir=root name=fst_own/other"));
	ASSERT_FALSE(file_exists(DEBUGFS "/fst_own/other0"));
	CTL("close");
	ASSERT_FALSE(file_exists(DEBUGFS "/fst_own"));
}

TEST_F(open, bad_directories)
{
	ASSERT_EQ(-EINVAL, ctl("open name=fst_own/buf"));
	ASSERT_EQ(-EINVAL, ctl("open dir=root name=/buf"));
	ASSERT_EQ(-EINVAL, ctl("open dir=root name=a/b/c"));
	ASSERT_FALSE(file_exists(DEBUGFS "/a"));
}

TEST_F(open, bad_names)
{
	static const char *const bad[] = { "", "a/", "/", "./a", "../a", "a//b", "a/b" };
	char longest[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ASSERT_EQ(-EINVAL, ctl("open name=%s dir=%s", bad[i], i == 6 ? "own" : "root")) {
			TH_LOG("\"%s\"", bad[i]);
		}
	}
	ASSERT_FALSE(file_exists(DEBUGFS "/a"));
	ASSERT_EQ(-EINVAL, ctl("open name=\xff"));
	memset(longest, 'n', sizeof(longest));
	longest[255] = 0;
	ASSERT_EQ(-ENAMETOOLONG, ctl("open name=%s", longest));
	longest[254] = 0;
	CTL("open name=%s", longest);
}

static bool file_says(const char *name, const char *text)
{
	char buf[32] = "";
	int fd = open_file(name, O_RDONLY);

	if (fd < 0 || read(fd, buf, sizeof(buf) - 1) < 0)
		return false;
	close(fd);
	return !strcmp(buf, text);
}

TEST_F(open, formats_in_one_directory)
{
	CTL("open format=these");
	CTL("open other=1 name=other format=those");
	ASSERT_TRUE(file_says("cpu.format", "these"));
	ASSERT_TRUE(file_says("other.format", "those"));
	CTL("close");
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu.format"));
	ASSERT_TRUE(file_says("other.format", "those"));
	CTL("closeother");
}

TEST_F(open, same_name_twice)
{
	struct mapped m;

	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(-EEXIST, ctl("open other=1 subbuf=4096 n=4"));
	/* the first one is as it was */
	ASSERT_EQ(online_cpus(), files());
	CTL("write cpu=1 len=100");
	ASSERT_TRUE(map_buffer(&m, 1));
	ASSERT_EQ(112, produced(&m));
	CTL("close");
	CTL("open subbuf=4096 n=4");
}

/*
 * "cpu" and "cpu1" have a file in common on the second CPU only: the first CPU's file must be
 * removed again.
 */
TEST_F(open, same_name_of_a_later_file)
{
	CTL("open other=1 name=cpu1 subbuf=4096 n=4");
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu10"));
	CTL("closeother");
	CTL("open name=cpu1 subbuf=4096 n=4");
	CTL("open other=1 name=cpu subbuf=4096 n=4");
	CTL("closeother");
	ASSERT_TRUE(file_exists(CLIENT_DIR "/cpu10"));
	ASSERT_EQ(0, files());
	CTL("close");
	ASSERT_FALSE(file_exists(CLIENT_DIR "/cpu10"));
}

TEST_F(open, two_channels)
{
	struct seen seen = { .cpu = 1 };
	uint64_t position = 0;
	struct mapped m;

	CTL("open subbuf=4096 n=4");
	CTL("open other=1 name=other subbuf=64 n=2");
	CTL("write cpu=1 len=100 count=10");
	ASSERT_TRUE(map_buffer(&m, 1));
	CTL("closeother");
	drain_mapped(&m, &seen, &position);
	ASSERT_EQ(10, seen.records);
	ASSERT_EQ(0, open_file("other1", O_RDONLY) >= 0);
}

TEST_F_TIMEOUT(open, no_memory, 120)
{
	CTL("open subbuf=4096 n=4");
	/* more than the machine has, and one that the number of sub-buffers is too large for */
	ASSERT_EQ(-ENOMEM, ctl("open other=1 name=huge subbuf=%lu n=2", 1ul << 30));
	ASSERT_FALSE(file_exists(CLIENT_DIR "/huge0"));
	ASSERT_EQ(1, result_of("write cpu=1 len=100"));
}

TEST_F(open, null_channel)
{
	CTL("null");
}

TEST_F(open, directory_removed_before_close)
{
	CTL("open dir=gone subbuf=4096 n=4");
	ASSERT_FALSE(file_exists(CLIENT_DIR "/gone"));
	ASSERT_EQ(10, result_of("write cpu=1 len=100 count=10"));
	CTL("close");
}

TEST_F(open, cpu_comes_up_after_the_directory_was_removed)
{
	if (online_cpus() < 4)
		SKIP(return, "needs 4 CPUs");
	ASSERT_EQ(0, set_cpu_online(3, false));
	CTL("open dir=gone subbuf=4096 n=4 at_hotplug=1");
	ASSERT_EQ(0, set_cpu_online(3, true));
	ASSERT_TRUE(state("ups=1 lost=0"));
	CTL("close");
}

#define OPEN_LARGE	"open subbuf=1048576 n=8 dir=root name=fst_killed/cpu"

/* In a process that is killed during it: no trace of the channel is left. */
static bool killed_while_opening(const char *command)
{
	return killed_in(command) && info("result") == EINTR && !info("open") &&
	       !file_exists(DEBUGFS "/fst_killed");
}

TEST_F(open, a_killed_opener_gets_no_memory)
{
	ASSERT_TRUE(killed_while_opening(OPEN_LARGE " killed=1"));
}

TEST_F(open, killed_between_two_buffers)
{
	ASSERT_TRUE(killed_while_opening(OPEN_LARGE " kill=0"));
	CTL(OPEN_LARGE);
}

static bool open_and_be_killed(void)
{
	return killed_while_opening(OPEN_LARGE " kill=1");
}

TEST_F_TIMEOUT(open, a_killed_opener_leaks_nothing, 120)
{
	ASSERT_FALSE(leaks(open_and_be_killed, 20, false));
}

/* Other channels need not wait until the buffers of this one are there. */
TEST_F(open, another_channel_meanwhile)
{
	CTL("open subbuf=4096 n=4 meanwhile=0");
	ASSERT_EQ(1, info("meanwhile"));
}

static bool open_close(void)
{
	return !ctl("open subbuf=65536 n=4") && !ctl("write cpu=0 len=1000 count=100") && !ctl("close");
}

static bool open_use_close(void)
{
	uint8_t buf[1008];
	struct mapped m;
	bool ok;

	if (ctl("open subbuf=65536 n=4 flags=1") || ctl("write cpu=1 len=1000 count=100") || !map_buffer(&m, 1))
		return false;
	ok = produced(&m) >= 100 * 1008 && !ctl("close") && read(m.fd, buf, sizeof(buf)) == 1008;
	unmap_buffer(&m);
	return ok;
}

static bool open_fails(void)
{
	bool ok = !ctl("open subbuf=64 n=2") && ctl("open other=1 subbuf=65536 n=4") == -EEXIST;

	return ok && !ctl("close") && ctl("open subbuf=65536 n=5") == -EINVAL && files() == 0;
}

RELAY_FIXTURE(rounds);
FIXTURE_VARIANT(rounds)
{
	bool (*round)(void);
	unsigned int count;
};

FIXTURE_VARIANT_ADD(rounds, a_thousand_times) { open_close, 1000 };
FIXTURE_VARIANT_ADD(rounds, release_after_close) { open_use_close, 200 };
FIXTURE_VARIANT_ADD(rounds, failing) { open_fails, 200 };

TEST_F_TIMEOUT(rounds, leak_nothing, 180)
{
	ASSERT_FALSE(leaks(variant->round, storm_rounds(variant->count), false));
}

TEST_F_TIMEOUT(open, users_while_channels_come_and_go, 120)
{
	struct users users;

	users_start(&users);
	for (unsigned int i = 0; i < storm_rounds(60); i++) {
		CTL("open subbuf=4096 n=4 flags=%u", i % 2);
		CTL("write cpu=%u len=500 count=20", i % online_cpus());
		CTL("close");
	}
	users_stop(&users);
	ASSERT_EQ(0, files());
}

/* The channel is being written when its client is unloaded. */
static bool unload_round(void)
{
	const char *engine = getenv("RELAY_ENGINE_KO");

	if (ctl("open subbuf=4096 n=4") || ctl("storm ms=1000 period=300"))
		return false;
	while (!info("cpu0.task.tried"))
		sched_yield();
	if (!unload("relay_fast_selftest"))
		return false;
	if (engine && (!unload("ferrotrace_fast_relay") || module_load_file(engine)))
		return false;
	return !module_load();
}

/*
 * Channels that a client has not closed are closed when it is unloaded; an open file keeps its
 * buffer.
 */
TEST_F(open, client_goes_without_closing)
{
	uint8_t buf[4096];
	int fd;

	CTL("open dir=root name=fst_forgotten/cpu format=text");
	CTL("write cpu=0 len=100 count=3");
	fd = open(DEBUGFS "/fst_forgotten/cpu0", O_RDONLY);
	ASSERT_LE(0, fd);
	CTL("forget");
	ASSERT_TRUE(unload("relay_fast_selftest"));
	ASSERT_FALSE(file_exists(DEBUGFS "/fst_forgotten"));
	ASSERT_EQ(3 * 112, read(fd, buf, sizeof(buf)));
	ASSERT_EQ(0, read(fd, buf, sizeof(buf)));
	close(fd);
	ASSERT_EQ(0, module_load());
	CTL("open dir=root name=fst_forgotten/cpu format=text");
	CTL("close");
	ASSERT_FALSE(file_exists(DEBUGFS "/fst_forgotten"));
}

TEST_F_TIMEOUT(open, unload_while_written, 240)
{
	for (unsigned int i = 0; i < storm_rounds(30); i++)
		ASSERT_TRUE(unload_round());
}

TEST_F_TIMEOUT(open, unload_while_written_and_used, 240)
{
	struct users users;

	users_start(&users);
	for (unsigned int i = 0; i < storm_rounds(10); i++)
		ASSERT_TRUE(unload_round());
	users_stop(&users);
}

TEST_HARNESS_MAIN
