// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of the selftests of live coverage that hold a session: "coverage CASE". Prints what is wrong,
 * and fails.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/ferrotrace_coverage.h>

#define DIR "/sys/kernel/debug/ferrotrace_coverage/"
#define CALL "/sys/module/coverage_target/parameters/call"
#define ADDRESS "/sys/module/coverage_target/parameters/address"
#define BLOCKS "/sys/module/coverage_target/parameters/blocks"
#define FUNCTION "/sys/module/coverage_livepatch/parameters/function"
#define PATCH "/sys/kernel/livepatch/coverage_livepatch/"
#define TARGET_SIZE 18
#define MOST 65536

static int failed;

#define EXPECT(condition) do {							\
	if (!(condition)) {							\
		printf("line %d: %s\n", __LINE__, #condition);			\
		failed = 1;							\
	}									\
} while (0)

/*
 * Finds a function: those of the modules, or one of the file $COVERAGE_SYMBOLS, which has names, starts and
 * ends. (Reading /proc/kallsyms takes seconds.)
 */
static bool find(const char *name, uint64_t *start, uint64_t *end)
{
	bool is_target = !strcmp(name, "coverage_target"), is_patch = !strcmp(name, "patched_cmdline"), is_found = false;
	const char *from = is_target ? ADDRESS : is_patch ? FUNCTION : getenv("COVERAGE_SYMBOLS");
	FILE *file = from ? fopen(from, "r") : NULL;
	char symbol[512];

	if (file && is_target) {
		is_found = fscanf(file, "%lx", start) == 1;
		*end = *start + TARGET_SIZE;
	} else if (file && is_patch) {
		/* After the slash is the size. */
		is_found = fscanf(file, "%lx %*[^/]/%lx", start, end) == 2;
		*end += *start;
	}
	while (file && !is_target && !is_patch && !is_found && fscanf(file, "%511s %lx %lx", symbol, start, end) == 3)
		is_found = !strcmp(symbol, name);
	if (file)
		fclose(file);
	return is_found;
}

/* Writes to a file; returns 0 or the error. */
static int put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);
	int error = fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return error;
}

static int control(const char *command)
{
	return put(DIR "control", command);
}

static void arm(void)
{
	EXPECT(control("arm\n") == 0);
}

static void disarm(void)
{
	EXPECT(control("disarm\n") == 0);
}

