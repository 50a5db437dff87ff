/* SPDX-License-Identifier: GPL-2.0 */
/* Handover of coverage objects between kernel/gcov/ and an exporter that is a module. */
#ifndef _LINUX_FERROTRACE_GCOV_H
#define _LINUX_FERROTRACE_GCOV_H

#include <linux/types.h>

struct gcov_info;
struct llvm_profile;

typedef void (*gcov_llvm_callback)(void);

/*
 * An object compiled for coverage, with its constructor's arguments: @info from GCC, or @writeout
 * and @flush from LLVM. Or a profile of Rust code in the image or a module, from the linker:
 * @profile. The other fields are NULL.
 */
struct gcov_object {
	struct gcov_info *info;
	gcov_llvm_callback writeout;
	gcov_llvm_callback flush;
	const struct llvm_profile *profile;
};

/* Callbacks of the exporter that takes over. */
struct gcov_taker {
	/* takes an existing object; returns true if taken. kernel/gcov/ does not keep the others */
	bool (*object)(const struct gcov_object *object);
	/* takes the kept contents of the file of objects whose module is unloaded */
	void (*kept)(const char *filename, const void *gcda, size_t size);
};

/* Value of gcov_persist= on the command line. */
extern int gcov_persist;

/**
 * gcov_hand_over() - Removes the files of kernel/gcov/, and gives its objects away.
 * @taker: The receiver. Its functions are called with the lock held that constructors take:
 *	until this returns no object is added, and none that has been given away is removed.
 *
 * Later objects are kept, without files. Objects that the hooks gcov_object and llvm_gcov_object
 * have taken are not among them.
 *
 * Context: Process; sleeps.
 */
void gcov_hand_over(const struct gcov_taker *taker);

/**
 * gcov_take_back() - Makes the files of kernel/gcov/ again, for the objects that are given back and
 * for the kept ones.
 * @next: Gives an object back, or returns false if there is none left. Called with the lock
 *	held that constructors take.
 *
 * Objects of a module being unloaded are left out.
 *
 * Context: Process; sleeps.
 */
void gcov_take_back(bool (*next)(struct gcov_object *object));

/*
 * Called by the callbacks of an LLVM object to describe it to the caller of ferro_gcov_describe().
 * Return false if the task has not called that.
 */
bool ferro_gcov_start_file(const char *filename, u32 version, u32 checksum);
bool ferro_gcov_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum);
bool ferro_gcov_emit_arcs(u32 num_counters, u64 *counters);

#endif /* _LINUX_FERROTRACE_GCOV_H */
