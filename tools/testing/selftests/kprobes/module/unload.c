// SPDX-License-Identifier: GPL-2.0
/*
 * Probes in a module that is unloaded, and in its init text. The steps are cases that run.sh runs
 * one after the other, with kprobes_selftest_target loaded and removed between them.
 */
#include <linux/jprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "kprobes_selftest.h"

static atomic_t hits, init_hits;

PRE_HANDLER(count, atomic_inc(&hits));

POST_HANDLER(count_post, atomic_inc(&hits));

PRE_HANDLER(count_init, atomic_inc(&init_hits));

RETURN_HANDLER(on_return, atomic_add(1000, &hits));

static int on_call(int a)
{
	atomic_add(a == 1 ? 100 : 10000, &hits);
	jprobe_return();
	return 0;
}

#define ENTRY "kprobes_selftest_target:kst_target_module_entry"

/* At the entry, two after the ftrace site, one of them disabled, a return probe and a jprobe. */
static struct kprobe entry, inside, disabled, in_init;
static struct kretprobe ret;
static struct jprobe jprobe;
static int init_err;

static int on_module(struct notifier_block *nb, unsigned long event, void *data)
{
	struct module *mod = data;

	if (event != MODULE_STATE_COMING || strcmp(mod->name, "kprobes_selftest_target"))
		return NOTIFY_DONE;
	in_init = (struct kprobe){
		.symbol_name = "kst_target_module_init_function", .pre_handler = count_init,
	};
	init_err = register_kprobe(&in_init);
	return NOTIFY_OK;
}

/* Called after the engine's notifier, which updates the module's blacklist. */
static struct notifier_block watcher = { .notifier_call = on_module, .priority = -1 };

static void expect_target(void)
{
	atomic_set(&init_hits, 0);
	init_err = -EAGAIN;
	EXPECT_EQ(register_module_notifier(&watcher), 0);
}

static void register_all(void)
{
	entry = (struct kprobe){ .symbol_name = ENTRY, .pre_handler = count };
	inside = (struct kprobe){
		.symbol_name = ENTRY, .offset = KST_PAD + 5, .pre_handler = count, .post_handler = count_post,
	};
	disabled = inside;
	disabled.flags = KPROBE_FLAG_DISABLED;
	ret = (struct kretprobe){ .kp.symbol_name = ENTRY, .handler = on_return };
	jprobe = (struct jprobe){ .kp.symbol_name = ENTRY, .entry = on_call };
	EXPECT_EQ(register_kprobe(&entry), 0);
	EXPECT_EQ(register_kprobe(&inside), 0);
	EXPECT_EQ(register_kprobe(&disabled), 0);
	EXPECT_EQ(register_kretprobe(&ret), 0);
	EXPECT_EQ(register_jprobe(&jprobe), 0);
	atomic_set(&hits, 0);
}

/* The module is loaded; its init text was probed during the load, and is freed. */
static void loaded(void)
{
	unregister_module_notifier(&watcher);
	EXPECT_EQ(init_err, 0);
	EXPECT_EQ(atomic_read(&init_hits), 1);
	EXPECT(kprobe_gone(&in_init));
	EXPECT_EQ(enable_kprobe(&in_init), -EINVAL);
	unregister_kprobe(&in_init);
	register_all();
}

/* The module has been called once. */
static void called(void)
{
	EXPECT_EQ(atomic_read(&hits), 1 + 2 + 1000 + 100);
	EXPECT(!kprobe_gone(&entry));
}

/* The module has been removed. */
static void gone(void)
{
	struct kprobe *list[] = { &entry, &inside, &disabled };
	unsigned int i;

	EXPECT_EQ(atomic_read(&hits), 1 + 2 + 1000 + 100);
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		EXPECT(kprobe_gone(list[i]));
		EXPECT_EQ(enable_kprobe(list[i]), -EINVAL);
	}
	EXPECT(kprobe_gone(&ret.kp));
	EXPECT(kprobe_gone(&jprobe.kp));
	EXPECT_EQ(enable_jprobe(&jprobe), -EINVAL);
	unregister_kprobe(&inside);
	unregister_kprobe(&entry);
	unregister_kprobe(&disabled);
	unregister_kretprobe(&ret);
	unregister_jprobe(&jprobe);
	for (i = 0; i < ARRAY_SIZE(list); i++)
		EXPECT_EQ(disable_kprobe(list[i]), -EINVAL);
}

/* Probes of before the removal, and their successors at the same place. */
static struct kprobe next_entry, next_inside;
static struct kretprobe next_ret;

/* The module is there again. */
static void loaded_again(void)
{
	register_all();
	EXPECT_EQ(disable_kprobe(&inside), 0);
}

/*
 * The module was removed and loaded once more. The old probes were killed, also the disabled ones,
 * and are no obstacle to new ones (CVE-2022-50266: ftrace kept the site of a killed probe;
 * CVE-2022-50008: a disabled probe was disarmed).
 */
