// SPDX-License-Identifier: GPL-2.0
/*
 * read(2) on relay files.
 */
#include "relay_test.h"

#include <sys/stat.h>

RELAY_FIXTURE(read);

TEST_F(read, empty_is_eof)
{
	int fd = OPEN("subbuf=4096 n=4");
	char c;

	ASSERT_EQ(0, read(fd, &c, 1));
}

TEST_F(read, empty_nonblocking_is_eof)
{
	char c;
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_file("cpu0", O_RDONLY | O_NONBLOCK);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, read(fd, &c, 1));
}

TEST_F(read, consumes)
{
	int fd = OPEN("subbuf=4096 n=4");
	char c;

	CTL("write cpu=0 len=100 count=3");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 100, 3));
	ASSERT_EQ(0, read(fd, &c, 1));
}

TEST_F(read, zero_count_consumes_nothing)
{
	int fd = OPEN("subbuf=4096 n=4");
	char c;

	CTL("write cpu=0 len=100 count=3");
	ASSERT_EQ(0, read(fd, &c, 0));
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 100, 3));
}

/* Records of 1000 bytes: four fit in a sub-buffer, with 96 bytes of padding. */
RELAY_FIXTURE(read_back);
FIXTURE_VARIANT(read_back)
{
	const char *mode;
	unsigned int tried, accepted;
	unsigned int first, left;	/* sub-buffers to read */
	size_t step;
};

FIXTURE_VARIANT_ADD(read_back, removes_padding) {
	.mode = "default", .tried = 10, .accepted = 10, .left = 10, .step = 4096,
};

FIXTURE_VARIANT_ADD(read_back, small_reads) {
	.mode = "default", .tried = 10, .accepted = 10, .left = 10, .step = 7,
};

FIXTURE_VARIANT_ADD(read_back, full_buffer) {
	.mode = "default", .tried = 20, .accepted = 16, .left = 16, .step = 65536,
};

/* 7 sub-buffers and two records; the last 3 and those are left */
FIXTURE_VARIANT_ADD(read_back, overwrite_keeps_the_last) {
	.mode = "overwrite", .tried = 30, .accepted = 30, .first = 16, .left = 14, .step = 4096,
};

TEST_F(read_back, comes_out)
{
	int fd = OPEN("subbuf=4096 n=4 mode=%s", variant->mode);

	ASSERT_EQ(variant->accepted, result_of("write cpu=0 len=1000 count=%u", variant->tried));
	ASSERT_TRUE(reads_records(fd, variant->step, 0, variant->first, 1000, variant->left));
}

TEST_F(read, crosses_subbufs_in_one_call)
{
	struct bytes want = {};
	int fd = OPEN("subbuf=4096 n=4");
	static uint8_t buf[16384];

	CTL("write cpu=0 len=1000 count=10");
	bytes_records(&want, 0, 0, 1000, 10);
	ASSERT_EQ(10000, read(fd, buf, sizeof(buf)));
	ASSERT_EQ(0, memcmp(buf, want.data, want.len));
}

TEST_F(read, readers_share_the_position)
{
	struct bytes want = {}, got = {};
	int fd[2] = { OPEN("subbuf=4096 n=4"), open_cpu(0) };
	uint8_t part[300];
	ssize_t n;
	int i = 0;

	ASSERT_LE(0, fd[1]);
	CTL("write cpu=0 len=1000 count=10");
	bytes_records(&want, 0, 0, 1000, 10);
	while ((n = read(fd[i++ % 2], part, sizeof(part))) > 0)
		bytes_add(&got, part, n);
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(read, concurrent_readers_get_each_record_once)
{
	CTL("open subbuf=4096 n=8");
	ASSERT_EQ(512, result_of("write cpu=0 len=64 count=512"));
	ASSERT_TRUE(each_record_comes_once(false));
}

TEST_F(read, pread_refused)
{
	int fd = OPEN("subbuf=4096 n=4");
	char c;

	CTL("write cpu=0 len=100");
	ASSERT_EQ(-1, pread(fd, &c, 1, 0));
	ASSERT_EQ(ESPIPE, errno);
}

TEST_F(read, lseek_refused)
{
	int fd = OPEN("subbuf=4096 n=4");

	ASSERT_EQ(-1, lseek(fd, 0, SEEK_SET));
	ASSERT_EQ(ESPIPE, errno);
}

TEST_F(read, write_refused)
{
	int fd;

	CTL("open subbuf=4096 n=4 perm=0600");
	fd = open_file("cpu0", O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(-1, write(fd, "x", 1));
	ASSERT_EQ(EINVAL, errno);
}

/* two pages, the second of which is unmapped */
static uint8_t *page_and_a_hole(void)
{
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || munmap(p + 4096, 4096))
		abort();
	return p;
}

TEST_F(read, bad_pointer_is_efault)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(-1, read(fd, page_and_a_hole() + 4096, 1000));
	ASSERT_EQ(EFAULT, errno);
}

