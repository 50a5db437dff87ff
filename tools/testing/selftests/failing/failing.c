// SPDX-License-Identifier: GPL-2.0
/*
 * Repeats a system call with its n-th allocation failing, for n = 1, 2, ... until the call has no n-th allocation.
 *
 *	failing STATE write FILE TEXT UNDO	writes TEXT, and UNDO after it has succeeded
 *	failing STATE insmod FILE PARAMETERS	loads a module, and unloads it
 *
 * STATE is a shell command that prints what must be the same after a failure, and after a success that was undone. Prints
 * how many allocations there were; says what is wrong and fails otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 2000

struct call {
	const char *file, *text, *undo;
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

static char *state(const char *command)
{
	size_t size = 1 << 20, len;
	char *text = malloc(size);
	FILE *pipe = popen(command, "r");

	if (!text || !pipe)
		die("state");
	len = fread(text, 1, size - 1, pipe);
	text[len] = '\0';
	if (pclose(pipe))
		die("state");
	return text;
}

static void wait_a_little(void)
{
	usleep(100 * 1000);
}

/* The state as it stays: what is freed later than the call has gone. */
static char *settled(const char *command)
{
	char *text = state(command), *again;
	int tries;

	for (tries = 0; tries < 100; tries++) {
		wait_a_little();
		again = state(command);
		if (!strcmp(text, again)) {
			free(again);
			return text;
		}
		free(text);
		text = again;
	}
	die("state: it keeps changing");
	return NULL;
}

/* The same if it comes to be what it was before, which takes no time if it is that at once. */
static char *state_again(const char *command, const char *before)
{
	char *text = state(command);
	int tries;

	for (tries = 0; tries < 50 && strcmp(text, before); tries++) {
		wait_a_little();
		free(text);
		text = state(command);
	}
	return text;
}

static int do_call(const struct call *c)
{
	long ret;

	if (c->module)
		ret = syscall(SYS_finit_module, c->fd, c->text, 0);
	else
		ret = pwrite(c->fd, c->text, strlen(c->text), 0);
	return ret < 0 ? -errno : 0;
}

static void undo(const struct call *c)
{
	if (c->module ? syscall(SYS_delete_module, c->module, 0) : pwrite(c->fd, c->undo, strlen(c->undo), 0) < 0)
		die("undo");
}

static void show(const char *title, const char *text)
{
	fprintf(stderr, "--- %s\n%s", title, text);
}

/* The call with its n-th allocation failing. Returns whether it had one; *tolerated is counted, *wrong set. */
static int once(const struct call *c, const char *command, const char *before, unsigned int n, int *tolerated, int *wrong)
{
	int ret, failed;
	char *after;

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
	after = state_again(command, before);
	if (strcmp(before, after)) {
		fprintf(stderr, "allocation %u: %s, and not as before\n", n, ret ? strerror(-ret) : "success");
		show("before", before);
		show("after", after);
		*wrong = 1;
	}
	free(after);
	return failed;
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

int main(int argc, char **argv)
{
	struct call c = { };
	int tolerated = 0, wrong = 0;
	unsigned int n;
	char *before;

	if (argc == 6 && !strcmp(argv[2], "write"))
		c.undo = argv[5];
	else if (argc == 5 && !strcmp(argv[2], "insmod"))
		c.module = module_name(argv[3]);
	else
		return fprintf(stderr, "usage: failing STATE write FILE TEXT UNDO | STATE insmod FILE PARAMETERS\n"), 2;
	c.file = argv[3];
	c.text = argv[4];
	c.fd = open(c.file, (c.module ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (c.fd < 0 || fail_nth < 0)
		die(c.fd < 0 ? c.file : "fail-nth");
	/* no page of our own is allocated within the call */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* once without a failure: what is allocated for good the first time is there */
	n = -do_call(&c);
	if (n) {
		errno = n;
		die("without a failure");
	}
	undo(&c);
	before = settled(argv[1]);
	for (n = 1; n < MOST && !wrong; n++)
		if (!once(&c, argv[1], before, n, &tolerated, &wrong))
			break;
	printf("%u allocations, %d of them without consequence\n", n - 1, tolerated);
	return wrong || n == MOST || n == 1;
}
