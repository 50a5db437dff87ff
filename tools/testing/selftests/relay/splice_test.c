// SPDX-License-Identifier: GPL-2.0
/*
 * splice(2), tee(2) and sendfile(2) on relay files.
 */
#include "relay_test.h"
#include "load.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

FIXTURE(splice)
{
	int p[2];
};

FIXTURE_SETUP(splice)
{
	relay_setup("splice", _metadata->name);
	ASSERT_EQ(0, pipe2(self->p, O_NONBLOCK | O_CLOEXEC));
}

FIXTURE_TEARDOWN(splice)
{
	close(self->p[0]);
	close(self->p[1]);
	relay_teardown();
}

#define ALL	(1 << 20)

static ssize_t into(int fd, int pipe, size_t len)
{
	return splice(fd, NULL, pipe, NULL, len, SPLICE_F_NONBLOCK);
}

/* Returns true if a non-blocking pipe or socket has @want, which it consumes. */
static bool holds(int fd, const struct bytes *want)
{
	struct bytes got = {};
	uint8_t part[4096];
	bool equal;
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		bytes_add(&got, part, n);
	equal = bytes_equal(&got, want);
	bytes_free(&got);
	return equal;
}

static bool holds_records(int fd, unsigned int seq, unsigned int len, unsigned int count)
{
	struct bytes want = {};
	bool equal;

	bytes_records(&want, 0, seq, len, count);
	equal = holds(fd, &want);
	bytes_free(&want);
	return equal;
}

/* Moves as much of a file through a pipe as fits. */
static bool through_pipe_once(int fd, int *p, struct bytes *got)
{
	uint8_t part[4096];
	ssize_t r, n = into(fd, p[1], sizeof(part));

	r = n > 0 ? read(p[0], part, sizeof(part)) : -1;
	if (r == n)
		bytes_add(got, part, r);
	return r > 0 && r == n;
}

/* All of a file through a pipe, at most @step bytes at a time. */
static bool through_pipe(int fd, int *p, struct bytes *got, size_t step)
{
	uint8_t part[4096];
	ssize_t n, r;

	while ((n = into(fd, p[1], step)) > 0) {
		while (n > 0) {
			r = read(p[0], part, sizeof(part));
			if (r <= 0)
				return false;
			bytes_add(got, part, r);
			n -= r;
		}
	}
	return n == 0;
}

TEST_F(splice, empty_gives_nothing)
{
	int fd = OPEN("subbuf=4096 n=4");

	ASSERT_EQ(0, into(fd, self->p[1], 4096));
	ASSERT_EQ(0, splice(fd, NULL, self->p[1], NULL, 4096, 0));
}

TEST_F(splice, part_of_a_subbuf)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=100 count=3");
	ASSERT_EQ(300, into(fd, self->p[1], ALL));
	ASSERT_EQ(0, into(fd, self->p[1], ALL));
	CTL("write cpu=0 len=100 count=2");
	ASSERT_EQ(200, into(fd, self->p[1], ALL));
	ASSERT_EQ(0, info("cpu0.produced"));
	ASSERT_TRUE(holds_records(self->p[0], 0, 100, 5));
}

TEST_F(splice, removes_padding)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(10000, into(fd, self->p[1], ALL));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1000, 10));
}

TEST_F(splice, plain_file)
{
	int fd = OPEN("subbuf=4096 n=4 file=plain");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(10000, into(fd, self->p[1], ALL));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1000, 10));
}

