// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings: their permissions and lifetime, and the effects of a hostile reader on the page that it
 * writes.
 */
#include "relay_test.h"
#include "load.h"
#include "reader.h"

#include <sys/stat.h>

RELAY_FIXTURE(mmap);

#define RW	(PROT_READ | PROT_WRITE)
#define BYTES	SIZE_OF(4096, 4)

/* The errno, or 0. */
static int try_map(int fd, size_t len, int prot, int flags, off_t offset)
{
	void *p = mmap(NULL, len, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, len);
	return 0;
}

static int open_rw(unsigned int cpu)
{
	char name[16];

	snprintf(name, sizeof(name), "cpu%u", cpu);
	return open_file(name, O_RDWR);
}

TEST_F(mmap, read_only)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_rw(0);
	ASSERT_EQ(0, try_map(fd, BYTES, PROT_READ, MAP_SHARED, 0));
	for (off_t at = 0; at < (off_t)BYTES; at += 4096) {
		ASSERT_EQ(0, try_map(fd, 4096, PROT_READ, MAP_SHARED, at));
		ASSERT_EQ(0, try_map(fd, BYTES - at, PROT_READ, MAP_SHARED, at));
	}
}

/* Programs that map a file as long as it says it is. */
TEST_F(mmap, the_file_says_its_size)
{
	struct stat st;
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_rw(0);
	ASSERT_EQ(0, fstat(fd, &st));
	ASSERT_EQ(BYTES, st.st_size);
	ASSERT_EQ(0, try_map(fd, st.st_size, PROT_READ, MAP_SHARED, 0));
}

/*
 * Whole records are read as far as they fit before the end of the memory, and only these are
 * consumed.
 */
TEST_F(mmap, read_to_the_end_of_memory)
{
	uint8_t *p = mmap(NULL, 8192, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = p + 4096;
	struct mapped m;

	ASSERT_NE(MAP_FAILED, p);
	munmap(end, 4096);
	CTL("open subbuf=4096 n=4");
	ASSERT_TRUE(map_buffer(&m, 0));
	CTL("write cpu=0 len=120 count=100");
	ASSERT_EQ(-1, read(m.fd, end - 127, 4096));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(0, consumed(&m));
	ASSERT_EQ(256, read(m.fd, end - 300, 4096));
	ASSERT_EQ(256, consumed(&m));
	ASSERT_EQ(0, memcmp(end - 300, m.data, 256));
	/* the rest of the sub-buffer, and one record of the next */
	ASSERT_EQ(3840 + 128, read(m.fd, p + 4, 8000));
	ASSERT_EQ(0, memcmp(p + 4, m.data + 256, 3840 + 128));
	ASSERT_EQ(-1, read(m.fd, end, 4096));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(4224, consumed(&m));
}

TEST_F(mmap, writable_reader_page_alone)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_rw(0);
	ASSERT_EQ(0, try_map(fd, 4096, RW, MAP_SHARED, RELAY_FAST_CONSUMER));
	ASSERT_EQ(EPERM, try_map(fd, 4096, RW, MAP_SHARED, RELAY_FAST_CTL));
	ASSERT_EQ(EPERM, try_map(fd, 8192, RW, MAP_SHARED, RELAY_FAST_CTL));
	ASSERT_EQ(EPERM, try_map(fd, 8192, RW, MAP_SHARED, RELAY_FAST_CONSUMER));
	ASSERT_EQ(EPERM, try_map(fd, 4096, RW, MAP_SHARED, RELAY_FAST_DATA));
	ASSERT_EQ(EPERM, try_map(fd, BYTES, RW, MAP_SHARED, 0));
	ASSERT_EQ(EPERM, try_map(fd, 4096, PROT_WRITE, MAP_SHARED, RELAY_FAST_DATA));
}

TEST_F(mmap, writable_needs_a_writable_file)
{
	CTL("open subbuf=4096 n=4");
	ASSERT_EQ(EACCES, try_map(open_cpu(0), 4096, RW, MAP_SHARED, RELAY_FAST_CONSUMER));
}

