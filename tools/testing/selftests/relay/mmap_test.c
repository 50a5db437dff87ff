// SPDX-License-Identifier: GPL-2.0
/*
 * mmap(2) of relay files.
 */
#include "relay_test.h"

#include <sys/wait.h>

RELAY_FIXTURE(mmap);

#define SUBBUF	4096
#define N	4
#define TOTAL	(SUBBUF * N)

static uint8_t *map_cpu(unsigned int cpu, int prot, int flags)
{
	uint8_t *p;
	int fd = open_cpu(cpu);

	if (fd < 0)
		return MAP_FAILED;
	p = mmap(NULL, TOTAL, prot, flags, fd, 0);
	close(fd);
	return p;
}

/* Opens a channel, and maps CPU 0's buffer. */
#define OPEN_MAPPED(...)						\
	({								\
		CTL("open " __VA_ARGS__);				\
		uint8_t *_map = map_cpu(0, PROT_READ, MAP_SHARED);	\
		ASSERT_NE(MAP_FAILED, _map);				\
		_map;							\
	})

/* Sub-buffers of 4096 bytes with records of 1000 bytes from @seq on. */
static bool holds(const uint8_t *map, unsigned int seq, unsigned int count)
{
	uint8_t want[1000];
	unsigned int i;

	for (i = 0; i < count; i++) {
		rst_fill(want, 0, RST_TASK, seq + i, 1000);
		if (memcmp(map + i / 4 * SUBBUF + i % 4 * 1000, want, 1000)) {
			fprintf(stderr, "# record %u differs\n", seq + i);
			return false;
		}
	}
	return true;
}

static bool maps_what_was_written(const char *file)
{
	uint8_t *p;

	if (ctl("open subbuf=4096 n=4 file=%s", file) || ctl("write cpu=0 len=1000 count=10"))
		return false;
	p = map_cpu(0, PROT_READ, MAP_SHARED);
	return p != MAP_FAILED && holds(p, 0, 10);
}

TEST_F(mmap, whole_buffer_unsafe_file)
{
	ASSERT_TRUE(maps_what_was_written("unsafe"));
}

TEST_F(mmap, whole_buffer_plain_file)
{
	ASSERT_TRUE(maps_what_was_written("plain"));
}

TEST_F(mmap, plain_file_follows_the_writer)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4 file=plain");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_TRUE(holds(p, 0, 10));
}

TEST_F(mmap, each_cpu_has_its_own)
{
	unsigned int cpu, ncpus = online_cpus();
	uint8_t *p, want[1000];

	CTL("open subbuf=4096 n=4");
	for (cpu = 0; cpu < ncpus; cpu++)
		CTL("write cpu=%u len=1000", cpu);
	for (cpu = 0; cpu < ncpus; cpu++) {
		p = map_cpu(cpu, PROT_READ, MAP_SHARED);
		ASSERT_NE(MAP_FAILED, p);
		rst_fill(want, cpu, RST_TASK, 0, 1000);
		ASSERT_EQ(0, memcmp(p, want, 1000));
	}
}

TEST_F(mmap, fresh_buffer_is_zero)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");
	int i;

	for (i = 0; i < TOTAL; i++)
		ASSERT_EQ(0, p[i]);
}

TEST_F(mmap, same_bytes_as_read)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");
	struct bytes got = {};
	int fd;

	CTL("write cpu=0 len=4096 count=4");
	fd = open_cpu(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, read_all(fd, &got, TOTAL));
	ASSERT_EQ(TOTAL, got.len);
	ASSERT_EQ(0, memcmp(p, got.data, TOTAL));
}

TEST_F(mmap, size_is_rounded_to_pages)
{
	uint8_t *p;
	int fd;

	CTL("open subbuf=5000 n=3");
	ASSERT_EQ(16384, info("alloc_size"));
	fd = open_cpu(0);
	p = mmap(NULL, 15000, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
}

TEST_F(mmap, record_across_pages)
{
	uint8_t *p, want[4900];
	int fd, i;

	CTL("open subbuf=5000 n=3");
	fd = open_cpu(0);
	p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(3, result_of("write cpu=0 len=4900 count=3"));
	for (i = 0; i < 3; i++) {
		rst_fill(want, 0, RST_TASK, i, 4900);
		ASSERT_EQ(0, memcmp(p + 5000 * i, want, 4900));
	}
}

#define REFUSED(error, length, prot, flags, oflags, offset)		\
	do {								\
		int _fd = open_file("cpu0", oflags);			\
		void *_p;						\
									\
		ASSERT_LE(0, _fd);					\
		_p = mmap(NULL, length, prot, flags, _fd, offset);	\
		ASSERT_EQ(MAP_FAILED, _p);				\
		ASSERT_EQ(error, errno);				\
	} while (0)

TEST_F(mmap, partial_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, TOTAL - SUBBUF, PROT_READ, MAP_SHARED, O_RDONLY, 0);
}

