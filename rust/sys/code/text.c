// SPDX-License-Identifier: GPL-2.0
/*
 * C half of text.rs, symbols.rs and exec_pool.rs: wrappers for macros and inline functions, and
 * objects that are initialised at compile time.
 */
#include <linux/bug.h>
#include <linux/cfi.h>
#include <linux/cred.h>
#include <linux/execmem.h>
#include <linux/extable.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kgdb.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/text-patching.h>
#include <linux/workqueue.h>
#include <asm/ibt.h>
#include <asm/sections.h>

#include "../hook/hook.h"
#include "symbols.h"
#include "text.h"

/* Lock of the list in exec_pool.rs. */
DEFINE_MUTEX(ferro_exec_pool_lock);

int ferro_text_module_get(unsigned long addr, struct module **mod)
{
	*mod = NULL;
	if (core_kernel_text(addr))
		return 0;

	guard(rcu)();
	*mod = __module_text_address(addr);
	if (!*mod)
		return -EINVAL;
	return try_module_get(*mod) ? 0 : -ENOENT;
}

bool ferro_in_core_text(unsigned long addr, const struct module *mod)
{
	return within_module_mem_type(addr, mod, MOD_TEXT);
}

/*
 * Returns true if one of these may patch a byte from @start to @end. The exact length of a patch
 * would need a decoder.
 */
static bool may_patch(const struct jump_entry *entry, const struct jump_entry *stop, unsigned long start,
		      unsigned long end)
{
	for (; entry < stop; entry++) {
		unsigned long code = jump_entry_code(entry);

		if (code <= end && start - code < JMP32_INSN_SIZE)
			return true;
		if (code > start && code <= end)
			return true;
	}
	return false;
}

bool ferro_labels_may_patch(unsigned long start, unsigned long end)
{
#ifdef CONFIG_JUMP_LABEL
	struct module *mod;

	if (core_kernel_text(start))
		return may_patch(__start___jump_table, __stop___jump_table, start, end);
	guard(rcu)();
	mod = __module_text_address(start);
	return mod && may_patch(mod->jump_entries, mod->jump_entries + mod->num_jump_entries, start, end);
#else
	return false;
#endif
}

bool ferro_jump_label_reserved(unsigned long start, unsigned long end)
{
	return ferro_labels_may_patch(start, end) && jump_label_text_reserved((void *)start, (void *)end);
}

bool ferro_static_call_reserved(unsigned long start, unsigned long end)
{
	return static_call_text_reserved((void *)start, (void *)end);
}

void ferro_jump_label_lock(void)
{
	jump_label_lock();
}

void ferro_jump_label_unlock(void)
{
	jump_label_unlock();
}

bool ferro_is_bug(unsigned long addr)
{
	return find_bug(addr);
}

bool ferro_is_decoded_on_fault(unsigned long addr)
{
	/* A module's table is freed with it. */
	guard(rcu)();
	return ex_get_fixup_type(addr) == EX_TYPE_ZEROPAD;
}

/* Before the trap: mov of 6 bytes, add of 4, je of 2. */
bool ferro_is_cfi_check(unsigned long addr)
{
	return is_cfi_trap(addr + 12) || is_cfi_trap(addr + 6);
}

bool ferro_is_kgdb_breakpoint(unsigned long addr)
{
#ifdef CONFIG_KGDB
	return kgdb_has_hit_break(addr);
#else
	return false;
#endif
}

bool ferro_is_endbr(u32 bytes)
{
#ifdef CONFIG_X86_KERNEL_IBT
	return __is_endbr(bytes);
#else
	return false;
#endif
}

bool ferro_in_gate_area(unsigned long addr)
{
	return in_gate_area_no_mm(addr);
}

static void tell_perf(void *page, bool goes, bool detours)
{
	perf_event_ksymbol(PERF_RECORD_KSYMBOL_TYPE_OOL, (unsigned long)page, PAGE_SIZE, goes,
			   detours ? KPROBE_OPTINSN_PAGE_SYM : KPROBE_INSN_PAGE_SYM);
}

void *ferro_exec_page_alloc(bool detours)
{
	void *page = execmem_alloc(EXECMEM_KPROBES, PAGE_SIZE);

	if (!page)
		return NULL;
	/* Memory from that cache is already full of breakpoints. */
	if (!execmem_is_rox(EXECMEM_KPROBES))
		text_poke_set(page, INT3_INSN_OPCODE, PAGE_SIZE);
	tell_perf(page, false, detours);
	return page;
}

void ferro_exec_page_free(void *page, bool detours)
{
	tell_perf(page, true, detours);
	execmem_free(page);
}

void ferro_exec_page_quiesce(void)
{
	synchronize_rcu();
}

static void reclaim(struct work_struct *work)
{
	ferro_exec_pool_reclaim();
}

static DECLARE_WORK(reclaim_work, reclaim);

/* RCU callbacks must not sleep. */
static void reclaim_soon(struct rcu_head *head)
{
	queue_work(system_dfl_wq, &reclaim_work);
}

static struct rcu_head reclaim_head;

void ferro_exec_pool_call(void)
{
	call_rcu_tasks(&reclaim_head, reclaim_soon);
}

void ferro_exec_pool_wait(void)
{
	rcu_barrier_tasks();
	flush_work(&reclaim_work);
}

static int module_event(struct notifier_block *nb, unsigned long state, void *data)
{
	switch (state) {
	case MODULE_STATE_COMING:
		return notifier_from_errno(ferro_text_module_coming(data));
	case MODULE_STATE_LIVE:
		ferro_text_module_live(data);
		break;
	case MODULE_STATE_GOING:
		ferro_text_module_going(data);
		break;
	}
	return NOTIFY_OK;
}

/* Runs before the notifiers that patch the code of a new module. */
static struct notifier_block module_notifier = {
	.notifier_call = module_event,
	.priority = INT_MAX,
};

static int __init text_init(void)
{
	return register_module_notifier(&module_notifier);
}
early_initcall(text_init);

bool ferro_describe(unsigned long addr, char *name, unsigned long *offset, char *module)
{
	char *modname = NULL;

	guard(rcu)();
	if (!kallsyms_lookup(addr, NULL, offset, &modname, name))
		return false;
	strscpy(module, modname ?: "", MODULE_NAME_LEN);
	return true;
}

bool ferro_shows_addresses(void)
{
	return kallsyms_show_value(current_cred());
}

bool ferro_in_module(unsigned long addr, const struct module *mod)
{
	return within_module(addr, mod);
}
EXPORT_SYMBOL_GPL(ferro_in_module);

bool ferro_in_kernel_init(unsigned long addr)
{
	return addr >= (unsigned long)__init_begin && addr < (unsigned long)__init_end;
}
EXPORT_SYMBOL_GPL(ferro_in_kernel_init);
EXPORT_SYMBOL_GPL(ferro_in_core_text);

#ifdef CONFIG_FERRO_SYS_KUNIT_TEST
__nocfi u32 ferro_call_code(const void *code)
{
	return ((u32 (*)(void))code)();
}
#endif
