// SPDX-License-Identifier: GPL-2.0
/* After each case the module's text has to be the same as before. */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "kprobes_selftest.h"

unsigned int kst_many_probes = 1000;
module_param_named(many, kst_many_probes, uint, 0644);
MODULE_PARM_DESC(many, "probes in the batch of load.batch");

static const struct test_case * const lists[] = {
	kst_refuse_cases, kst_several_cases, kst_context_cases, kst_ret_cases,
	kst_debugfs_cases, kst_unload_cases, kst_load_cases, kst_jprobe_cases, kst_jprobe_register_cases,
	kst_fault_cases, kst_races_cases, kst_memory_cases, kst_forms_cases, kst_oops_cases,
	kst_declared_cases, kst_jump_cases, kst_jump_into_cases,
	kst_jump_held_cases, kst_jump_storm_cases, kst_jump_around_cases, kst_jump_many_cases,
	kst_exchanged_cases, kst_tracer_cases, NULL,
};

static void *text_before;

/* Returns NULL if the module's text is unchanged, otherwise the first changed address. */
static const u8 *changed_text(void)
{
	const u8 *text = THIS_MODULE->mem[MOD_TEXT].base;
	unsigned int i, size = THIS_MODULE->mem[MOD_TEXT].size;

	if (!memcmp(text, text_before, size))
		return NULL;
	for (i = 0; i < size; i++)
		if (text[i] != ((const u8 *)text_before)[i])
			return text + i;
	return NULL;
}

/* Steps of one case keep their probes, and a tracer its places. */
static bool is_step(const char *name)
{
	return str_has_prefix(name, "debugfs.") || str_has_prefix(name, "unload.") ||
	       str_has_prefix(name, "jprobe.traced_");
}

static void check_text(const char *name)
{
	const u8 *where;
	int tries;

	if (is_step(name))
		return;
	where = changed_text();

	/* taking a jump away may take some time */
	for (tries = 0; where && tries < 1000; tries++) {
		msleep(20);
		where = changed_text();
	}
	if (!where)
		return;
	case_fail(__FILE__, __LINE__, "text is as before", 0, *where);
	case_say("at %pS\n", where);
}

/* Cases, numbered, and named by the rest of the name after the prefix. */
static const struct {
	const char *prefix;
	const char *(*name)(unsigned int index);
	void (*run)(unsigned int index);
} numbered[] = {
	{ "insn.", kst_row_name, kst_row_run },
	{ "forms.", kst_form_group, kst_forms_run },
};

static bool run_other(const char *name)
{
	unsigned int i, index;
	size_t prefix;

	for (i = 0; i < ARRAY_SIZE(numbered); i++) {
		prefix = str_has_prefix(name, numbered[i].prefix);
		for (index = 0; prefix && numbered[i].name(index); index++)
			if (!strcmp(numbered[i].name(index), name + prefix)) {
				numbered[i].run(index);
				return true;
			}
	}
	return false;
}

static void show_others(struct seq_file *m)
{
	unsigned int i, index;

	for (i = 0; i < ARRAY_SIZE(numbered); i++)
		for (index = 0; numbered[i].name(index); index++)
			seq_printf(m, "%s%s\n", numbered[i].prefix, numbered[i].name(index));
}

static const struct test_cases all = {
	.lists = lists,
	.show_others = show_others,
	.run_other = run_other,
	.after = check_text,
};

static struct dentry *dir;

static int __init kst_init(void)
{
	const struct module_memory *text = &THIS_MODULE->mem[MOD_TEXT];

	kst_init_text = kst_init;
	text_before = vmalloc(text->size);
	if (!text_before)
		return -ENOMEM;
	memcpy(text_before, text->base, text->size);
	dir = cases_init(&all);
	return 0;
}
module_init(kst_init);

static void __exit kst_exit(void)
{
	debugfs_remove(dir);
	vfree(text_before);
}
module_exit(kst_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Tests of kprobes");
MODULE_LICENSE("GPL v2");
