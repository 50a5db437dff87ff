// SPDX-License-Identifier: GPL-2.0
/* Probes: their place, the rights of their handlers, and several of them at one address. */
#include <linux/array_size.h>
#include <linux/ftrace.h>
#include <linux/hardirq.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/math.h>
#include <linux/string.h>

#include "jump_around.h"
#include "kprobes_selftest.h"

/* A probe that writes down that it was called. */
struct noting {
	struct kprobe kp;
	char name;
	unsigned int pre, post;
	unsigned long pre_ip, post_ip;
	bool preemptible;
};

static char noted[32];
static unsigned int notes;

static void note(char c)
{
	if (notes < sizeof(noted) - 1)
		noted[notes++] = c;
}
NOKPROBE_SYMBOL(note);

static int on_pre(struct kprobe *p, struct pt_regs *regs)
{
	struct noting *n = container_of(p, struct noting, kp);

	n->pre++;
	n->pre_ip = regs->ip;
	n->preemptible |= preemptible();
	note(n->name);
	return 0;
}
NOKPROBE_SYMBOL(on_pre);

static void on_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	struct noting *n = container_of(p, struct noting, kp);

	n->post++;
	n->post_ip = regs->ip;
	note(n->name - 'a' + 'A');
}
NOKPROBE_SYMBOL(on_post);

static void forget(void)
{
	memset(noted, 0, sizeof(noted));
	notes = 0;
}

/* Returns true if the handlers @who were called since forget(), in that order. */
static bool were_called(const char *who)
{
	if (!strcmp(noted, who))
		return true;
	case_say("called \"%s\", not \"%s\"\n", noted, who);
	return false;
}

/* A call, its result, and the handlers that it calls. */
#define CALLS(call, result, who)		\
	do {					\
		forget();			\
		EXPECT_EQ(call, result);	\
		EXPECT(were_called(who));	\
	} while (0)

/* Calls kst_bytes_inside. */
#define come_by(who) CALLS(kst_call_bytes(0x1234), 0x1234, who)

/* Registers or unregisters @n; then a call is made, which calls the handlers @who. */
static void comes(struct noting *n, const char *who)
{
	EXPECT_EQ(register_kprobe(&n->kp), 0);
	come_by(who);
}

static void goes(struct noting *n, const char *who)
{
	unregister_kprobe(&n->kp);
	come_by(who);
}

#define NOTING(n, where, ...) { .name = n, .kp = { .addr = (kprobe_opcode_t *)(where), __VA_ARGS__ } }
#define BOTH .pre_handler = on_pre, .post_handler = on_post
#define INSIDE(n) NOTING(n, kst_bytes_inside, BOTH)

/* The latest probe is called first, for both handlers. */
static void order(void)
{
	struct noting a = INSIDE('a'), b = INSIDE('b'), c = INSIDE('c');

	comes(&a, "aA");
	comes(&b, "baBA");
	comes(&c, "cbaCBA");
	goes(&b, "caCA");
	EXPECT_EQ(a.pre_ip, (unsigned long)kst_bytes_inside + 1);
	EXPECT_EQ(a.post_ip, (unsigned long)kst_bytes_inside + 3);
	goes(&a, "cC");
	goes(&c, "");
	EXPECT_EQ(a.pre, 4);
	EXPECT_EQ(a.post, 4);
	EXPECT_EQ(a.kp.nmissed + b.kp.nmissed + c.kp.nmissed, 0);
	EXPECT(!a.preemptible);
}

/* Some with one handler only. */
static void mixed(void)
{
	struct noting a = NOTING('a', kst_bytes_inside, .pre_handler = on_pre);
	struct noting b = NOTING('b', kst_bytes_inside, .post_handler = on_post);
	struct noting c = NOTING('c', kst_bytes_inside);

	comes(&c, "");
	comes(&a, "a");
	comes(&b, "aB");
	goes(&b, "a");
	goes(&c, "a");
	goes(&a, "");
}

