// SPDX-License-Identifier: GPL-2.0
/* Refused registrations, and their errors. They leave no state behind. */
#include <linux/bitfield.h>
#include <linux/bug.h>
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "kprobes_selftest.h"

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

/* Returns the result of registering; a successful call is undone. */
static int try(struct kprobe kp)
{
	int err;

	kp.pre_handler = pre;
	err = register_kprobe(&kp);
	if (!err)
		unregister_kprobe(&kp);
	return err;
}

#define TRY(...) try((struct kprobe){ __VA_ARGS__ })
#define TRY_ADDR(where) TRY(.addr = (kprobe_opcode_t *)(where))

static void null(void)
{
	EXPECT_EQ(TRY(), -EINVAL);
	EXPECT_EQ(TRY(.offset = 4), -EINVAL);
}

static void both(void)
{
	EXPECT_EQ(TRY(.symbol_name = "kst_target", .addr = (kprobe_opcode_t *)kst_target), -EINVAL);
}

static void unknown_symbol(void)
{
	EXPECT_EQ(TRY(.symbol_name = "kst_no_such_function"), -ENOENT);
	EXPECT_EQ(TRY(.symbol_name = ""), -ENOENT);
	EXPECT_EQ(TRY(.symbol_name = "kst_target:"), -ENOENT);
	EXPECT_EQ(TRY(.symbol_name = "no_such_module:kst_target"), -ENOENT);
}

/* So that the others say something. */
static void good(void)
{
	EXPECT_EQ(TRY(.symbol_name = "kst_target"), 0);
	EXPECT_EQ(TRY(.symbol_name = "kprobes_selftest:kst_target"), 0);
	EXPECT_EQ(TRY_ADDR(kst_target), 0);
	EXPECT_EQ(TRY_ADDR(kst_bytes), 0);
	EXPECT_EQ(TRY(.symbol_name = "kst_bytes", .offset = 10), 0);
	EXPECT_EQ(TRY(.symbol_name = "vfs_read"), 0);
}

static void mid_instruction(void)
{
	unsigned int i;

	/* movabs of ten bytes */
	for (i = 1; i < 10; i++) {
		EXPECT_EQ(TRY_ADDR(kst_bytes + i), -EILSEQ);
		EXPECT_EQ(TRY(.symbol_name = "kst_bytes", .offset = i), -EILSEQ);
	}
}

static unsigned long data[4];
static const unsigned long rodata[4] = { 1, 2, 3, 4 };

static void no_text(void)
{
	unsigned long on_stack = 0;
	void *heap = kmalloc(64, GFP_KERNEL);
	void *area = vmalloc(PAGE_SIZE);

	EXPECT_EQ(TRY_ADDR(data), -EINVAL);
	EXPECT_EQ(TRY_ADDR(rodata), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "jiffies"), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "linux_banner"), -EINVAL);
	EXPECT_EQ(TRY_ADDR(&on_stack), -ENOENT);
	EXPECT_EQ(TRY_ADDR(heap), -ENOENT);
	EXPECT_EQ(TRY_ADDR(area), -ENOENT);
	vfree(area);
	kfree(heap);
}

static void no_address(void)
{
	EXPECT_EQ(TRY_ADDR(1), -ENOENT);
	EXPECT_EQ(TRY_ADDR(0x400000), -ENOENT);
	EXPECT_EQ(TRY_ADDR(0x7fffffffe000), -ENOENT);
	EXPECT_EQ(TRY_ADDR(0x800000000000), -ENOENT);
	EXPECT_EQ(TRY_ADDR(-1L), -ENOENT);
	EXPECT_EQ(TRY_ADDR(-4096L), -ENOENT);
}

static void blacklisted(void)
{
	static const char * const names[] = {
		/* NOKPROBE_SYMBOL() */
		"notify_die", "atomic_notifier_call_chain",
		/* noinstr */
		"exc_int3", "irqentry_enter",
		/* entry code */
		"asm_exc_int3", "entry_SYSCALL_64",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		int err = TRY(.symbol_name = names[i]);

		if (!EXPECT_EQ(err, -EINVAL))
			case_say("on %s\n", names[i]);
	}
}

static void blacklisted_in_module(void)
{
	EXPECT_EQ(TRY(.symbol_name = "kst_nokprobe"), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "kst_kprobes_text"), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "kst_noinstr"), -EINVAL);
	EXPECT_EQ(TRY_ADDR(kst_noinstr), -EINVAL);
}

