/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers of fast channels that check all data, byte by byte.
 */
#ifndef _RELAY_FAST_READER_H
#define _RELAY_FAST_READER_H

#include "common.h"
#include <linux/ferrotrace_relay.h>
#include "module/fast_record.h"

#define SIZE_OF(subbuf, n)	(RELAY_FAST_DATA + (((subbuf) * (n) + 4095) & ~4095ul))

/* A buffer, mapped. */
struct mapped {
	int fd;
	size_t bytes;
	const struct relay_fast_ctl *ctl;
	const uint8_t *data;
	struct relay_fast_consumer *reader;	/* NULL if it could not be mapped writable */
};

bool map_buffer(struct mapped *m, unsigned int cpu);
void unmap_buffer(struct mapped *m);

/* Opens a channel, and maps the buffer of a CPU. */
#define OPEN_MAPPED(cpu, ...)				\
	({						\
		struct mapped _m;			\
							\
		CTL("open " __VA_ARGS__);		\
		ASSERT_TRUE(map_buffer(&_m, cpu));	\
		_m;					\
	})

const struct relay_fast_record *record_at(const struct mapped *m, uint64_t position);
uint64_t produced(const struct mapped *m);
uint64_t consumed(const struct mapped *m);
void set_consumed(struct mapped *m, uint64_t position);

/* Statistics of a CPU's records that were read, and of errors in them. */
struct seen {
	unsigned int cpu;
	unsigned int subbuf;	/* not 0: records are by plan */
	bool bad;
	uint64_t records;
	uint64_t last_time;
	struct {
		uint32_t next;
		uint32_t got;
		uint32_t discarded;
		uint32_t missing;
	} ctx[FST_NR_CTX];
};

/* The next record, all of it. False, with a message, if it is not one that has been written there. */
bool see(struct seen *s, const struct relay_fast_record *record);

/*
 * Reads all committed records; in an overwrite channel the remaining ones, and no damaged record.
 */
void drain_mapped(struct mapped *m, struct seen *s, uint64_t *position);

enum how { MAPPED, READ, NR_HOW };

/* A thread that reads a CPU's buffer until it is stopped and the buffer is empty. */
struct reader {
	unsigned int cpu;
	enum how how;
	size_t step;		/* bytes a read() */
	uint64_t watermark;
	uint32_t subbuf;
	pthread_t thread;
	int stop;
	struct seen seen;
	uint64_t sleeps;
};

void reader_start(struct reader *r);
/* False if it found anything wrong. */
bool reader_stop(struct reader *r);

#endif
