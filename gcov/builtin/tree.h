/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Debugfs gcov/, of which the engine says what is in it: there are inodes only of what somebody looks at.
 */
#ifndef _FERROTRACE_GCOV_TREE_H
#define _FERROTRACE_GCOV_TREE_H

#ifdef CONFIG_GCOV_BUILTIN

#include <linux/limits.h>
#include <linux/types.h>

struct file_operations;
struct module;

enum ferro_gcov_kind { FERRO_GCOV_DIR, FERRO_GCOV_FILE, FERRO_GCOV_LINK };

/* Something in a directory. */
struct ferro_gcov_node {
	/* of a file and its link the same; 0 is the root */
	u32 id;
	enum ferro_gcov_kind kind;
};

/* The same, as a directory lists it. */
struct ferro_gcov_entry {
	struct ferro_gcov_node node;
	/* where it is in the directory */
	u64 position;
	size_t len;
	char name[NAME_MAX];
};

/*
 * What the engine says. An @id is not used again while this is shown. Context: process, sleeps. The functions are not called any
 * more when this has been hidden; nor does hiding wait for itself.
 */
struct ferro_gcov_tree {
	/* of a file that is open: private_data is what @open has made */
	const struct file_operations *files;
	/* 0, or -ENOENT */
	int (*lookup)(u32 dir, const char *name, size_t len, struct ferro_gcov_node *node);
	/* lists what is at a position and after it, at most @max; returns how many that are: 0 at the end */
	size_t (*list)(u32 dir, u64 position, struct ferro_gcov_entry *entries, size_t max);
	/* where a link leads: from kmalloc(), or NULL without memory or link */
	char *(*target)(u32 id);
	/* 0, -ENOENT or -ENOMEM */
	int (*open)(u32 id, void **private_data);
};

/*
 * Makes gcov/. Returns 0, -EEXIST, -ENOMEM, or -EPERM or -ENODEV if there is no debugfs. @tree stays until it is hidden. There is one
 * at a time.
 */
int ferro_gcov_tree_show(const struct ferro_gcov_tree *tree);
/* Removes gcov/. Waits for functions of the tree that are running. */
void ferro_gcov_tree_hide(void);
/* The same, if the files are those of a module that goes. Context: the module notifier. */
void ferro_gcov_tree_hide_of(const struct module *mod);
/* Something has gone: it is not found any more when this returns. Called without locks that functions of the tree take. */
void ferro_gcov_tree_forget(void);

#endif /* CONFIG_GCOV_BUILTIN */

#endif /* _FERROTRACE_GCOV_TREE_H */
