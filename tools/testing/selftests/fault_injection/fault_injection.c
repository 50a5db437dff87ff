// SPDX-License-Identifier: GPL-2.0
/*
 * Repeats a system call with its n-th allocation failing, for n = 1, 2, ... until the call has no
 * n-th allocation. For the loading of a module it begins where the module itself is called.
 *
 *	fault_injection write FILE TEXT UNDO	writes TEXT, and UNDO after it has succeeded
 *	fault_injection copy FILE FROM UNDO	the same with the contents of the file FROM, at once
 *	fault_injection insmod FILE PARAMETERS	loads a module, and unloads it
 *
 * The contents of debugfs, the modules, and all registered hooks and kprobes must be the same after
 * a failure, and after a success that was undone. Prints the number of allocations; says what is
 * wrong and fails otherwise.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 2000
#define MOST_TEXT 65536
/* Seconds without a change after which no more are expected. */
#define SETTLED 5
#define DEBUGFS "/sys/kernel/debug"
/*
 * Output of the event module:module_load, which the loader emits just before it calls the module.
 */
#define TRACE "/sys/kernel/tracing/trace"

struct call {
	const char *file, *text, *undo;
	/* of the text */
	size_t len;
	/* NULL unless it is a module */
	char *module;
	int fd;
};

static int fail_nth;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static void set_nth(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth, text, len, 0) != len)
		die("fail-nth");
}

/* Returns how many allocations there still are until the one that fails: 0 after it has failed. */
static unsigned int left(void)
{
	char text[16] = "";

	if (pread(fail_nth, text, sizeof(text) - 1, 0) <= 0)
		die("fail-nth");
	return atoi(text);
}

/* State that a failed call must not change: lines, which are compared in order. */
struct state {
	char **line;
	size_t lines, room;
};

static void add_line(struct state *s, const char *line)
{
	if (s->lines == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->line = realloc(s->line, s->room * sizeof(*s->line));
		if (!s->line)
			die("state");
	}
	s->line[s->lines] = strdup(line);
	if (!s->line[s->lines++])
		die("state");
}

/*
 * The names of the entries of @path and the folders below, @depth deep; except folders that change
 * all the time.
 */
static void add_names(struct state *s, const char *path, int depth)
{
	static const char *const others[] = { ".", "..", "slab", "kunit", "tracing" };
	struct dirent *entry;
	char name[PATH_MAX];
	unsigned int i;
	DIR *dir;

	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		for (i = 0; i < sizeof(others) / sizeof(*others); i++)
			if (!strcmp(entry->d_name, others[i]))
				break;
		if (i < sizeof(others) / sizeof(*others))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		add_line(s, name);
		if (depth > 1 && entry->d_type == DT_DIR)
			add_names(s, name, depth - 1);
	}
	closedir(dir);
}

/* Takes " WORD=NUMBER" out of @line. */
static void without_count(char *line, const char *word)
{
	char *at = strstr(line, word);
	size_t len = strlen(word);

	if (at)
		memmove(at, at + len + strspn(at + len, "0123456789"), strlen(at + len + strspn(at + len, "0123456789")) + 1);
}

