// SPDX-License-Identifier: GPL-2.0
/*
 * ftrace gives up while it unregisters or registers ops: functions continue with their old or new
 * target, but call no ops that was unregistered or refused. All of it happens when the module is
 * loaded; the kernel panics on a failure.
 */
#include <linux/ftrace.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

static unsigned long kill;
module_param(kill, ulong, 0444);
MODULE_PARM_DESC(kill, "the address of ftrace_kill(), which is not for modules");

static bool alone;
module_param(alone, bool, 0444);
MODULE_PARM_DESC(alone, "also a function that only the ops that goes traces: mainline's kernel calls what it has freed");

static char *at = "ftrace_replace_code";
module_param(at, charp, 0444);
MODULE_PARM_DESC(at, "the function in which ftrace gives up, as it begins");

static bool skip;
module_param(skip, bool, 0444);
MODULE_PARM_DESC(skip, "that function does nothing else");

static bool coming;
module_param(coming, bool, 0444);
MODULE_PARM_DESC(coming, "while an ops is added");

static noinline __noclone long with_others(long x)
{
	barrier();
	return x;
}

static noinline __noclone long by_itself(long x)
{
	barrier();
	return x;
}

static unsigned long stays_calls, goes_calls;

static notrace void count_stays(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	stays_calls++;
}

static notrace void count_goes(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	goes_calls++;
}

static struct ftrace_ops stays = { .func = count_stays };
static struct ftrace_ops late = { .func = count_goes };

static int give_up(struct kprobe *p, struct pt_regs *regs)
{
	((void (*)(void))kill)();
	if (!skip)
		return 0;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(long);
	return 1;
}
NOKPROBE_SYMBOL(give_up);

static struct kprobe inside = { .pre_handler = give_up };

static int add(struct ftrace_ops *ops, long (*function)(long))
{
	return ftrace_set_filter_ip(ops, (unsigned long)function, 0, 0);
}

static int check(const char *when, unsigned long stay, unsigned long go)
{
	long i, sum = 0;

	stays_calls = goes_calls = 0;
	for (i = 0; i < 1000; i++)
		sum += with_others(i) + (alone ? by_itself(i) : i);
	pr_info("ftrace_bug: %s: %lu and %lu calls\n", when, stays_calls, goes_calls);
	return sum == 999 * 1000 && stays_calls == stay && goes_calls == go ? 0 : -EIO;
}

static int __init ftrace_bug_init(void)
{
	struct ftrace_ops *goes = kzalloc(sizeof(*goes), GFP_KERNEL);
	char name[KSYM_SYMBOL_LEN];
	int err;

	sprint_symbol_no_offset(name, kill);
	if (!goes || strcmp(name, "ftrace_kill"))
		return -EINVAL;
	goes->func = count_goes;
	inside.symbol_name = at;
	err = add(&stays, with_others) ?: add(goes, with_others);
	if (alone)
		err = err ?: add(goes, by_itself);
	err = err ?: register_ftrace_function(&stays);
	if (!coming)
		err = err ?: register_ftrace_function(goes);
	err = err ?: register_kprobe(&inside);
	/* Registered ops stay registered, and this module stays loaded. */
	if (err || check("before", 1000, coming ? 0 : alone ? 2000 : 1000))
		panic("ftrace_bug: not registered: %d\n", err);

	err = coming ? register_ftrace_function(goes) : unregister_ftrace_function(goes);
	/* As if it was freed. */
	memset(goes, 0x6b, sizeof(*goes));
	if (err != (coming ? -ENODEV : 0) || check("afterwards", 1000, 0))
		panic("ftrace_bug: an ops that has gone is called: %d\n", err);
	if (register_ftrace_function(&late) != -ENODEV)
		panic("ftrace_bug: ftrace has not given up\n");
	__module_get(THIS_MODULE);
	return 0;
}
module_init(ftrace_bug_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test of ftrace giving up while an ops goes");