TEST_F(read, bad_pointer_consumes_nothing)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_GE(0, read(fd, page_and_a_hole() + 4096, 1000));
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 1000, 10));
}

TEST_F(read, bad_pointer_after_a_good_part)
{
	struct bytes want = {}, got = {};
	int fd = OPEN("subbuf=4096 n=4");
	uint8_t *p = page_and_a_hole();
	ssize_t n;

	/* the first sub-buffer's 4000 bytes fit before the hole */
	CTL("write cpu=0 len=1000 count=10");
	bytes_records(&want, 0, 0, 1000, 10);
	n = read(fd, p + 96, 8000);
	ASSERT_EQ(4000, n);
	bytes_add(&got, p + 96, n);
	ASSERT_EQ(0, read_all(fd, &got, 4096));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(read, follows_the_writer_inside_a_subbuf)
{
	int fd = OPEN("subbuf=4096 n=4");

	for (unsigned int seq = 0; seq < 100; seq++) {
		CTL("write cpu=0 len=300");
		ASSERT_TRUE(reads_records(fd, 8192, 0, seq, 300, 1));
	}
}

TEST_F(read, records_as_large_as_a_subbuf)
{
	int fd = OPEN("subbuf=4096 n=4");

	for (unsigned int seq = 0; seq < 9; seq += 3) {
		ASSERT_EQ(3, result_of("write cpu=0 len=4096 count=3"));
		ASSERT_TRUE(reads_records(fd, 1024, 0, seq, 4096, 3));
	}
}

TEST_F(read, makes_room_in_a_full_buffer)
{
	struct bytes want = {}, got = {};
	int fd = OPEN("subbuf=4096 n=4");

	ASSERT_EQ(16, result_of("write cpu=0 len=1024 count=20"));
	bytes_records(&want, 0, 0, 1024, 16);
	bytes_records(&want, 0, 20, 1024, 4);
	bytes_add(&got, want.data, 4096);
	ASSERT_EQ(4096, read(fd, got.data, 4096));
	ASSERT_EQ(4, result_of("write cpu=0 len=1024 count=5"));
	ASSERT_EQ(0, read_all(fd, &got, 65536));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(read, part_of_a_subbuf_makes_no_room)
{
	uint8_t buf[4096];
	int fd = OPEN("subbuf=4096 n=4");

	ASSERT_EQ(16, result_of("write cpu=0 len=1024 count=17"));
	ASSERT_EQ(4095, read(fd, buf, 4095));
	ASSERT_EQ(0, result_of("write cpu=0 len=1024"));
	ASSERT_EQ(1, read(fd, buf, 1));
	ASSERT_EQ(1, result_of("write cpu=0 len=1024"));
}

TEST_F(read, single_subbuf)
{
	int fd = OPEN("subbuf=4096 n=1");

	ASSERT_EQ(4, result_of("write cpu=0 len=1000 count=5"));
	ASSERT_TRUE(reads_records(fd, 512, 0, 0, 1000, 4));
	ASSERT_EQ(2, result_of("write cpu=0 len=1000 count=2"));
	ASSERT_TRUE(reads_records(fd, 512, 0, 5, 1000, 2));
}

TEST_F(read, overwrite_again_after_reading)
{
	int fd = OPEN("subbuf=4096 n=4 mode=overwrite");

	CTL("write cpu=0 len=1000 count=30");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 16, 1000, 14));
	CTL("write cpu=0 len=1000 count=5");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 30, 1000, 5));
}

TEST_F(read, headers_are_data)
{
	struct bytes want = {}, got = {};
	int fd = OPEN("subbuf=4096 n=4 mode=header");
	uint32_t padding[3] = { 92, 92, 0 };
	int i;

	CTL("write cpu=0 len=1000 count=10");
	for (i = 0; i < 3; i++) {
		bytes_add(&want, &padding[i], 4);
		bytes_records(&want, 0, 4 * i, 1000, i < 2 ? 4 : 2);
	}
	ASSERT_EQ(0, read_all(fd, &got, 1000));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(read, flushed_data_has_no_gap)
{
	int i, fd = OPEN("subbuf=4096 n=4");

	for (i = 0; i < 3; i++) {
		CTL("write cpu=0 len=100");
		CTL("flush");
	}
	CTL("write cpu=0 len=100");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 100, 4));
}

