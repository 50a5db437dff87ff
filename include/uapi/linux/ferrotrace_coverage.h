/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Interface of the module ferrotrace_coverage: coverage of the running kernel by breakpoints that
 * are removed after their first hit. The files are debugfs ferrotrace_coverage/blocks and
 * ferrotrace_coverage/control; Documentation/live-coverage.rst describes them.
 */
#ifndef _UAPI_LINUX_FERROTRACE_COVERAGE_H
#define _UAPI_LINUX_FERROTRACE_COVERAGE_H

#include <linux/types.h>

/* Limits of a write to the file "blocks", in bytes, and of all places of a session. */
#define FERROTRACE_COVERAGE_WRITE_MAX	(1 << 20)
#define FERROTRACE_COVERAGE_PLACES_MAX	(1 << 22)

/**
 * struct ferrotrace_coverage_places - a write to the file "blocks": places for breakpoints
 * @base: an address
 * @count: number of places
 * @flags: 0
 * @offsets: distances of the places from @base in bytes, in ascending order
 *
 * All places are in the kernel's image, or all are in one module. The ranges of two writes, from
 * the first place to the last, do not overlap.
 */
struct ferrotrace_coverage_places {
	__u64 base;
	__u32 count;
	__u32 flags;
	__u32 offsets[];
};

/*
 * The file "blocks" has one byte for each place, in the order of the writes. A value above
 * FERROTRACE_COVERAGE_HIT is the reason why the place has no breakpoint.
 */
enum ferrotrace_coverage_state {
	FERROTRACE_COVERAGE_NOT_HIT,
	FERROTRACE_COVERAGE_HIT,
	/* Not in the code of the image, or of the module, that contains the first place. */
	FERROTRACE_COVERAGE_NOT_TEXT,
	/* Code that is freed after initialisation. */
	FERROTRACE_COVERAGE_INIT,
	/* No symbol contains the place. */
	FERROTRACE_COVERAGE_NO_FUNCTION,
	/* Code that no probe may stop: noinstr, entry code, NOKPROBE_SYMBOL(), idle. */
	FERROTRACE_COVERAGE_MARKED,
	/* Code that no probe may stop, by its name: early code, thunks, templates, kexec. */
	FERROTRACE_COVERAGE_NAMED,
	/* Code that a hit executes, or may execute: its path, and code without ftrace sites. */
	FERROTRACE_COVERAGE_OWN,
	/* No instruction starts there. */
	FERROTRACE_COVERAGE_NOT_INSTRUCTION,
	/* The trap cannot execute the instruction. */
	FERROTRACE_COVERAGE_NOT_EXECUTABLE,
	/* The kernel patches the instruction: an ftrace site, */
	FERROTRACE_COVERAGE_FTRACE,
	/* a static key, */
	FERROTRACE_COVERAGE_JUMP_LABEL,
	/* a static call. */
	FERROTRACE_COVERAGE_STATIC_CALL,
	/* The instruction has an entry in the exception table. */
	FERROTRACE_COVERAGE_EXCEPTION,
	/* ENDBR, or the NOP in its place. */
	FERROTRACE_COVERAGE_LANDING_PAD,
	/* BUG(), WARN(), or a trap of a sanitizer. */
	FERROTRACE_COVERAGE_BUG,
	/* A kprobe has changed this code. */
	FERROTRACE_COVERAGE_KPROBE,
	/* The code has changed since it was checked. */
	FERROTRACE_COVERAGE_CHANGED,
	/* The module has been unloaded. */
	FERROTRACE_COVERAGE_GONE,
};

#endif /* _UAPI_LINUX_FERROTRACE_COVERAGE_H */
