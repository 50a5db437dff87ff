// SPDX-License-Identifier: GPL-2.0
/*
 * Prints or checks the files of the gcov selftests:
 *
 *	files gcda FILE			version and stamp, then for each set of counters its function,
 *					kind and values
 *	files values FILE		the values of a gcda file, one a line
 *	files omitted FILE		number of sets of counters that are left out because they are 0
 *	files grown FILE...		fails unless each value of a large set is the previous one or one
 *					less, in each file
 *	files names DUMP		the names in gcov/vmlinux
 *	files counters DUMP NAME	the values of one of them, one a line
 *	files seeks DIRECTORY		fails unless reading it continues at each position
 *	files open FILE COUNT		opens it COUNT times, and prints by how many KB the available
 *					memory has shrunk
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FUNCTION = 0x01000000, COUNTERS = 0x01a10000 };

static unsigned char *data;
static size_t size;

static void load(const char *path)
{
	size_t room = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		err(1, "%s", path);
	size = 0;
	do {
		if (room - size < 1 << 16)
			data = realloc(data, room += 1 << 20);
		got = read(fd, data + size, room - size);
		if (got < 0)
			err(1, "%s", path);
		size += got;
	} while (got);
	close(fd);
}

static uint32_t word(size_t at)
{
	uint32_t value;

	if (at + sizeof(value) > size)
		errx(1, "the file is cut off");
	memcpy(&value, data + at, sizeof(value));
	return value;
}

static uint64_t number(size_t at)
{
	uint64_t value;

	if (at + sizeof(value) > size)
		errx(1, "the file is cut off");
	memcpy(&value, data + at, sizeof(value));
	return value;
}

/*
 * A set of counters: its function and kind, and the place of the values, unless they are left out.
 */
typedef void set_fn(uint32_t function, unsigned int kind, size_t at, unsigned int count, int omitted);

static void each_set(set_fn *fn)
{
	unsigned int unit;
	uint32_t function = 0;
	int gcc;
	size_t at;

	if (word(0) != 0x67636461)
		errx(1, "no gcda file");
	/* "408*", as LLVM writes, is less than "A10*". */
	gcc = ((int)(word(4) >> 24) - 'A') * 10 + (int)((word(4) >> 16) & 0xff) - '0';
	unit = gcc >= 12 ? 4 : 1;
	at = gcc >= 12 ? 16 : 12;
	/* mainline's has no end */
	while (at < size && word(at)) {
		uint32_t tag = word(at);
		int32_t length = word(at + 4);

		at += 8;
		if (tag == FUNCTION)
			function = length ? word(at) : 0;
		else if (tag >= COUNTERS && (tag - COUNTERS) % (1 << 17) == 0)
			fn(function, (tag - COUNTERS) >> 17, at, abs(length) / unit / 2, length < 0);
		if (length > 0)
			at += length / unit * 4;
	}
	if (at > size)
		errx(1, "the file is cut off");
}

static void show_set(uint32_t function, unsigned int kind, size_t at, unsigned int count, int omitted)
{
	unsigned int i;

	printf("%u %u", function, kind);
	for (i = 0; i < count; i++)
		printf(" %llu", omitted ? 0ULL : (unsigned long long)number(at + 8 * i));
	printf("\n");
}

static void show_values(uint32_t function, unsigned int kind, size_t at, unsigned int count, int omitted)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		printf("%llu\n", omitted ? 0ULL : (unsigned long long)number(at + 8 * i));
}

static unsigned int omitted_sets;

static void count_omitted(uint32_t function, unsigned int kind, size_t at, unsigned int count, int omitted)
{
	omitted_sets += omitted;
}

static void check_growth(uint32_t function, unsigned int kind, size_t at, unsigned int count, int omitted)
{
	unsigned int i;

	if (count < 1000)
		return;
	if (omitted)
		errx(1, "it does not grow");
	/*
	 * It is read from the first on while it grows from the first on, so later ones may have
	 * grown more.
	 */
	for (i = 1; i < count; i++)
		if (number(at + 8 * i) + 1 < number(at + 8 * (i - 1)))
			errx(1, "%u: %llu, before it %llu", i, (unsigned long long)number(at + 8 * i),
			     (unsigned long long)number(at + 8 * (i - 1)));
	printf("%llu to %llu\n", (unsigned long long)number(at), (unsigned long long)number(at + 8 * (count - 1)));
}

static void each_object(const char *wanted)
{
	size_t at = 0;
	int found = 0;

	while (at < size) {
		uint64_t length = number(at), count, i;
		const char *name = (char *)data + at + 8;

		at += 8 + (length + 7) / 8 * 8;
		count = number(at);
		if (!wanted) {
			printf("%.*s\n", (int)length, name);
		} else if (length == strlen(wanted) && !memcmp(name, wanted, length)) {
			found++;
			for (i = 0; i < count; i++)
				printf("%llu\n", (unsigned long long)number(at + 8 + 8 * i));
		}
		at += 8 + 8 * count;
	}
	if (wanted && found != 1)
		errx(1, "%d objects with this name", found);
}

static long available(void)
{
	char line[100];
	long kb = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && kb < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "MemAvailable: %ld", &kb);
	if (file)
		fclose(file);
	return kb;
}

static void open_often(const char *path, int count)
{
	long before = available();
	int i;

	for (i = 0; i < count; i++)
		if (open(path, O_RDWR) < 0)
			err(1, "%s", path);
	printf("%ld\n", before - available());
}

/* Reads a directory from its start, and then again from each place, the last first. */
static void check_seeks(const char *path)
{
	enum { MOST = 10000 };
	static char *names[MOST];
	static long places[MOST];
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0, i;

	if (!dir)
		err(1, "%s", path);
	for (;; count++) {
		if (count == MOST)
			errx(1, "%s: too many files", path);
		places[count] = telldir(dir);
		entry = readdir(dir);
		if (!entry)
			break;
		names[count] = strdup(entry->d_name);
	}
	for (i = count - 1; i >= 0; i--) {
		seekdir(dir, places[i]);
		entry = readdir(dir);
		if (!entry || strcmp(entry->d_name, names[i]))
			errx(1, "%s: %s where %s was", path, entry ? entry->d_name : "nothing", names[i]);
	}
	closedir(dir);
	printf("%d\n", count);
	if (count < 4)
		errx(1, "%s: too few files", path);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	int i;

	if (!strcmp(verb, "open") && argc > 3) {
		open_often(argv[2], atoi(argv[3]));
		return 0;
	}
	if (!strcmp(verb, "seeks")) {
		check_seeks(argv[2]);
		return 0;
	}
	if (!strcmp(verb, "grown")) {
		for (i = 2; i < argc; i++) {
			load(argv[i]);
			each_set(check_growth);
		}
		return 0;
	}
	if (argc > 2)
		load(argv[2]);
	if (!strcmp(verb, "gcda")) {
		printf("version %08x stamp %08x\n", word(4), word(8));
		each_set(show_set);
	} else if (!strcmp(verb, "values")) {
		each_set(show_values);
	} else if (!strcmp(verb, "omitted")) {
		each_set(count_omitted);
		printf("%u\n", omitted_sets);
	} else if (!strcmp(verb, "names")) {
		each_object(NULL);
	} else if (!strcmp(verb, "counters") && argc > 3) {
		each_object(argv[3]);
	} else {
		errx(2, "usage: files VERB FILE, see files.c");
	}
	return 0;
}