/* Returns a number of the file control. */
static long status(const char *key)
{
	char text[4096] = "", *at;
	int fd = open(DIR "control", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		failed = 1;
	close(fd);
	for (at = text; (at = strstr(at, key)); at++)
		if ((at == text || at[-1] == ' ' || at[-1] == '\n') && at[strlen(key)] == '=')
			return atol(at + strlen(key) + 1);
	return 0;
}

static int begin(void)
{
	return open(DIR "blocks", O_RDWR);
}

/* Returns a record of places, and its length. */
static struct ferrotrace_coverage_places *record(uint64_t base, const uint32_t *offsets, uint32_t count, size_t *len)
{
	struct ferrotrace_coverage_places *places;

	*len = sizeof(*places) + count * sizeof(*offsets);
	places = malloc(*len);
	*places = (struct ferrotrace_coverage_places) { .base = base, .count = count };
	memcpy(places->offsets, offsets, count * sizeof(*offsets));
	return places;
}

/* Writes places; returns 0 or the error. */
static int add(int fd, uint64_t base, const uint32_t *offsets, uint32_t count)
{
	size_t len;
	struct ferrotrace_coverage_places *places = record(base, offsets, count, &len);
	int error = write(fd, places, len) == (ssize_t)len ? 0 : errno;

	free(places);
	return error;
}

/* Writes places in as many writes as they take. */
static void add_places(int fd, uint64_t base, const uint32_t *offsets, uint32_t count)
{
	uint32_t most = (FERROTRACE_COVERAGE_WRITE_MAX - sizeof(struct ferrotrace_coverage_places)) / sizeof(*offsets);

	while (count) {
		uint32_t some = count < most ? count : most;

		EXPECT(add(fd, base, offsets, some) == 0);
		offsets += some;
		count -= some;
	}
}

/* Writes all addresses of a function, also those between instructions. Returns their number. */
static uint32_t add_all(int fd, const char *name, uint64_t *start)
{
	static uint32_t offsets[MOST];
	uint32_t count;
	uint64_t end;

	if (!find(name, start, &end) || end - *start > MOST) {
		printf("no function %s\n", name);
		exit(1);
	}
	for (count = 0; count < end - *start; count++)
		offsets[count] = count;
	EXPECT(add(fd, *start, offsets, count) == 0);
	return count;
}

static long call(long value)
{
	char text[32] = "";
	int fd;

	snprintf(text, sizeof(text), "%ld", value);
	EXPECT(put(CALL, text) == 0);
	fd = open(CALL, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		failed = 1;
	close(fd);
	return atol(text);
}

/* Compares the states of the first 18 places with a text: hit, not hit, other. */
static bool is(int fd, const char *wanted)
{
	uint8_t states[18];
	char seen[19] = "";
	int i;

	if (pread(fd, states, sizeof(states), 0) != sizeof(states))
		return false;
	for (i = 0; i < 18; i++)
		seen[i] = states[i] < 2 ? '0' + states[i] : states[i] == FERROTRACE_COVERAGE_NOT_INSTRUCTION ? '.' : '?';
	if (strcmp(seen, wanted))
		printf("seen %s, wanted %s\n", seen, wanted);
	return !strcmp(seen, wanted);
}

/* The instructions of coverage_target(): at 0, 1, 4, 6, 8, 12, 14, 16 and 17. */
#define NONE	"00..0.0.0...0.0.00"
#define ZERO	"11..1.1.0...0.1.11"
#define OTHER	"11..1.1.1...1.0.11"
#define BOTH	"11..1.1.1...1.1.11"

static void exact(void)
{
	int fd = begin();
	uint64_t start;

	add_all(fd, "coverage_target", &start);
	EXPECT(is(fd, NONE));
	EXPECT(call(5) == 6);
	EXPECT(is(fd, NONE));
	arm();
	EXPECT(status("armed") == status("places") - status("refused"));
	EXPECT(is(fd, NONE));
	EXPECT(call(0) == 0);
	EXPECT(is(fd, ZERO));
	usleep(100000);
	EXPECT(status("armed") == status("places") - status("refused") - status("hit"));
	EXPECT(call(7) == 8);
	EXPECT(is(fd, BOTH));
	EXPECT(control("reset\n") == 0);
	EXPECT(is(fd, NONE));
	EXPECT(call(-3) == -2);
	EXPECT(is(fd, OTHER));
	disarm();
	EXPECT(status("armed") == 0);
	EXPECT(call(0) == 0);
	EXPECT(is(fd, OTHER));
	arm();
	EXPECT(call(0) == 0);
	EXPECT(is(fd, BOTH));
	close(fd);
	EXPECT(status("places") == 0 && status("armed") == 0);
	EXPECT(call(1) == 2);
}

static void errors(void)
{
	uint32_t none[] = { 0 }, twice[] = { 3, 3 }, two[] = { 0, 4 };
	struct ferrotrace_coverage_places flags = { .count = 0, .flags = 1 };
	uint64_t start, end;
	int fd;

	EXPECT(control("arm\n") == ENODEV);
	EXPECT(control("reset\n") == ENODEV);
	fd = begin();
	EXPECT(fd >= 0);
	EXPECT(begin() == -1 && errno == EBUSY);
	find("vfs_read", &start, &end);
	EXPECT(write(fd, "x", 1) == -1 && errno == EINVAL);
	EXPECT(write(fd, &flags, sizeof(flags)) == -1 && errno == EINVAL);
	EXPECT(add(fd, start, twice, 2) == EINVAL);
	EXPECT(add(fd, UINT64_MAX, two, 2) == EINVAL);
	EXPECT(add(fd, 0, none, 1) == ENOENT);
	EXPECT(add(fd, 4096, none, 1) == ENOENT);
	EXPECT(add(fd, (uintptr_t)&failed, none, 1) == ENOENT);
	EXPECT(status("places") == 0);
	EXPECT(add(fd, start, two, 2) == 0);
	EXPECT(add(fd, start, two, 2) == EEXIST);
	EXPECT(add(fd, start + 1, none, 1) == EEXIST);
	EXPECT(control("arm now\n") == EINVAL);
	EXPECT(control("arm\nnonsense\n") == EINVAL);
	EXPECT(status("armed") == 0);
	EXPECT(control("arm\n") == 0 && control("arm\n") == 0);
	EXPECT(add(fd, start + 16, none, 1) == EBUSY);
	EXPECT(control("disarm\ndisarm\n") == 0);
	EXPECT(add(fd, start + 16, none, 1) == 0);
	EXPECT(status("places") == 3);
	close(fd);
}

/* Returns the state of one place. */
static int state_of(uint64_t at)
{
	uint32_t offset = 0;
	uint8_t state = 255;
	int fd = begin();

	EXPECT(add(fd, at, &offset, 1) == 0);
	EXPECT(pread(fd, &state, 1, 0) == 1);
	close(fd);
	return state;
}

static void refused(void)
{
	static const struct {
		const char *function;
		int offset, state;
	} cases[] = {
		{ "exc_int3", 8, FERROTRACE_COVERAGE_MARKED },
		{ "asm_exc_int3", 4, FERROTRACE_COVERAGE_MARKED },
		{ "kprobe_int3_handler", 9, FERROTRACE_COVERAGE_MARKED },
		{ "__SCT__cond_resched", 0, FERROTRACE_COVERAGE_NAMED },
		{ "load_current_idt", 4, FERROTRACE_COVERAGE_NAMED },
		{ "machine_kexec", 9, FERROTRACE_COVERAGE_OWN },
		{}
	};
	uint64_t start, end;
	size_t i;

	find("vfs_read", &start, &end);
	/* The call of ftrace is after the landing pad, on a kernel that has them. */
	if (state_of(start) == FERROTRACE_COVERAGE_LANDING_PAD)
		start += 4;
	EXPECT(state_of(start) == FERROTRACE_COVERAGE_FTRACE);
	EXPECT(state_of(start + 1) == FERROTRACE_COVERAGE_NOT_INSTRUCTION);
	for (i = 0; cases[i].function; i++) {
		int state;

		if (!find(cases[i].function, &start, &end))
			continue;
		state = state_of(start + cases[i].offset);
		if (state != cases[i].state) {
			printf("%s+%d: %d\n", cases[i].function, cases[i].offset, state);
			failed = 1;
		}
	}
}

/* Writes to /proc/self/fail-nth, or reads it: the number of allocations until the one that fails. */
static int fail_nth;

static void fail(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	EXPECT(pwrite(fail_nth, text, len, 0) == len);
}

static bool has_failed(void)
{
	char text[16] = "";

	EXPECT(pread(fail_nth, text, sizeof(text) - 1, 0) > 0);
	return !atoi(text);
}

/* Opens the session, adds the places of a function and arms them, with each allocation failing once. */
static void faults(void)
{
	static uint32_t offsets[MOST];
	struct ferrotrace_coverage_places *places;
	uint32_t nth, count, failures = 0;
	uint64_t start, end;
	bool is_done = false;
	size_t len;

	fail_nth = open("/proc/self/fail-nth", O_RDWR);
	EXPECT(fail_nth >= 0 && find("coverage_target", &start, &end));
	for (count = 0; count < end - start; count++)
		offsets[count] = count;
	places = record(start, offsets, count, &len);
	/* No page of this process is allocated in a call. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	for (nth = 1; nth < 1000 && !is_done && !failed; nth++) {
		int step = 0, fd, error = 0;

		fail(nth);
		fd = begin();
		if (fd < 0)
			error = errno;
		if (!error && ++step)
			error = write(fd, places, len) == (ssize_t)len ? 0 : errno;
		if (!error && ++step)
			error = control("arm\n");
		is_done = !has_failed();
		fail(0);
		failures += error != 0;
		EXPECT(error == 0 || (!is_done && error == ENOMEM));
		if (error && step) {
			/* Nothing is left of the failure. */
			EXPECT(step == 2 || status("places") == 0);
			EXPECT(step == 2 || write(fd, places, len) == (ssize_t)len);
			arm();
		}
		if (fd >= 0) {
			EXPECT(status("armed") > 5 && status("armed") == status("places") - status("refused"));
			close(fd);
		}
		EXPECT(status("places") == 0 && status("armed") == 0);
	}
	/* The last round had no failure, and the loop has added 1 after it. */
	printf("%u allocations failed, %u of them made a call fail\n", nth - 2, failures);
	EXPECT(is_done && failures > 0);
}