static void disable(void)
{
	struct noting a = INSIDE('a'), b = INSIDE('b');
	u8 before = kst_opcode(kst_bytes_inside);

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(kst_opcode(kst_bytes_inside), INT3_INSN_OPCODE);
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	EXPECT(kprobe_disabled(&a.kp));
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	come_by("");
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	come_by("bB");
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	EXPECT(!kprobe_disabled(&a.kp));
	come_by("baBA");
	EXPECT_EQ(disable_kprobe(&b.kp), 0);
	come_by("aA");
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	come_by("");
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	EXPECT_EQ(enable_kprobe(&b.kp), 0);
	come_by("bB");
	unregister_kprobe(&b.kp);
	come_by("");
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	come_by("aA");
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	unregister_kprobe(&a.kp);
	come_by("");
}

static void disabled_from_the_start(void)
{
	struct noting a = INSIDE('a'), b = INSIDE('b');
	u8 before = kst_opcode(kst_bytes_inside);

	a.kp.flags = b.kp.flags = KPROBE_FLAG_DISABLED;
	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT(kprobe_disabled(&a.kp));
	come_by("");
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	come_by("");
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	come_by("aA");
	EXPECT_EQ(enable_kprobe(&b.kp), 0);
	come_by("baBA");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
}

static int elsewhere(struct kprobe *p, struct pt_regs *regs)
{
	struct noting *n = container_of(p, struct noting, kp);

	n->pre++;
	regs->ax = 99;
	regs->ip = (unsigned long)kst_return;
	return 1;
}
NOKPROBE_SYMBOL(elsewhere);

/*
 * A pre handler changes the instruction pointer: the instruction is not stepped, and neither a post
 * handler nor later probes are called.
 */
static void changed_ip(void)
{
	struct noting a = INSIDE('a'), b = INSIDE('b');
	struct noting away = NOTING('x', kst_bytes_inside, .pre_handler = elsewhere, .post_handler = on_post);

	EXPECT_EQ(register_kprobe(&away.kp), 0);
	EXPECT_EQ(kst_call_bytes(5), 99);
	EXPECT_EQ(away.pre, 1);
	EXPECT_EQ(away.post, 0);
	unregister_kprobe(&away.kp);
	/* An unregistered probe is disabled. */
	away.kp.flags = 0;

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(register_kprobe(&away.kp), 0);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	CALLS(kst_call_bytes(5), 99, "b");
	EXPECT_EQ(away.pre, 2);
	EXPECT_EQ(away.post + a.post + b.post, 0);
	unregister_kprobe(&away.kp);
	come_by("baBA");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
}

PRE_HANDLER(set_arguments, regs->di = 1000);

POST_HANDLER(set_result, regs->ax++);

/* Values that handlers write to registers take effect. */
static void changed_registers(void)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = set_arguments };

	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(kst_call_bytes(5), 1000);
	unregister_kprobe(&kp);
	kp.post_handler = set_result;
	kp.flags = 0;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(kst_call_bytes(5), 1001);
	unregister_kprobe(&kp);
}

/* Where ftrace has a place, the probe takes that. */
static void ftrace_entry(void)
{
	struct noting a = { .name = 'a', .kp = { .symbol_name = "kst_target", BOTH } };
	struct noting b = NOTING('b', kst_target, .pre_handler = on_pre);

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(a.kp.addr, (kprobe_opcode_t *)kst_target + KST_PAD);
	EXPECT(kprobe_ftrace(&a.kp));
	EXPECT(a.kp.flags & KPROBE_FLAG_ON_FUNC_ENTRY);
	EXPECT_EQ(kst_opcode(kst_target + KST_PAD), CALL_INSN_OPCODE);
	CALLS(kst_target(4), 13, "aA");
	EXPECT_EQ(a.pre_ip, (unsigned long)kst_target + KST_PAD + 1);
	EXPECT_EQ(a.post_ip, (unsigned long)kst_target + KST_PAD + 5);
	EXPECT(!a.preemptible);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	CALLS(kst_target(4), 13, "baA");
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	CALLS(kst_target(4), 13, "b");
	EXPECT_EQ(disable_kprobe(&b.kp), 0);
	EXPECT_EQ(kst_opcode(kst_target + KST_PAD), 0x0f);
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	CALLS(kst_target(4), 13, "aA");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
	EXPECT_EQ(kst_target(4), 13);
	EXPECT_EQ(kst_opcode(kst_target + KST_PAD), 0x0f);
}

