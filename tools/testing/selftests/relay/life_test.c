// SPDX-License-Identifier: GPL-2.0
/*
 * Lifetimes of files and mappings, the channel, the client module and the engine; and that nothing
 * outlives them all.
 */
#include "relay_test.h"
#include "load.h"


RELAY_FIXTURE(life);

static uint8_t *map_fd(int fd, size_t len)
{
	return mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
}

static bool still_reads(int fd)
{
	return reads_records(fd, 700, 0, 0, 1000, 10);
}

/* The file of CPU 0 in a new channel, with ten records in it. */
static int filled(const char *how)
{
	if (ctl("open subbuf=4096 n=4 %s", how) || ctl("write cpu=0 len=1000 count=10"))
		return -1;
	return open_cpu(0);
}

static bool still_holds(const uint8_t *map)
{
	uint8_t want[1000];
	int i;

	for (i = 0; i < 10; i++) {
		rst_fill(want, 0, RST_TASK, i, 1000);
		if (memcmp(map + i / 4 * 4096 + i % 4 * 1000, want, 1000))
			return false;
	}
	return true;
}

TEST_F(life, data_readable_after_close)
{
	int fd = filled("");

	CTL("close");
	ASSERT_TRUE(still_reads(fd));
}

TEST_F(life, plain_file_after_close)
{
	uint8_t buf[1000], want[1000];
	ssize_t n;
	int fd;

	CTL("open subbuf=4096 n=4 file=plain");
	CTL("write cpu=0 len=1000");
	fd = open_cpu(0);
	CTL("close");
	/* debugfs closes its files when they are removed */
	n = read(fd, buf, sizeof(buf));
	if (n < 0) {
		ASSERT_EQ(EIO, errno);
	} else {
		ASSERT_EQ(1000, n);
		rst_fill(want, 0, RST_TASK, 0, 1000);
		ASSERT_EQ(0, memcmp(buf, want, 1000));
	}
	ASSERT_EQ(0, close(fd));
}

TEST_F(life, no_open_after_close)
{
	CTL("open subbuf=4096 n=4");
	CTL("close");
	ASSERT_EQ(-ENOENT, open_cpu(0));
}

