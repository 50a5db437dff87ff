// SPDX-License-Identifier: GPL-2.0
/*
 * Records within records: as many as a client likes, and across the ends of sub-buffers.
 */
#include "relay_test.h"
#include "reader.h"

RELAY_FIXTURE(nest);

/* Only 24 may be open; a writer that opens more loses those, and no others. */
TEST_F(nest, too_many)
{
	struct seen seen = { .cpu = 1 };
	uint64_t position = 0;
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");

	CTL("write cpu=1 len=120 count=10");
	for (unsigned int i = 0; i < 3; i++) {
		long long kept = result_of("nest cpu=1 count=%u", 40 + 30 * i);

		ASSERT_EQ(24, kept);
	}
	ASSERT_EQ(0, m.ctl->reserve & RELAY_FAST_IN_FLIGHT);
	ASSERT_EQ(10 * 128 + 3 * 24 * 64, produced(&m));
	ASSERT_EQ(16 + 46 + 76, m.ctl->lost);
	drain_mapped(&m, &seen, &position);
	ASSERT_FALSE(seen.bad);
	ASSERT_EQ(10 + 3 * 24, seen.records);
}

TEST_F(nest, as_many_as_allowed)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=4096 n=4");

	ASSERT_EQ(24, result_of("nest cpu=1 count=24"));
	ASSERT_EQ(0, m.ctl->lost);
}

RELAY_FIXTURE(edges);
FIXTURE_VARIANT(edges) { unsigned int subbuf, n, flags, count; };
FIXTURE_VARIANT_ADD(edges, plain) { .subbuf = 4096, .n = 8, .count = 1000 };
FIXTURE_VARIANT_ADD(edges, two) { .subbuf = 65536, .n = 2, .count = 100 };
FIXTURE_VARIANT_ADD(edges, overwrite) { .subbuf = 4096, .n = 8, .flags = 1, .count = 1000 };
FIXTURE_VARIANT_ADD(edges, overwrite_two) { .subbuf = 65536, .n = 2, .flags = 1, .count = 100 };

/* Sub-buffers that are entered within records: nothing is lost, for there is room. */
TEST_F_TIMEOUT(edges, nothing_is_lost, 60)
{
	struct mapped m = OPEN_MAPPED(1, "subbuf=%u n=%u flags=%u", variant->subbuf, variant->n,
				      variant->flags);

	ASSERT_EQ(0, result_of("edges cpu=1 count=%u", variant->count));
	ASSERT_EQ(0, m.ctl->lost);
	ASSERT_EQ((uint64_t)variant->count * variant->subbuf + 128, produced(&m));
}

TEST_HARNESS_MAIN
