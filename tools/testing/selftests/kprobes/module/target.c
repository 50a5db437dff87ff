// SPDX-License-Identifier: GPL-2.0
/*
 * kprobes_selftest_target: a module that is probed, and unloaded. Writing its parameter "call"
 * calls its functions, reading returns their results; the same with "sleep" for one that sleeps.
 */
#include <linux/delay.h>
#include <linux/jump_label.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>

/* A function with an ftrace site. */
static noinline __noclone int kst_target_module_entry(int a)
{
	barrier();
	return a + 10;
}

static noinline __noclone __init int kst_target_module_init_function(int a)
{
	barrier();
	return a + 20;
}

static int from_init;

static int call(const char *value, const struct kernel_param *param)
{
	int (*function)(int) = kst_target_module_entry;

	/* called as others would */
	OPTIMIZER_HIDE_VAR(function);
	return function(1) == 11 ? 0 : -EIO;
}

static int show(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", from_init);
}

/* kst_target_module_sleeps(a): a + 41. A jump at its start displaces the call as well. */
int kst_target_module_sleeps(int a);
int kst_target_module_asleep(int a);

asm("	.pushsection .text, \"ax\"\n"
	"	.globl	kst_target_module_sleeps\n"
	"	.type	kst_target_module_sleeps, @function\n"
	"kst_target_module_sleeps:\n"
	"	nop\n"
	"	call	kst_target_module_asleep\n"
	"	add	$1, %eax\n"
	"	" ASM_RET
	"	.size	kst_target_module_sleeps, . - kst_target_module_sleeps\n"
	"	.popsection\n");

/* kst_target_module_adds(a): a + 41. There can be a jump at its start. */
int kst_target_module_adds(int a);

asm("	.pushsection .text, \"ax\"\n"
	"	.globl	kst_target_module_adds\n"
	"	.type	kst_target_module_adds, @function\n"
	"kst_target_module_adds:\n"
	"	mov	%edi, %eax\n"
	"	add	$41, %eax\n"
	"	" ASM_RET
	"	.size	kst_target_module_adds, . - kst_target_module_adds\n"
	"	.popsection\n");

static int add(const char *value, const struct kernel_param *param)
{
	return kst_target_module_adds(1) == 42 ? 0 : -EIO;
}

static const struct kernel_param_ops add_ops = { .set = add };
module_param_cb(add, &add_ops, NULL, 0200);

/* Until there is a signal. */
noinline int kst_target_module_asleep(int a)
{
	while (!signal_pending(current))
		schedule_timeout_interruptible(HZ);
	return a + 40;
}

static int slept;

/* Sleeps in the function; reading gives its result. */
static int sleep(const char *value, const struct kernel_param *param)
{
	slept = kst_target_module_sleeps(1);
	return 0;
}

static int show_slept(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", slept);
}

static const struct kernel_param_ops sleep_ops = { .set = sleep, .get = show_slept };
module_param_cb(sleep, &sleep_ops, NULL, 0600);

static const struct kernel_param_ops call_ops = { .set = call, .get = show };
module_param_cb(call, &call_ops, NULL, 0600);

static int __init kst_target_module_init(void)
{
	int (*function)(int) = kst_target_module_init_function;

	OPTIMIZER_HIDE_VAR(function);
	from_init = function(2);
	return 0;
}
module_init(kst_target_module_init);

static DEFINE_STATIC_KEY_FALSE(kst_target_module_key);

/* A jump at its start would displace the bytes that the key patches. */
static notrace noinline __noclone int kst_target_module_keyed(int a)
{
	asm volatile("" : "+a" (a));
	if (static_branch_unlikely(&kst_target_module_key))
		a += 41;
	return a;
}

static bool late;
module_param(late, bool, 0600);
MODULE_PARM_DESC(late, "let the module's going take two seconds, and patch code then");

static void __exit kst_target_module_exit(void)
{
	int (*function)(int) = kst_target_module_keyed;

	OPTIMIZER_HIDE_VAR(function);
	if (!late)
		return;
	msleep(2000);
	static_branch_enable(&kst_target_module_key);
	WARN_ON(function(1) != 42);
}
module_exit(kst_target_module_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("A module that is probed");
MODULE_LICENSE("GPL v2");