TEST_F(life, close_in_the_middle_of_reading)
{
	struct bytes want = {}, got = {};
	uint8_t part[1500];
	int fd = filled("");

	bytes_records(&want, 0, 0, 1000, 10);
	ASSERT_EQ(1500, read(fd, part, sizeof(part)));
	bytes_add(&got, part, sizeof(part));
	CTL("close");
	ASSERT_EQ(0, read_all(fd, &got, 700));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

/* CPU 0's buffer with ten records, mapped by a file that is closed. */
static uint8_t *filled_and_mapped(const char *how)
{
	int fd = filled(how);
	uint8_t *p = map_fd(fd, 16384);

	close(fd);
	return p;
}

static bool holds_after_close(const char *how)
{
	uint8_t *p = filled_and_mapped(how);

	return p != MAP_FAILED && !ctl("close") && still_holds(p) && !munmap(p, 16384);
}

TEST_F(life, mapping_after_close)
{
	ASSERT_TRUE(holds_after_close("file=unsafe"));
}

TEST_F(life, mapping_after_close_plain_file)
{
	ASSERT_TRUE(holds_after_close("file=plain"));
}

TEST_F(life, mapped_after_close_by_open_file)
{
	int fd = filled("");
	uint8_t *p;

	CTL("close");
	p = map_fd(fd, 16384);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_TRUE(still_holds(p));
}

TEST_F(life, reopened_channel_is_another)
{
	int fd = filled("");

	CTL("close");
	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=500 count=2");
	ASSERT_TRUE(still_reads(fd));
	ASSERT_TRUE(cpu_reads_records(0, 0, 500, 2));
}

static bool directory_goes_first(const char *file)
{
	bool ok;
	int fd;

	ok = !ctl("open subbuf=4096 n=4 subdir=1 file=%s", file) &&
	     !ctl("write cpu=0 len=1000 count=3");
	fd = open_file("sub/cpu0", O_RDONLY);
	ok = ok && fd >= 0 && !ctl("rmdir") && !file_exists(CLIENT_DIR "/sub") &&
	     !ctl("write cpu=0 len=1000 count=7") && info("result") == 7;
	if (!strcmp(file, "unsafe"))
		ok = ok && still_reads(fd);
	close(fd);
	/* No task has the files open now, unless the engine does. */
	ok = ok && !ctl("write cpu=1 len=1000 count=7") && !ctl("close") &&
	     info("removes") == online_cpus() && !info("bad_removes");
	return ok;
}

TEST_F(life, directory_removed_before_the_channel)
{
	int i;

	for (i = 0; i < 10; i++) {
		ASSERT_TRUE(directory_goes_first("unsafe"));
		ASSERT_TRUE(directory_goes_first("plain"));
	}
}

TEST_F(life, rmmod_closes_the_channel)
{
	CTL("open name=rst_root noparent=1 subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_FALSE(file_exists(DEBUGFS "/rst_root0"));
	ASSERT_FALSE(file_exists(CLIENT_DIR));
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, info("open"));
}

TEST_F(life, rmmod_of_the_client_with_a_file_open)
{
	int fd = filled("mode=nooverwrite");

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_TRUE(still_reads(fd));
	ASSERT_EQ(0, close(fd));
}

TEST_F(life, rmmod_of_the_client_with_a_mapping)
{
	uint8_t *p = filled_and_mapped("mode=nooverwrite");

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(0, module_load());
	ASSERT_TRUE(still_holds(p));
	ASSERT_EQ(0, munmap(p, 16384));
}

TEST_F(life, rmmod_of_the_client_with_a_plain_file_open)
{
	int fd;

	CTL("open subbuf=4096 n=4 file=plain");
	fd = open_cpu(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(0, close(fd));
}

TEST_F(life, engine_stays_while_a_file_is_open)
{
	int fd;

	if (!module_loaded("rust_relay"))
		SKIP(return, "the engine is not a module");
	fd = filled("");
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
	ASSERT_TRUE(still_reads(fd));
}

TEST_F(life, engine_stays_while_a_buffer_is_mapped)
{
	uint8_t *p;

	if (!module_loaded("rust_relay"))
		SKIP(return, "the engine is not a module");
	p = filled_and_mapped("file=unsafe");
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
	ASSERT_TRUE(still_holds(p));
}

TEST_F(life, files_opened_while_channels_come_and_go)
{
	struct users users;
	int i;

	users_start(&users);
	for (i = 0; i < storm_rounds(60); i++) {
		CTL("open subbuf=4096 n=4 file=%s", i % 2 ? "plain" : "unsafe");
		CTL("write cpu=%d len=500 count=20", i % online_cpus());
		CTL("close");
		ASSERT_EQ(0, info("live"));
	}
	users_stop(&users);
}

/* 256 KiB a CPU */
#define LARGE	"subbuf=65536 n=4"

static bool open_close(void)
{
	return !ctl("open " LARGE) && !ctl("write cpu=0 len=1000 count=100") &&
	       !ctl("close");
}

static bool open_close_global(void)
{
	return !ctl("open " LARGE " global=1") && !ctl("close");
}

static bool open_use_close(void)
{
	int fd, fd2;
	uint8_t *p, buf[100];
	bool ok;

	if (ctl("open " LARGE) || ctl("write cpu=1 len=1000 count=100"))
		return false;
	fd = open_cpu(1);
	fd2 = open_cpu(2);
	p = map_fd(fd, 4 * 65536);
	ok = fd >= 0 && fd2 >= 0 && p != MAP_FAILED && p[0];
	ok = ok && !ctl("close") && read(fd, buf, 100) == 100 && p[0];
	close(fd2);
	close(fd);
	munmap(p, 4 * 65536);
	return ok;
}

static bool open_fails(void)
{
	return ctl("open " LARGE " fail=2") == -ENOMEM && !ctl("sweep");
}

TEST_F_TIMEOUT(life, open_and_close_leak_nothing, 120)
{
	ASSERT_FALSE(leaks(open_close, storm_rounds(200), false));
}

TEST_F_TIMEOUT(life, global_open_and_close_leak_nothing, 120)
{
	ASSERT_FALSE(leaks(open_close_global, storm_rounds(200), false));
}

TEST_F_TIMEOUT(life, release_after_close_leaks_nothing, 120)
{
	ASSERT_FALSE(leaks(open_use_close, storm_rounds(100), false));
}

TEST_F_TIMEOUT(life, failing_open_leaks_nothing, 120)
{
	ASSERT_FALSE(leaks(open_fails, storm_rounds(100), false));
}

TEST_HARNESS_MAIN