static void init_text(void)
{
	int err = TRY_ADDR(kst_init_text);

	EXPECT_EQ(TRY(.symbol_name = "start_kernel"), -EINVAL);
	/* Freed, with its symbols; by now there may be a trampoline of ftrace. */
	EXPECT(err == -ENOENT || err == -EINVAL);
}

static void jump_label(void)
{
	struct jump_entry *entry = THIS_MODULE->jump_entries;
	unsigned int i, found = 0;

	for (i = 0; i < THIS_MODULE->num_jump_entries; i++) {
		unsigned long code = jump_entry_code(&entry[i]);

		if (!within_module_core(code, THIS_MODULE))
			continue;
		found++;
		EXPECT_EQ(TRY_ADDR(code), -EINVAL);
	}
	EXPECT(found);
	EXPECT(!kst_has_branch());
}

static void static_calls(void)
{
	struct static_call_site *site = THIS_MODULE->static_call_sites;
	int i;

	EXPECT(THIS_MODULE->num_static_call_sites);
	for (i = 0; i < THIS_MODULE->num_static_call_sites; i++)
		EXPECT_EQ(TRY_ADDR((long)&site[i].addr + site[i].addr), -EINVAL);
	EXPECT_EQ(kst_calls_static(1), 3);
}

/* The trampoline, which is patched as well when the call is changed. */
static void static_call_trampoline(void)
{
	EXPECT_EQ(TRY(.symbol_name = "__SCT__kst_call_site"), -EINVAL);
	EXPECT_EQ(TRY_ADDR(&STATIC_CALL_TRAMP(kst_call_site)), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "kprobes_selftest:__SCT__kst_call_site"), -EINVAL);
}

/*
 * Names in the kernel, and true if its configuration has them: an absent name shows nothing.
 * Without that configuration the name may be found in reserved.S.
 */
static const struct {
	const char *name;
	bool there;
} reserved_of_kernel[] = {
	{ "__x86_indirect_thunk_rax", IS_ENABLED(CONFIG_MITIGATION_RETPOLINE) },
	{ "__x86_indirect_call_thunk_rax", IS_ENABLED(CONFIG_MITIGATION_CALL_DEPTH_TRACKING) },
	{ "__x86_indirect_its_thunk_rax", IS_ENABLED(CONFIG_MITIGATION_ITS) },
	{ "__x86_return_thunk", IS_ENABLED(CONFIG_MITIGATION_RETHUNK) },
	{ "retbleed_return_thunk", IS_ENABLED(CONFIG_MITIGATION_UNRET_ENTRY) },
	{ "srso_return_thunk", IS_ENABLED(CONFIG_MITIGATION_SRSO) },
	{ "srso_safe_ret", IS_ENABLED(CONFIG_MITIGATION_SRSO) },
	{ "srso_alias_safe_ret", IS_ENABLED(CONFIG_MITIGATION_SRSO) },
	{ "call_depth_return_thunk", IS_ENABLED(CONFIG_MITIGATION_CALL_DEPTH_TRACKING) },
	{ "its_return_thunk", IS_ENABLED(CONFIG_MITIGATION_ITS) },
	{ "__SCT__preempt_schedule", IS_ENABLED(CONFIG_PREEMPT_DYNAMIC) && IS_ENABLED(CONFIG_HAVE_PREEMPT_DYNAMIC_CALL) },
	{ "__SCT__tp_func_sched_wakeup", IS_ENABLED(CONFIG_TRACEPOINTS) && IS_ENABLED(CONFIG_HAVE_STATIC_CALL) },
	{ "ftrace_caller", true },
	{ "ftrace_regs_caller", true },
	{ "preempt_schedule_notrace", IS_ENABLED(CONFIG_PREEMPTION) },
	{ "native_play_dead", true },
	{ "__asan_load8", IS_ENABLED(CONFIG_KASAN_GENERIC) },
	{ "__kasan_check_write", IS_ENABLED(CONFIG_KASAN) },
};

/*
 * Functions of reserved.S with the names of thunks of mitigations and of hooks of sanitizers and
 * ftrace. tools/testing/unconfigured.sh checks that mitigations have these names, and no others.
 */
