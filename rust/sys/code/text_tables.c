// SPDX-License-Identifier: GPL-2.0
/*
 * C half of text_tables.rs: the kernel's tables of code that is entered, left or patched by other
 * means than branches.
 *
 * Contexts: process. Locks: the lock of jump labels, which ferro_code_reserved() takes; RCU for
 * modules.
 */
#include <linux/cleanup.h>
#include <linux/cpu.h>
#include <linux/extable.h>
#include <linux/ftrace.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/static_call.h>
#include <asm/extable.h>
#include <asm/nospec-branch.h>
#include <asm/sections.h>
#include <asm/text-patching.h>

#include "text_tables.h"
#include "symbols.h"
#include "text.h"

/* Tables of the image, or of a module. */
struct tables {
	struct jump_entry *jumps, *jumps_end;
	struct exception_table_entry *faults, *faults_end;
	/* Only for a module */
	struct static_call_site *calls, *calls_end;
};

/*
 * Finds the tables for the code at @addr; false if there are none. RCU protects a module's tables.
 */
static bool tables_of(unsigned long addr, struct tables *tables)
{
	struct module *mod;

	*tables = (struct tables){};
	if (core_kernel_text(addr)) {
#ifdef CONFIG_JUMP_LABEL
		tables->jumps = __start___jump_table;
		tables->jumps_end = __stop___jump_table;
#endif
		tables->faults = __start___ex_table;
		tables->faults_end = __stop___ex_table;
		return true;
	}
	mod = __module_text_address(addr);
	if (!mod)
		return false;
#ifdef CONFIG_JUMP_LABEL
	tables->jumps = mod->jump_entries;
	tables->jumps_end = mod->jump_entries + mod->num_jump_entries;
#endif
#ifdef CONFIG_HAVE_STATIC_CALL_INLINE
	tables->calls = mod->static_call_sites;
	tables->calls_end = mod->static_call_sites + mod->num_static_call_sites;
#endif
	tables->faults = mod->extable;
	tables->faults_end = mod->extable + mod->num_exentries;
	return true;
}

static unsigned long fault_at(const struct exception_table_entry *entry)
{
	return (unsigned long)&entry->insn + entry->insn;
}

static unsigned long fixup_of(const struct exception_table_entry *entry)
{
	return (unsigned long)&entry->fixup + entry->fixup;
}

#ifdef CONFIG_JUMP_LABEL
static unsigned long label_at(const struct jump_entry *entry)
{
	return jump_entry_code(entry);
}

static unsigned long label_target(const struct jump_entry *entry)
{
	return jump_entry_target(entry);
}
#else
static unsigned long label_at(const struct jump_entry *entry) { return 0; }
static unsigned long label_target(const struct jump_entry *entry) { return 0; }
#endif

#ifdef CONFIG_HAVE_STATIC_CALL_INLINE
static unsigned long call_at(const struct static_call_site *site)
{
	return (unsigned long)&site->addr + site->addr;
}
#else
static unsigned long call_at(const struct static_call_site *site) { return 0; }
#endif

static bool in(unsigned long addr, unsigned long start, unsigned long end)
{
	return addr >= start && addr < end;
}

static int reserved_in_image(unsigned long start, unsigned long end)
{
	bool labelled;

	jump_label_lock();
	labelled = ferro_jump_label_reserved(start, end - 1);
	jump_label_unlock();
	if (labelled)
		return FERRO_JUMP_LABEL;
	return ferro_static_call_reserved(start, end - 1) ? FERRO_STATIC_CALL : FERRO_FREE;
}

/*
 * No function covers a module that is about to be unloaded, whose exit function may still change
 * keys. This searches the module's tables, for whole calls.
 */
static int reserved_in_module(const struct tables *tables, unsigned long start, unsigned long end)
{
	struct static_call_site *call;

	if (ferro_labels_may_patch(start, end - 1))
		return FERRO_JUMP_LABEL;
	for (call = tables->calls; call < tables->calls_end; call++)
		if (call_at(call) < end && call_at(call) + CALL_INSN_SIZE > start)
			return FERRO_STATIC_CALL;
	return FERRO_FREE;
}

