// SPDX-License-Identifier: GPL-2.0
/* Live coverage's access to kernel functions and tables that are not exported. */
#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/extable.h>
#include <linux/ftrace.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/memory.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <asm/extable.h>
#include <asm/sections.h>
#include <asm/text-patching.h>

#include "builtin.h"

/* Longest instruction. */
#define INSN_MAX 15
/* No instruction of 64-bit code begins with it. */
#define INVALID_OPCODE 0x06

extern struct exception_table_entry __start___ex_table[], __stop___ex_table[];
extern struct static_call_site __start_static_call_sites[], __stop_static_call_sites[];

#ifdef CONFIG_FERROTRACE_STOCK
#include "../../stock/coverage.h"

#define text_mutex (*(struct mutex *)BOUND(text_mutex))
#else
#define BOUND(symbol) ((unsigned long)(symbol))
#define TABLE(symbol) (symbol)

extern char __cpuidle_text_start[], __cpuidle_text_end[];

int ferro_coverage_init(void)
{
	return 0;
}
EXPORT_SYMBOL_GPL(ferro_coverage_init);
#endif

static bool in(unsigned long addr, unsigned long start, unsigned long end)
{
	return addr >= start && addr < end;
}

static bool in_image(unsigned long addr)
{
	return in(addr, BOUND(_stext), BOUND(_etext));
}

int ferro_coverage_text_get(unsigned long addr, struct ferro_coverage_text *text)
{
	struct module *mod;

	if (in_image(addr)) {
		*text = (struct ferro_coverage_text) { NULL, BOUND(_stext), BOUND(_etext) };
		return 0;
	}
	guard(rcu)();
	mod = __module_text_address(addr);
	/* The tables of a module that is still being loaded are sorted. */
	if (!mod || mod->state != MODULE_STATE_LIVE || !within_module_mem_type(addr, mod, MOD_TEXT) ||
	    !try_module_get(mod))
		return -ENOENT;
	text->mod = mod;
	text->start = (unsigned long)mod->mem[MOD_TEXT].base;
	text->end = text->start + mod->mem[MOD_TEXT].size;
	return 0;
}
EXPORT_SYMBOL_GPL(ferro_coverage_text_get);

void ferro_coverage_text_put(const struct ferro_coverage_text *text)
{
	module_put(text->mod);
}
EXPORT_SYMBOL_GPL(ferro_coverage_text_put);

bool ferro_coverage_is_init(const struct ferro_coverage_text *text, unsigned long addr)
{
	if (text->mod)
		return within_module_mem_type(addr, text->mod, MOD_INIT_TEXT);
	return in(addr, BOUND(_sinittext), BOUND(_einittext));
}
EXPORT_SYMBOL_GPL(ferro_coverage_is_init);

bool ferro_coverage_symbol(unsigned long addr, unsigned long *start, unsigned long *size, char *name)
{
	unsigned long offset;

	if (!kallsyms_lookup_size_offset(addr, size, &offset) || lookup_symbol_name(addr, name))
		return false;
	*start = addr - offset;
	return true;
}
EXPORT_SYMBOL_GPL(ferro_coverage_symbol);

bool ferro_coverage_is_marked(unsigned long addr)
{
	return in(addr, BOUND(__noinstr_text_start), BOUND(__noinstr_text_end)) ||
	       in(addr, BOUND(__entry_text_start), BOUND(__entry_text_end)) ||
	       in(addr, BOUND(__cpuidle_text_start), BOUND(__cpuidle_text_end)) ||
	       within_kprobe_blacklist(addr);
}
EXPORT_SYMBOL_GPL(ferro_coverage_is_marked);

unsigned long ferro_coverage_ftrace_site(unsigned long start, unsigned long last)
{
	return ftrace_location_range(start, last);
}
EXPORT_SYMBOL_GPL(ferro_coverage_ftrace_site);

static unsigned long fault_at(const struct exception_table_entry *entry)
{
	return (unsigned long)&entry->insn + entry->insn;
}

static unsigned long call_at(const struct static_call_site *site)
{
	return (unsigned long)&site->addr + site->addr;
}

