// SPDX-License-Identifier: GPL-2.0
/*
 * Replacements for kernel functions that are not exported, most of them built on exported ones. A
 * replacement covers only the cases that our code needs. Only copy_to_kernel_nofault() is called by hits.
 * __module_address() and __module_text_address() are called in die notifiers, too.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/rculist.h>
#include <linux/relay.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/stop_machine.h>
#include <linux/uaccess.h>

#include "core.h"

/*
 * Walks the kernel's list of modules, starting at ours, because its head is not exported. The head is
 * in the image, every entry in the module area: this tells them apart. Context: any, with RCU.
 */
struct module *__module_address(unsigned long addr)
{
	const struct list_head *at = &THIS_MODULE->list;

	if (addr < MODULES_VADDR || addr >= MODULES_END)
		return NULL;
	do {
		struct module *mod = list_entry(at, struct module, list);

		if ((unsigned long)at >= MODULES_VADDR && READ_ONCE(mod->state) != MODULE_STATE_UNFORMED &&
		    within_module(addr, mod))
			return mod;
		at = rcu_dereference_raw(list_next_rcu(at));
	} while (at != &THIS_MODULE->list);
	return NULL;
}

struct module *__module_text_address(unsigned long addr)
{
	struct module *mod = __module_address(addr);

	if (!mod || !(within_module_mem_type(addr, mod, MOD_TEXT) ||
		      within_module_mem_type(addr, mod, MOD_INIT_TEXT)))
		return NULL;
	return mod;
}
EXPORT_SYMBOL_GPL(__module_text_address);

bool is_module_address(unsigned long addr)
{
	guard(rcu)();
	return __module_address(addr);
}

bool ferro_stock_is_image_text(unsigned long addr)
{
	unsigned int level;
	const pte_t *pte;

	if (addr < __START_KERNEL_map || addr >= MODULES_VADDR)
		return false;
	pte = lookup_address(addr, &level);
	return pte && pte_present(*pte) && !(pte_flags(*pte) & _PAGE_NX);
}

int kernel_text_address(unsigned long addr)
{
	guard(rcu)();
	return ferro_stock_is_image_text(addr) || __module_text_address(addr);
}

long copy_to_kernel_nofault(void *dst, const void *src, size_t size)
{
	pagefault_disable();
	for (; size >= sizeof(u64); size -= sizeof(u64), dst += sizeof(u64), src += sizeof(u64))
		__put_kernel_nofault(dst, src, u64, fault);
	for (; size; size--, dst++, src++)
		__put_kernel_nofault(dst, src, u8, fault);
	pagefault_enable();
	return 0;
fault:
	pagefault_enable();
	return -EFAULT;
}
NOKPROBE_SYMBOL(copy_to_kernel_nofault);

/*
 * The kernel's own functions, for which there is no replacement: their answers depend on the kernel's
 * private state. An indirect call would fail under IBT: the kernel removes ENDBR from functions whose
 * address is never taken. A static call is direct.
 */
DEFINE_STATIC_CALL_NULL(ferro_lookup_name, kallsyms_lookup_name);
DEFINE_STATIC_CALL_NULL(ferro_ftrace_location, ftrace_location);
DEFINE_STATIC_CALL_NULL(ferro_ftrace_location_range, ftrace_location_range);
DEFINE_STATIC_CALL_NULL(ferro_stop_one_cpu, stop_one_cpu);
DEFINE_STATIC_CALL_NULL(ferro_lookup_size_offset, kallsyms_lookup_size_offset);
DEFINE_STATIC_CALL_NULL(ferro_lookup_symbol_name, lookup_symbol_name);

unsigned long kallsyms_lookup_name(const char *name)
{
	return static_call(ferro_lookup_name)(name);
}
EXPORT_SYMBOL_GPL(kallsyms_lookup_name);

int kallsyms_lookup_size_offset(unsigned long addr, unsigned long *size, unsigned long *offset)
{
	return static_call(ferro_lookup_size_offset)(addr, size, offset);
}
EXPORT_SYMBOL_GPL(kallsyms_lookup_size_offset);

int lookup_symbol_name(unsigned long addr, char *name)
{
	return static_call(ferro_lookup_symbol_name)(addr, name);
}
EXPORT_SYMBOL_GPL(lookup_symbol_name);

unsigned long ftrace_location(unsigned long ip)
{
	return static_call(ferro_ftrace_location)(ip);
}
EXPORT_SYMBOL_GPL(ftrace_location);

unsigned long ftrace_location_range(unsigned long start, unsigned long end)
{
	return static_call(ferro_ftrace_location_range)(start, end);
}
EXPORT_SYMBOL_GPL(ftrace_location_range);

int stop_one_cpu(unsigned int cpu, cpu_stop_fn_t fn, void *arg)
{
	return static_call(ferro_stop_one_cpu)(cpu, fn, arg);
}

int __init ferro_stock_kernel_functions_init(void)
{
	struct kprobe kp = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int err = register_kprobe(&kp);

	if (err) {
		pr_err("ferrotrace: cannot register a kprobe at kallsyms_lookup_name: error %d\n", err);
		return err;
	}
	unregister_kprobe(&kp);
	/* A kprobe at a function's entry is placed after its ENDBR. */
	static_call_update(ferro_lookup_name, (void *)kp.addr);
	return BIND(ferro_ftrace_location, "ftrace_location") ?:
	       BIND(ferro_ftrace_location_range, "ftrace_location_range") ?:
	       BIND(ferro_stop_one_cpu, "stop_one_cpu") ?:
	       BIND(ferro_lookup_size_offset, "kallsyms_lookup_size_offset") ?:
	       BIND(ferro_lookup_symbol_name, "lookup_symbol_name");
}

/* As the kernel's: 0 for a channel or a flag that it does not know. */
size_t relay_stats(struct rchan *chan, int flags)
{
	unsigned int cpu;
	size_t count = 0;

	if (!chan || flags > RELAY_STATS_LAST)
		return 0;
	for_each_possible_cpu(cpu) {
		const struct rchan_buf *buf = *per_cpu_ptr(chan->buf, chan->is_global ? 0 : cpu);

		if (buf && flags & RELAY_STATS_BUF_FULL)
			count += buf->stats.full_count;
		else if (buf && flags & RELAY_STATS_WRT_BIG)
			count += buf->stats.big_count;
		if (chan->is_global)
			break;
	}
	return count;
}
EXPORT_SYMBOL_GPL(relay_stats);
