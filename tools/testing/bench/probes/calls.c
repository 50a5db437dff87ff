// SPDX-License-Identifier: GPL-2.0
/*
 * Prints how many nanoseconds a system call takes, the least of several rounds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, CALLS = 400 };

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
	int seek = argc == 2 && !strcmp(argv[1], "lseek");
	int fd = open("/proc/self/exe", O_RDONLY);
	long least = -1;

	if (fd < 0)
		return 1;
	for (int round = 0; round < ROUNDS; round++) {
		long began = now();
		long took;

		for (int i = 0; i < CALLS; i++) {
			if (seek)
				lseek(fd, i, SEEK_SET);
			else
				access("/nonexistent/of/some/length", F_OK);
		}
		took = (now() - began) / CALLS;
		if (least < 0 || took < least)
			least = took;
	}
	printf("%ld\n", least);
	return 0;
}
