/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How an exporter of coverage that is a module takes over from kernel/gcov/, and gives back.
 */
#ifndef _LINUX_FERROTRACE_GCOV_H
#define _LINUX_FERROTRACE_GCOV_H

#include <linux/types.h>

struct gcov_info;
struct llvm_profile;

typedef void (*gcov_llvm_callback)(void);

/*
 * An object that was compiled for coverage, as its constructor says it: @info by GCC, or @writeout and @flush by LLVM. Or what
 * LLVM counts in Rust code of the image or a module, as the linker says it: @profile. The others are NULL.
 */
struct gcov_object {
	struct gcov_info *info;
	gcov_llvm_callback writeout;
	gcov_llvm_callback flush;
	const struct llvm_profile *profile;
};

/* Who takes over. */
struct gcov_taker {
	/* an object that is there; whether it is taken. kernel/gcov/ does not keep those that are not */
	bool (*object)(const struct gcov_object *object);
	/* what was kept of objects whose module has gone: the contents of their file */
	void (*kept)(const char *filename, const void *gcda, size_t size);
};

/* gcov_persist= of the command line. */
extern int gcov_persist;

/**
 * gcov_hand_over() - Removes the files of kernel/gcov/, and gives away what it has.
 * @taker: Who gets it. Its functions are called with the lock held that constructors take: until this returns no object
 *	is added, and none that has been given away goes.
 *
 * Objects that come after this are kept, without files. Those that the hooks gcov_object and llvm_gcov_object have taken do
 * not come here.
 *
 * Context: Process; sleeps.
 */
void gcov_hand_over(const struct gcov_taker *taker);

/**
 * gcov_take_back() - Makes the files of kernel/gcov/ again, of the objects that are given back and of those that came.
 * @next: Gives an object back, or returns false if there is none left. Called with the lock held that constructors take.
 *
 * What belongs to a module that is about to go is left out.
 *
 * Context: Process; sleeps.
 */
void gcov_take_back(bool (*next)(struct gcov_object *object));

/*
 * What the callbacks of an LLVM object say, for whoever has asked by ferro_gcov_describe(); false for others.
 */
bool ferro_gcov_start_file(const char *filename, u32 version, u32 checksum);
bool ferro_gcov_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum);
bool ferro_gcov_emit_arcs(u32 num_counters, u64 *counters);

#endif /* _LINUX_FERROTRACE_GCOV_H */
