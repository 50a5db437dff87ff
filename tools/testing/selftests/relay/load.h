/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Users of relay files in the background, and the kernel's memory usage over many rounds of an
 * operation.
 */
#ifndef _RELAY_SELFTEST_LOAD_H
#define _RELAY_SELFTEST_LOAD_H

#include "common.h"

#define USERS	3

/*
 * Threads that open, read, map and close whichever cpuN files there are, and
 * one that only keeps a CPU busy.
 */
struct users {
	pthread_t thread[USERS];
	pthread_t spinner;
	int stop;
};

void users_start(struct users *users);
void users_stop(struct users *users);

/*
 * Unload a module that such threads use: it is tried while they go on, and then
 * while they have closed their files, as they might never all do by chance.
 */
bool unload(const char *name);

/*
 * Returns true if the kernel holds more memory after running @round some times, then @rounds times,
 * with or without such threads running at the same time. Other memory use grows once or twice; a
 * leak grows each time that the rounds are run. Also true if a round fails.
 */
bool leaks(bool (*round)(void), unsigned int rounds, bool load);

#endif