static char **names;

/* Arms the named functions, prints "armed", and waits to be killed. */
static void hold(void)
{
	uint64_t start;
	int fd = begin();

	for (; *names; names++)
		add_all(fd, *names, &start);
	arm();
	puts("armed");
	fflush(stdout);
	pause();
}

/* Reads code from /proc/kcore. */
static uint8_t *read_code(uint64_t start, size_t size)
{
	int fd = open("/proc/kcore", O_RDONLY), i;
	uint8_t *bytes = malloc(size);
	Elf64_Ehdr header;
	Elf64_Phdr part;

	EXPECT(pread(fd, &header, sizeof(header), 0) == sizeof(header));
	for (i = 0; i < header.e_phnum; i++) {
		EXPECT(pread(fd, &part, sizeof(part), header.e_phoff + i * sizeof(part)) == sizeof(part));
		if (part.p_type == PT_LOAD && start >= part.p_vaddr && start + size <= part.p_vaddr + part.p_memsz)
			break;
	}
	EXPECT(i < header.e_phnum);
	EXPECT(pread(fd, bytes, size, part.p_offset + start - part.p_vaddr) == (ssize_t)size);
	close(fd);
	return bytes;
}

/* Prints the code of the named functions. */
static void code(void)
{
	uint64_t start, end;
	uint8_t *bytes;
	size_t i;

	for (; *names; names++) {
		EXPECT(find(*names, &start, &end));
		bytes = read_code(start, end - start);
		printf("%s ", *names);
		for (i = 0; i < end - start; i++)
			printf("%02x", bytes[i]);
		puts("");
		free(bytes);
	}
}

