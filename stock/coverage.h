/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel functions and symbols for coverage/builtin/builtin.c, which includes this after the kernel's
 * headers. Each name is that of a substitute in coverage.c.
 */
#ifndef _FERROTRACE_STOCK_COVERAGE_H
#define _FERROTRACE_STOCK_COVERAGE_H

#include <linux/kprobes.h>
#include <linux/types.h>

/* Addresses of symbols that are not exported, each with the name of its symbol. */
struct ferro_stock_symbols {
	unsigned long _stext;
	unsigned long _etext;
	unsigned long _sinittext;
	unsigned long _einittext;
	unsigned long __noinstr_text_start;
	unsigned long __noinstr_text_end;
	unsigned long __entry_text_start;
	unsigned long __entry_text_end;
	unsigned long __cpuidle_text_start;
	unsigned long __cpuidle_text_end;
	unsigned long __start___jump_table;
	unsigned long __stop___jump_table;
	unsigned long __start_static_call_sites;
	unsigned long __stop_static_call_sites;
	unsigned long __start___ex_table;
	unsigned long __stop___ex_table;
	unsigned long text_mutex;
};

extern struct ferro_stock_symbols ferro_stock_symbols;

#define BOUND(symbol) (ferro_stock_symbols.symbol)
#define TABLE(symbol) ((typeof(&(symbol)[0]))BOUND(symbol))

#define get_kprobe ferro_stock_get_kprobe
#define recover_probed_instruction ferro_stock_recover_probed_instruction
#define smp_text_poke_sync_each_cpu ferro_stock_smp_text_poke_sync_each_cpu
#define text_poke ferro_stock_text_poke
#define within_kprobe_blacklist ferro_stock_within_kprobe_blacklist

struct kprobe *get_kprobe(void *addr);
unsigned long recover_probed_instruction(kprobe_opcode_t *buf, unsigned long addr);
void smp_text_poke_sync_each_cpu(void);
void *text_poke(void *addr, const void *opcode, size_t len);
bool within_kprobe_blacklist(unsigned long addr);

#endif /* _FERROTRACE_STOCK_COVERAGE_H */
