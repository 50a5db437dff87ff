/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's harness, with more patience: a guest may be slow, as its host may be busy. One that hangs is ended anyway.
 */
#ifndef _FERROTRACE_HARNESS_H
#define _FERROTRACE_HARNESS_H

#include "kselftest_harness.h"

#define PATIENCE 3

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT (PATIENCE * 30)

#undef TEST_F_TIMEOUT
#define TEST_F_TIMEOUT(fixture, test, seconds) __TEST_F_IMPL(fixture, test, -1, PATIENCE * (seconds))

/* A command that has to succeed. */
#define CTL(...)	ASSERT_EQ(0, ctl(__VA_ARGS__))

#endif