static void reserved_names(void)
{
	int i, err;

	for (i = 0; kst_reserved[i]; i++) {
		if (EXPECT_EQ(TRY_ADDR(kst_reserved[i]), -EINVAL))
			continue;
		case_say("on %ps\n", kst_reserved[i]);
		/* The kernel's own must not even be tried. */
		return;
	}
	for (i = 0; i < ARRAY_SIZE(reserved_of_kernel); i++) {
		err = TRY(.symbol_name = reserved_of_kernel[i].name);
		if (!EXPECT(err == -EINVAL || (err == -ENOENT && !reserved_of_kernel[i].there)))
			case_say("on %s: %d\n", reserved_of_kernel[i].name, err);
	}
}

/*
 * Code that a CPU being brought online executes before it has an IDT: a breakpoint there resets the
 * machine. Some of these may be part of others; native_load_idt() is a function in some kernels
 * only.
 */
static void early(void)
{
	static const struct {
		const char *name;
		bool there;
	} names[] = {
		{ "secondary_startup_64", true }, { "early_setup_idt", true }, { "start_secondary", true }, { "cr4_init", true },
		{ "native_write_cr4", true }, { "cpu_init_exception_handling", true }, { "load_current_idt", true },
		{ "native_load_idt", false }, { "restore_processor_state", IS_ENABLED(CONFIG_PM_SLEEP) },
		{ "native_write_cr0", true }, { "cr4_update_irqsoff", true },
		{ "native_write_msr", IS_ENABLED(CONFIG_PARAVIRT_XXL) }, { "setup_ghcb", IS_ENABLED(CONFIG_AMD_MEM_ENCRYPT) },
		{ "core_restore_code", IS_ENABLED(CONFIG_HIBERNATION) },
	};
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		err = TRY(.symbol_name = names[i].name);
		if (!EXPECT(err == -EINVAL || (err == -ENOENT && !names[i].there)))
			case_say("on %s: %d\n", names[i].name, err);
	}
}

/*
 * Code that a hit would run through again where the engine's helpers are instrumented, up to the
 * end of the stack.
 */
static void kasan(void)
{
	static const char * const names[] = {
		"__kasan_check_read", "__kasan_check_write", "kasan_check_range", "__asan_load4", "__asan_load8",
		"__asan_store4", "__asan_store8", "__asan_loadN", "__asan_storeN",
	};
	unsigned int i;
	int err;

	if (!IS_ENABLED(CONFIG_KASAN_GENERIC)) {
		case_skip("no KASAN in this kernel");
		return;
	}
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		err = TRY(.symbol_name = names[i]);
		if (!EXPECT_EQ(err, -EINVAL))
			case_say("on %s\n", names[i]);
	}
}

static unsigned int passed;

PRE_HANDLER(passes, passed++);

/*
 * The fixup of its fault decodes the instruction, where the breakpoint would be. The instructions
 * before and after it may be probed, and then the load is still repaired.
 */
static void decoded_on_fault(void)
{
	const struct exception_table_entry *entry = THIS_MODULE->extable;
	struct kprobe before = { .symbol_name = "kst_load_zeropad", .pre_handler = passes };
	struct kprobe after = { .pre_handler = passes };
	unsigned int i, found = 0;
	/* the page after it is not there */
	u8 *page = vzalloc(PAGE_SIZE);

	if (!EXPECT(page))
		return;
	for (i = 0; i < THIS_MODULE->num_exentries; i++) {
		unsigned long at = (unsigned long)&entry[i].insn + entry[i].insn;

		if (FIELD_GET(EX_DATA_TYPE_MASK, entry[i].data) != EX_TYPE_ZEROPAD)
			continue;
		found++;
		EXPECT_EQ(TRY_ADDR(at), -EINVAL);
		/* mov (%reg),%reg: three bytes */
		EXPECT_EQ(*(u8 *)at & 0xf8, 0x48);
		EXPECT_EQ(*(u8 *)(at + 1), 0x8b);
		after.addr = (kprobe_opcode_t *)at + 3;
	}
	EXPECT_EQ(found, 1);
	memcpy(page + PAGE_SIZE - 4, "ferr", 4);
	EXPECT_EQ(kst_load_zeropad(page + PAGE_SIZE - 4), 0x72726566);
	EXPECT_EQ(register_kprobe(&before), 0);
	EXPECT_EQ(register_kprobe(&after), 0);
	passed = 0;
	EXPECT_EQ(kst_load_zeropad("ferrotra"), *(const unsigned long *)"ferrotra");
	EXPECT_EQ(kst_load_zeropad(page + PAGE_SIZE - 4), 0x72726566);
	EXPECT_EQ(passed, 4);
	unregister_kprobe(&after);
	unregister_kprobe(&before);
	vfree(page);
}