int ferro_code_reserved(unsigned long start, unsigned long end)
{
	struct exception_table_entry *fault;
	bool image = core_kernel_text(start);
	struct tables tables;
	int reserved;

	reserved = image ? reserved_in_image(start, end) : FERRO_FREE;
	if (reserved)
		return reserved;
	if (ftrace_text_reserved((void *)start, (void *)(end - 1)))
		return FERRO_FTRACE;
	guard(rcu)();
	if (!tables_of(start, &tables))
		return FERRO_FREE;
	reserved = image ? FERRO_FREE : reserved_in_module(&tables, start, end);
	if (reserved)
		return reserved;
	for (fault = tables.faults; fault < tables.faults_end; fault++) {
		if (in(fault_at(fault), start, end))
			return FERRO_EXCEPTION;
	}
	return FERRO_FREE;
}

int ferro_code_entered(unsigned long start, unsigned long end)
{
	struct exception_table_entry *fault;
	struct jump_entry *jump;
	struct tables tables;

	guard(rcu)();
	if (!tables_of(start, &tables))
		return 0;
	for (jump = tables.jumps; jump < tables.jumps_end; jump++) {
		if (in(label_target(jump), start, end))
			return 1;
	}
	for (fault = tables.faults; fault < tables.faults_end; fault++) {
		if (in(fixup_of(fault), start, end))
			return 2;
	}
	return 0;
}

unsigned long ferro_code_exit(unsigned long start, unsigned long end, unsigned long *at)
{
	unsigned long jumps, faults;
	struct tables tables;

	guard(rcu)();
	if (!tables_of(start, &tables))
		return 0;
	jumps = tables.jumps_end - tables.jumps;
	faults = tables.faults_end - tables.faults;
	while (*at < jumps) {
		struct jump_entry *jump = &tables.jumps[(*at)++];

		if (in(label_at(jump), start, end))
			return label_target(jump);
	}
	while (*at - jumps < faults) {
		struct exception_table_entry *fault = &tables.faults[(*at)++ - jumps];

		if (in(fault_at(fault), start, end))
			return fixup_of(fault);
	}
	return 0;
}

bool ferro_is_rodata(unsigned long start, unsigned long end)
{
	struct module *mod;

	if (start >= (unsigned long)__start_rodata && end <= (unsigned long)__end_rodata)
		return start < end;
	guard(rcu)();
	mod = __module_address(start);
	return mod && start < end && within_module_mem_type(start, mod, MOD_RODATA) &&
	       within_module_mem_type(end - 1, mod, MOD_RODATA);
}

bool ferro_stays(unsigned long addr)
{
	struct module *mod;

	/*
	 * Excludes idle tasks, for which no grace period of RCU tasks waits: they execute while RCU
	 * is not watching.
	 */
	if (addr >= (unsigned long)_stext && addr < (unsigned long)_etext)
		return !in(addr, (unsigned long)__entry_text_start, (unsigned long)__entry_text_end) &&
		       !cpu_in_idle(addr);
	guard(rcu)();
	mod = __module_text_address(addr);
	return mod && within_module_mem_type(addr, mod, MOD_TEXT);
}

/* Returns true if the address is in an array of thunks, one a register. */
static inline bool in_array(unsigned long addr, unsigned long start, unsigned long size)
{
	/*
	 * The compiler would take the address of the array's end, which objtool forbids for code.
	 */
	OPTIMIZER_HIDE_VAR(start);
	return addr - start < size;
}

#define in_thunks(addr, array) in_array(addr, (unsigned long)(array), 16 * sizeof(*(array)))

/* The linker script has no symbols for their bounds. */
static bool indirect_thunk(unsigned long addr)
{
#ifdef CONFIG_MITIGATION_RETPOLINE
	if (in_thunks(addr, __x86_indirect_thunk_array))
		return true;
#endif
#ifdef CONFIG_MITIGATION_CALL_DEPTH_TRACKING
	if (in_thunks(addr, __x86_indirect_call_thunk_array) || in_thunks(addr, __x86_indirect_jump_thunk_array))
		return true;
#endif
#ifdef CONFIG_MITIGATION_ITS
	/* The FineIBT entry precedes the thunk. */
	if (in_thunks(addr + 2, __x86_indirect_its_thunk_array))
		return true;
#endif
	return false;
}

int ferro_thunk(unsigned long addr)
{
	if (indirect_thunk(addr))
		return 1;
#ifdef CONFIG_MITIGATION_RETHUNK
	if (addr == (unsigned long)x86_return_thunk || addr == (unsigned long)__x86_return_thunk)
		return 2;
#endif
	return 0;
}