TEST_F(mmap, past_the_end)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_rw(0);
	ASSERT_EQ(EINVAL, try_map(fd, BYTES + 4096, PROT_READ, MAP_SHARED, 0));
	ASSERT_EQ(EINVAL, try_map(fd, 4096, PROT_READ, MAP_SHARED, BYTES));
	ASSERT_EQ(EINVAL, try_map(fd, 8192, PROT_READ, MAP_SHARED, BYTES - 4096));
	ASSERT_EQ(EINVAL, try_map(fd, BYTES, PROT_READ, MAP_SHARED, RELAY_FAST_CONSUMER));
	ASSERT_EQ(EINVAL, try_map(fd, 4096, RW, MAP_SHARED, BYTES));
	ASSERT_NE(0, try_map(fd, 4096, PROT_READ, MAP_SHARED, (off_t)(~0ull >> 1) & ~4095));
}

TEST_F(mmap, tiny_buffer_has_a_page)
{
	int fd;

	CTL("open subbuf=64 n=2");
	fd = open_rw(0);
	ASSERT_EQ(0, try_map(fd, 3 * 4096, PROT_READ, MAP_SHARED, 0));
	ASSERT_EQ(EINVAL, try_map(fd, 4 * 4096, PROT_READ, MAP_SHARED, 0));
}

TEST_F(mmap, stays_read_only)
{
	char *p;
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_rw(0);
	p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(-1, mprotect(p, 4096, RW));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(-1, mprotect(p + RELAY_FAST_CONSUMER, 4096, RW));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(-1, mprotect(p + RELAY_FAST_DATA, 4096, RW));
	ASSERT_EQ(EACCES, errno);
}

TEST_F(mmap, private_mapping_writes_nothing_through)
{
	struct mapped m;
	char *p;

	CTL("open subbuf=4096 n=4");
	CTL("write cpu=0 len=100");
	ASSERT_TRUE(map_buffer(&m, 0));
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, m.fd, RELAY_FAST_DATA);
	ASSERT_NE(MAP_FAILED, p);
	if (!mprotect(p, 4096, RW))
		p[0] ^= 1;
	ASSERT_EQ(100, record_at(&m, 0)->len);
	/* /proc/self/mem may write where the owner of a mapping may not */
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, m.fd, RELAY_FAST_CTL);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(1, pwrite(open("/proc/self/mem", O_RDWR), "x", 1, (off_t)(uintptr_t)p));
	ASSERT_EQ(112, produced(&m));
}

TEST_F(mmap, does_not_grow)
{
	char *p;

	CTL("open subbuf=4096 n=4");
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, open_rw(0), RELAY_FAST_DATA);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(MAP_FAILED, mremap(p, 4096, 64 * 4096, MREMAP_MAYMOVE));
	ASSERT_EQ(0, p[0]);
}

TEST_F(mmap, survives_close)
{
	struct seen seen = { .cpu = 1 };
	uint64_t position = 0;
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");

	CTL("write cpu=1 len=1000 count=10");
	close(m.fd);
	CTL("close");
	ASSERT_EQ(1, m.ctl->closed);
	drain_mapped(&m, &seen, &position);
	ASSERT_FALSE(seen.bad);
	ASSERT_EQ(10, seen.records);
	ASSERT_EQ(-ENOENT, open_cpu(1));
}

TEST_F(mmap, engine_stays_while_mapped)
{
	struct mapped m;

	if (!getenv("RELAY_ENGINE_KO"))
		SKIP(return, "the engine is not a module");
	CTL("open subbuf=4096 n=4");
	ASSERT_TRUE(map_buffer(&m, 1));
	CTL("write cpu=1 len=1000 count=10");
	close(m.fd);
	ASSERT_EQ(0, module_unload("relay_fast_selftest"));
	ASSERT_EQ(-EWOULDBLOCK, module_unload("ferrotrace_fast_relay"));
	ASSERT_EQ(1000, record_at(&m, 0)->len);
	munmap((void *)m.ctl, 4096);
	munmap((void *)m.data, m.bytes);
	ASSERT_EQ(-EWOULDBLOCK, module_unload("ferrotrace_fast_relay"));
	munmap(m.reader, 4096);
	ASSERT_EQ(0, module_unload("ferrotrace_fast_relay"));
	ASSERT_EQ(0, module_load_file(getenv("RELAY_ENGINE_KO")));
}

/*
 * A process that writes garbage to the reader's page of a CPU, and checks the results of poll() and
 * read().
 */
struct vandal {
	pthread_t scribbler, user;
	unsigned int cpu;
	struct mapped m;
	int stop;
	uint64_t reads;
};