TEST_F(splice, small_pieces)
{
	struct bytes want = {}, got = {};
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	bytes_records(&want, 0, 0, 1000, 10);
	ASSERT_TRUE(through_pipe(fd, self->p, &got, 7));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

/* Bytes poked into the buffer show in the pipe. */
TEST_F(splice, nothing_is_copied)
{
	uint8_t want[1000], got[1000];
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000");
	ASSERT_EQ(1000, into(fd, self->p[1], ALL));
	CTL("poke cpu=0 at=500 byte=0x5a");
	rst_fill(want, 0, RST_TASK, 0, 1000);
	ASSERT_NE(0x5a, want[500]);
	want[500] = 0x5a;
	ASSERT_EQ(1000, read(self->p[0], got, 1000));
	ASSERT_EQ(0, memcmp(want, got, 1000));
}

TEST_F(splice, consumed_when_the_pipe_has_been_read)
{
	struct bytes want = {};
	uint8_t part[4096];
	int fd = OPEN("subbuf=4096 n=2");

	CTL("write cpu=0 len=4096 count=2");
	CTL("flush");
	bytes_records(&want, 0, 0, 4096, 1);
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	ASSERT_TRUE(state("cpu0.consumed=0 cpu0.full=1"));
	ASSERT_EQ(0, result_of("write cpu=0 len=4096"));
	/* all except the last byte */
	ASSERT_EQ(4095, read(self->p[0], part, 4095));
	ASSERT_EQ(0, info("cpu0.consumed"));
	ASSERT_EQ(1, read(self->p[0], part + 4095, 1));
	ASSERT_EQ(0, memcmp(part, want.data, 4096));
	ASSERT_EQ(1, info("cpu0.consumed"));
	ASSERT_EQ(1, result_of("write cpu=0 len=4096"));
}

TEST_F(splice, consumed_when_the_pipe_is_closed)
{
	int p[2], fd = OPEN("subbuf=4096 n=2");

	ASSERT_EQ(0, pipe(p));
	CTL("write cpu=0 len=4096 count=2");
	ASSERT_EQ(8192, into(fd, p[1], ALL));
	ASSERT_EQ(0, info("cpu0.consumed"));
	close(p[0]);
	close(p[1]);
	/* the last one is not over yet */
	ASSERT_EQ(1, info("cpu0.consumed"));
	ASSERT_EQ(1, result_of("write cpu=0 len=4096"));
}

TEST_F(splice, the_client_does_not_consume_what_is_in_a_pipe)
{
	int fd = OPEN("subbuf=4096 n=2");

	CTL("write cpu=0 len=4096 count=2");
	CTL("flush");
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	CTL("consumed cpu=0 n=2");
	ASSERT_EQ(0, info("cpu0.consumed"));
	ASSERT_EQ(0, result_of("write cpu=0 len=4096 count=3"));
	ASSERT_TRUE(holds_records(self->p[0], 0, 4096, 1));
	ASSERT_EQ(2, info("cpu0.consumed"));
	ASSERT_EQ(2, result_of("write cpu=0 len=4096 count=3"));
}

/* Readers report sub-buffers one at a time, and the reports add up. */
TEST_F(splice, reports_behind_what_is_in_a_pipe_are_kept)
{
	struct bytes want = {};
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=4096 count=4");
	CTL("flush");
	bytes_records(&want, 0, 0, 4096, 1);
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	for (int i = 0; i < 3; i++)
		CTL("consumed cpu=0 n=1");
	ASSERT_EQ(0, info("cpu0.consumed"));
	ASSERT_TRUE(holds(self->p[0], &want));
	ASSERT_EQ(3, info("cpu0.consumed"));
	bytes_free(&want);
	bytes_records(&want, 0, 3, 4096, 1);
	ASSERT_TRUE(cpu_reads(0, &want));
}

/* In overwrite mode, data in a pipe is never overwritten. */
TEST_F(splice, the_pipe_keeps_its_bytes_in_overwrite_mode)
{
	int fd = OPEN("subbuf=4096 n=2 mode=overwrite");

	CTL("write cpu=0 len=1024 count=8");
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	ASSERT_EQ(0, result_of("write cpu=0 len=1024 count=20"));
	ASSERT_EQ(20, result_of("stats flags=1"));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1024, 4));
	ASSERT_EQ(20, result_of("write cpu=0 len=1024 count=20"));
}

TEST_F(splice, the_pipe_keeps_its_bytes_over_a_reset)
{
	int fd = OPEN("subbuf=4096 n=2");

	CTL("write cpu=0 len=1024 count=3");
	ASSERT_EQ(3072, into(fd, self->p[1], ALL));
	CTL("reset");
	ASSERT_EQ(0, result_of("write cpu=0 len=1024 count=3"));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1024, 3));
	ASSERT_EQ(3, result_of("write cpu=0 len=1024 count=3"));
	ASSERT_TRUE(cpu_reads_records(0, 6, 1024, 3));
}

TEST_F(splice, full_pipe)
{
	int fd = OPEN("subbuf=4096 n=4");

	ASSERT_EQ(4096, fcntl(self->p[1], F_SETPIPE_SZ, 4096));
	CTL("write cpu=0 len=4096 count=3");
	ASSERT_EQ(4096, into(fd, self->p[1], ALL));
	ASSERT_EQ(-1, into(fd, self->p[1], ALL));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_TRUE(holds_records(self->p[0], 0, 4096, 1));
	ASSERT_EQ(4096, into(fd, self->p[1], ALL));
}