TEST_F(mmap, one_page_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, 4096, PROT_READ, MAP_SHARED, O_RDONLY, 0);
}

TEST_F(mmap, too_long_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, TOTAL + 4096, PROT_READ, MAP_SHARED, O_RDONLY, 0);
}

TEST_F(mmap, partial_at_an_offset_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, TOTAL - SUBBUF, PROT_READ, MAP_SHARED, O_RDONLY, SUBBUF);
}

TEST_F(mmap, whole_length_at_an_offset_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, TOTAL, PROT_READ, MAP_SHARED, O_RDONLY, SUBBUF);
}

TEST_F(mmap, whole_length_past_the_end_refused)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EINVAL, TOTAL, PROT_READ, MAP_SHARED, O_RDONLY, 16 * TOTAL);
}

TEST_F(mmap, writable_refused_on_read_only_file)
{
	CTL("open subbuf=4096 n=4");
	REFUSED(EACCES, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, O_RDONLY, 0);
}

TEST_F(mmap, writable_refused)
{
	CTL("open subbuf=4096 n=4 perm=0600");
	REFUSED(EPERM, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, O_RDWR, 0);
}

TEST_F(mmap, writable_refused_on_plain_file)
{
	CTL("open subbuf=4096 n=4 perm=0600 file=plain");
	REFUSED(EPERM, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, O_RDWR, 0);
}

TEST_F(mmap, made_writable_later_refused)
{
	uint8_t *p;
	int fd;

	CTL("open subbuf=4096 n=4 perm=0600");
	fd = open_file("cpu0", O_RDWR);
	ASSERT_LE(0, fd);
	p = mmap(NULL, TOTAL, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(-1, mprotect(p, TOTAL, PROT_READ | PROT_WRITE));
	ASSERT_EQ(EACCES, errno);
}

/* Ten records, in a buffer with a writable file; it is mapped to be read. */
static uint8_t *filled_and_mapped(int *fd)
{
	if (ctl("open subbuf=4096 n=4 perm=0600") || ctl("write cpu=0 len=1000 count=10"))
		return MAP_FAILED;
	*fd = open_file("cpu0", O_RDWR);
	return mmap(NULL, TOTAL, PROT_READ, MAP_SHARED, *fd, 0);
}

/* Writes all over a mapping that may be written, if there can be one. */
static bool scribble(int fd, int flags)
{
	void *p = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		return false;
	memset(p, 0xee, TOTAL);
	return true;
}

/* By any access of user space to the bytes, they stay the kernel's. */
TEST_F(mmap, user_space_cannot_write)
{
	int fd;
	uint8_t *q = filled_and_mapped(&fd);

	ASSERT_NE(MAP_FAILED, q);
	scribble(fd, MAP_SHARED);
	if (!mprotect(q, TOTAL, PROT_READ | PROT_WRITE))
		memset(q + SUBBUF, 0xee, 2000);
	ASSERT_TRUE(holds(q, 0, 10));
}

TEST_F(mmap, private_copy_stays_private)
{
	int fd;
	uint8_t *q = filled_and_mapped(&fd);

	ASSERT_NE(MAP_FAILED, q);
	if (!scribble(fd, MAP_PRIVATE))
		ASSERT_EQ(EPERM, errno);
	ASSERT_TRUE(holds(q, 0, 10));
}

TEST_F(mmap, follows_the_writer)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");

	for (unsigned int count = 1; count <= 10; count++) {
		CTL("write cpu=0 len=1000");
		ASSERT_TRUE(holds(p, 0, count));
	}
}

TEST_F(mmap, two_mappings_are_the_same)
{
	uint8_t *p, *q;

	CTL("open subbuf=4096 n=4");
	p = map_cpu(0, PROT_READ, MAP_SHARED);
	q = map_cpu(0, PROT_READ, MAP_SHARED);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(MAP_FAILED, q);
	CTL("write cpu=0 len=1000 count=10");
	ASSERT_TRUE(holds(p, 0, 10));
	ASSERT_TRUE(holds(q, 0, 10));
}

