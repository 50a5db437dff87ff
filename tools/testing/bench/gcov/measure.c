// SPDX-License-Identifier: GPL-2.0
/*
 * Costs of an exporter of coverage, in nanoseconds:
 *
 *	measure tree DIRECTORY	reads all files ending in .gcda below a directory; also prints how many,
 *				and their bytes
 *	measure file FILE	reads a file
 *	measure write FILE	writes to a file
 *	measure insmod FILE	loads a module: the CPU time, without waiting
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 17];
static unsigned long files, bytes;

static void take(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		err(1, "%s", path);
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		bytes += got;
	if (got)
		err(1, "%s", path);
	close(fd);
	files++;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t len = strlen(path);

	if (type == FTW_F && len > 5 && !strcmp(path + len - 5, ".gcda"))
		take(path);
	return 0;
}

static unsigned long now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000UL + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	clockid_t clock = CLOCK_MONOTONIC;
	unsigned long start;
	int fd;

	if (argc != 3)
		errx(2, "usage: measure tree|file|write|insmod PATH");
	memset(buffer, 1, sizeof(buffer));
	if (!strcmp(argv[1], "insmod"))
		clock = CLOCK_PROCESS_CPUTIME_ID;
	start = now(clock);
	if (!strcmp(argv[1], "tree")) {
		if (nftw(argv[2], visit, 64, FTW_PHYS))
			err(1, "%s", argv[2]);
	} else if (!strcmp(argv[1], "file")) {
		take(argv[2]);
	} else if (!strcmp(argv[1], "insmod")) {
		fd = open(argv[2], O_RDONLY);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
			err(1, "%s", argv[2]);
		close(fd);
	} else {
		fd = open(argv[2], O_WRONLY);
		if (fd < 0 || write(fd, "0", 1) != 1)
			err(1, "%s", argv[2]);
		close(fd);
	}
	printf("%lu %lu %lu\n", now(clock) - start, files, bytes);
	return 0;
}