/* A pipe takes 16 pieces; two thirds of the sub-buffers lie in two pages. */
TEST_F(splice, more_pieces_than_the_pipe_takes)
{
	struct bytes want = {}, got = {};
	int fd = OPEN("subbuf=3000 n=32");

	ASSERT_EQ(90, result_of("write cpu=0 len=1000 count=90"));
	bytes_records(&want, 0, 0, 1000, 90);
	ASSERT_TRUE(through_pipe(fd, self->p, &got, ALL));
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_F(splice, reader_gone)
{
	int fd = OPEN("subbuf=4096 n=4");

	signal(SIGPIPE, SIG_IGN);
	CTL("write cpu=0 len=1000 count=3");
	close(self->p[0]);
	ASSERT_EQ(-1, into(fd, self->p[1], ALL));
	ASSERT_EQ(EPIPE, errno);
	ASSERT_TRUE(cpu_reads_records(0, 0, 1000, 3));
}

TEST_F(splice, tee)
{
	struct bytes want = {};
	int q[2], fd = OPEN("subbuf=4096 n=2");

	ASSERT_EQ(0, pipe2(q, O_NONBLOCK));
	CTL("write cpu=0 len=4096 count=2");
	bytes_records(&want, 0, 0, 4096, 1);
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	ASSERT_EQ(4096, tee(self->p[0], q[1], 4096, 0));
	ASSERT_TRUE(holds(self->p[0], &want));
	ASSERT_EQ(0, info("cpu0.consumed"));
	ASSERT_TRUE(holds(q[0], &want));
	ASSERT_EQ(1, info("cpu0.consumed"));
}

TEST_F(splice, mixed_with_read)
{
	struct bytes want = {}, got = {};
	int i, fd = OPEN("subbuf=4096 n=4");
	uint8_t part[700];
	ssize_t n;

	CTL("write cpu=0 len=1000 count=15");
	bytes_records(&want, 0, 0, 1000, 15);
	for (i = 0; got.len < want.len && i < 100; i++) {
		if (i % 2) {
			n = into(fd, self->p[1], sizeof(part));
			ASSERT_LT(0, n);
			ASSERT_EQ(n, read(self->p[0], part, n));
		} else {
			n = read(fd, part, sizeof(part));
			ASSERT_LT(0, n);
		}
		bytes_add(&got, part, n);
	}
	ASSERT_TRUE(bytes_equal(&got, &want));
	ASSERT_EQ(3, info("cpu0.consumed"));
}

TEST_F(splice, read_goes_on_behind_what_is_in_a_pipe)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1024 count=8");
	ASSERT_EQ(3072, into(fd, self->p[1], 3072));
	ASSERT_TRUE(cpu_reads_records(0, 3, 1024, 5));
	ASSERT_EQ(0, info("cpu0.consumed"));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1024, 3));
	ASSERT_EQ(1, info("cpu0.consumed"));
}

TEST_F(splice, poll_does_not_tell_of_what_is_in_a_pipe)
{
	struct pollfd p = { .events = POLLIN };

	p.fd = OPEN("subbuf=4096 n=4");
	CTL("write cpu=0 len=4096");
	CTL("flush");
	ASSERT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(4096, into(p.fd, self->p[1], ALL));
	ASSERT_EQ(0, poll(&p, 1, 0));
}

TEST_F(splice, concurrent_splicers_get_each_record_once)
{
	CTL("open subbuf=4096 n=8");
	ASSERT_EQ(512, result_of("write cpu=0 len=64 count=512"));
	ASSERT_TRUE(each_record_comes_once(true));
}

/* The writer of CPU 1 is inside of a switch that finds the buffer full. */
TEST_F(splice, while_a_switch_is_refused)
{
	struct bytes want = {};
	int fd = open_to_hold("mode=nooverwrite", 16);

	bytes_records(&want, 1, 0, 1024, 16);
	CTL("hold cpu=1 len=1024 when=full");
	ASSERT_EQ(16384, into(fd, self->p[1], ALL));
	ASSERT_EQ(0, result_of("release"));
	ASSERT_TRUE(holds(self->p[0], &want));
}

