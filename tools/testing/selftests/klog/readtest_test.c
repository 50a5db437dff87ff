// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a relay application that writes known events (samples/readtest.rs):
 * every byte, by mmap with the counts, and by read().
 */
#include "common.h"
#include "harness.h"

#define APP	"readtest"
#define HEAD	(sizeof(size_t))

FIXTURE(readtest) { int none; };

FIXTURE_SETUP(readtest)
{
	log_case("readtest", _metadata->name);
	control(APP, "enabled", "0");
	control(APP, "create", "0");
	control(APP, "write_count", "0");
}

FIXTURE_TEARDOWN(readtest)
{
	control(APP, "enabled", "0");
	control(APP, "create", "0");
}

static uint8_t event_byte(uint32_t number, size_t size, size_t i)
{
	if (size >= sizeof(number) && i < sizeof(number))
		return ((const uint8_t *)&number)[i];
	return number + i;
}

/* Is @data event @number? */
static bool event_good(const uint8_t *data, uint32_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] != event_byte(number, size, i))
			return false;
	return true;
}

/* Checks events of @size, all from 0 on unless @gaps are allowed; returns their number, or -1. */
static long long check(struct __test_metadata *_metadata, const struct bytes *b, size_t size,
		       bool gaps)
{
	long long events = 0;
	uint32_t next = 0;

	if (b->len % size)
		return -1;
	for (size_t at = 0; at < b->len; at += size, events++, next++) {
		if (gaps) {
			uint32_t number;

			memcpy(&number, b->data + at, sizeof(number));
			if (number < next)
				return -1;
			next = number;
		}
		if (!event_good(b->data + at, next, size)) {
			TH_LOG("event %lld of %zu bytes is not number %u", events, size, next);
			return -1;
		}
	}
	return events;
}

static int setup(size_t event_size, size_t event_n, const char *overwrite)
{
	return control_number(APP, "event_size", event_size) ?:
	       control_number(APP, "event_n", event_n) ?: control(APP, "overwrite", overwrite);
}

/* Like start(), with the mode of the knob "overwrite". */
static int start_as_set(size_t subbuf_size, size_t n_subbufs)
{
	return control_number(APP, "subbuf_size", subbuf_size) ?:
	       control_number(APP, "n_subbufs", n_subbufs) ?: control(APP, "create", "1") ?:
	       control(APP, "enabled", "1");
}

struct writer {
	pthread_t thread;
	unsigned int cpu;
	int result;
};

static void *run_test(void *arg)
{
	struct writer *w = arg;

	pin_to(w->cpu);
	w->result = control(APP, "start_test", "1");
	return NULL;
}

TEST_F(readtest, knobs_are_checked)
{
	static const char * const numbers[] = { "event_n", "event_size" };

	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_EQ(0, control(APP, numbers[i], "100"));
		EXPECT_EQ(-EINVAL, control(APP, numbers[i], "0"));
		EXPECT_EQ(-EINVAL, control(APP, numbers[i], "x"));
		EXPECT_EQ(-ERANGE, control(APP, numbers[i], "99999999999"));
		EXPECT_EQ(100, control_value(APP, numbers[i]));
	}
	EXPECT_EQ(-EINVAL, control(APP, "overwrite", "2"));
	EXPECT_EQ(-EINVAL, control(APP, "start_test", "0"));
	EXPECT_EQ(-ENODEV, control(APP, "start_test", "1"));
	EXPECT_EQ(-EINVAL, control(APP, "write_count", "1"));
	EXPECT_EQ(1, control_value(APP, "test_done"));
	EXPECT_EQ(0, control_value(APP, "write_count"));
	ASSERT_EQ(0, control(APP, "overwrite", "1"));
	EXPECT_EQ(1, control_value(APP, "overwrite"));
	ASSERT_EQ(0, control(APP, "mode", "no-overwrite"));
	EXPECT_EQ(0, control_value(APP, "overwrite"));
}

static const size_t sizes[] = { 1, 3, 4, 7, 64, 509, 4088, 20000 };

TEST_F(readtest, every_byte_by_mmap_at_rest)
{
	pin_to(0);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = 100000 / sizes[i] + 3;
		struct bytes b = {};
		struct reader r;

		ASSERT_EQ(0, control(APP, "write_count", "0"));
		ASSERT_EQ(0, setup(sizes[i], n, "0"));
		ASSERT_EQ(0, start_as_set(32768, 8));
		ASSERT_EQ(0, reader_open(&r, APP, 0, 32768, 8));
		ASSERT_EQ(0, control(APP, "start_test", "1"));
		EXPECT_EQ(1, control_value(APP, "test_done"));
		EXPECT_EQ(n, control_value(APP, "write_count"));
		EXPECT_EQ(n * sizes[i], control_value(APP, "write_byte_count"));
		EXPECT_EQ(0, control_value(APP, "dropped"));
		ASSERT_EQ(0, control(APP, "enabled", "0"));
		ASSERT_TRUE(reader_take(&r, &b));
		EXPECT_EQ(n, check(_metadata, &b, sizes[i], false));
		reader_close(&r);
		bytes_free(&b);
	}
}

