/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for text.rs, symbols.rs and exec_pool.rs: the kernel's and its modules' code.
 */
#ifndef _FERROTRACE_SYS_TEXT_H
#define _FERROTRACE_SYS_TEXT_H

#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/types.h>

#ifdef CONFIG_KPROBES_ENGINE_RUST

struct kprobe_insn_cache;
struct module;

/*
 * The module whose code @addr is in, with a reference; NULL if it is the kernel itself.
 * -EINVAL: no code. -ENOENT: the module is on its way out.
 */
int ferro_text_module_get(unsigned long addr, struct module **mod);
/* The module whose code or data @addr is in, with a reference; NULL if there is none, or it is on its way out. */
struct module *ferro_module_get(unsigned long addr);
void ferro_module_put(struct module *mod);
int ferro_module_state(const struct module *mod);
/* Whether @addr is the module's code that is freed after its initialisation; or that stays. */
bool ferro_in_init_text(unsigned long addr, const struct module *mod);
bool ferro_in_core_text(unsigned long addr, const struct module *mod);

/*
 * The symbol that @addr is in: its name in @name, of KSYM_NAME_LEN bytes, how far past its start @addr is, and the
 * module's name, empty for the kernel, in @module, of MODULE_NAME_LEN bytes.
 */
bool ferro_describe(unsigned long addr, char *name, unsigned long *offset, char *module);
/* Whether who runs may see addresses. */
bool ferro_shows_addresses(void);
/* Whether @addr is in the module's code or data. */
bool ferro_in_module(unsigned long addr, const struct module *mod);
/* Whether @addr is in the kernel's own initialisation code and data. */
bool ferro_in_kernel_init(unsigned long addr);

/* Whether the tables have a jump label there, of 5 bytes at the most: also in a module that goes. Context: any. */
bool ferro_labels_may_patch(unsigned long start, unsigned long end);

/* jump_label.h, static_call.h, bug.h, ibt.h, mm.h: functions that are inline in some configurations. */
bool ferro_jump_label_reserved(unsigned long start, unsigned long end);
bool ferro_static_call_reserved(unsigned long start, unsigned long end);
void ferro_jump_label_lock(void);
void ferro_jump_label_unlock(void);
bool ferro_is_bug(unsigned long addr);
bool ferro_is_endbr(u32 bytes);
bool ferro_in_gate_area(unsigned long addr);

/* The lock of exec_pool.rs. */
extern struct mutex ferro_exec_pool_lock;
/*
 * Where execmem_alloc() finds memory. Enumerators, since every bindgen binds them as constants: 0.71 makes an extern
 * static of a const variable whose value is an expression above LONG_MAX. Two enums: one would give both the wider type.
 */
enum {
	FERRO_EXEC_PAGES = MODULES_LEN / PAGE_SIZE,
};

enum {
	FERRO_EXEC_START = MODULES_VADDR,
};

/* execmem.h: a page of the kernel's executable memory full of breakpoints, or NULL; perf is told, by which name it is called. */
void *ferro_exec_page_alloc(bool detours);
/* After nobody executes, or is going to execute, it. */
void ferro_exec_page_free(void *page, bool detours);
/* Wait until who has asked whether the page is one of the pool no longer uses the answer. */
void ferro_exec_page_quiesce(void);
/* Call ferro_exec_pool_reclaim() when every task has been somewhere else. One call at a time. */
void ferro_exec_pool_call(void);
/* Wait for such a call. */
void ferro_exec_pool_wait(void);
/* rust/sys/mm/exec_pool.rs. Context: process. */
void ferro_exec_pool_reclaim(void);

/* rust/sys/code/text.rs. Context: the module notifier. */
int ferro_text_module_coming(struct module *mod);
void ferro_text_module_live(struct module *mod);
void ferro_text_module_going(struct module *mod);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _FERROTRACE_SYS_TEXT_H */