TEST_F(splice, closed_channel)
{
	int fd = OPEN("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	CTL("close");
	ASSERT_EQ(10000, into(fd, self->p[1], ALL));
	ASSERT_EQ(0, into(fd, self->p[1], ALL));
	ASSERT_TRUE(holds_records(self->p[0], 0, 1000, 10));
}

/* The pipe is all that is left: no file, no channel, no client. */
TEST_F(splice, the_pipe_outlives_the_rest)
{
	struct bytes want = {};
	int i, fd;

	for (i = 0; i < 2; i++) {
		fd = OPEN("subbuf=4096 n=4 file=%s", i ? "plain" : "unsafe");
		CTL("write cpu=0 len=1000 count=10");
		bytes_records(&want, 0, 0, 1000, 10);
		ASSERT_EQ(10000, into(fd, self->p[1], ALL));
		close(fd);
		ASSERT_EQ(0, module_unload("relay_selftest"));
		if (module_loaded("rust_relay"))
			ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
		ASSERT_TRUE(holds(self->p[0], &want));
		bytes_free(&want);
		ASSERT_EQ(0, module_load());
	}
}

TEST_F(splice, positions_refused)
{
	int fd = OPEN("subbuf=4096 n=4");
	off_t offset = 0;

	CTL("write cpu=0 len=1000");
	ASSERT_EQ(-1, splice(fd, &offset, self->p[1], NULL, 1000, 0));
	ASSERT_EQ(-1, sendfile(self->p[1], fd, &offset, 1000));
	ASSERT_EQ(ESPIPE, errno);
	ASSERT_EQ(-1, lseek(fd, 0, SEEK_SET));
	ASSERT_EQ(ESPIPE, errno);
	ASSERT_EQ(1000, into(fd, self->p[1], 1000));
}

TEST_F(splice, sendfile_to_a_file)
{
	struct bytes want = {}, got = {};
	int file, fd = OPEN("subbuf=4096 n=8");

	file = memfd_create("relay", 0);
	ASSERT_LE(0, file);
	CTL("write cpu=0 len=1000 count=30");
	bytes_records(&want, 0, 0, 1000, 30);
	ASSERT_EQ(500, sendfile(file, fd, NULL, 500));
	ASSERT_EQ(29500, sendfile(file, fd, NULL, ALL));
	ASSERT_EQ(0, sendfile(file, fd, NULL, ALL));
	ASSERT_EQ(0, lseek(file, 0, SEEK_SET));
	ASSERT_EQ(0, read_all(file, &got, 4096));
	ASSERT_TRUE(bytes_equal(&got, &want));
	ASSERT_EQ(7, info("cpu0.consumed"));
}

/* The socket keeps the pages after the pipe has let go of them. */
TEST_F(splice, sendfile_to_a_socket)
{
	struct bytes want = {};
	int s[2], fd = OPEN("subbuf=4096 n=2");

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
	CTL("write cpu=0 len=1024 count=8");
	CTL("flush");
	bytes_records(&want, 0, 0, 1024, 8);
	ASSERT_EQ(8192, sendfile(s[0], fd, NULL, ALL));
	ASSERT_EQ(0, result_of("write cpu=0 len=1024 count=20"));
	ASSERT_TRUE(holds(s[1], &want));
	ASSERT_EQ(8, result_of("write cpu=0 len=1024 count=20"));
}

/* A long-term pin is one of a mapping's page, and not of a pipe's. */
TEST_F(splice, a_long_term_pin_does_not_stop_the_writer)
{
	struct bytes want = {};
	int fd = OPEN("subbuf=4096 n=2 mode=overwrite");
	uint8_t *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);

	ASSERT_NE(MAP_FAILED, p);
	CTL("write cpu=0 len=1024 count=8");
	bytes_records(&want, 0, 0, 1024, 4);
	ASSERT_EQ(0, memcmp(p, want.data, want.len));
	ASSERT_EQ(4096, into(fd, self->p[1], 4096));
	CTL("pin addr=%#lx", (unsigned long)p);
	ASSERT_TRUE(holds(self->p[0], &want));
	ASSERT_EQ(20, result_of("write cpu=0 len=1024 count=20"));
}

/*
 * Sub-buffers of 256 pages, the first of which has been through a pipe; some pages are kept longer
 * than that.
 */