static void nothing(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

/* As a client that replaces a function: with a post handler, which is not called. */
static void ftrace_changed_ip(void)
{
	struct noting away = NOTING('x', kst_target, .pre_handler = elsewhere, .post_handler = nothing);

	EXPECT_EQ(register_kprobe(&away.kp), 0);
	EXPECT_EQ(kst_target(4), 99);
	unregister_kprobe(&away.kp);
	EXPECT_EQ(kst_target(4), 13);
	EXPECT_EQ(away.pre, 1);
}

/* At the beginning but after the ftrace site; and at both. */
static void behind_ftrace(void)
{
	struct noting a = NOTING('a', kst_target, .offset = KST_PAD + 5, BOTH);
	struct noting b = NOTING('b', kst_target, BOTH);

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(a.kp.addr, (kprobe_opcode_t *)kst_target + KST_PAD + 5);
	EXPECT(!kprobe_ftrace(&a.kp));
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	CALLS(kst_target(4), 13, "bBaA");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
}

/* Where the kernel has landing pads for indirect branches, these are not the first instruction. */
static void landing_pad(void)
{
	const unsigned int pad = IS_ENABLED(CONFIG_X86_KERNEL_IBT) ? 4 : 0;
	struct noting a = { .name = 'a', .kp = { .symbol_name = "kst_endbr", BOTH } };
	struct noting b = NOTING('b', kst_endbr, BOTH);
	struct noting c = NOTING('c', kst_endbr, .offset = 4, BOTH);

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(a.kp.addr, (kprobe_opcode_t *)kst_endbr + pad);
	EXPECT(a.kp.flags & KPROBE_FLAG_ON_FUNC_ENTRY);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	EXPECT_EQ(b.kp.addr, (kprobe_opcode_t *)kst_endbr + pad);
	EXPECT_EQ(register_kprobe(&c.kp), 0);
	EXPECT_EQ(c.kp.addr, (kprobe_opcode_t *)kst_endbr + 4);
	EXPECT_EQ(!!(c.kp.flags & KPROBE_FLAG_ON_FUNC_ENTRY), pad == 4);
	CALLS(kst_call_endbr(1), 10, pad ? "cbaCBA" : "baBAcC");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
	unregister_kprobe(&c.kp);
	EXPECT_EQ(kst_call_endbr(1), 10);
}

unsigned int kst_syncs;

PRE_HANDLER(on_sync, kst_syncs++);

bool kst_count_syncs(struct kprobe *by)
{
	if (IS_ENABLED(CONFIG_KPROBES_ENGINE_C)) {
		case_skip("not with the C engine");
		return false;
	}
	*by = (struct kprobe){ .symbol_name = "smp_text_poke_sync_each_cpu", .pre_handler = on_sync };
	return EXPECT(register_kprobe(by) == 0);
}

/* An instruction that a copy executes, or code of its own within the trap. */
static const struct kst_around_place *imul(void)
{
	const struct kst_around_place *place = kst_around;

	while (place < kst_around_end && strcmp(place->insn, "imulq %rcx, %rax"))
		place++;
	return EXPECT(place < kst_around_end) ? place : NULL;
}

/*
 * A probe with a post handler is added to an armed breakpoint. The code that executes the
 * instruction within the trap is new: every CPU must be synchronised before it may call that.
 */
static void first_post(void)
{
	const struct kst_around_place *place = imul();
	struct kprobe sync;
	struct noting a, b;

	if (!place || !kst_count_syncs(&sync))
		return;
	a = (struct noting)NOTING('a', place->at, .pre_handler = on_pre);
	b = (struct noting)NOTING('b', place->at, BOTH);
	EXPECT_EQ(register_kprobe(&a.kp), 0);
	kst_syncs = 0;
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	EXPECT(kst_syncs > 0);
	CALLS(kst_call_around(place, 6, 7).value, 42, "baB");
	unregister_kprobe(&b.kp);
	unregister_kprobe(&a.kp);
	unregister_kprobe(&sync);
}

static bool returns_early;
module_param(returns_early, bool, 0444);
MODULE_PARM_DESC(returns_early, "rust_kprobes.post_stops: what it does on CPUs on which erets returns from a breakpoint");

/*
 * A breakpoint leads to the copy of an instruction. On CPUs with FRED the return from it does not
 * serialise: every CPU is synchronised for the copy before the breakpoint is armed, and once more
 * for the breakpoint.
 */
static void first_copy(void)
{
	const struct kst_around_place *place = imul();
	struct kprobe sync;
	struct noting a;

	if (!place || !kst_count_syncs(&sync))
		return;
	a = (struct noting)NOTING('a', place->at, .pre_handler = on_pre);
	kst_syncs = 0;
	EXPECT_EQ(register_kprobe(&a.kp), 0);
	/* Other users may cause some in the meantime. */
	EXPECT(kst_syncs >= (returns_early || boot_cpu_has(X86_FEATURE_FRED) ? 2 : 1));
	unregister_kprobe(&a.kp);
	unregister_kprobe(&sync);
}

/* In the kernel's image. */
static void in_the_kernel(void)
{
	struct noting a = { .name = 'a', .kp = { .symbol_name = "int_sqrt", BOTH } };
	struct noting b = { .name = 'b', .kp = { .symbol_name = "int_sqrt", .offset = KST_PAD + 5, BOTH } };
	unsigned long (*sqrt)(unsigned long) = int_sqrt;

	/* its result is asked for each time */
	OPTIMIZER_HIDE_VAR(sqrt);
	EXPECT_EQ(register_kprobe(&a.kp), 0);
	EXPECT_EQ(a.kp.addr, (kprobe_opcode_t *)int_sqrt + KST_PAD);
	EXPECT_EQ(register_kprobe(&b.kp), 0);
	EXPECT_EQ(b.kp.addr, (kprobe_opcode_t *)int_sqrt + KST_PAD + 5);
	forget();
	EXPECT_EQ(sqrt(10000), 100);
	EXPECT_EQ(a.pre, 1);
	EXPECT_EQ(a.post, 1);
	EXPECT_EQ(b.pre, 1);
	EXPECT_EQ(b.post, 1);
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
	EXPECT_EQ(sqrt(10000), 100);
	EXPECT_EQ(a.pre + b.pre, 2);
}

/*
 * A post handler at an ftrace site needs more of ftrace than a pre handler; when it is
 * unregistered, the other one stays.
 */
static void ftrace_post_comes_and_goes(void)
{
	struct noting a = NOTING('a', kst_target, .pre_handler = on_pre);
	struct noting b = NOTING('b', kst_target, .post_handler = on_post);
	int i;

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	for (i = 0; i < 2; i++) {
		b.kp.flags = 0;
		if (!EXPECT_EQ(register_kprobe(&b.kp), 0))
			break;
		CALLS(kst_target(4), 13, "aB");
		unregister_kprobe(&b.kp);
		CALLS(kst_target(4), 13, "a");
	}
	unregister_kprobe(&a.kp);
	EXPECT_EQ(kst_target(4), 13);
	EXPECT_EQ(a.pre, 4);
}

static void notrace diverting(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			      struct ftrace_regs *fregs)
{
}

static struct ftrace_ops diverter = {
	.func = diverting,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY,
};

/*
 * Another client may change where the function resumes: a post handler cannot be armed, and its
 * client gets an error.
 */
static void ftrace_taken(void)
{
	struct noting a = NOTING('a', kst_target, .post_handler = on_post);
	int ret;

	EXPECT_EQ(ftrace_set_filter_ip(&diverter, (unsigned long)kst_target, 0, 0), 0);
	if (EXPECT_EQ(register_ftrace_function(&diverter), 0)) {
		INIT_LIST_HEAD(&a.kp.list);
		ret = register_kprobe(&a.kp);
		EXPECT_EQ(ret, -EBUSY);
		EXPECT(list_empty(&a.kp.list));
		EXPECT_EQ(kst_target(4), 13);
		EXPECT_EQ(a.post, 0);
		unregister_ftrace_function(&diverter);
		if (!ret)
			unregister_kprobe(&a.kp);
	}
	ftrace_set_filter_ip(&diverter, (unsigned long)kst_target, 1, 0);
}

static void unregister_twice_in_a_batch(void)
{
	struct noting a = NOTING('a', kst_bytes_inside, .pre_handler = on_pre);
	struct kprobe *both[] = { &a.kp, &a.kp };
	kprobe_opcode_t before = kst_opcode(kst_bytes_inside);

	EXPECT_EQ(register_kprobe(&a.kp), 0);
	unregister_kprobes(both, 2);
	EXPECT_EQ(kst_opcode(kst_bytes_inside), before);
	come_by("");
}

static bool pre_in_nmi, post_in_nmi;

PRE_HANDLER(look_pre, pre_in_nmi = in_nmi());

POST_HANDLER(look_post, post_in_nmi = in_nmi());

/* Both handlers are called as in an NMI: functions that they call can check that. */
static void handlers_are_in_nmi(void)
{
	struct kprobe kp = {
		.addr = (void *)kst_bytes_inside, .pre_handler = look_pre, .post_handler = look_post,
	};

	EXPECT_EQ(register_kprobe(&kp), 0);
	pre_in_nmi = false;
	post_in_nmi = false;
	EXPECT_EQ(kst_call_bytes(5), 5);
	EXPECT(pre_in_nmi);
	EXPECT(post_in_nmi);
	EXPECT(!in_nmi());
	unregister_kprobe(&kp);
}

/*
 * The structure of an unregistered probe can be registered again, except for the resolved address.
 */
static void register_again(void)
{
	struct noting a = { .name = 'a', .kp = { .symbol_name = "kst_target", .pre_handler = on_pre } };
	int i;

	for (i = 0; i < 2; i++) {
		a.kp.addr = NULL;
		if (!EXPECT_EQ(register_kprobe(&a.kp), 0))
			return;
		CALLS(kst_target(4), 13, "a");
		unregister_kprobe(&a.kp);
	}
}

/* So can the structure of a refused probe. */
static void try_again(void)
{
	struct noting a = { .name = 'a', .kp = { .symbol_name = "kst_bytes", .offset = 11, .pre_handler = on_pre } };

	EXPECT_EQ(register_kprobe(&a.kp), -EILSEQ);
	EXPECT(!a.kp.addr);
	a.kp.offset = 10;
	if (EXPECT_EQ(register_kprobe(&a.kp), 0)) {
		come_by("a");
		unregister_kprobe(&a.kp);
	}
}

const struct test_case kst_several_cases[] = {
	{ "several.order", order },
	{ "several.some_handlers", mixed },
	{ "several.disable", disable },
	{ "several.disabled_from_the_start", disabled_from_the_start },
	{ "several.changed_ip", changed_ip },
	{ "several.changed_registers", changed_registers },
	{ "several.ftrace_entry", ftrace_entry },
	{ "several.ftrace_changed_ip", ftrace_changed_ip },
	{ "several.ftrace_post_comes_and_goes", ftrace_post_comes_and_goes },
	{ "several.ftrace_taken", ftrace_taken },
	{ "several.unregister_twice_in_a_batch", unregister_twice_in_a_batch },
	{ "several.handlers_are_in_nmi", handlers_are_in_nmi },
	{ "several.register_again", register_again },
	{ "several.try_again", try_again },
	{ "several.behind_ftrace", behind_ftrace },
	{ "several.landing_pad", landing_pad },
	{ "several.first_post", first_post },
	{ "several.first_copy", first_copy },
	{ "several.in_the_kernel", in_the_kernel },
	{ }
};
