// SPDX-License-Identifier: GPL-2.0
/*
 * kprobes_selftest_debugger: writes a breakpoint into a jump, as a debugger does, and restores the
 * old byte. It is no client of kprobes, so the engine can be unloaded while it is loaded.
 */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

#define INT3	0xcc
#define JUMP	0xe9

static unsigned long text_poke_copy_is;
module_param_named(text_poke_copy, text_poke_copy_is, ulong, 0);
MODULE_PARM_DESC(text_poke_copy, "where that is, which no module is meant to call");

static u8 *at;
static bool there;

static void poke(u8 byte)
{
	((void *(*)(void *, const void *, size_t))text_poke_copy_is)(at, &byte, 1);
}

/* The address of a jump: a breakpoint there. 0: no longer. */
static int set_breakpoint(const char *value, const struct kernel_param *param)
{
	unsigned long address;
	int ret = kstrtoul(value, 0, &address);

	if (ret || there == !!address)
		return ret ?: -EINVAL;
	if (address) {
		at = (u8 *)address;
		if (READ_ONCE(*at) != JUMP)
			return -EAGAIN;
	}
	poke(address ? INT3 : JUMP);
	there = address;
	return 0;
}

static const struct kernel_param_ops breakpoint_ops = { .set = set_breakpoint };
module_param_cb(breakpoint, &breakpoint_ops, NULL, 0200);

static struct task_struct *awake;

/* A grace period of RCU tasks lasts as long as this. */
static int stay_awake(void *unused)
{
	while (!kthread_should_stop())
		cpu_relax();
	return 0;
}

static int set_holds(const char *value, const struct kernel_param *param)
{
	bool on;
	int ret = kstrtobool(value, &on);

	if (ret || on == !!awake)
		return ret ?: -EINVAL;
	if (!on) {
		kthread_stop(awake);
		awake = NULL;
		return 0;
	}
	awake = kthread_create(stay_awake, NULL, "kst_awake");
	if (IS_ERR(awake)) {
		ret = PTR_ERR(awake);
		awake = NULL;
		return ret;
	}
	set_user_nice(awake, MAX_NICE);
	wake_up_process(awake);
	return 0;
}

static const struct kernel_param_ops holds_ops = { .set = set_holds };
module_param_cb(holds, &holds_ops, NULL, 0200);

static int __init debugger_init(void)
{
	return text_poke_copy_is ? 0 : -EINVAL;
}
module_init(debugger_init);

static void __exit debugger_exit(void)
{
	if (awake)
		kthread_stop(awake);
	if (there)
		poke(JUMP);
}
module_exit(debugger_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Writes into code as a debugger does");
MODULE_LICENSE("GPL v2");