static void another(void)
{
	EXPECT(kprobe_gone(&entry) && kprobe_gone(&inside) && kprobe_gone(&disabled));
	EXPECT(kprobe_gone(&ret.kp) && kprobe_gone(&jprobe.kp));
	next_entry = (struct kprobe){ .symbol_name = ENTRY, .pre_handler = count };
	next_inside = (struct kprobe){
		.symbol_name = ENTRY, .offset = KST_PAD + 5, .pre_handler = count, .post_handler = count_post,
	};
	next_ret = (struct kretprobe){ .kp.symbol_name = ENTRY, .handler = on_return };
	EXPECT_EQ(register_kprobe(&next_entry), 0);
	EXPECT_EQ(register_kprobe(&next_inside), 0);
	EXPECT_EQ(register_kretprobe(&next_ret), 0);
	atomic_set(&hits, 0);
}

/* Its function has been called. */
static void another_called(void)
{
	EXPECT_EQ(atomic_read(&hits), 1 + 2 + 1000);
	unregister_jprobe(&jprobe);
	unregister_kretprobe(&ret);
	unregister_kprobe(&entry);
	unregister_kprobe(&disabled);
	unregister_kprobe(&inside);
	unregister_kretprobe(&next_ret);
	unregister_kprobe(&next_inside);
	unregister_kprobe(&next_entry);
}

static struct task_struct *clients[4];
static unsigned long last_address;
static atomic_t registered, refused, odd;

/* For run.sh, which loads and unloads the module. */
static int get_counts(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d %d\n", atomic_read(&registered), atomic_read(&refused));
}

static const struct kernel_param_ops counts_ops = { .get = get_counts };
module_param_cb(unload_counts, &counts_ops, NULL, 0444);
MODULE_PARM_DESC(unload_counts, "probes that were registered and refused while the module comes and goes");

/* Checks the result for a probe in a module that may be loaded or not. */
static bool note(int err)
{
	if (!err)
		atomic_inc(&registered);
	else if (err == -ENOENT || err == -EINVAL)
		atomic_inc(&refused);
	else if (!atomic_xchg(&odd, -err))
		case_say("error %d\n", err);
	return !err;
}

/* Each registration holds the module for a moment: without a pause it could never be unloaded. */
static void pause(void)
{
	schedule_timeout_interruptible(msecs_to_jiffies(150));
}

static int by_symbol(void *unused)
{
	while (!kthread_should_stop()) {
		struct kprobe kp = { .symbol_name = ENTRY, .pre_handler = count };

		if (note(register_kprobe(&kp))) {
			WRITE_ONCE(last_address, (unsigned long)kp.addr);
			unregister_kprobe(&kp);
		}
		pause();
	}
	return 0;
}

/* At the module's former address, which may be free now. */
static int by_address(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned long address = READ_ONCE(last_address);
		struct kprobe kp = { .addr = (kprobe_opcode_t *)address, .pre_handler = count };

		if (address && note(register_kprobe(&kp)))
			unregister_kprobe(&kp);
		pause();
	}
	return 0;
}

static int of_returns(void *unused)
{
	while (!kthread_should_stop()) {
		struct kretprobe rp = { .kp.symbol_name = ENTRY, .handler = on_return };

		if (note(register_kretprobe(&rp)))
			unregister_kretprobe(&rp);
		pause();
	}
	return 0;
}

/* Long enough for a jump, where there are any, which the module may take with it. */
static int inside_stays(void *unused)
{
	while (!kthread_should_stop()) {
		struct kprobe kp = { .symbol_name = ENTRY, .offset = KST_PAD + 5, .pre_handler = count };

		if (note(register_kprobe(&kp))) {
			schedule_timeout_interruptible(msecs_to_jiffies(400));
			unregister_kprobe(&kp);
		}
		pause();
	}
	return 0;
}

/*
 * Probes are registered and unregistered while the module is loaded and unloaded (CVE-2024-35955:
 * registering during the unload used freed memory; CVE-2024-38588: so did looking for the ftrace
 * site there).
 */
static void storm_begins(void)
{
	static int (*const functions[])(void *) = { by_symbol, by_address, of_returns, inside_stays };
	unsigned int i;

	atomic_set(&registered, 0);
	atomic_set(&refused, 0);
	atomic_set(&odd, 0);
	for (i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = kthread_run(functions[i], NULL, "kst_unload/%u", i);
		EXPECT(!IS_ERR(clients[i]));
	}
}

static void storm_is_over(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clients); i++)
		if (!IS_ERR(clients[i]))
			kthread_stop(clients[i]);
	EXPECT_EQ(atomic_read(&odd), 0);
	case_say("%d registered, %d refused\n", atomic_read(&registered), atomic_read(&refused));
}

const struct test_case kst_unload_cases[] = {
	{ "unload.1_expect", expect_target },
	{ "unload.2_loaded", loaded },
	{ "unload.3_called", called },
	{ "unload.4_gone", gone },
	{ "unload.5_loaded_again", loaded_again },
	{ "unload.6_another", another },
	{ "unload.7_another_called", another_called },
	{ "unload.8_storm_begins", storm_begins },
	{ "unload.9_storm_is_over", storm_is_over },
	{ }
};