static bool kept_pages(int fd, int *p, unsigned int first, unsigned int count, unsigned int times)
{
	struct bytes got = {}, want = {};
	bool ok;

	ok = !ctl("grab cpu=0 page=%u count=%u times=%u", first, count, times) &&
	     !ctl("write cpu=0 len=65536 count=32");
	bytes_records(&want, 0, 0, 65536, 16);
	while (ok && got.len < want.len)
		ok = through_pipe_once(fd, p, &got);
	ok = ok && bytes_equal(&got, &want);
	/* the next sub-buffer is the first one again */
	ok = ok && !ctl("write cpu=0 len=65536 count=5") && info("result") == 0 &&
	     !ctl("stats flags=1") && info("result") == 5 && !ctl("ungrab");
	bytes_free(&got);
	bytes_free(&want);
	return ok;
}

TEST_F(splice, a_page_that_is_kept_is_waited_for)
{
	int fd = OPEN("subbuf=1048576 n=2 mode=overwrite");

	ASSERT_TRUE(kept_pages(fd, self->p, 200, 1, 1));
	ASSERT_EQ(1, result_of("write cpu=0 len=65536"));
}

/* As many references as the kernel counts for a pin, which an unmapped page cannot have. */
TEST_F(splice, references_that_look_like_a_pin)
{
	int fd = OPEN("subbuf=1048576 n=2 mode=overwrite");

	ASSERT_TRUE(kept_pages(fd, self->p, 200, 1, 1024));
	ASSERT_EQ(1, result_of("write cpu=0 len=65536"));
}

/*
 * With interrupts off the writer examines some of them only, continues the next time, and counts
 * the lost ones.
 */
TEST_F(splice, many_pages_that_are_kept)
{
	int lost, fd = OPEN("subbuf=1048576 n=2 mode=overwrite");

	ASSERT_TRUE(kept_pages(fd, self->p, 0, 256, 1));
	for (lost = 0; lost < 10; lost++) {
		CTL("write cpu=0 len=65536");
		if (info("result"))
			break;
	}
	fprintf(stderr, "# %d lost\n", lost);
	ASSERT_LE(1, lost);
	ASSERT_GE(4, lost);
	ASSERT_EQ(5 + lost, result_of("stats flags=1"));
}

/*
 * Writes, flushes and splices of all sizes; the buffer never fills, so every byte must be read in
 * order.
 */
static bool random_stream(int *p, unsigned int subbuf, unsigned int n)
{
	struct random_writer w = { .subbuf = subbuf, .state = 54321 + subbuf };
	int fd = open_random(&w, n);
	struct bytes got = {};
	uint8_t part[8192];

	while (write_random(&w)) {
		ssize_t r;

		if ((w.state >> 16) % 3 == 0)
			continue;
		/* leave something now and then, in the buffer or in the pipe */
		while (into(fd, p[1], 1 + (w.state >> 10) % subbuf) > 0)
			;
		r = read(p[0], part, sizeof(part));
		if (r > 0)
			bytes_add(&got, part, r);
	}
	do {
		ssize_t r;

		while ((r = read(p[0], part, sizeof(part))) > 0)
			bytes_add(&got, part, r);
	} while (into(fd, p[1], ALL) > 0);
	return !w.rounds && bytes_equal(&got, &w.written);
}

TEST_F(splice, random_stream_page_subbufs)
{
	ASSERT_TRUE(random_stream(self->p, 4096, 8));
}

TEST_F(splice, random_stream_odd_subbufs)
{
	ASSERT_TRUE(random_stream(self->p, 1001, 19));
}

static bool open_splice_close(void)
{
	bool ok = !ctl("open subbuf=65536 n=4") &&
		  !ctl("write cpu=0 len=1000 count=100");
	int p[2], q[2], fd = open_cpu(0);

	ok = ok && !pipe(p) && !pipe(q) && into(fd, p[1], ALL) > 60000 &&
	     tee(p[0], q[1], 20000, 0) > 0;
	close(fd);
	ok = ok && !ctl("close");
	close(p[0]);
	close(p[1]);
	close(q[0]);
	close(q[1]);
	return ok;
}

TEST_F_TIMEOUT(splice, leaks_nothing, 120)
{
	ASSERT_FALSE(leaks(open_splice_close, storm_rounds(100), false));
}

TEST_HARNESS_MAIN
