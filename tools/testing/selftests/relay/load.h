/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Users of relay files in the background, and what the kernel's memory says
 * about many rounds of something.
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
 * Run @round some times, then @rounds times, with or without such threads
 * beside it: does the kernel hold more than before? True as well when a round
 * fails.
 */
bool leaks(bool (*round)(void), unsigned int rounds, bool load);

#endif