TEST_F(mmap, child_inherits)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");
	int status;
	pid_t pid;

	CTL("write cpu=0 len=1000 count=10");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(!holds(p, 0, 10));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(mmap, part_can_be_unmapped)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=4");
	ASSERT_EQ(0, munmap(p + SUBBUF, TOTAL - SUBBUF));
	ASSERT_TRUE(holds(p, 0, 4));
}

TEST_F(mmap, cannot_grow)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");

	ASSERT_EQ(MAP_FAILED, mremap(p, TOTAL, 2 * TOTAL, MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
}

TEST_F(mmap, can_move)
{
	uint8_t *p, *q;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=1000 count=10");
	p = map_cpu(0, PROT_READ, MAP_SHARED);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_TRUE(holds(p, 0, 10));
	q = mmap(NULL, TOTAL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, q);
	ASSERT_EQ(q, mremap(p, TOTAL, TOTAL, MREMAP_MAYMOVE | MREMAP_FIXED, q));
	ASSERT_TRUE(holds(q, 0, 10));
}

/* A drain by write(2) straight from the mapping, as the relay tools do it. */
TEST_F(mmap, can_be_written_to_a_file)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");
	static uint8_t got[TOTAL];
	int pipefd[2];

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_EQ(TOTAL, write(pipefd[1], p, TOTAL));
	ASSERT_EQ(TOTAL, read(pipefd[0], got, TOTAL));
	ASSERT_TRUE(holds(got, 0, 10));
}

TEST_F(mmap, survives_reset)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4");

	CTL("write cpu=0 len=1000 count=10");
	ASSERT_TRUE(holds(p, 0, 10));
	CTL("reset");
	CTL("write cpu=0 len=1000 count=6");
	ASSERT_TRUE(holds(p, 10, 6));
}

/* A client with its own file operations, in place of the former callbacks. */
TEST_F(mmap, a_client_is_told)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4 file=notify");

	CTL("write cpu=0 len=1000 count=10");
	EXPECT_TRUE(holds(p, 0, 10));
	EXPECT_TRUE(state("mapped=1 unmapped=0"));
	munmap(p, TOTAL);
	EXPECT_TRUE(state("mapped=1 unmapped=1"));
}

TEST_F(mmap, headers_hold_the_padding)
{
	uint8_t *p = OPEN_MAPPED("subbuf=4096 n=4 mode=header");
	uint32_t head[3];
	int i;

	CTL("write cpu=0 len=1000 count=4");
	CTL("write cpu=0 len=2000 count=3");
	for (i = 0; i < 3; i++)
		memcpy(&head[i], p + i * SUBBUF, 4);
	ASSERT_EQ(92, head[0]);
	ASSERT_EQ(92, head[1]);
	/* not finished yet: as it was */
	ASSERT_EQ(0, head[2]);
}

/* produced/consumed as a mapping reader uses them, many times round. */
RELAY_FIXTURE(drain);
FIXTURE_VARIANT(drain)
{
	unsigned int subbuf, n;
};

FIXTURE_VARIANT_ADD(drain, page_subbufs) { 4096, 8 };
FIXTURE_VARIANT_ADD(drain, odd_subbufs) { 3000, 11 };

TEST_F(drain, by_mapping)
{
	struct bytes want = {}, got = {};
	unsigned int round, seq = 0, consumed = 0;
	uint8_t *p;
	int fd = OPEN("subbuf=%u n=%u mode=nooverwrite", variant->subbuf, variant->n);

	p = mmap(NULL, variant->subbuf * variant->n, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	for (round = 0; round < 40; round++) {
		unsigned int len = 17 + round * 53 % 900, count = 8, produced;

		ASSERT_EQ(count, result_of("write cpu=0 len=%u count=%u", len, count));
		bytes_records(&want, 0, seq, len, count);
		seq += count;
		if (round == 39)
			CTL("flush");
		produced = info("cpu0.produced");
		for (; consumed < produced; consumed++) {
			unsigned int at = consumed % variant->n;
			unsigned int pad = info("cpu0.padding%u", at);

			bytes_add(&got, p + at * variant->subbuf, variant->subbuf - pad);
			CTL("consumed cpu=0 n=1");
		}
		ASSERT_EQ(consumed, info("cpu0.consumed"));
	}
	ASSERT_TRUE(bytes_equal(&got, &want));
}

TEST_HARNESS_MAIN