/* Returns the number of hit places, of some of them. */
static int hits(int fd, uint32_t first, uint32_t count)
{
	static uint8_t states[MOST];
	int sum = 0;

	EXPECT(pread(fd, states, count, first) == count);
	while (count)
		sum += states[--count] == FERROTRACE_COVERAGE_HIT;
	return sum;
}

/* Compares what a file says with a text. */
static bool says(const char *name, const char *wanted)
{
	char text[4096] = "";
	int fd = open(name, O_RDONLY);

	EXPECT(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
	close(fd);
	return !strcmp(text, wanted);
}

/* Waits until all tasks execute the livepatch, or none. */
static void end_transition(bool enabled)
{
	int i;

	for (i = 0; i < 600; i++) {
		if (enabled ? says(PATCH "transition", "0\n") : access(PATCH, F_OK))
			return;
		usleep(100000);
	}
	EXPECT(!"the transition has ended");
}

/* Loads a livepatch whose file is named, and ends it, while functions that it replaces, and its own, are armed. */
static void livepatch(void)
{
	uint64_t start, end, unused;
	uint32_t old, new;
	uint8_t *before, *after;
	int fd = begin(), file = open(*names, O_RDONLY | O_CLOEXEC);

	EXPECT(find("cmdline_proc_show", &start, &end));
	before = read_code(start, end - start);
	old = add_all(fd, "cmdline_proc_show", &start);
	arm();
	EXPECT(!says("/proc/cmdline", "patched\n"));
	EXPECT(hits(fd, 0, old) > 2);

	/* Patched while armed: only the first instruction is executed, the call of ftrace, which is no place. */
	EXPECT(control("reset\n") == 0);
	EXPECT(syscall(SYS_finit_module, file, "", 0) == 0);
	end_transition(true);
	EXPECT(says("/proc/cmdline", "patched\n"));
	EXPECT(hits(fd, 0, old) == 0);

	/* Armed while patched. */
	disarm();
	new = add_all(fd, "patched_cmdline", &unused);
	arm();
	EXPECT(says("/proc/cmdline", "patched\n"));
	EXPECT(hits(fd, 0, old) == 0);
	EXPECT(hits(fd, old, new) > 2);

	/* No longer patched. */
	EXPECT(control("reset\n") == 0);
	EXPECT(put(PATCH "enabled", "0") == 0);
	end_transition(false);
	EXPECT(!says("/proc/cmdline", "patched\n"));
	EXPECT(hits(fd, 0, old) > 2);
	EXPECT(hits(fd, old, new) == 0);
	EXPECT(syscall(SYS_delete_module, "coverage_livepatch", 0) == 0);
	EXPECT(status("gone") > 2);
	close(fd);
	after = read_code(start, end - start);
	EXPECT(!memcmp(before, after, end - start));
}

/* Calls delete_module() for each module. The kernel must refuse those in use. Prints the names of the unloaded ones. */
static void unload(void)
{
	for (; *names; names++)
		if (!syscall(SYS_delete_module, *names, O_NONBLOCK))
			puts(*names);
		else
			EXPECT(errno == EAGAIN || errno == EBUSY);
}

/* Continues with another kernel: the files of its image and its initramfs, its command line. */
static void kexec(void)
{
	int image = open(names[0], O_RDONLY), initramfs = open(names[1], O_RDONLY);

	EXPECT(syscall(SYS_kexec_file_load, image, initramfs, strlen(names[2]) + 1, names[2], 0UL) == 0);
	if (failed) {
		printf("kexec: %s\n", strerror(errno));
		return;
	}
	sync();
	EXPECT(reboot(RB_KEXEC) == 0);
}

/* Stores the offsets below size that are multiples of apart. Returns their number. */
static uint32_t steps(uint32_t *offsets, uint32_t size, uint32_t apart)
{
	uint32_t count, at;

	for (count = 0, at = 0; at < size; at += apart)
		offsets[count++] = at;
	return count;
}

/* Finds the kernel's text. Returns an array with room for an offset of each byte. */
static uint32_t *kernel_text(uint64_t *start, uint32_t *size)
{
	uint64_t end, unused;

	if (!find("_stext", start, &unused) || !find("_etext", &end, &unused)) {
		printf("no text\n");
		exit(1);
	}
	*size = end - *start;
	return malloc(*size * sizeof(uint32_t));
}

/*
 * Arms a place in every 64 bytes of the kernel's text, at another distance in each run, prints "armed", and
 * waits for SIGTERM. Afterwards the text must be as before. The kernel may have changed it, except at accepted
 * places, and there are no new breakpoints.
 */
static void text(void)
{
	uint32_t *offsets, size, count, i, first = getenv("FIRST") ? atoi(getenv("FIRST")) : time(NULL) % 64;
	uint8_t *before, *after, *states;
	uint64_t start;
	sigset_t end;
	int fd, got;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, NULL);
	offsets = kernel_text(&start, &size);
	before = read_code(start, size);
	count = steps(offsets, size - first, 64);
	fd = begin();
	add_places(fd, start + first, offsets, count);
	/* Logged before arming, so that a guest that hangs can be run again with the same FIRST. */
	fprintf(stderr, "<6>coverage: FIRST=%u\n", first);
	arm();
	puts("armed");
	fflush(stdout);
	sigwait(&end, &got);
	states = malloc(count);
	EXPECT(pread(fd, states, count, 0) == count);
	close(fd);
	after = read_code(start, size);
	for (i = 0; i < size; i++) {
		bool is_place = i % 64 == first && states[i / 64] <= FERROTRACE_COVERAGE_HIT;

		if (before[i] != after[i] && (is_place || after[i] == 0xcc)) {
			printf("_stext+%#x: %02x, now %02x\n", i, before[i], after[i]);
			failed = 1;
		}
	}
}