static uint64_t random64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *scribble(void *arg)
{
	struct vandal *v = arg;
	uint64_t state = 88172645463325252ull + v->cpu;

	while (!__atomic_load_n(&v->stop, __ATOMIC_RELAXED)) {
		uint64_t a = random64(&state), b = random64(&state);

		/* Any value, and values near the right one. */
		__atomic_store_n(&v->m.reader->consumed, a & 1 ? a : produced(&v->m) + (int64_t)(a << 48) / (1 << 24),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&v->m.reader->watermark, b & 1 ? b : b >> 48, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *use(void *arg)
{
	struct vandal *v = arg;
	uint8_t *buf = malloc(65536);

	while (!__atomic_load_n(&v->stop, __ATOMIC_RELAXED)) {
		struct pollfd p = { .fd = v->m.fd, .events = POLLIN };
		ssize_t n;

		poll(&p, 1, 10);
		n = read(v->m.fd, buf, 65536);
		if ((n < 0 && errno != EBUSY && errno != EMSGSIZE) || n > 65536)
			abort();
		__atomic_add_fetch(&v->reads, 1, __ATOMIC_RELAXED);
	}
	free(buf);
	return NULL;
}

/* A read that never returns ends in the harness's timeout. */
static void wait_for_reads(struct vandal *v, uint64_t reads)
{
	while (__atomic_load_n(&v->reads, __ATOMIC_RELAXED) < reads)
		usleep(1000);
}

RELAY_FIXTURE(hostile);
FIXTURE_VARIANT(hostile) { unsigned int subbuf, n, flags; };
FIXTURE_VARIANT_ADD(hostile, plain) { .subbuf = 4096, .n = 4 };
FIXTURE_VARIANT_ADD(hostile, tiny) { .subbuf = 64, .n = 2 };
FIXTURE_VARIANT_ADD(hostile, overwrite) { .subbuf = 4096, .n = 4, .flags = 1 };

/* CPU 0 has an honest reader, the others are vandalised. */
TEST_F_TIMEOUT(hostile, reader_page, 120)
{
	struct reader honest = { .how = MAPPED, .subbuf = variant->subbuf };
	struct vandal v[8] = {};
	unsigned int ncpus = online_cpus();

	CTL("open subbuf=%u n=%u flags=%u", variant->subbuf, variant->n, variant->flags);
	reader_start(&honest);
	for (unsigned int cpu = 1; cpu < ncpus; cpu++) {
		v[cpu].cpu = cpu;
		ASSERT_TRUE(map_buffer(&v[cpu].m, cpu));
		pthread_create(&v[cpu].scribbler, NULL, scribble, &v[cpu]);
		pthread_create(&v[cpu].user, NULL, use, &v[cpu]);
	}
	CTL("storm ms=%u", storm_rounds(4000));
	CTL("stormwait");
	for (unsigned int cpu = 1; cpu < ncpus; cpu++) {
		wait_for_reads(&v[cpu], 1);
		v[cpu].stop = 1;
		pthread_join(v[cpu].user, NULL);
		pthread_join(v[cpu].scribbler, NULL);
	}
	ASSERT_TRUE(reader_stop(&honest));
	ASSERT_LT(0, honest.seen.records);

	for (unsigned int cpu = 1; cpu < ncpus; cpu++) {
		struct mapped *m = &v[cpu].m;
		struct seen seen = { .cpu = cpu, .subbuf = variant->subbuf };
		uint64_t position;

		/* the buffer is in order, and the next honest reader finds it so */
		ASSERT_EQ(0, m->ctl->reserve & RELAY_FAST_IN_FLIGHT);
		position = relay_fast_kept(m->ctl);
		drain_mapped(m, &seen, &position);
		ASSERT_FALSE(seen.bad);
		ASSERT_EQ(produced(m), position);
		set_consumed(m, position);
		m->reader->watermark = 8;
		ASSERT_EQ(1, result_of("write cpu=%u len=16", cpu));
	}
}

/*
 * No task can keep a reader in the kernel: each read() returns, regardless of changes to the
 * position.
 */
TEST_F_TIMEOUT(mmap, read_comes_back_from_a_vandal, 60)
{
	struct vandal v = { .cpu = 1 };

	CTL("open subbuf=65536 n=4");
	CTL("write cpu=1 len=1000 count=200");
	ASSERT_TRUE(map_buffer(&v.m, 1));
	pthread_create(&v.scribbler, NULL, scribble, &v);
	pthread_create(&v.user, NULL, use, &v);
	wait_for_reads(&v, 200);
	__atomic_store_n(&v.stop, 1, __ATOMIC_RELAXED);
	pthread_join(v.scribbler, NULL);
	pthread_join(v.user, NULL);
}

TEST_HARNESS_MAIN