/* The lines of a file, without counts; or, of /proc/modules, the names. None if there is no such file. */
static void add_file(struct state *s, const char *path, int first_word)
{
	char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return;
	while (getline(&line, &size, f) > 0) {
		line[strcspn(line, first_word ? "\n " : "\n")] = '\0';
		without_count(line, " hits=");
		without_count(line, " stops=");
		add_line(s, line);
	}
	free(line);
	fclose(f);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct state state(void)
{
	struct state s = { };

	add_names(&s, DEBUGFS, 3);
	add_file(&s, "/proc/modules", 1);
	add_file(&s, DEBUGFS "/gkhi/hooks", 0);
	add_file(&s, DEBUGFS "/kprobes/list", 0);
	add_file(&s, DEBUGFS "/ftrace_tramp/list", 0);
	add_file(&s, DEBUGFS "/ferrotrace_dprobes/control", 0);
	qsort(s.line, s.lines, sizeof(*s.line), compare);
	return s;
}

static void forget(struct state *s)
{
	while (s->lines)
		free(s->line[--s->lines]);
	free(s->line);
}

/* Returns 1 if they are the same; with @show, prints lines that only one has to standard error. */
static int same(const struct state *a, const struct state *b, int show)
{
	size_t i = 0, j = 0;
	int order, equal = 1;

	while (i < a->lines || j < b->lines) {
		order = i == a->lines ? 1 : j == b->lines ? -1 : strcmp(a->line[i], b->line[j]);
		if (order && show)
			fprintf(stderr, "%s: %s\n", order < 0 ? "before" : "after", order < 0 ? a->line[i] : b->line[j]);
		equal &= !order;
		i += order <= 0;
		j += order >= 0;
	}
	return equal;
}

static void wait_a_little(void)
{
	usleep(100 * 1000);
}

/*
 * The stable state. Some memory is freed later than the call: a trampoline waits for a grace period
 * of all tasks, during which nothing changes, so two looks are not enough.
 */
static struct state settled(void)
{
	struct state s = state(), again;
	time_t since = time(NULL), now;
	int tries;

	for (tries = 0; tries < 1000; tries++) {
		wait_a_little();
		again = state();
		now = time(NULL);
		if (!same(&s, &again, 0))
			since = now;
		forget(&s);
		s = again;
		if (now - since > SETTLED)
			return s;
	}
	die("state: it keeps changing");
	return s;
}

/* Returns 1 if the state is as before, or becomes so; prints the differences otherwise. */
static int as_before(const struct state *before)
{
	struct state now = state();
	int tries, equal;

	for (tries = 0; tries < 50 && !same(before, &now, 0); tries++) {
		wait_a_little();
		forget(&now);
		now = state();
	}
	equal = same(before, &now, 1);
	forget(&now);
	return equal;
}

/* From the beginning, as a shell writes; pwrite() is not for seq files. */
static long command(const struct call *c, const char *text, size_t len)
{
	lseek(c->fd, 0, SEEK_SET);
	return write(c->fd, text, len);
}

static int do_call(const struct call *c)
{
	long ret;

	if (c->module)
		ret = syscall(SYS_finit_module, c->fd, c->text, 0);
	else
		ret = command(c, c->text, c->len);
	return ret < 0 ? -errno : 0;
}

static void undo(const struct call *c)
{
	if (c->module ? syscall(SYS_delete_module, c->module, 0) : command(c, c->undo, strlen(c->undo)) < 0)
		die("undo");
}

/*
 * Makes the call with its n-th allocation failing. Returns 1 if it had one; *tolerated is counted,
 * *wrong set.
 */
static int once(const struct call *c, const struct state *before, unsigned int n, int *tolerated, int *wrong)
{
	int ret, failed;

	set_nth(n);
	ret = do_call(c);
	failed = !left();
	set_nth(0);
	if (!ret)
		undo(c);
	if (failed && !ret)
		++*tolerated;
	if (ret && !(failed && ret == -ENOMEM)) {
		fprintf(stderr, "allocation %u%s: %s\n", n, failed ? "" : " (none failed)", strerror(-ret));
		*wrong = 1;
	}
	if (!as_before(before)) {
		fprintf(stderr, "allocation %u: %s, and not as before\n", n, ret ? strerror(-ret) : "success");
		*wrong = 1;
	}
	return failed;
}

/* Returns 1 if the module is called although its loading's n-th allocation fails. */
static int comes_to_init(const struct call *c, unsigned int n)
{
	int trace = open(TRACE, O_WRONLY | O_TRUNC | O_CLOEXEC), called = 0, ret;
	char *line = NULL;
	size_t size = 0;
	FILE *f;

	if (trace < 0)
		die(TRACE);
	close(trace);
	set_nth(n);
	ret = do_call(c);
	set_nth(0);
	if (!ret)
		undo(c);
	f = fopen(TRACE, "re");
	if (!f)
		die(TRACE);
	while (getline(&line, &size, f) > 0)
		called |= strstr(line, "module_load: ") && strstr(line, c->module);
	free(line);
	fclose(f);
	return called;
}

/*
 * The first allocation after those of the kernel's loader, which are not under test: hundreds, most
 * of them for sysfs. A few earlier, since their number varies.
 */
static unsigned int first_of_init(const struct call *c)
{
	unsigned int low = 0, high = MOST;

	while (high - low > 1) {
		unsigned int n = (low + high) / 2;

		if (comes_to_init(c, n))
			high = n;
		else
			low = n;
	}
	return high > 3 ? high - 3 : 1;
}

/* The module's name: the file's, as the kernel writes it. */
static char *module_name(const char *file)
{
	const char *slash = strrchr(file, '/');
	char *name = strdup(slash ? slash + 1 : file), *c;

	for (c = name; *c; c++)
		if (*c == '-')
			*c = '_';
	name[strlen(name) - strlen(".ko")] = '\0';
	return name;
}

/* Replaces the name of a file in @c->text by the file's contents. */
static void read_text(struct call *c)
{
	char *text = malloc(MOST_TEXT);
	int fd = open(c->text, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 || !text ? -1 : read(fd, text, MOST_TEXT);

	if (len < 0)
		die(c->text);
	close(fd);
	c->text = text;
	c->len = len;
}

int main(int argc, char **argv)
{
	struct call c = { };
	int tolerated = 0, wrong = 0;
	unsigned int n, first = 1;
	struct state before;

	if (argc == 5 && (!strcmp(argv[1], "write") || !strcmp(argv[1], "copy")))
		c.undo = argv[4];
	else if (argc == 4 && !strcmp(argv[1], "insmod"))
		c.module = module_name(argv[2]);
	else
		return fprintf(stderr, "usage: fault_injection write FILE TEXT UNDO | copy FILE FROM UNDO | insmod FILE PARAMETERS\n"), 2;
	c.file = argv[2];
	c.text = argv[3];
	c.len = strlen(c.text);
	if (!strcmp(argv[1], "copy"))
		read_text(&c);
	c.fd = open(c.file, (c.module ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (c.fd < 0 || fail_nth < 0)
		die(c.fd < 0 ? c.file : "fail-nth");
	/* no page of our own is allocated within the call */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* once without a failure: memory that the first call allocates for good is allocated */
	n = -do_call(&c);
	if (n) {
		errno = n;
		die("without a failure");
	}
	undo(&c);
	if (c.module)
		first = first_of_init(&c);
	before = settled();
	for (n = first; n < MOST && !wrong; n++)
		if (!once(&c, &before, n, &tolerated, &wrong))
			break;
	printf("%u allocations, %d of them without consequence\n", n - first, tolerated);
	return wrong || n == MOST || n == first;
}
