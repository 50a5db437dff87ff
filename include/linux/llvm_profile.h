/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What LLVM counts by itself in Rust code (CONFIG_RUST_COVERAGE), in the image or in a module.
 */
#ifndef _LINUX_LLVM_PROFILE_H
#define _LINUX_LLVM_PROFILE_H

/* Sections, with their sizes in bytes. What has none has no counters. */
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
 * for_each_module_profile() - Calls a function for what is counted in each module.
 * @fn: Called with a lock held that keeps modules from coming and going. It may sleep.
 *
 * A module that is being loaded is not left out: nobody may be told if that fails. One whose load has failed, or that is about to
 * go, is.
 *
 * Context: Process; sleeps.
 */
void for_each_module_profile(llvm_profile_fn fn);

#endif /* _LINUX_LLVM_PROFILE_H */
