// SPDX-License-Identifier: GPL-2.0
/*
 * Substitutes for functions that the kernel does not export, made of those that it exports. Each
 * does what the kernel's function of its name does, where our code uses it. Only
 * copy_to_kernel_nofault() is called by hits.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/relay.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/static_call.h>
#include <linux/stop_machine.h>
#include <linux/uaccess.h>
#include <asm/ibt.h>
#include <asm/nops.h>

#include "core.h"

/*
 * The list of modules, from our own on. Its head is in the image, and all of its entries are in
 * memory of modules. With RCU.
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

struct stop {
	cpu_stop_fn_t fn;
	void *arg;
};

/* A function of the stopper cannot be preempted. */
static int run_stop(void *data)
{
	const struct stop *stop = data;

	guard(preempt)();
	return stop->fn(stop->arg);
}

/*
 * A worker of the CPU runs the function. When the worker runs, no other task of that CPU is in a
 * section with preemption off.
 */
int stop_one_cpu(unsigned int cpu, cpu_stop_fn_t fn, void *arg)
{
	struct stop stop = { .fn = fn, .arg = arg };
	int err = smp_call_on_cpu(cpu, run_stop, &stop, false);

	return err == -ENXIO ? -ENOENT : err;
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
 * kallsyms_lookup_name() itself, as a static call: a direct jump, which works although the kernel
 * has removed the ENDBR of a function whose address it never takes.
 */
DEFINE_STATIC_CALL_NULL(ferro_lookup_name, kallsyms_lookup_name);

int __init ferro_stock_kernel_functions_init(void)
{
	struct kprobe kp = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int err = register_kprobe(&kp);

	if (err) {
		pr_err("ferrotrace: a kprobe at kallsyms_lookup_name is refused: error %d\n", err);
		return err;
	}
	unregister_kprobe(&kp);
	/* A probe of a function lies behind its ENDBR. */
	static_call_update(ferro_lookup_name, (void *)kp.addr);
	return 0;
}

unsigned long kallsyms_lookup_name(const char *name)
{
	return static_call(ferro_lookup_name)(name);
}

/* Parses "name+0xoffset/0xsize [module]". Returns the length of the name; 0 if there is no symbol. */
static size_t parse_symbol(unsigned long addr, char *text, unsigned long *offset, unsigned long *size)
{
	char *plus;

	sprint_symbol(text, addr);
	plus = strrchr(text, '+');
	if (!plus || sscanf(plus, "+%lx/%lx", offset, size) != 2)
		return 0;
	return plus - text;
}

int kallsyms_lookup_size_offset(unsigned long addr, unsigned long *size, unsigned long *offset)
{
	char *text = kmalloc(KSYM_SYMBOL_LEN, GFP_KERNEL);
	bool found = text && parse_symbol(addr, text, offset, size);

	kfree(text);
	return found;
}

int lookup_symbol_name(unsigned long addr, char *name)
{
	char *text = kmalloc(KSYM_SYMBOL_LEN, GFP_KERNEL);
	unsigned long offset, size;
	size_t len;

	if (!text)
		return -ENOMEM;
	len = min(parse_symbol(addr, text, &offset, &size), KSYM_NAME_LEN - 1);
	memcpy(name, text, len);
	name[len] = 0;
	kfree(text);
	return len ? 0 : -ERANGE;
}

/* True for a NOP or a call of five bytes, as ftrace has it in functions that it can trace. */
static bool is_site(unsigned long ip)
{
	const u8 nop[] = { BYTES_NOP5 };
	u8 insn[sizeof(nop)];

	if (copy_from_kernel_nofault(insn, (const void *)ip, sizeof(insn)))
		return false;
	return insn[0] == CALL_INSN_OPCODE || !memcmp(insn, nop, sizeof(nop));
}

/* The site is the first instruction of a function, or the one after its ENDBR. */
unsigned long ftrace_location(unsigned long ip)
{
	u32 insn;

	if (is_site(ip))
		return ip;
	if (copy_from_kernel_nofault(&insn, (const void *)ip, sizeof(insn)) || !__is_endbr(insn))
		return 0;
	return is_site(ip + ENDBR_INSN_SIZE) ? ip + ENDBR_INSN_SIZE : 0;
}
EXPORT_SYMBOL_GPL(ftrace_location);

unsigned long ftrace_location_range(unsigned long start, unsigned long end)
{
	unsigned long ip = ftrace_location(start);

	return ip <= end ? ip : 0;
}

size_t relay_stats(struct rchan *chan, int flags)
{
	unsigned int cpu;
	size_t count = 0;

	for_each_possible_cpu(cpu) {
		const struct rchan_buf *buf = *per_cpu_ptr(chan->buf, chan->is_global ? 0 : cpu);

		if (buf)
			count += flags & RELAY_STATS_BUF_FULL ? buf->stats.full_count : buf->stats.big_count;
		if (chan->is_global)
			break;
	}
	return count;
}
EXPORT_SYMBOL_GPL(relay_stats);
