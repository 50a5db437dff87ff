// SPDX-License-Identifier: GPL-2.0
/*
 * Probes in a module that goes, and in its init text. The steps are cases that run.sh runs one after the other, with
 * kprobes_selftest_target loaded and removed between them.
 */
#include <linux/jprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/ptrace.h>
#include <linux/string.h>

#include "kprobes_selftest.h"

static atomic_t hits, init_hits;

static int count(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}
NOKPROBE_SYMBOL(count);

static void count_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	atomic_inc(&hits);
}
NOKPROBE_SYMBOL(count_post);

static int count_init(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&init_hits);
	return 0;
}
NOKPROBE_SYMBOL(count_init);

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_add(1000, &hits);
	return 0;
}
NOKPROBE_SYMBOL(on_return);

static int on_call(int a)
{
	atomic_add(a == 1 ? 100 : 10000, &hits);
	jprobe_return();
	return 0;
}

#define ENTRY "kprobes_selftest_target:kst_target_module_entry"

/* At the entry, two behind what ftrace has there, one of them disabled, a return probe and a jprobe. */
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

/* After the engine's, which is told of the module's blacklist. */
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
		.symbol_name = ENTRY, .offset = 5, .pre_handler = count, .post_handler = count_post,
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

/* The module is loaded; its init text was probed while it was loaded, and has gone. */
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

/* It has been called once. */
static void called(void)
{
	EXPECT_EQ(atomic_read(&hits), 1 + 2 + 1000 + 100);
	EXPECT(!kprobe_gone(&entry));
}

/* It has been removed. */
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

const struct kst_case kst_unload_cases[] = {
	{ "unload.1_expect", expect_target },
	{ "unload.2_loaded", loaded },
	{ "unload.3_called", called },
	{ "unload.4_gone", gone },
	{ }
};
