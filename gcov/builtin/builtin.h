/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the exporter of coverage needs in the image: the functions that compiled code calls, objects of which no engine has
 * asked to be told, and what no module can know of other modules.
 */
#ifndef _FERROTRACE_GCOV_BUILTIN_H
#define _FERROTRACE_GCOV_BUILTIN_H

#ifdef CONFIG_GCOV_BUILTIN

#include <linux/ferrotrace_gcov.h>
#include <linux/types.h>

struct llvm_profile;
struct module;
struct mutex;

/* For what the engine knows, and for the homes of objects. */
extern struct mutex ferro_gcov_mutex, ferro_gcov_homes_mutex;

/* Gives all objects that are there to @taker, as gcov_hand_over(); and what is counted in Rust code of the image and of modules. */
void ferro_gcov_hand_over(const struct gcov_taker *taker);
/* Takes objects back, as gcov_take_back(). */
void ferro_gcov_take_back(bool (*next)(struct gcov_object *object));
/* gcov_persist= of the command line. */
bool ferro_gcov_persist(void);

/* Where the kernel was built, with a slash at its end. */
extern const char ferro_gcov_object_tree[];

/* The functions of the compilers' runtimes that merge counters, in the order of ferro_gcov_merge_functions. */
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

/* Data that stay as long as an object is there: of the kernel, or of a module. */
struct ferro_gcov_home {
	/* NULL for the kernel; to compare */
	struct module *module;
	/* it is about to go: its counters can be read for the last time */
	bool is_going;
	struct ferro_gcov_range {
		unsigned long start;
		unsigned long size;
		/* there may be counters */
		bool is_writable;
	} data[FERRO_GCOV_RANGES];
};

/* Finds whose data or code an address is. Context: any; the module cannot go meanwhile. */
bool ferro_gcov_home_of(unsigned long address, struct ferro_gcov_home *home);

/* What is counted in Rust code of a module. NULL without any. Context: any; the module cannot go meanwhile. */
const struct llvm_profile *ferro_gcov_profile_of(const struct module *mod);

/* Of the image, as the linker has put them. */
extern char __start___llvm_prf_data[], __stop___llvm_prf_data[];
extern char __start___llvm_prf_cnts[], __stop___llvm_prf_cnts[];
extern char __start___llvm_prf_names[], __stop___llvm_prf_names[];

/* What LLVM calls for an object. */
struct ferro_gcov_listener {
	void (*file)(void *data, const char *filename, u32 version, u32 checksum);
	void (*function)(void *data, u32 ident, u32 func_checksum, u32 cfg_checksum);
	void (*arcs)(void *data, u32 num_counters, u64 *counters);
};

/* Has an object of LLVM say what it has. Context: process; its module cannot go meanwhile. */
void ferro_gcov_describe(gcov_llvm_callback writeout, const struct ferro_gcov_listener *listener, void *data);

/* Copies what others may change meanwhile. */
void ferro_gcov_copy(void *to, const void *from, size_t size);
/* Copies a string without its end, which may be missing, and returns its length, at most @size. Nobody writes it meanwhile. */
size_t ferro_gcov_copy_string(char *to, const char *from, size_t size);

#endif /* CONFIG_GCOV_BUILTIN */

#endif /* _FERROTRACE_GCOV_BUILTIN_H */
