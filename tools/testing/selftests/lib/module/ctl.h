/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control file of a client module: each write is a command, "VERB KEY=VALUE ...".
 */
#ifndef _SELFTEST_CTL_H
#define _SELFTEST_CTL_H

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

struct ctl_args {
	char *verb;
	char *word[24];
	unsigned int n;
};

static inline bool ctl_is(const struct ctl_args *a, const char *verb)
{
	return !strcmp(a->verb, verb);
}

/* The value of a key, or @def. */
static inline const char *ctl_str(const struct ctl_args *a, const char *key, const char *def)
{
	size_t len = strlen(key);
	unsigned int i;

	for (i = 0; i < a->n; i++)
		if (!strncmp(a->word[i], key, len) && a->word[i][len] == '=')
			return a->word[i] + len + 1;
	return def;
}

/* Leaves *val alone when there is no such key; takes negative numbers too. */
static inline int ctl_num(const struct ctl_args *a, const char *key, u64 *val)
{
	const char *s = ctl_str(a, key, NULL);

	if (!s)
		return 0;
	if (*s == '-')
		return kstrtos64(s, 0, (s64 *)val);
	return kstrtou64(s, 0, val);
}

/*
 * A verb and its function. A list ends with an entry without a verb: the function for all other
 * verbs, if any.
 */
struct ctl_command {
	const char *verb;
	int (*run)(const struct ctl_args *a);
	void (*act)(void);	/* instead: it has no arguments, and cannot fail */
};

static inline int ctl_run(const struct ctl_args *a, const struct ctl_command *list)
{
	while (list->verb && !ctl_is(a, list->verb))
		list++;
	if (list->act) {
		list->act();
		return 0;
	}
	return list->run ? list->run(a) : -EOPNOTSUPP;
}

/* A write to the file: has @command do it. */
static inline ssize_t ctl_do(const char __user *from, size_t count, int (*command)(const struct ctl_args *a))
{
	struct ctl_args a = {};
	char *line, *rest, *word;
	int ret;

	if (count > 1024)
		return -E2BIG;
	line = memdup_user_nul(from, count);
	if (IS_ERR(line))
		return PTR_ERR(line);

	rest = line;
	while ((word = strsep(&rest, "\n ")) != NULL) {
		if (!*word)
			continue;
		if (!a.verb)
			a.verb = word;
		else if (a.n < ARRAY_SIZE(a.word))
			a.word[a.n++] = word;
	}
	ret = a.verb ? command(&a) : -EINVAL;
	kfree(line);
	return ret ?: count;
}

/*
 * Defines ctl_init(), which makes debugfs MODULE/ with the files "ctl", with commands that @command
 * executes, and "info", which @info shows
 */
#define DEFINE_CTL(command, info)							\
	static ssize_t ctl_write(struct file *file, const char __user *from,	\
				 size_t count, loff_t *pos)			\
	{									\
		return ctl_do(from, count, command);				\
	}									\
	static const struct file_operations ctl_fops = {			\
		.owner = THIS_MODULE,						\
		.open = simple_open,						\
		.write = ctl_write,						\
	};									\
	static struct dentry *ctl_init(void)					\
	{									\
		struct dentry *dir = debugfs_create_dir(KBUILD_MODNAME, NULL);	\
										\
		debugfs_create_file("ctl", 0200, dir, NULL, &ctl_fops);		\
		debugfs_create_file("info", 0400, dir, NULL, &info##_fops);	\
		return dir;							\
	}

#endif
