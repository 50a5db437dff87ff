// SPDX-License-Identifier: GPL-2.0
/*
 * The operations that are measured, WRITES times each. Sizes are known at run time only, except
 * where the name has "const".
 */
#include <linux/ktime.h>
#include <linux/timekeeping.h>

#include "bench.h"

static u64 record[1024 / sizeof(u64)];

/* A client's record with the time, as it is written to a relay channel. */
static struct {
	u64 time;
	u8 data[256];
} timed;

#define OPERATION(name, op)							\
static noinline void run_##name(const struct bench_channels *chans, size_t len)	\
{										\
	struct rchan *relay __maybe_unused = chans->relay;			\
	struct relay_fast *fast __maybe_unused = chans->fast;			\
	struct relay_fast *flight __maybe_unused = chans->flight;		\
	int i;									\
										\
	for (i = 0; i < WRITES; i++) {						\
		op;								\
		barrier();							\
	}									\
}

OPERATION(relay_write, relay_write(relay, record, len))
OPERATION(__relay_write, __relay_write(relay, record, len))
OPERATION(relay_reserve, relay_reserve(relay, len))
OPERATION(relay_write_const8, relay_write(relay, record, 8))
OPERATION(relay_write_const32, relay_write(relay, record, 32))
OPERATION(relay_write_const64, relay_write(relay, record, 64))
OPERATION(__relay_write_const8, __relay_write(relay, record, 8))
OPERATION(__relay_write_const32, __relay_write(relay, record, 32))
OPERATION(__relay_write_const64, __relay_write(relay, record, 64))

OPERATION(relay_write_timed, ({
	timed.time = ktime_get_mono_fast_ns();
	relay_write(relay, &timed, sizeof(timed.time) + len);
}))

OPERATION(relay_write_twice, ({
	relay_write(relay, record, len);
	relay_write(relay, record, len);
}))

OPERATION(fast_write, relay_fast_write(fast, 1, record, len))
OPERATION(fast_write_const8, relay_fast_write(fast, 1, record, 8))
OPERATION(fast_write_const32, relay_fast_write(fast, 1, record, 32))
OPERATION(fast_write_const64, relay_fast_write(fast, 1, record, 64))
OPERATION(fast_write_timed, relay_fast_write_timed(fast, 1, record, len))

static __always_inline void reserve_and_commit(struct relay_fast *chan, size_t len)
{
	struct relay_fast_slot slot;

	if (relay_fast_reserve(chan, &slot, 1, len))
		relay_fast_commit(&slot);
}

OPERATION(fast_reserve, reserve_and_commit(fast, len))

OPERATION(fast_nested, ({
	struct relay_fast_slot slot;

	if (relay_fast_reserve(fast, &slot, 1, len)) {
		relay_fast_write(fast, 2, record, len);
		memcpy(slot.data, record, len);
		relay_fast_commit(&slot);
	}
}))

/* Operations of fast channels in memory that survives a reboot. */
OPERATION(flight_write, relay_fast_write(flight, 1, record, len))
OPERATION(flight_write_const64, relay_fast_write(flight, 1, record, 64))
OPERATION(flight_write_timed, relay_fast_write_timed(flight, 1, record, len))
OPERATION(flight_reserve, reserve_and_commit(flight, len))

noinline void bench_run_empty(const struct bench_channels *chans, size_t len)
{
	int i;

	for (i = 0; i < WRITES; i++)
		barrier();
}

struct bench_op bench_relay_ops[] = {
	{ "relay_write", run_relay_write, 8 },
	{ "relay_write", run_relay_write, 32 },
	{ "relay_write", run_relay_write, 64 },
	{ "relay_write", run_relay_write, 256 },
	{ "relay_write", run_relay_write, 1024 },
	{ "__relay_write", run___relay_write, 8 },
	{ "__relay_write", run___relay_write, 32 },
	{ "__relay_write", run___relay_write, 64 },
	{ "__relay_write", run___relay_write, 256 },
	{ "__relay_write", run___relay_write, 1024 },
	{ "relay_reserve", run_relay_reserve, 64 },
	{ "relay_write_const", run_relay_write_const8, 8 },
	{ "relay_write_const", run_relay_write_const32, 32 },
	{ "relay_write_const", run_relay_write_const64, 64 },
	{ "__relay_write_const", run___relay_write_const8, 8 },
	{ "__relay_write_const", run___relay_write_const32, 32 },
	{ "__relay_write_const", run___relay_write_const64, 64 },
	{ "relay_write_timed", run_relay_write_timed, 64 },
	{ "relay_write_twice", run_relay_write_twice, 64 },
	{ }
};

struct bench_op bench_fast_ops[] = {
	{ "fast_write", run_fast_write, 8 },
	{ "fast_write", run_fast_write, 32 },
	{ "fast_write", run_fast_write, 64 },
	{ "fast_write", run_fast_write, 256 },
	{ "fast_write", run_fast_write, 1024 },
	{ "fast_write_const", run_fast_write_const8, 8 },
	{ "fast_write_const", run_fast_write_const32, 32 },
	{ "fast_write_const", run_fast_write_const64, 64 },
	{ "fast_write_timed", run_fast_write_timed, 64 },
	{ "fast_reserve", run_fast_reserve, 64 },
	{ "fast_nested", run_fast_nested, 64 },
	{ }
};

struct bench_op bench_flight_ops[] = {
	{ "flight_write", run_flight_write, 8 },
	{ "flight_write", run_flight_write, 64 },
	{ "flight_write_const", run_flight_write_const64, 64 },
	{ "flight_write_timed", run_flight_write_timed, 64 },
	{ "flight_reserve", run_flight_reserve, 64 },
	{ }
};

/* Where the kernel's command line has no memory for them. */
struct bench_op bench_no_ops[] = { {} };