void ferro_coverage_sites(const struct ferro_coverage_text *text,
			  bool (*add)(void *context, u32 offset, u32 kind), void *context)
{
	const struct exception_table_entry *fault, *faults_end;
	const struct static_call_site *call, *calls_end;
	const struct jump_entry *jump, *jumps_end;
	unsigned long at;

	if (text->mod) {
		jump = text->mod->jump_entries;
		jumps_end = jump + text->mod->num_jump_entries;
		call = text->mod->static_call_sites;
		calls_end = call + text->mod->num_static_call_sites;
		fault = text->mod->extable;
		faults_end = fault + text->mod->num_exentries;
	} else {
		jump = TABLE(__start___jump_table);
		jumps_end = TABLE(__stop___jump_table);
		call = TABLE(__start_static_call_sites);
		calls_end = TABLE(__stop_static_call_sites);
		fault = TABLE(__start___ex_table);
		faults_end = TABLE(__stop___ex_table);
	}
	for (; jump < jumps_end; jump++) {
		at = jump_entry_code(jump);
		if (in(at, text->start, text->end) && !add(context, at - text->start, FERRO_COVERAGE_JUMP_LABEL))
			return;
	}
	for (; call < calls_end; call++) {
		at = call_at(call);
		if (in(at, text->start, text->end) && !add(context, at - text->start, FERRO_COVERAGE_STATIC_CALL))
			return;
	}
	for (; fault < faults_end; fault++) {
		at = fault_at(fault);
		if (in(at, text->start, text->end) && !add(context, at - text->start, FERRO_COVERAGE_EXCEPTION))
			return;
	}
}
EXPORT_SYMBOL_GPL(ferro_coverage_sites);

#ifdef CONFIG_KPROBES_ENGINE_RUST
/* That of the engine, which is a module or not loaded. Protected by text_mutex. */
static typeof(&get_kprobe) engine_get_kprobe;

static struct kprobe *find_kprobe(unsigned long addr)
{
	return engine_get_kprobe ? engine_get_kprobe((void *)addr) : NULL;
}

void ferro_coverage_lock(void)
{
	mutex_lock(&text_mutex);
	engine_get_kprobe = symbol_get(get_kprobe);
}

void ferro_coverage_unlock(void)
{
	if (engine_get_kprobe)
		symbol_put(get_kprobe);
	mutex_unlock(&text_mutex);
}
#else
static struct kprobe *find_kprobe(unsigned long addr)
{
	return get_kprobe((void *)addr);
}

void ferro_coverage_lock(void)
{
	mutex_lock(&text_mutex);
}

void ferro_coverage_unlock(void)
{
	mutex_unlock(&text_mutex);
}
#endif
EXPORT_SYMBOL_GPL(ferro_coverage_lock);
EXPORT_SYMBOL_GPL(ferro_coverage_unlock);

void ferro_coverage_poke(unsigned long addr, const u8 *code, size_t len)
{
	text_poke((void *)addr, code, len);
}
EXPORT_SYMBOL_GPL(ferro_coverage_poke);

void ferro_coverage_sync(void)
{
	smp_text_poke_sync_each_cpu();
}
EXPORT_SYMBOL_GPL(ferro_coverage_sync);

bool ferro_coverage_has_kprobe(unsigned long addr, unsigned int count)
{
	guard(preempt)();
	for (; count; count--, addr--)
		if (find_kprobe(addr))
			return true;
	return false;
}
EXPORT_SYMBOL_GPL(ferro_coverage_has_kprobe);

#ifdef CONFIG_KPROBES_ENGINE_RUST
bool ferro_coverage_restore(unsigned long addr, u8 *code)
{
	struct kprobe *probe;
	int before;

	guard(preempt)();
	for (before = 0; before < JMP32_INSN_SIZE; before++) {
		probe = find_kprobe(addr - before);
		if (!probe)
			continue;
		if (*(u8 *)(addr - before) == JMP32_INSN_OPCODE) {
			/* Only the engine knows the code under its jump: the rest of the function is not decoded. */
			memset(code, INVALID_OPCODE, INSN_MAX);
			return true;
		}
		if (!before) {
			memcpy(code, (void *)addr, INSN_MAX);
			code[0] = probe->opcode;
			return true;
		}
	}
	return false;
}
#else
#ifndef CONFIG_FERROTRACE_STOCK
unsigned long recover_probed_instruction(kprobe_opcode_t *buf, unsigned long addr);
#endif

bool ferro_coverage_restore(unsigned long addr, u8 *code)
{
	kprobe_opcode_t buf[MAX_INSN_SIZE];

	guard(preempt)();
	if (recover_probed_instruction(buf, addr) != (unsigned long)buf)
		return false;
	memcpy(code, buf, INSN_MAX);
	return true;
}
#endif
EXPORT_SYMBOL_GPL(ferro_coverage_restore);