/* Calls the functions of the storm, in a process of its own: a child would inherit the session. */
static pid_t load(void)
{
	pid_t pid = fork();
	char byte;

	while (!pid) {
		int fd = open("/proc/self/stat", O_RDONLY);

		if (read(fd, &byte, 1) < 0)
			_exit(1);
		close(fd);
		if (!fork())
			_exit(0);
		wait(NULL);
	}
	return pid;
}

/* Reads and forks on each CPU until it is killed. With pauses: the CPUs of a guest may take turns. */
static void busy(void)
{
	cpu_set_t cpus;
	int cpu, i;

	for (cpu = 1; cpu < sysconf(_SC_NPROCESSORS_ONLN) && fork(); cpu++)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&cpus);
	CPU_SET(cpu - 1, &cpus);
	EXPECT(sched_setaffinity(0, sizeof(cpus), &cpus) == 0);
	for (;; usleep(50000)) {
		for (i = 0; i < 10; i++)
			says("/proc/self/stat", "");
		if (!fork())
			_exit(0);
		wait(NULL);
	}
}

static int rounds;

/* Arms, resets and disarms functions that other processes call all the time. */
static void storm(void)
{
	static const char *const functions[] = {
		"vfs_read", "vfs_open", "vfs_write", "kernel_clone", "do_exit", "schedule", "__fput", "ksys_read",
	};
	pid_t loads[4];
	uint64_t start;
	int fd, i;

	for (i = 0; i < 4; i++)
		loads[i] = load();
	while (rounds-- > 0) {
		fd = begin();
		for (i = 0; i < 8; i++)
			add_all(fd, functions[i], &start);
		for (i = 0; i < 5; i++) {
			arm();
			usleep(2000);
			EXPECT(control(i & 1 ? "disarm\n" : "reset\n") == 0);
		}
		EXPECT(status("hit") > 0 || status("armed") > 0);
		close(fd);
		EXPECT(status("armed") == 0);
	}
	for (i = 0; i < 4; i++) {
		kill(loads[i], SIGKILL);
		EXPECT(waitpid(loads[i], NULL, 0) == loads[i]);
	}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000UL + time.tv_nsec;
}

