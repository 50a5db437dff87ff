/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included by each test program: the harness, and a fixture that leaves no
 * channel open behind a failed test.
 */
#ifndef _RELAY_TEST_H
#define _RELAY_TEST_H

#include "common.h"
#include "harness.h"

#define RELAY_FIXTURE(group)						\
	FIXTURE(group) { int none; };					\
	FIXTURE_SETUP(group) { relay_setup(#group, _metadata->name); }	\
	FIXTURE_TEARDOWN(group) { relay_teardown(); }

#define CTL(...)	ASSERT_EQ(0, ctl(__VA_ARGS__))

#endif