static void bugs(void)
{
	struct bug_entry *bug = THIS_MODULE->bug_table;
	unsigned int i;

	EXPECT(THIS_MODULE->num_bugs);
	for (i = 0; i < THIS_MODULE->num_bugs; i++)
		EXPECT_EQ(TRY_ADDR((unsigned long)&bug[i].bug_addr_disp + bug[i].bug_addr_disp), -EINVAL);
	EXPECT(!kst_warns(false));
}

static void prefix_symbols(void)
{
	EXPECT_EQ(TRY(.symbol_name = "__pfx_kst_bytes"), -EINVAL);
	EXPECT_EQ(TRY_ADDR(__pfx_kst_bytes), -EINVAL);
	EXPECT_EQ(TRY(.symbol_name = "__cfi_kst_bytes"), -EINVAL);
	EXPECT_EQ(TRY_ADDR(__cfi_kst_bytes), -EINVAL);
}

static void instructions(void)
{
	/* traps */
	EXPECT_EQ(TRY_ADDR(kst_int3), -EILSEQ);
	EXPECT_EQ(TRY_ADDR(kst_int_80), -EILSEQ);
	EXPECT_EQ(TRY_ADDR(kst_int1), -EILSEQ);
	EXPECT_EQ(TRY_ADDR(kst_ud2), -EILSEQ);
	/* No interrupt is taken after these. */
	EXPECT_EQ(TRY_ADDR(kst_mov_ss), -EINVAL);
	/* Far branches, and others that cannot be executed out of line. */
	EXPECT_EQ(TRY_ADDR(kst_far_call), -EOPNOTSUPP);
	EXPECT_EQ(TRY_ADDR(kst_far_jmp), -EOPNOTSUPP);
	EXPECT_EQ(TRY_ADDR(kst_iret), -EOPNOTSUPP);
	EXPECT_EQ(TRY_ADDR(kst_vmcall), -EOPNOTSUPP);
	/* A copy would not return. */
	EXPECT_EQ(TRY_ADDR(kst_jmp_gs), -EOPNOTSUPP);
	EXPECT_EQ(TRY_ADDR(kst_jmp_rex2), -EOPNOTSUPP);
}

/*
 * At an entry, the probe is moved to the next instruction (several.landing_pad); elsewhere an
 * indirect branch would not find its landing pad.
 */
static void landing_pad(void)
{
	if (!IS_ENABLED(CONFIG_X86_KERNEL_IBT)) {
		case_skip("it is as other instructions in this kernel");
		return;
	}
	EXPECT_EQ(TRY_ADDR(kst_pad_inside + 1), -EOPNOTSUPP);
	EXPECT_EQ(TRY_ADDR(kst_pad_inside + 5), 0);
}

/* run.sh expects a warning here. */
static void twice(void)
{
	struct kprobe kp = { .symbol_name = "kst_target", .pre_handler = pre };
	struct kprobe at = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = pre };

	EXPECT_EQ(register_kprobe(&kp), 0);
	/* by now both are set */
	EXPECT_EQ(register_kprobe(&kp), -EINVAL);
	unregister_kprobe(&kp);
	EXPECT_EQ(register_kprobe(&at), 0);
	EXPECT_EQ(register_kprobe(&at), -EINVAL);
	EXPECT_EQ(disable_kprobe(&at), 0);
	EXPECT_EQ(register_kprobe(&at), -EINVAL);
	EXPECT(kprobe_disabled(&at));
	unregister_kprobe(&at);
}

