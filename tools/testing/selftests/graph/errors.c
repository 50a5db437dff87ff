// SPDX-License-Identifier: GPL-2.0
/*
 * System calls that fail, each with another error:
 *	errors DIRECTORY CASE...	CASE: the name of an error, or "all"
 *
 * The DIRECTORY has, made by run.sh: file, directory/file, loop (a link to itself), secret (of root), small (a full tmpfs), readonly
 * (a mount), script (neither a program nor "#!"), socket (without a listener), busy (a program that runs), fifo.
 * Exits with 1 after each call has failed as it should, with 2 after another result.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#define NOBODY 65534

static long open_missing(void) { return open("missing", O_RDONLY); }
static long open_secret(void) { return open("secret", O_RDONLY); }
static long open_directory(void) { return open("directory", O_WRONLY); }
static long open_below_file(void) { return open("file/below", O_RDONLY); }
static long make_again(void) { return mkdir("directory", 0700); }
static long seek_wrongly(void) { return lseek(0, 0, 99); }
static long read_closed(void)
{
	char c;

	return read(999, &c, 1);
}
static long remove_full(void) { return rmdir("directory"); }
static long rename_away(void) { return rename("file", "small/file"); }
static long open_loop(void) { return open("loop", O_RDONLY); }
static long open_long(void)
{
	static char path[5000];

	memset(path, 'x', sizeof(path) - 1);
	return open(path, O_RDONLY);
}
static long change_secret(void) { return chmod("secret", 0777); }
static long kill_missing(void) { return kill(0x3ffffff, SIGTERM); }
static long wait_for_none(void) { return waitpid(-1, NULL, 0); }
static long connect_unheard(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return connect(fd, (struct sockaddr *)&to, sizeof(to));
}
static long terminal_of_null(void)
{
	struct termios termios;
	int fd = open("/dev/null", O_RDWR);

	return ioctl(fd, TCGETS, &termios);
}
static long write_full(void)
{
	static char page[4096];
	int fd = open("small/full", O_WRONLY | O_APPEND);

	return write(fd, page, sizeof(page));
}
static long make_readonly(void) { return mkdir("readonly/new", 0700); }
static long open_busy(void) { return open("busy", O_WRONLY); }
static long mount_unknown(void) { return mount("none", "directory", "no_such_fs", 0, NULL); }
static long bind_again(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return bind(fd, (struct sockaddr *)&to, sizeof(to));
}
/* limited(): fails with this limit of a resource. */
static long limited(int resource, rlim_t limit, long (*call)(void))
{
	struct rlimit before, now;
	long result;
	int error;

	if (getrlimit(resource, &before))
		return 0;
	now = before;
	now.rlim_cur = limit;
	if (setrlimit(resource, &now))
		return 0;
	result = call();
	error = errno;
	if (setrlimit(resource, &before))
		return 0;
	errno = error;
	return result;
}
static long append(void)
{
	int fd = open("file", O_WRONLY | O_APPEND);

	return write(fd, "more", 4);
}
static long open_file(void) { return open("file", O_RDONLY); }
static long grow(void)
{
	signal(SIGXFSZ, SIG_IGN);
	return limited(RLIMIT_FSIZE, 1, append);
}
static long open_many(void) { return limited(RLIMIT_NOFILE, 3, open_file); }
static long remove_mount(void) { return rmdir("readonly"); }
static long write_unread(void)
{
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	if (pipe(fds) || close(fds[0]))
		return 0;
	return write(fds[1], "", 1);
}
static long open_unread(void) { return open("fifo", O_WRONLY | O_NONBLOCK); }
static long connect_file(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "socket" };

	return connect(open_file(), (struct sockaddr *)&to, sizeof(to));
}
static long read_attribute(void)
{
	char value[8];

	return getxattr("file", "user.none", value, sizeof(value));
}
static long stat_missing(void)
{
	struct stat found;

	return stat("missing", &found);
}
static long make_below_missing(void) { return mkdir("missing/new", 0700); }
static long remove_missing(void) { return unlink("missing"); }
static long run_missing(void)
{
	return execl("missing", "missing", NULL);
}
static long change_to_file(void) { return chdir("file"); }
static long run_text(void)
{
	return execl("script", "script", NULL);
}

static const struct {
	const char *name;
	int error;
	long (*call)(void);
	int as_nobody;
} cases[] = {
	{ "ENOENT", ENOENT, open_missing },
	{ "EACCES", EACCES, open_secret, 1 },
	{ "EISDIR", EISDIR, open_directory },
	{ "ENOTDIR", ENOTDIR, open_below_file },
	{ "EEXIST", EEXIST, make_again },
	{ "EINVAL", EINVAL, seek_wrongly },
	{ "EBADF", EBADF, read_closed },
	{ "ENOTEMPTY", ENOTEMPTY, remove_full },
	{ "EXDEV", EXDEV, rename_away },
	{ "ELOOP", ELOOP, open_loop },
	{ "ENAMETOOLONG", ENAMETOOLONG, open_long },
	{ "EPERM", EPERM, change_secret, 1 },
	{ "ESRCH", ESRCH, kill_missing },
	{ "ECHILD", ECHILD, wait_for_none },
	{ "ECONNREFUSED", ECONNREFUSED, connect_unheard },
	{ "ENOTTY", ENOTTY, terminal_of_null },
	{ "ENOSPC", ENOSPC, write_full },
	{ "EROFS", EROFS, make_readonly },
	{ "ETXTBSY", ETXTBSY, open_busy },
	{ "ENOEXEC", ENOEXEC, run_text },
	{ "ENODEV", ENODEV, mount_unknown },
	{ "EADDRINUSE", EADDRINUSE, bind_again },
	{ "EFBIG", EFBIG, grow },
	{ "EMFILE", EMFILE, open_many },
	{ "EBUSY", EBUSY, remove_mount },
	{ "EPIPE", EPIPE, write_unread },
	{ "ENXIO", ENXIO, open_unread },
	{ "ENOTSOCK", ENOTSOCK, connect_file },
	{ "ENODATA", ENODATA, read_attribute },
	/* Errors of the first ones, by other calls. */
	{ "ENOENT-stat", ENOENT, stat_missing },
	{ "ENOENT-mkdir", ENOENT, make_below_missing },
	{ "ENOENT-unlink", ENOENT, remove_missing },
	{ "ENOENT-execve", ENOENT, run_missing },
	{ "ENOTDIR-chdir", ENOTDIR, change_to_file },
};

int main(int argc, char **argv)
{
	int status = 2;
	size_t i;
	long result;

	if (argc < 3 || chdir(argv[1]))
		return 3;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(argv[2], "all") && strcmp(argv[2], cases[i].name))
			continue;
		if (cases[i].as_nobody && seteuid(NOBODY))
			return 3;
		errno = 0;
		result = cases[i].call();
		if (result != -1 || errno != cases[i].error) {
			dprintf(2, "%s: %ld, %s\n", cases[i].name, result, strerror(errno));
			return 2;
		}
		status = 1;
		if (cases[i].as_nobody && seteuid(0))
			return 3;
	}
	return status;
}
