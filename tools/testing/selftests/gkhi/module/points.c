// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's hook points: traps that exits handle, trampolines; and counters for the commands
 * "points on" and "points off", for events that a script causes.
 */
#include <linux/ftrace.h>
#include <linux/gkhi_points.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/debugreg.h>
#include <asm/processor-flags.h>
#include <asm/trapnr.h>

#include "gkhi_selftest.h"

/* Places of traps, and where execution resumes. */
extern const char gst_int3_next[], gst_step[], gst_load[], gst_load_next[];

static unsigned int trapped;
static unsigned long trap, at;

static __kprobes GKH_EXIT_1VAR(on_int3, self, p)
{
	struct pt_regs *regs = (struct pt_regs *)p;

	if (user_mode(regs) || regs->ip != (unsigned long)gst_int3_next)
		return GKH_CONTINUE;
	trapped++;
	return GKH_TERMINATE;
}

static __kprobes GKH_EXIT_2VAR(on_debug, self, p, dr6)
{
	struct pt_regs *regs = (struct pt_regs *)p;

	if (user_mode(regs) || regs->ip != (unsigned long)gst_step || !(*(unsigned long *)dr6 & DR_STEP))
		return GKH_CONTINUE;
	trapped++;
	regs->flags &= ~X86_EFLAGS_TF;
	*(unsigned long *)dr6 &= ~DR_STEP;
	return GKH_TERMINATE;
}

static __kprobes GKH_EXIT_3VAR(on_fault, self, p, trapnr, address)
{
	struct pt_regs *regs = (struct pt_regs *)p;

	if (regs->ip != (unsigned long)gst_load)
		return GKH_CONTINUE;
	trapped++;
	trap = trapnr;
	at = address;
	regs->ip = (unsigned long)gst_load_next;
	return GKH_TERMINATE;
}

static noinline __noclone void hit_int3(void)
{
	asm volatile("int3\n"
		     ".globl gst_int3_next\n"
		     "gst_int3_next:\n"
		     : : : "memory");
}

static noinline __noclone void single_step(void)
{
	/* The trap is raised after the instruction that follows the one which sets the flag. */
	asm volatile("pushfq\n"
		     "orq %[tf], (%%rsp)\n"
		     "popfq\n"
		     "nop\n"
		     ".globl gst_step\n"
		     "gst_step:\n"
		     : : [tf] "i" (X86_EFLAGS_TF) : "cc", "memory");
}

static noinline __noclone unsigned long load(unsigned long from)
{
	unsigned long value = 42;

	asm volatile(".globl gst_load, gst_load_next\n"
		     "gst_load: movq (%[from]), %[value]\n"
		     "gst_load_next:\n"
		     : [value] "+r" (value) : [from] "r" (from) : "memory");
	return value;
}

static bool attach(struct gkh_record *record)
{
	WRITE_ONCE(trapped, 0);
	return EXPECT_EQ(gkh_register(record), 0) && EXPECT_EQ(gkh_arm(record), 0);
}

void gst_point_int3(void)
{
	struct gkh_record record = { .hook = "int3", .name = "gst", .exit = on_int3, .params = 1 };

	if (attach(&record)) {
		hit_int3();
		hit_int3();
		EXPECT_EQ(READ_ONCE(trapped), 2);
	}
	gkh_deregister(&record);
}

void gst_point_debug(void)
{
	struct gkh_record record = { .hook = "debug", .name = "gst", .exit = on_debug, .params = 2 };

	if (attach(&record)) {
		single_step();
		EXPECT_EQ(READ_ONCE(trapped), 1);
	}
	gkh_deregister(&record);
}

static void fault(unsigned long address, unsigned long trapnr, unsigned long told)
{
	WRITE_ONCE(trapped, 0);
	EXPECT_EQ(load(address), 42);
	EXPECT_EQ(READ_ONCE(trapped), 1);
	EXPECT_EQ(READ_ONCE(trap), trapnr);
	EXPECT_EQ(READ_ONCE(at), told);
}

static struct gkh_record on_kernel_fault = {
	.hook = "kernel_fault", .name = "gst", .exit = on_fault, .params = 3,
};

void gst_point_page_fault(void)
{
	if (attach(&on_kernel_fault)) {
		/* Below and above the border, and unmapped. */
		fault(8, X86_TRAP_PF, 8);
		fault(0xffffffffffffe000UL, X86_TRAP_PF, 0xffffffffffffe000UL);
	}
	gkh_deregister(&on_kernel_fault);
}

void gst_point_protection(void)
{
	if (attach(&on_kernel_fault))
		/* canonical with neither four nor five levels */
		fault(0x8000000000000000UL, X86_TRAP_GP, 0);
	gkh_deregister(&on_kernel_fault);
}

/* With FTRACE_TRAMP_RUST=y the kernel's own trampolines, which have these hooks, do not exist. */
#if IS_ENABLED(CONFIG_DYNAMIC_FTRACE) && !IS_BUILTIN(CONFIG_FTRACE_TRAMP_RUST)
static noinline __noclone void traced(void)
{
	barrier();
}

static unsigned int traces;

static void notrace on_traced(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			      struct ftrace_regs *fregs)
{
	traces++;
}

static struct ftrace_ops ops = { .func = on_traced };
static unsigned int updates, frees;