TEST_F(readtest, every_byte_by_read_at_rest)
{
	pin_to(0);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = 100000 / sizes[i] + 3;
		struct bytes b = {};

		ASSERT_EQ(0, setup(sizes[i], n, "0"));
		ASSERT_EQ(0, start_as_set(32768, 16));
		ASSERT_EQ(0, control(APP, "start_test", "1"));
		ASSERT_EQ(0, control(APP, "enabled", "0"));
		ASSERT_TRUE(read_data(APP, 32768, 5003, &b));
		EXPECT_EQ(n, check(_metadata, &b, sizes[i], false));
		bytes_free(&b);
	}
}

TEST_F_TIMEOUT(readtest, every_byte_by_mmap_while_all_cpus_write, 120)
{
	unsigned int cpus = online_cpus(), i, cpu;
	static struct reader r[MAX_CPUS];
	static struct bytes b[MAX_CPUS];
	static struct writer w[MAX_CPUS];
	const size_t n = 20000;

	ASSERT_LE(cpus, MAX_CPUS);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		long long got = 0;

		if (sizes[i] < sizeof(uint32_t) || sizes[i] > 4088)
			continue;
		ASSERT_EQ(0, control(APP, "write_count", "0"));
		ASSERT_EQ(0, setup(sizes[i], n, "0"));
		ASSERT_EQ(0, start_as_set(16384, 4));
		for (cpu = 0; cpu < cpus; cpu++) {
			ASSERT_EQ(0, reader_open(&r[cpu], APP, cpu, 16384, 4));
			w[cpu].cpu = cpu;
			ASSERT_EQ(0, pthread_create(&w[cpu].thread, NULL, run_test, &w[cpu]));
		}
		/* until all have begun, or some have ended */
		while (control_value(APP, "test_done") == 1 &&
		       control_value(APP, "write_count") == 0)
			usleep(100);
		while (control_value(APP, "test_done") == 0)
			for (cpu = 0; cpu < cpus; cpu++)
				ASSERT_TRUE(reader_take(&r[cpu], &b[cpu]));
		for (cpu = 0; cpu < cpus; cpu++) {
			pthread_join(w[cpu].thread, NULL);
			EXPECT_EQ(0, w[cpu].result);
		}
		ASSERT_EQ(0, control(APP, "enabled", "0"));
		for (cpu = 0; cpu < cpus; cpu++) {
			long long events;

			ASSERT_TRUE(reader_take(&r[cpu], &b[cpu]));
			events = check(_metadata, &b[cpu], sizes[i], true);
			ASSERT_GE(events, 0);
			got += events;
			reader_close(&r[cpu]);
			bytes_free(&b[cpu]);
		}
		TH_LOG("events of %zu bytes: %lld read, %lld dropped", sizes[i], got,
		       control_value(APP, "dropped"));
		EXPECT_EQ(got, control_value(APP, "write_count"));
		EXPECT_EQ(got * sizes[i], control_value(APP, "write_byte_count"));
		EXPECT_EQ(cpus * n, got + control_value(APP, "dropped"));
	}
}

TEST_F(readtest, overwriting_loses_the_oldest)
{
	const size_t size = 64, subbuf = 4096, n_subbufs = 4, each = (subbuf - HEAD) / size;
	const size_t n = 100 * each + 5;
	struct reader r;

	pin_to(0);
	ASSERT_EQ(0, setup(size, n, "1"));
	ASSERT_EQ(0, start_as_set(subbuf, n_subbufs));
	ASSERT_EQ(0, reader_open(&r, APP, 0, subbuf, n_subbufs));
	ASSERT_EQ(0, control(APP, "start_test", "1"));
	EXPECT_EQ(n, control_value(APP, "write_count"));
	EXPECT_EQ(0, control_value(APP, "dropped"));
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	ASSERT_EQ(101, reader_produced(&r));
	/* the last four, the newest of them with 5 events; one has been begun after it */
	for (size_t k = 98; k < 101; k++) {
		const uint8_t *at = r.map + k % n_subbufs * subbuf;
		size_t padding, events = k < 100 ? each : 5;

		memcpy(&padding, at, HEAD);
		EXPECT_EQ(subbuf - HEAD - events * size, padding);
		for (size_t i = 0; i < events; i++)
			ASSERT_TRUE(event_good(at + HEAD + i * size, k * each + i, size));
	}
	reader_close(&r);
}

TEST_F(readtest, a_signal_ends_a_test)
{
	pid_t child;

	ASSERT_EQ(0, setup(8, 4000000000UL, "1"));
	ASSERT_EQ(0, start_as_set(4096, 4));
	child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		control(APP, "start_test", "1");
		_exit(0);
	}
	while (control_value(APP, "write_count") == 0)
		usleep(1000);
	EXPECT_EQ(0, control_value(APP, "test_done"));
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(1, control_value(APP, "test_done"));
}

TEST_F_TIMEOUT(readtest, unloading_while_a_channel_is_made, 300)
{
	int unloaded;

	EXPECT_EQ(EIO, unload_while_creating(APP, "readtest", &unloaded));
	ASSERT_EQ(0, unloaded);
	ASSERT_EQ(0, module_load("READTEST_KO"));
	EXPECT_EQ(0, control(APP, "create", "1"));
}

TEST_HARNESS_MAIN
