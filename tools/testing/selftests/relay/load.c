// SPDX-License-Identifier: GPL-2.0
#include "load.h"

#include <glob.h>
#include <sched.h>

/* True if the users are to pause, and the number of those that have not paused yet. */
static int paused, using;

static void begin_use(struct users *users)
{
	for (;;) {
		while (__atomic_load_n(&paused, __ATOMIC_SEQ_CST) && !__atomic_load_n(&users->stop, __ATOMIC_RELAXED))
			usleep(1000);
		__atomic_add_fetch(&using, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&paused, __ATOMIC_SEQ_CST))
			return;
		if (__atomic_load_n(&users->stop, __ATOMIC_RELAXED))
			return;
		__atomic_sub_fetch(&using, 1, __ATOMIC_SEQ_CST);
	}
}

static void end_use(void)
{
	__atomic_sub_fetch(&using, 1, __ATOMIC_SEQ_CST);
}

bool unload(const char *name)
{
	unsigned int tries;
	int ret;

	for (tries = 1; (ret = module_unload(name)) == -EWOULDBLOCK; tries++) {
		if (tries == 50) {
			__atomic_store_n(&paused, 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&using, __ATOMIC_SEQ_CST))
				usleep(1000);
		}
		sched_yield();
	}
	__atomic_store_n(&paused, 0, __ATOMIC_SEQ_CST);
	if (ret)
		fprintf(stderr, "# unloading %s: %s\n", name, strerror(-ret));
	return !ret;
}

static void *open_and_use(void *arg)
{
	unsigned int cpu = 0, ncpus = online_cpus();
	struct users *users = arg;
	uint8_t buf[256];

	while (!__atomic_load_n(&users->stop, __ATOMIC_RELAXED)) {
		uint8_t *p;
		int fd;

		begin_use(users);
		fd = open_cpu(cpu++ % ncpus);
		if (fd < 0) {
			/* between two channels */
			end_use();
			usleep(1000);
			continue;
		}
		p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, fd, 0);
		/* Closed in the meantime; or a record of a fast channel that is longer. */
		if (read(fd, buf, sizeof(buf)) < 0 && errno != EIO && errno != EMSGSIZE) {
			perror("# read");
			abort();
		}
		if (p != MAP_FAILED) {
			buf[0] = p[0] + p[16383];
			munmap(p, 16384);
		}
		close(fd);
		end_use();
	}
	return NULL;
}