static void unregistered(void)
{
	struct kprobe never = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = pre };
	struct kprobe other = { .addr = (kprobe_opcode_t *)kst_target, .pre_handler = pre };

	EXPECT_EQ(disable_kprobe(&never), -EINVAL);
	EXPECT_EQ(enable_kprobe(&never), -EINVAL);
	unregister_kprobe(&never);
	EXPECT_EQ(never.addr, NULL);
	never.addr = (kprobe_opcode_t *)kst_target;

	/* and where there is another one */
	EXPECT_EQ(register_kprobe(&other), 0);
	EXPECT_EQ(disable_kprobe(&never), -EINVAL);
	EXPECT_EQ(enable_kprobe(&never), -EINVAL);
	unregister_kprobe(&never);
	EXPECT_EQ(never.addr, NULL);
	EXPECT(!kprobe_disabled(&other));
	unregister_kprobe(&other);
	EXPECT_EQ(disable_kprobe(&other), -EINVAL);
	EXPECT_EQ(enable_kprobe(&other), -EINVAL);
	unregister_kprobe(&other);
	EXPECT_EQ(other.addr, NULL);
}

/* Only KPROBE_FLAG_DISABLED is the caller's. */
static void flags(void)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = pre };

	kp.flags = ~KPROBE_FLAG_DISABLED;
	kp.nmissed = 77;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(kp.flags & ~KPROBE_FLAG_OPTIMIZED, 0);
	EXPECT_EQ(kp.nmissed, 0);
	unregister_kprobe(&kp);
}

#define BATCH 5

static void batch_init(struct kprobe *kps, struct kprobe **list)
{
	static void * const where[BATCH] = {
		kst_target, kst_bytes, kst_bytes_inside, kst_target_2, kst_bytes_inside,
	};
	int i;

	for (i = 0; i < BATCH; i++) {
		kps[i] = (struct kprobe){ .addr = where[i], .pre_handler = pre };
		list[i] = &kps[i];
	}
}

static void batch_numbers(void)
{
	struct kprobe kps[BATCH], *list[BATCH];

	batch_init(kps, list);
	EXPECT_EQ(register_kprobes(list, 0), -EINVAL);
	EXPECT_EQ(register_kprobes(list, -1), -EINVAL);
	EXPECT_EQ(register_kprobes(NULL, 0), -EINVAL);
	EXPECT_EQ(register_kprobes(list, BATCH), 0);
	unregister_kprobes(list, 0);
	unregister_kprobes(list, -1);
	EXPECT_EQ(kst_opcode(kst_bytes_inside), INT3_INSN_OPCODE);
	unregister_kprobes(list, BATCH);
}

/* All before the bad one are undone, and those after it are not looked at. */
static void batch_bad_member(void)
{
	struct kprobe kps[BATCH], *list[BATCH];
	u8 before[2] = { kst_opcode(kst_bytes), kst_opcode(kst_bytes_inside) };
	int bad, i;

	for (bad = 0; bad < BATCH; bad++) {
		batch_init(kps, list);
		kps[bad].addr = NULL;
		kps[bad].symbol_name = "kst_no_such_function";
		EXPECT_EQ(register_kprobes(list, BATCH), -ENOENT);
		EXPECT_EQ(kst_opcode(kst_bytes), before[0]);
		EXPECT_EQ(kst_opcode(kst_bytes_inside), before[1]);
		for (i = 0; i < BATCH; i++)
			EXPECT_EQ(disable_kprobe(&kps[i]), -EINVAL);
		/* they can still be registered */
		batch_init(kps, list);
		EXPECT_EQ(register_kprobes(list, BATCH), 0);
		unregister_kprobes(list, BATCH);
	}
	batch_init(kps, list);
	kps[3].addr = (kprobe_opcode_t *)(kst_bytes + 1);
	EXPECT_EQ(register_kprobes(list, BATCH), -EILSEQ);
	batch_init(kps, list);
	kps[4].addr = (kprobe_opcode_t *)kst_noinstr;
	EXPECT_EQ(register_kprobes(list, BATCH), -EINVAL);
	batch_init(kps, list);
	kps[2].addr = (kprobe_opcode_t *)kst_iret;
	EXPECT_EQ(register_kprobes(list, BATCH), -EOPNOTSUPP);
}

/* A batch that has the same probe twice; run.sh expects a warning here. */
static void batch_same_twice(void)
{
	struct kprobe kps[BATCH], *list[BATCH];

	batch_init(kps, list);
	list[3] = list[1];
	EXPECT_EQ(register_kprobes(list, BATCH), -EINVAL);
	EXPECT_EQ(disable_kprobe(&kps[0]), -EINVAL);
	EXPECT_EQ(disable_kprobe(&kps[1]), -EINVAL);
}

