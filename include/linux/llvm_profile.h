/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Profiles of Rust code that LLVM instruments by itself (CONFIG_RUST_COVERAGE), in the image or in
 * a module.
 */
#ifndef _LINUX_LLVM_PROFILE_H
#define _LINUX_LLVM_PROFILE_H

/* Sections, with their sizes in bytes. Without @data_size there are no counters. */
struct llvm_profile {
	/* of the module */
	const char *name;
	void *data;
	void *counters;
	void *names;
	unsigned int data_size;
	unsigned int counters_size;
	unsigned int names_size;
};

typedef void (*llvm_profile_fn)(const struct llvm_profile *profile);

/**
 * for_each_module_profile() - Calls a function for the profile of each module.
 * @fn: Called with a lock held that prevents the loading and unloading of modules. It may
 *	sleep.
 *
 * Includes modules that are being loaded: a failure of that may go unreported. Excludes modules
 * whose load has failed, or that are being unloaded.
 *
 * Context: Process; sleeps.
 */
void for_each_module_profile(llvm_profile_fn fn);

#endif /* _LINUX_LLVM_PROFILE_H */
