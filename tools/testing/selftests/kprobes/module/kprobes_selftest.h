/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kprobes_selftest: cases of <linux/kprobes.h> that run in here; driven through debugfs kprobes_selftest/.
 */
#ifndef _KPROBES_SELFTEST_H
#define _KPROBES_SELFTEST_H

#include <linux/array_size.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/kconfig.h>
#include <linux/kprobes.h>
#include <linux/static_call_types.h>
#include <linux/types.h>

#include "cases.h"

/* Handlers that do one thing. */
#define __KST_HANDLER(name, of, statement)					\
	static int name(of, struct pt_regs *regs)				\
	{									\
		statement;							\
		return 0;							\
	}									\
	NOKPROBE_SYMBOL(name)
#define PRE_HANDLER(name, statement)						\
	__KST_HANDLER(name, struct kprobe *p, statement)
#define RETURN_HANDLER(name, statement)						\
	__KST_HANDLER(name, struct kretprobe_instance *ri, statement)
#define POST_HANDLER(name, statement)						\
	static void name(struct kprobe *p, struct pt_regs *regs, unsigned long flags) \
	{									\
		statement;							\
	}									\
	NOKPROBE_SYMBOL(name)

/* Lists of cases, up to one without a name. */
extern const struct test_case kst_refuse_cases[], kst_several_cases[], kst_context_cases[], kst_ret_cases[];
extern const struct test_case kst_debugfs_cases[], kst_unload_cases[], kst_load_cases[];
extern const struct test_case kst_jprobe_cases[], kst_jprobe_register_cases[], kst_fault_cases[];
extern const struct test_case kst_forms_cases[], kst_races_cases[], kst_memory_cases[], kst_oops_cases[];
extern const struct test_case kst_declared_cases[], kst_jump_cases[];
extern const struct test_case kst_jump_into_cases[], kst_jump_held_cases[], kst_jump_storm_cases[], kst_jump_around_cases[];
extern const struct test_case kst_jump_many_cases[], kst_exchanged_cases[], kst_tracer_cases[];

/* jump.c: where kst_jump()'s instructions are, of two bytes each; the third ends in the jump at the first. */
extern const unsigned long kst_jump_places[];

/*
 * several.c: counts in kst_syncs how often all CPUs are synchronised for new code, until the caller
 * unregisters @by. False with the C engine, where the case is skipped.
 */
extern unsigned int kst_syncs;
bool kst_count_syncs(struct kprobe *by);

/* insn.c: the cases are the rows of rows.S. */
const char *kst_row_name(unsigned int index);
void kst_row_run(unsigned int index);

/* forms.c: the cases are the groups of forms. */
const char *kst_form_group(unsigned int index);
void kst_forms_run(unsigned int index);

/* The landing pad at a function's entry: ftrace's site, and a probe of the entry, are behind it. */
#define KST_PAD (IS_ENABLED(CONFIG_X86_KERNEL_IBT) ? 4 : 0)

/* Returns the byte that was written at @p's instruction, as of the last check. */
static inline kprobe_opcode_t kst_opcode(const void *addr)
{
	return READ_ONCE(*(const kprobe_opcode_t *)addr);
}

/*
 * storm.c: all CPUs call @pass with 1, 2 and so on, until kst_storm_end(), which expects that all
 * calls returned true and returns how many calls there were. kst_storm_pass() calls kst_bytes,
 * kst_endbr and kst_target once.
 */
/* kst_wait(): until a counter is above something; false when it never gets there. */
bool kst_wait(atomic_long_t *counter, long above);
bool kst_storm_pass(long i);
void kst_storm_begin(bool (*pass)(long i));
long kst_storm_end(void);
/* As long as a case is to take, and three times at least; from @rounds on, which counts. */
#define kst_while_case_lasts(rounds)							\
	for (unsigned long __end = jiffies + msecs_to_jiffies(case_ms);			\
	     time_before(jiffies, __end) || (rounds) < 3; (rounds)++)
/* Probes of a batch. */
extern unsigned int kst_many_probes;

/* targets.c: functions that are probed, and places that must not be. */
int kst_target(int a);
int kst_target_2(int a);
void kst_nokprobe(void);
void kst_kprobes_text(void);
void kst_noinstr(void);
bool kst_has_branch(void);
int kst_calls_static(int a);
bool kst_warns(bool now);
unsigned long kst_load_zeropad(const void *from);
DECLARE_STATIC_CALL(kst_call_site, kst_target);
extern void *kst_init_text;

/* reserved.S: addresses of functions that must not be probed, up to a NULL. */
extern void * const kst_reserved[];

/* fault.c: one more than there is at @from; and the second instruction of the first of them. */
long kst_load(long *from);
long kst_try_load(long *from);
extern char kst_load_next[];
/* Puts 41 there, returns 42. */
long kst_put(long *to);
/* Returns the result of the function at the address; one more if it is called. */
long kst_call_there(long *to);
long kst_jump_there(long *to);
/* Returns 84 divided by the value at @by; and the instruction that divides. */
long kst_divide(const long *by);
extern char kst_divide_at[];

/* Calls a function defined in assembly, which has no type that CFI could compare. */
static inline __nocfi long kst_call_code(const void *code, long x)
{
	return ((long (*)(long))code)(x);
}

/* rows.S: more of the latter. */
extern char kst_bytes[];
/*
 * kst_bytes() returns its argument. This is its second instruction, of three bytes, before the
 * last.
 */
#define kst_bytes_inside (kst_bytes + 10)
#define kst_call_bytes(x) kst_call_code(kst_bytes, x)
extern char kst_endbr[], kst_return[], kst_many[], kst_long[], kst_long_first[];
#define kst_call_endbr(x) kst_call_code(kst_endbr, x)
extern char kst_listed_1[], kst_listed_2[], kst_listed_3[], kst_listed_4[];
extern char __pfx_kst_bytes[], __cfi_kst_bytes[];
extern char kst_int3[], kst_ud2[], kst_int_80[], kst_int1[], kst_pop_ss[], kst_mov_ss[], kst_vmcall[];
extern char kst_pad_inside[], kst_far_call[], kst_far_jmp[], kst_iret[], kst_jmp_gs[], kst_jmp_rex2[];

#endif /* _KPROBES_SELFTEST_H */