/* A probe that was never registered does not keep the others registered. */
static void batch_unregister_stranger(void)
{
	struct kprobe kps[BATCH], *list[BATCH];
	struct kprobe stranger = { .addr = (kprobe_opcode_t *)kst_bytes, .pre_handler = pre };

	batch_init(kps, list);
	EXPECT_EQ(register_kprobes(list, BATCH), 0);
	list[1] = &stranger;
	unregister_kprobes(list, BATCH);
	EXPECT_EQ(stranger.addr, NULL);
	EXPECT_EQ(disable_kprobe(&kps[0]), -EINVAL);
	EXPECT_EQ(disable_kprobe(&kps[1]), 0);
	unregister_kprobe(&kps[1]);
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static int try_ret(struct kretprobe rp)
{
	int err;

	rp.handler = on_return;
	err = register_kretprobe(&rp);
	if (!err)
		unregister_kretprobe(&rp);
	return err;
}

#define TRY_RET(...) try_ret((struct kretprobe){ __VA_ARGS__ })

static void ret(void)
{
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_target"), 0);
	EXPECT_EQ(TRY_RET(), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_target", .kp.addr = (kprobe_opcode_t *)kst_target), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_no_such_function"), -ENOENT);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_bytes", .kp.offset = 10), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.addr = (kprobe_opcode_t *)kst_bytes_inside), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_noinstr"), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "__switch_to"), -EINVAL);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_target", .data_size = KRETPROBE_MAX_DATA_SIZE), 0);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_target", .data_size = KRETPROBE_MAX_DATA_SIZE + 1), -E2BIG);
	EXPECT_EQ(TRY_RET(.kp.symbol_name = "kst_target", .maxactive = INT_MAX), -ENOMEM);
}

static void ret_batch(void)
{
	struct kretprobe a = { .kp.symbol_name = "kst_target", .handler = on_return };
	struct kretprobe b = { .kp.symbol_name = "kst_bytes", .handler = on_return };
	struct kretprobe bad = { .kp.symbol_name = "kst_no_such_function", .handler = on_return };
	struct kretprobe *list[] = { &a, &b, &bad };
	u8 before = kst_opcode(kst_bytes);

	EXPECT_EQ(register_kretprobes(list, 0), -EINVAL);
	EXPECT_EQ(register_kretprobes(list, -1), -EINVAL);
	EXPECT_EQ(register_kretprobes(list, 3), -ENOENT);
	EXPECT_EQ(kst_opcode(kst_bytes), before);
	EXPECT_EQ(disable_kretprobe(&a), -EINVAL);
	a.kp.addr = NULL;
	b.kp.addr = NULL;
	EXPECT_EQ(register_kretprobes(list, 2), 0);
	unregister_kretprobes(list, 2);
}

const struct test_case kst_refuse_cases[] = {
	{ "refuse.good_ones_are_not", good },
	{ "refuse.null", null },
	{ "refuse.symbol_and_address", both },
	{ "refuse.unknown_symbol", unknown_symbol },
	{ "refuse.mid_instruction", mid_instruction },
	{ "refuse.no_text", no_text },
	{ "refuse.no_address", no_address },
	{ "refuse.blacklisted", blacklisted },
	{ "refuse.blacklisted_in_module", blacklisted_in_module },
	{ "refuse.init_text", init_text },
	{ "refuse.jump_label", jump_label },
	{ "refuse.static_call", static_calls },
	{ "refuse.static_call_trampoline", static_call_trampoline },
	{ "refuse.reserved_names", reserved_names },
	{ "refuse.early", early },
	{ "refuse.kasan", kasan },
	{ "refuse.decoded_on_fault", decoded_on_fault },
	{ "refuse.bug", bugs },
	{ "refuse.prefix_symbols", prefix_symbols },
	{ "refuse.instructions", instructions },
	{ "refuse.landing_pad", landing_pad },
	{ "refuse.twice", twice },
	{ "refuse.unregistered", unregistered },
	{ "refuse.flags", flags },
	{ "refuse.batch_numbers", batch_numbers },
	{ "refuse.batch_bad_member", batch_bad_member },
	{ "refuse.batch_same_twice", batch_same_twice },
	{ "refuse.batch_unregister_stranger", batch_unregister_stranger },
	{ "refuse.kretprobe", ret },
	{ "refuse.kretprobe_batch", ret_batch },
	{ }
};
