/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included by each test program: the harness, and a fixture that leaves no
 * channel open after a failed test.
 */
#ifndef _RELAY_TEST_H
#define _RELAY_TEST_H

#include "common.h"
#include "harness.h"

#define RELAY_FIXTURE(group)						\
	FIXTURE(group) { int none; };					\
	FIXTURE_SETUP(group) { relay_setup(#group, _metadata->name); }	\
	FIXTURE_TEARDOWN(group) { relay_teardown(); }

/* The same, with a CPU that is taken down and up. */
#define CPU	3
#define RELAY_CPU_FIXTURE(group)					\
	FIXTURE(group) { int none; };					\
	FIXTURE_SETUP(group)						\
	{								\
		relay_setup(#group, _metadata->name);			\
		if (online_cpus() < 4 || !cpu_can_go(CPU))		\
			SKIP(return, "needs 4 CPUs that can go");	\
	}								\
	FIXTURE_TEARDOWN(group)						\
	{								\
		ctl("repair");						\
		set_cpu_online(CPU, true);				\
		relay_teardown();					\
	}
#define OFFLINE()	ASSERT_EQ(0, set_cpu_online(CPU, false))
#define ONLINE()	ASSERT_EQ(0, set_cpu_online(CPU, true))

/* Opens a channel, and the file of CPU 0. */
#define OPEN(...)					\
	({						\
		CTL("open " __VA_ARGS__);		\
		int _fd = open_cpu(0);			\
		ASSERT_LE(0, _fd);			\
		_fd;					\
	})

#endif
