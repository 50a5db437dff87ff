/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parts of the gcov exporter in the image: the functions that compiled code calls, the objects that
 * no engine has taken, and look-ups in other modules.
 */
#ifndef _FERROTRACE_GCOV_BUILTIN_H
#define _FERROTRACE_GCOV_BUILTIN_H

#ifdef CONFIG_GCOV_BUILTIN

#include <linux/ferrotrace_gcov.h>
#include <linux/types.h>

struct llvm_profile;
struct module;
struct mutex;

/* Protect the engine's state and the list of owners. */
extern struct mutex ferro_gcov_mutex, ferro_gcov_owners_mutex;

/* Offers @taker all existing objects, as gcov_hand_over() does, and the profiles of Rust code. */
void ferro_gcov_hand_over(const struct gcov_taker *taker);
/* Takes objects back, as gcov_take_back() does. */
void ferro_gcov_take_back(bool (*next)(struct gcov_object *object));
/* Value of gcov_persist= on the command line. */
bool ferro_gcov_persist(void);

/* Build directory of the kernel, with a slash at its end. */
extern const char ferro_gcov_object_tree[];

/* Indices of ferro_gcov_merge_functions, the merge functions of the compilers' runtimes. */
enum ferro_gcov_merge {
	FERRO_GCOV_MERGE_ADD,
	FERRO_GCOV_MERGE_IOR,
	FERRO_GCOV_MERGE_TIME_PROFILE,
	FERRO_GCOV_MERGE_SINGLE,
	FERRO_GCOV_MERGE_ICALL_TOPN,
	FERRO_GCOV_MERGE_TOPN,
	FERRO_GCOV_MERGES,
};

extern const unsigned long ferro_gcov_merge_functions[FERRO_GCOV_MERGES];

enum { FERRO_GCOV_RANGES = 3 };

/* Data of the kernel or of a module, which stay as long as its objects. */
struct ferro_gcov_owner {
	/* NULL for the kernel; for comparisons only */
	struct module *module;
	/* being unloaded: its counters can be read for the last time */
	bool is_going;
	struct ferro_gcov_range {
		unsigned long start;
		unsigned long size;
		/* may contain counters */
		bool is_writable;
	} data[FERRO_GCOV_RANGES];
};

/*
 * Finds the owner of an address of data or code. Context: any; the module must not be freed during
 * the call.
 */
bool ferro_gcov_owner_of(unsigned long address, struct ferro_gcov_owner *owner);

/*
 * Returns the profile of a module's Rust code, or NULL. Context: any; the module must not be freed
 * during the call.
 */
const struct llvm_profile *ferro_gcov_profile_of(const struct module *mod);

/* Sections of the image, from the linker. */
extern char __start___llvm_prf_data[], __stop___llvm_prf_data[];
extern char __start___llvm_prf_cnts[], __stop___llvm_prf_cnts[];
extern char __start___llvm_prf_names[], __stop___llvm_prf_names[];

/* Callbacks that receive LLVM's description of an object. */
struct ferro_gcov_listener {
	void (*file)(void *data, const char *filename, u32 version, u32 checksum);
	void (*function)(void *data, u32 ident, u32 func_checksum, u32 cfg_checksum);
	void (*arcs)(void *data, u32 num_counters, u64 *counters);
};

/*
 * Makes an LLVM object describe itself. Context: process; its module must not be freed during the
 * call.
 */
void ferro_gcov_describe(gcov_llvm_callback writeout, const struct ferro_gcov_listener *listener, void *data);

/* Copies data that may change during the copy. */
void ferro_gcov_copy(void *to, const void *from, size_t size);
/*
 * Copies a string without its NUL, which may be missing, and returns its length, at most @size. The
 * string must not change.
 */
size_t ferro_gcov_copy_string(char *to, const char *from, size_t size);

#endif /* CONFIG_GCOV_BUILTIN */

#endif /* _FERROTRACE_GCOV_BUILTIN_H */
