// SPDX-License-Identifier: GPL-2.0
/*
 * Events that perf gets while a case runs. Writes the case's name to the control file of
 * kprobes_selftest, and prints
 *
 *	perf_test pages FILE CASE	"NAME COMES GOES WRITES" for each name of pages of copies: pages that were
 *					made, pages of these that were freed within a minute, and writes to them
 *	perf_test trace FILE CASE	"NAME" for each function in the kernel's part of the call chain of each
 *					printed line
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS 64
#define PAGES 256
#define MOST_PAGES 4096
#define MOST_SYMBOLS 400000
#define ID_FILE "/sys/kernel/tracing/events/printk/console/id"

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static struct perf_event_mmap_page *ring[CPUS];
static size_t page_size;

static void open_all(struct perf_event_attr *attr)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF), cpu;

	attr->size = sizeof(*attr);
	attr->sample_id_all = 0;
	for (cpu = 0; cpu < cpus && cpu < CPUS; cpu++) {
		int fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0)
			die("perf_event_open");
		ring[cpu] = mmap(NULL, (PAGES + 1) * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring[cpu] == MAP_FAILED)
			die("mmap");
	}
}

/* Calls @each for the events since its last call. */
static void read_all(void (*each)(const struct perf_event_header *h))
{
	static union { struct perf_event_header h; char bytes[65536]; } one;
	unsigned int cpu;

	for (cpu = 0; cpu < CPUS; cpu++) {
		struct perf_event_mmap_page *p = ring[cpu];
		size_t size = PAGES * page_size;
		uint64_t tail, head;
		const char *data;

		if (!p)
			continue;
		data = (char *)p + page_size;
		head = __atomic_load_n(&p->data_head, __ATOMIC_ACQUIRE);
		for (tail = p->data_tail; tail < head; tail += one.h.size) {
			size_t i;

			for (i = 0; i < sizeof(one.h); i++)
				one.bytes[i] = data[(tail + i) % size];
			for (; i < one.h.size; i++)
				one.bytes[i] = data[(tail + i) % size];
			if (one.h.type == PERF_RECORD_LOST) {
				fprintf(stderr, "records were lost\n");
				exit(1);
			}
			each(&one.h);
		}
		__atomic_store_n(&p->data_tail, tail, __ATOMIC_RELEASE);
	}
}

static void run_case(const char *file, const char *name)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, name, strlen(name)) < 0)
		die(file);
	close(fd);
}

struct ksymbol {
	struct perf_event_header h;
	uint64_t addr;
	uint32_t len;
	uint16_t type, flags;
	char name[];
};

struct text_poke {
	struct perf_event_header h;
	uint64_t addr;
	uint16_t old_len, new_len;
};

static const char * const names[] = { "kprobe_insn_page", "kprobe_optinsn_page" };
static unsigned int comes[2], goes[2], writes[2];
static struct { uint64_t addr; unsigned int kind; int there; } page[MOST_PAGES];
static unsigned int pages;

static void on_page(const struct ksymbol *k)
{
	unsigned int kind, i;

	for (kind = 0; kind < 2 && strcmp(k->name, names[kind]); kind++)
		;
	if (kind == 2)
		return;
	if (k->type != PERF_RECORD_KSYMBOL_TYPE_OOL || k->len != page_size || k->addr % page_size) {
		fprintf(stderr, "a page at %#lx of type %u, %u bytes long\n", (long)k->addr, k->type, k->len);
		exit(1);
	}
	for (i = 0; i < pages && !(page[i].addr == k->addr && page[i].there && page[i].kind == kind); i++)
		;
	if (k->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) {
		/* Pages of earlier cases may be freed at the same time. */
		if (i < pages) {
			goes[kind]++;
			page[i].there = 0;
		}
	} else if (i == pages && pages < MOST_PAGES) {
		comes[kind]++;
		page[pages].addr = k->addr;
		page[pages].kind = kind;
		page[pages++].there = 1;
	} else {
		fprintf(stderr, "a page at %#lx came twice\n", (long)k->addr);
		exit(1);
	}
}

static void on_write(const struct text_poke *t)
{
	unsigned int i;

	for (i = 0; i < pages; i++)
		if (page[i].there && t->addr - page[i].addr < page_size && !t->old_len && t->new_len)
			writes[page[i].kind]++;
}

static void on_record(const struct perf_event_header *h)
{
	if (h->type == PERF_RECORD_KSYMBOL)
		on_page((const struct ksymbol *)h);
	else if (h->type == PERF_RECORD_TEXT_POKE)
		on_write((const struct text_poke *)h);
}

static int pages_of(const char *file, const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .ksymbol = 1, .text_poke = 1,
	};
	unsigned int i;

	open_all(&attr);
	run_case(file, name);
	read_all(on_record);
	/* Pages are freed after an RCU-tasks grace period: more than ten seconds on a busy machine. */
	for (i = 0; i < 600 && !goes[1]; i++) {
		usleep(100 * 1000);
		read_all(on_record);
	}
	for (i = 0; i < 2; i++)
		printf("%s %u %u %u\n", names[i], comes[i], goes[i], writes[i]);
	return 0;
}

static struct symbol { uint64_t at; char name[48]; } *symbols;
static size_t count;

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void read_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long at;
	char kind;

	symbols = calloc(MOST_SYMBOLS, sizeof(*symbols));
	if (!f || !symbols)
		die("/proc/kallsyms");
	while (count < MOST_SYMBOLS && fscanf(f, "%lx %c %47s%*[^\n]", &at, &kind, symbols[count].name) == 3)
		symbols[count++].at = at;
	fclose(f);
	qsort(symbols, count, sizeof(*symbols), compare);
}

static const char *symbol(uint64_t at)
{
	size_t low = 0, high = count;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return count ? symbols[low].name : "?";
}

struct sample {
	struct perf_event_header h;
	uint64_t nr, ips[];
};

static void on_sample(const struct perf_event_header *h)
{
	const struct sample *s = (const struct sample *)h;
	uint64_t i;

	if (h->type != PERF_RECORD_SAMPLE)
		return;
	for (i = 0; i < s->nr && s->ips[i] != PERF_CONTEXT_USER; i++)
		if (s->ips[i] < PERF_CONTEXT_MAX)
			puts(symbol(s->ips[i]));
}

static int trace_of(const char *file, const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .sample_period = 1, .sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_user = 1,
	};
	FILE *f = fopen(ID_FILE, "re");
	unsigned long id;

	if (!f || fscanf(f, "%lu", &id) != 1)
		die(ID_FILE);
	attr.config = id;
	read_symbols();
	open_all(&attr);
	run_case(file, name);
	read_all(on_sample);
	return 0;
}

int main(int argc, char **argv)
{
	page_size = sysconf(_SC_PAGESIZE);
	if (argc == 4 && !strcmp(argv[1], "pages"))
		return pages_of(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "trace"))
		return trace_of(argv[2], argv[3]);
	fprintf(stderr, "usage: perf_test pages|trace FILE CASE\n");
	return 2;
}