/* Reads the rest of a CPU's data. */
static void *spin(void *arg)
{
	struct sched_param param = {};
	struct users *users = arg;

	sched_setscheduler(0, SCHED_IDLE, &param);
	while (!__atomic_load_n(&users->stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

void users_start(struct users *users)
{
	users->stop = 0;
	pthread_create(&users->spinner, NULL, spin, users);
	for (int i = 0; i < USERS; i++)
		pthread_create(&users->thread[i], NULL, open_and_use, users);
}

void users_stop(struct users *users)
{
	__atomic_store_n(&users->stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < USERS; i++)
		pthread_join(users->thread[i], NULL);
	pthread_join(users->spinner, NULL);
}

/* Memory that the kernel holds, as far as it reports that. */
struct usage {
	long free_kb;		/* MemFree, and free pages of per-CPU lists */
	long percpu_kb;
	long vmaps;		/* lines of vmallocinfo */
	long kmallocs;		/* objects of all kmalloc caches */
};

static void sum_lines(const char *path,
		      void (*line)(const char *text, struct usage *u),
		      struct usage *u)
{
	FILE *f = fopen(path, "r");
	char text[512];

	if (!f)
		return;
	while (fgets(text, sizeof(text), f))
		line(text, u);
	fclose(f);
}

static void meminfo_line(const char *text, struct usage *u)
{
	long kb;

	if (sscanf(text, "MemFree: %ld", &kb) == 1)
		u->free_kb = kb;
	else if (sscanf(text, "Percpu: %ld", &kb) == 1)
		u->percpu_kb = kb;
}

static void zone_line(const char *text, struct usage *u)
{
	long pages;

	/* of "pagesets": free pages on one CPU's lists, which may be megabytes */
	if (sscanf(text, " count: %ld", &pages) == 1)
		u->free_kb += pages * (getpagesize() / 1024);
}

static void vmalloc_line(const char *text, struct usage *u)
{
	/* Kernel stacks are allocated and freed with threads. */
	u->vmaps += !strstr(text, "unpurged") && !strstr(text, "fork");
}

static void slab_line(const char *text, struct usage *u)
{
	char name[64];
	long objects;

	if (sscanf(text, "%63s %ld", name, &objects) == 2 &&
	    !strncmp(name, "kmalloc-", 8))
		u->kmallocs += objects;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fprintf(stderr, "# %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Free objects of per-CPU slabs count as used until they are shrunk. */
static void shrink_slabs(void)
{
	glob_t g;

	if (glob("/sys/kernel/slab/kmalloc-*/shrink", 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		write_file(g.gl_pathv[i], "1");
	globfree(&g);
}

static struct usage usage_once(void)
{
	struct usage u = {};

	write_file("/proc/sys/vm/drop_caches", "3");
	shrink_slabs();
	/* counters that CPUs keep for themselves */
	write_file("/proc/sys/vm/stat_refresh", "1");
	sum_lines("/proc/meminfo", meminfo_line, &u);
	sum_lines("/proc/zoneinfo", zone_line, &u);
	sum_lines("/proc/vmallocinfo", vmalloc_line, &u);
	sum_lines("/proc/slabinfo", slab_line, &u);
	return u;
}

/*
 * Returns the least of some measurements: an allocation takes a batch of objects to its CPU, which
 * all count as used, and freed objects may still wait for a grace period.
 */
static struct usage usage_now(void)
{
	struct usage least, u;
	cpu_set_t all;
	int i;

	sched_getaffinity(0, sizeof(all), &all);
	pin_to(0);
	least = usage_once();
	for (i = 0; i < 8; i++) {
		u = usage_once();
		if (u.free_kb > least.free_kb)
			least.free_kb = u.free_kb;
		if (u.percpu_kb < least.percpu_kb)
			least.percpu_kb = u.percpu_kb;
		if (u.vmaps < least.vmaps)
			least.vmaps = u.vmaps;
		if (u.kmallocs < least.kmallocs)
			least.kmallocs = u.kmallocs;
	}
	sched_setaffinity(0, sizeof(all), &all);
	return least;
}

static bool all_work(bool (*round)(void), unsigned int rounds, bool load)
{
	struct users users;
	bool ok = true;

	if (load)
		users_start(&users);
	while (ok && rounds--)
		ok = round();
	if (load)
		users_stop(&users);
	return ok;
}

/* A round that leaked all or a CPU's part of it would show four times over. */
static bool grew(const struct usage *a, const struct usage *b, unsigned int rounds)
{
	return a->free_kb - b->free_kb >= (long)rounds * 256 / 4 ||
	       b->percpu_kb - a->percpu_kb >= 256 ||
	       b->vmaps - a->vmaps >= (long)rounds / 4 ||
	       b->kmallocs - a->kmallocs >= (long)rounds / 2;
}

static bool leaks_once(bool (*round)(void), unsigned int rounds, bool load, struct usage *a)
{
	unsigned int tries;
	struct usage b;

	if (!all_work(round, rounds, load))
		return true;
	/* freeing may be deferred */
	for (tries = 0; tries < 20; tries++) {
		b = usage_now();
		if (!grew(a, &b, rounds))
			break;
		usleep(100000);
	}
	fprintf(stderr,
		"# %u rounds: free %ld to %ld kB, Percpu %ld to %ld kB, vmalloc areas %ld to %ld, kmalloc objects %ld to %ld\n",
		rounds, a->free_kb, b.free_kb, a->percpu_kb, b.percpu_kb,
		a->vmaps, b.vmaps, a->kmallocs, b.kmallocs);
	*a = b;
	return tries == 20;
}

bool leaks(bool (*round)(void), unsigned int rounds, bool load)
{
	unsigned int times;
	struct usage a;

	if (!all_work(round, 10, load))
		return true;
	a = usage_now();
	for (times = 0; times < 4; times++)
		if (!leaks_once(round, rounds, load, &a))
			return false;
	return true;
}
