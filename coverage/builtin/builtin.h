/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel functions and tables for live coverage that modules cannot use: code of the kernel and of
 * modules, its patching, and the places that must not be patched.
 *
 * Contexts: process, unless stated.
 */
#ifndef _FERROTRACE_COVERAGE_BUILTIN_H
#define _FERROTRACE_COVERAGE_BUILTIN_H

#include <linux/types.h>

struct module;

/* Code that stays until its module is unloaded: the image's, for which @mod is NULL, or a module's. */
struct ferro_coverage_text {
	struct module *mod;
	unsigned long start;
	unsigned long end;
};

/* Kinds of sites: the values of ferro_coverage_core::Site. */
enum ferro_coverage_site {
	FERRO_COVERAGE_JUMP_LABEL,
	FERRO_COVERAGE_STATIC_CALL,
	FERRO_COVERAGE_EXCEPTION,
};

/* Finds what this file needs of the kernel. Returns 0, or -ENOENT, and logs what is not there. */
int ferro_coverage_init(void);

/*
 * Finds the text with an address, and takes a reference to its module. Returns 0; -ENOENT if there
 * is none, or if the module is being loaded or unloaded.
 */
int ferro_coverage_text_get(unsigned long addr, struct ferro_coverage_text *text);
void ferro_coverage_text_put(const struct ferro_coverage_text *text);
/* True for an address in code that is freed after initialisation. */
bool ferro_coverage_is_init(const struct ferro_coverage_text *text, unsigned long addr);

/*
 * Finds the symbol of a code address: its start and size, and its name in @name, of KSYM_NAME_LEN
 * bytes.
 */
bool ferro_coverage_symbol(unsigned long addr, unsigned long *start, unsigned long *size, char *name);
/* True if the kernel has marked the code: noinstr, entry code, NOKPROBE_SYMBOL(), idle. */
bool ferro_coverage_is_marked(unsigned long addr);
/* Returns the first ftrace site from @start to @last, or 0. */
unsigned long ferro_coverage_ftrace_site(unsigned long start, unsigned long last);

/*
 * Calls @add with each site in the text: its distance from the start of the text, and its kind.
 * Stops if it returns false.
 */
void ferro_coverage_sites(const struct ferro_coverage_text *text,
			  bool (*add)(void *context, u32 offset, u32 kind), void *context);

/* The lock of all code that is patched. */
void ferro_coverage_lock(void);
void ferro_coverage_unlock(void);
/* Overwrites code in one page. Context: with the lock. */
void ferro_coverage_poke(unsigned long addr, const u8 *code, size_t len);
/* Makes every CPU execute the written code; waits until none is in a breakpoint's entry. */
void ferro_coverage_sync(void);

/* True if a kprobe is at one of the @count addresses up to @addr. Context: with the lock. */
bool ferro_coverage_has_kprobe(unsigned long addr, unsigned int count);
/*
 * If a kprobe has changed the code at an address, stores the 15 bytes of the original, and returns
 * true. Context: with the lock.
 */
bool ferro_coverage_restore(unsigned long addr, u8 *code);

#ifdef CONFIG_FERROTRACE_STOCK
struct pt_regs;

/*
 * Makes the kernel call ferro_coverage_hit() for breakpoints in the kernel before it looks for a kprobe,
 * or no longer. After that no CPU is in it. Returns 0; -ENOENT, and logs why.
 */
int ferro_coverage_hook(bool on);

/* trap.rs: handles a breakpoint; returns true if it is ours. Context: a trap, also within NMIs. */
bool ferro_coverage_hit(struct pt_regs *regs);
#endif

#endif /* _FERROTRACE_COVERAGE_BUILTIN_H */