static GKH_EXIT_1VAR(on_update, self, p)
{
	updates += p == (unsigned long)&ops;
	return GKH_CONTINUE;
}

static GKH_EXIT_1VAR(on_free, self, p)
{
	frees += p == (unsigned long)&ops;
	return GKH_CONTINUE;
}

void gst_point_trampoline(void)
{
	struct gkh_record free = {
		.hook = "trampoline_free", .name = "gst", .exit = on_free, .params = 1,
	};
	struct gkh_record update = {
		.hook = "trampoline_update", .name = "gst", .exit = on_update, .params = 1, .next = &free,
	};

	updates = 0;
	frees = 0;
	traces = 0;
	EXPECT_EQ(gkh_register(&update), 0);
	EXPECT_EQ(gkh_register(&free), 0);
	EXPECT_EQ(gkh_arm(&update), 0);
	if (EXPECT_EQ(ftrace_set_filter_ip(&ops, (unsigned long)traced, 0, 1), 0) &&
	    EXPECT_EQ(register_ftrace_function(&ops), 0)) {
		EXPECT(updates > 0);
		EXPECT_EQ(frees, 0);
		/* mainline's trampoline is there and works */
		EXPECT(ops.trampoline);
		traced();
		traced();
		EXPECT_EQ(traces, 2);
		EXPECT_EQ(unregister_ftrace_function(&ops), 0);
		traced();
		EXPECT_EQ(traces, 2);
		EXPECT(frees > 0);
		case_say("%u updates, %u frees\n", updates, frees);
	}
	ftrace_free_filter(&ops);
	EXPECT_EQ(gkh_deregister(&update), 0);
}
#else
void gst_point_trampoline(void)
{
	case_skip("no trampolines of the kernel's own");
}
#endif

static atomic_t forks, exits, preparations, objects;
static bool keep_down;
static char states[64];

/* The script gives its parent this name; children inherit it. */
#define PARENT "gst_parent"

static GKH_EXIT_2VAR(on_fork, self, task, clone_flags)
{
	if (!strcmp(((struct task_struct *)task)->comm, PARENT))
		atomic_inc(&forks);
	return GKH_CONTINUE;
}

static GKH_EXIT_1VAR(on_exit, self, task)
{
	if (!strcmp(((struct task_struct *)task)->comm, PARENT))
		atomic_inc(&exits);
	return GKH_CONTINUE;
}

static GKH_EXIT_2VAR(on_module, self, module, state)
{
	static const char * const names[] = {
		[MODULE_STATE_LIVE] = "live", [MODULE_STATE_COMING] = "coming", [MODULE_STATE_GOING] = "going",
	};
	size_t len = strlen(states);

	if (!strcmp(((struct module *)module)->name, "gkhi_selftest_gcov"))
		scnprintf(states + len, sizeof(states) - len, ",%s", state < 3 ? names[state] : "?");
	return GKH_CONTINUE;
}

static GKH_EXIT_1VAR_RET(on_cpu, self, ret, cpu)
{
	atomic_inc(&preparations);
	return keep_down ? gkh_set_return(ret, -EPERM) : GKH_CONTINUE;
}

static GKH_EXIT_1VAR(on_gcov, self, info)
{
	if (info)
		atomic_inc(&objects);
	return GKH_CONTINUE;
}

static struct gkh_record watchers[] = {
	{ .hook = "task_fork", .name = "gst", .exit = on_fork, .params = 2 },
	{ .hook = "task_exit", .name = "gst", .exit = on_exit, .params = 1 },
	{ .hook = "module_event", .name = "gst", .exit = on_module, .params = 2 },
	{ .hook = "cpu_prepare", .name = "gst", .exit = on_cpu, .params = 1 },
	/* The last, as not every kernel has it. */
#ifdef CONFIG_CC_IS_GCC
	{ .hook = "gcov_object", .name = "gst", .exit = on_gcov, .params = 1 },
#else
	{ .hook = "llvm_gcov_object", .name = "gst", .exit = on_gcov, .params = 1 },
#endif
};

static void points_off(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(watchers); i++) {
		watchers[i].next = NULL;
		if (watchers[i].id)
			gkh_deregister(&watchers[i]);
	}
}

static int points_on(void)
{
	int i, err = 0;

	atomic_set(&forks, 0);
	atomic_set(&exits, 0);
	atomic_set(&preparations, 0);
	atomic_set(&objects, 0);
	states[0] = '\0';
	keep_down = false;
	for (i = 0; i < ARRAY_SIZE(watchers) && !err; i++) {
		err = gkh_register(&watchers[i]);
		if (!err && i)
			watchers[i - 1].next = &watchers[i];
	}
	if (err == -ENOENT && i == ARRAY_SIZE(watchers))
		err = 0;
	err = err ?: gkh_arm(&watchers[0]);
	if (err)
		points_off();
	return err;
}

int gst_points_command(const char *what)
{
	if (!strcmp(what, "on"))
		return points_on();
	if (!strcmp(what, "keep_cpus_down"))
		keep_down = true;
	else if (!strcmp(what, "off"))
		points_off();
	else
		return -ENOMSG;
	return 0;
}

void gst_points_show(struct seq_file *m)
{
	seq_printf(m, "points forks=%d exits=%d preparations=%d objects=%d states=%s\n", atomic_read(&forks),
		   atomic_read(&exits), atomic_read(&preparations), atomic_read(&objects), states);
}
