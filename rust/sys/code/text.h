/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for text.rs, symbols.rs and exec_pool.rs: code of the kernel and of modules. */
#ifndef _FERROTRACE_SYS_TEXT_H
#define _FERROTRACE_SYS_TEXT_H

#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/types.h>

#ifdef CONFIG_KPROBES_ENGINE_RUST

struct kprobe_insn_cache;
struct module;

/*
 * Takes a reference to the module whose code contains @addr; *mod is NULL for the kernel itself.
 * -EINVAL: no code. -ENOENT: the module is being unloaded.
 */
int ferro_text_module_get(unsigned long addr, struct module **mod);
/* True if @addr is in the module's code that stays after initialisation. */
bool ferro_in_core_text(unsigned long addr, const struct module *mod);

/*
 * Describes the symbol of @addr: its name in @name, of KSYM_NAME_LEN bytes, the distance of @addr
 * from its start, and the module's name, empty for the kernel, in @module, of MODULE_NAME_LEN
 * bytes.
 */
bool ferro_describe(unsigned long addr, char *name, unsigned long *offset, char *module);
/* True if the current task may see addresses. */
bool ferro_shows_addresses(void);
/* True if @addr is in the module's code or data. */
bool ferro_in_module(unsigned long addr, const struct module *mod);
/* True if @addr is in the kernel's own initialisation code or data. */
bool ferro_in_kernel_init(unsigned long addr);

/*
 * True if the tables have a jump label there, of 5 bytes at most, also in a module that is being
 * unloaded. Context: any.
 */
bool ferro_labels_may_patch(unsigned long start, unsigned long end);

/* jump_label.h, static_call.h, bug.h, ibt.h, mm.h: functions that some configurations inline. */
bool ferro_jump_label_reserved(unsigned long start, unsigned long end);
bool ferro_static_call_reserved(unsigned long start, unsigned long end);
void ferro_jump_label_lock(void);
void ferro_jump_label_unlock(void);
bool ferro_is_bug(unsigned long addr);
bool ferro_is_endbr(u32 bytes);
bool ferro_in_gate_area(unsigned long addr);

/* Lock of exec_pool.rs. */
extern struct mutex ferro_exec_pool_lock;
/*
 * Range of execmem_alloc(). Enumerators, because every bindgen binds them as constants: bindgen
 * 0.71 makes an extern static of a const variable with an expression above LONG_MAX. Two enums: a
 * single one would give both the wider type.
 */
enum {
	FERRO_EXEC_PAGES = MODULES_LEN / PAGE_SIZE,
};

enum {
	FERRO_EXEC_START = MODULES_VADDR,
};

/*
 * execmem.h: a page of executable kernel memory full of breakpoints, or NULL. Tells perf the name
 * of the page's code.
 */
void *ferro_exec_page_alloc(bool detours);
/* Frees a page that no CPU executes or is going to execute. */
void ferro_exec_page_free(void *page, bool detours);
/* Waits for the users of earlier answers to the question if a page is in the pool. */
void ferro_exec_page_quiesce(void);
/* Calls ferro_exec_pool_reclaim() after a grace period of RCU tasks. One call at a time. */
void ferro_exec_pool_call(void);
/* Waits for such a call. */
void ferro_exec_pool_wait(void);
/* rust/sys/mm/exec_pool.rs. Context: process. */
void ferro_exec_pool_reclaim(void);

/* rust/sys/code/text.rs. Context: the module notifier. */
int ferro_text_module_coming(struct module *mod);
void ferro_text_module_live(struct module *mod);
void ferro_text_module_going(struct module *mod);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _FERROTRACE_SYS_TEXT_H */