static uint64_t free_memory(void)
{
	return sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Makes 20,000 system calls. */
static void work(void)
{
	int ends[2], fd, i;
	struct stat st;
	char bytes[64], *page;

	EXPECT(pipe(ends) == 0);
	for (i = 0; i < 2000; i++) {
		fd = open("/proc/self/stat", O_RDONLY);
		EXPECT(read(fd, bytes, sizeof(bytes)) == sizeof(bytes));
		lseek(fd, 0, SEEK_SET);
		close(fd);
		stat("/tmp", &st);
		EXPECT(write(ends[1], bytes, sizeof(bytes)) == sizeof(bytes));
		EXPECT(read(ends[0], bytes, sizeof(bytes)) == sizeof(bytes));
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*page = 1;
		munmap(page, 4096);
		syscall(SYS_getppid);
	}
	close(ends[0]);
	close(ends[1]);
}

/* Executes the 4000 blocks of the module, then spins: no system call while the worker removes breakpoints. */
static void blocks(void)
{
	int i;

	EXPECT(put(BLOCKS, "1") == 0);
	for (i = 0; i < 10000000; i++)
		asm volatile("" ::: "memory");
}

static uint64_t timed(void (*run)(void))
{
	uint64_t start = now();

	run();
	return now() - start;
}

/*
 * Prints costs, in a guest with QEMU's -icount: a nanosecond is an instruction. The places are accepted
 * instructions, one in 20 bytes, about as many as there are basic blocks.
 */
static void bench(void)
{
	enum { APART = 20, CHUNK = 1 << 21, BLOCKS_COUNT = 4000, BLOCK_SIZE = 24, FIRST_BLOCK = 8 };
	uint32_t *offsets, *all, size, count = 0, next = 0, at, i, some;
	uint64_t start, of_blocks, before, without, with, hits, armed;
	uint8_t *states = malloc(CHUNK);
	FILE *file = fopen(BLOCKS, "r");
	int fd;

	offsets = kernel_text(&start, &size);
	all = malloc(CHUNK * sizeof(*all));
	for (at = 0; at < size; at += CHUNK) {
		some = size - at < CHUNK ? size - at : CHUNK;
		steps(all, some, 1);
		fd = begin();
		add_places(fd, start + at, all, some);
		EXPECT(pread(fd, states, some, 0) == some);
		close(fd);
		for (i = 0; i < some; i++)
			if (states[i] == FERROTRACE_COVERAGE_NOT_HIT && at + i >= next) {
				offsets[count++] = at + i;
				next = at + i + APART;
			}
	}
	fd = begin();
	before = free_memory();
	with = now();
	add_places(fd, start, offsets, count);
	printf("none 0\nplaces %u\nadd %lu\n", count, (now() - with) / count);
	printf("memory %lu\n", (before - free_memory()) / count);
	EXPECT(file && fscanf(file, "%lx", &of_blocks) == 1);
	for (i = 0; i < BLOCKS_COUNT; i++)
		all[i] = FIRST_BLOCK + i * BLOCK_SIZE;
	add_places(fd, of_blocks, all, BLOCKS_COUNT);

	work();
	without = timed(work);
	with = timed(arm);
	armed = status("armed");
	printf("arm_all %lu\narm %lu\n", with, with / armed);
	with = timed(work);
	hits = status("hit");
	printf("first_hit_calls %lu\n", (with - without) / hits);
	for (i = 0; i < 3; i++)
		work();
	hits = status("hit");
	with = timed(work);
	printf("calls %lu\ncalls_again %lu\nhit_again %lu\n", without, with, status("hit") - hits);
	printf("calls_more %lu\n", with < without ? 0 : (with - without) * 1000000 / without);

	EXPECT(put(BLOCKS, "0") == 0);
	sleep(1);
	hits = status("hit");
	with = timed(blocks);
	hits = status("hit") - hits;
	EXPECT(hits >= BLOCKS_COUNT);
	without = timed(blocks);
	printf("blocks_hit %lu\nfirst_hit %lu\n", hits, (with - without) / hits);
	armed = status("armed");
	printf("disarm %lu\n", timed(disarm) / armed);
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "exact", exact }, { "errors", errors }, { "refused", refused }, { "storm", storm },
		{ "faults", faults }, { "livepatch", livepatch }, { "unload", unload }, { "busy", busy }, { "kexec", kexec },
		{ "hold", hold }, { "code", code }, { "text", text }, { "bench", bench }, {}
	};
	size_t i;

	rounds = argc > 2 ? atoi(argv[2]) : 10;
	names = argv + (argc > 1 ? 2 : 1);
	for (i = 0; cases[i].name; i++)
		if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return failed;
		}
	fprintf(stderr, "usage: coverage exact|errors|refused|faults|text|busy|bench | storm ROUNDS | hold|code FUNCTION... |\n"
		"       livepatch FILE | unload MODULE... | kexec IMAGE INITRAMFS PARAMETERS\n");
	return 2;
}