TEST_F(read, empty_flushed_subbuf_is_skipped)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("flush");
	CTL("write cpu=0 len=100 count=2");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 100, 2));
}

TEST_F(read, several_empty_subbufs_are_skipped)
{
	int fd = OPEN("subbuf=4096 n=8");

	CTL("write cpu=0 len=100");
	for (int i = 0; i < 4; i++)
		CTL("flush");
	CTL("write cpu=0 len=100");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 0, 100, 2));
}

TEST_F(read, reset_discards)
{
	int fd = OPEN("subbuf=4096 n=4");
	uint8_t buf[500];

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(500, read(fd, buf, 500));
	CTL("reset");
	ASSERT_EQ(0, read(fd, buf, 500));
	CTL("write cpu=0 len=1000 count=10");
	ASSERT_TRUE(reads_records(fd, 4096, 0, 10, 1000, 10));
}

/*
 * The writer of CPU 1 is kept inside of a switch, between counting the old
 * sub-buffer and entering the new one, while CPU 0 reads.
 */
TEST_F(read, while_the_writer_switches)
{
	int fd = open_to_hold("mode=nooverwrite", 4);
	bool before;

	CTL("hold cpu=1 len=1024");
	before = reads_records(fd, 4096, 1, 0, 1024, 4);
	CTL("release");
	ASSERT_TRUE(before);
	ASSERT_TRUE(reads_records(fd, 4096, 1, 4, 1024, 1));
}

/*
 * The writer of CPU 1 has counted a sub-buffer, but its offset is still the one of this sub-buffer:
 * the next one has no data yet.
 */
TEST_F(read, no_stale_bytes_behind_an_old_offset)
{
	struct waiter poller = {};
	int fd = open_to_hold("", 4);
	bool before;

	start_waiter(&poller, fd);
	CTL("hold cpu=1 len=1024 when=wake");
	before = reads_records(fd, 4096, 1, 0, 1024, 4);
	CTL("release");
	/* it sleeps on: the data to wake it for has been read */
	pthread_cancel(poller.thread);
	pthread_join(poller.thread, NULL);
	ASSERT_TRUE(before);
	ASSERT_TRUE(reads_records(fd, 4096, 1, 4, 1024, 1));
}

TEST_F(read, while_a_switch_is_refused)
{
	struct bytes want = {}, got = {};
	int fd = open_to_hold("mode=nooverwrite", 16);

	bytes_records(&want, 1, 0, 1024, 16);
	CTL("hold cpu=1 len=1024 when=full");
	ASSERT_EQ(0, read_all(fd, &got, 1000));
	CTL("release");
	ASSERT_EQ(0, read_all(fd, &got, 1000));
	ASSERT_LE(16384, got.len);
	ASSERT_EQ(0, memcmp(got.data, want.data, want.len));
}

/* st_size is the number of bytes in finished sub-buffers. */
TEST_F(read, file_size_counts_finished_subbufs)
{
	int fd = OPEN("subbuf=4096 n=4");
	struct stat st;

	ASSERT_EQ(0, fstat(fd, &st));
	ASSERT_EQ(0, st.st_size);
	CTL("write cpu=0 len=1000 count=9");
	ASSERT_EQ(0, fstat(fd, &st));
	ASSERT_EQ(8000, st.st_size);
}

/*
 * Writes, flushes and reads of all sizes; the buffer never fills, so every byte must be read in
 * order.
 */
static bool random_stream(unsigned int subbuf, unsigned int n)
{
	struct random_writer w = { .subbuf = subbuf, .state = 12345 + subbuf };
	struct bytes got = {};
	int fd = open_random(&w, n);
	bool equal, skipped = false;
	uint8_t part[8192];

	while (write_random(&w)) {
		ssize_t r;

		skipped = !skipped && (w.state >> 16) % 3 == 0;
		if (skipped)
			continue;
		/* leave something now and then, but never two sub-buffers */
		do {
			r = read(fd, part, 1 + (w.state >> 10) % sizeof(part));
			if (r > 0)
				bytes_add(&got, part, r);
		} while (r > 0 && w.written.len - got.len > subbuf / 4);
	}
	equal = !w.rounds && read_all(fd, &got, 4096) == 0 &&
		bytes_equal(&got, &w.written);
	close(fd);
	bytes_free(&w.written);
	bytes_free(&got);
	ctl("close");
	return equal;
}

TEST_F(read, random_stream_page_subbufs)
{
	ASSERT_TRUE(random_stream(4096, 8));
}

TEST_F(read, random_stream_odd_subbufs)
{
	ASSERT_TRUE(random_stream(1001, 9));
}

TEST_HARNESS_MAIN
