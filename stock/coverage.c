// SPDX-License-Identifier: GPL-2.0
/* Kernel functions and symbols that are not exported, for coverage/builtin/builtin.c. */
#include <linux/errno.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/cleanup.h>
#include <linux/cpu.h>
#include <linux/memory.h>
#include <linux/printk.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/text-patching.h>

#include "../coverage/builtin/builtin.h"
#include "core.h"

unsigned long recover_probed_instruction(kprobe_opcode_t *buf, unsigned long addr);

DEFINE_STATIC_CALL_NULL(ferro_get_kprobe, get_kprobe);
DEFINE_STATIC_CALL_NULL(ferro_kprobe_int3_handler, kprobe_int3_handler);
DEFINE_STATIC_CALL_NULL(ferro_recover_probed_instruction, recover_probed_instruction);
DEFINE_STATIC_CALL_NULL(ferro_text_poke, text_poke);
DEFINE_STATIC_CALL_NULL(ferro_text_poke_single, smp_text_poke_single);
DEFINE_STATIC_CALL_NULL(ferro_text_poke_sync, smp_text_poke_sync_each_cpu);
DEFINE_STATIC_CALL_NULL(ferro_within_kprobe_blacklist, within_kprobe_blacklist);

#include "coverage.h"

struct ferro_stock_symbols ferro_stock_symbols;

struct kprobe *get_kprobe(void *addr)
{
	return static_call(ferro_get_kprobe)(addr);
}

unsigned long recover_probed_instruction(kprobe_opcode_t *buf, unsigned long addr)
{
	return static_call(ferro_recover_probed_instruction)(buf, addr);
}

void smp_text_poke_sync_each_cpu(void)
{
	static_call(ferro_text_poke_sync)();
}

void *text_poke(void *addr, const void *opcode, size_t len)
{
	return static_call(ferro_text_poke)(addr, opcode, len);
}

bool within_kprobe_blacklist(unsigned long addr)
{
	return static_call(ferro_within_kprobe_blacklist)(addr);
}

#define SYMBOL(symbol) { #symbol, offsetof(struct ferro_stock_symbols, symbol) }

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	SYMBOL(_stext),
	SYMBOL(_etext),
	SYMBOL(_sinittext),
	SYMBOL(_einittext),
	SYMBOL(__noinstr_text_start),
	SYMBOL(__noinstr_text_end),
	SYMBOL(__entry_text_start),
	SYMBOL(__entry_text_end),
	SYMBOL(__cpuidle_text_start),
	SYMBOL(__cpuidle_text_end),
	SYMBOL(__start___jump_table),
	SYMBOL(__stop___jump_table),
	SYMBOL(__start_static_call_sites),
	SYMBOL(__stop_static_call_sites),
	SYMBOL(__start___ex_table),
	SYMBOL(__stop___ex_table),
	SYMBOL(text_mutex),
};

int ferro_coverage_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(symbols); i++) {
		unsigned long addr = kallsyms_lookup_name(symbols[i].name);

		if (!addr) {
			pr_err("ferrotrace: the kernel has no %s\n", symbols[i].name);
			return -ENOENT;
		}
		*(unsigned long *)((void *)&ferro_stock_symbols + symbols[i].offset) = addr;
	}
	return BIND(ferro_get_kprobe, "get_kprobe") ?:
	       BIND(ferro_kprobe_int3_handler, "kprobe_int3_handler") ?:
	       BIND(ferro_recover_probed_instruction, "recover_probed_instruction") ?:
	       BIND(ferro_text_poke, "text_poke") ?:
	       BIND(ferro_text_poke_single, "smp_text_poke_single") ?:
	       BIND(ferro_text_poke_sync, "smp_text_poke_sync_each_cpu") ?:
	       BIND(ferro_within_kprobe_blacklist, "within_kprobe_blacklist");
}

/*
 * The kernel calls this in place of kprobe_int3_handler(). A die notifier would be called under RCU,
 * by functions that can be traced: a breakpoint in the callback of their tracer would hit itself
 * again, without end.
 */
static notrace int handle_int3(struct pt_regs *regs)
{
	return ferro_coverage_hit(regs) || static_call(ferro_kprobe_int3_handler)(regs);
}
NOKPROBE_SYMBOL(handle_int3);

/*
 * Replaces the calls of a function in exc_int3(), into which the compiler has inlined the rest. A CPU
 * that executes a call while it is replaced enters smp_text_poke_int3_handler(): exc_int3() calls that
 * first.
 * Returns their number.
 */
static int replace_calls(unsigned long old, unsigned long new)
{
	unsigned long start = kallsyms_lookup_name("exc_int3");
	unsigned long size, offset, at;
	u8 code[CALL_INSN_SIZE];
	int count = 0;
	s32 distance;

	if (!start || !kallsyms_lookup_size_offset(start, &size, &offset))
		return 0;
	guard(cpus_read_lock)();
	ferro_coverage_lock();
	for (at = start; at + CALL_INSN_SIZE <= start + size; at++) {
		memcpy(code, (void *)at, CALL_INSN_SIZE);
		memcpy(&distance, code + 1, sizeof(distance));
		if (code[0] != CALL_INSN_OPCODE || at + CALL_INSN_SIZE + distance != old)
			continue;
		distance = new - (at + CALL_INSN_SIZE);
		memcpy(code + 1, &distance, sizeof(distance));
		static_call(ferro_text_poke_single)((void *)at, code, CALL_INSN_SIZE, NULL);
		count++;
	}
	ferro_coverage_unlock();
	return count;
}

int ferro_coverage_hook(bool on)
{
	unsigned long theirs = kallsyms_lookup_name("kprobe_int3_handler");
	unsigned long ours = (unsigned long)handle_int3;

	if (replace_calls(on ? theirs : ours, on ? ours : theirs))
		return 0;
	pr_err("ferrotrace: exc_int3() of this kernel does not call kprobe_int3_handler()\n");
	return -ENOENT;
}
