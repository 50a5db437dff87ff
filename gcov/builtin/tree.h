/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Debugfs gcov/. The engine provides the entries; inodes are made only for names that are looked
 * up.
 */
#ifndef _FERROTRACE_GCOV_TREE_H
#define _FERROTRACE_GCOV_TREE_H

#ifdef CONFIG_GCOV_BUILTIN

#include <linux/limits.h>
#include <linux/types.h>

struct file_operations;
struct module;

enum ferro_gcov_kind { FERRO_GCOV_DIR, FERRO_GCOV_FILE, FERRO_GCOV_LINK };

/* An entry of a directory. */
struct ferro_gcov_node {
	/* equal for a file and its link; 0 is the root */
	u32 id;
	enum ferro_gcov_kind kind;
};

/* An entry in a directory listing. */
struct ferro_gcov_entry {
	struct ferro_gcov_node node;
	/* position in the directory */
	u64 position;
	size_t len;
	char name[NAME_MAX];
};

/*
 * Callbacks of the engine. An @id is not used again while the tree is shown. Context: process,
 * sleeps. After the tree is hidden they are not called; a callback must not hide the tree.
 */
struct ferro_gcov_tree {
	/* of an open file: private_data is the result of @open */
	const struct file_operations *files;
	/* 0, or -ENOENT */
	int (*lookup)(u32 dir, const char *name, size_t len, struct ferro_gcov_node *node);
	/* lists at most @max entries from a position on; returns their number, 0 at the end */
	size_t (*list)(u32 dir, u64 position, struct ferro_gcov_entry *entries, size_t max);
	/* target of a link, from kmalloc(); NULL without memory or link */
	char *(*target)(u32 id);
	/* 0, -ENOENT or -ENOMEM */
	int (*open)(u32 id, void **private_data);
};

/*
 * Creates gcov/. Returns 0, -EEXIST, -ENOMEM, or -EPERM or -ENODEV if there is no debugfs. @tree
 * must stay valid until it is hidden. Only one tree can be shown.
 */
int ferro_gcov_tree_show(const struct ferro_gcov_tree *tree);
/* Removes gcov/. Waits for running callbacks of the tree. */
void ferro_gcov_tree_hide(void);
/* Removes gcov/ if its files belong to a module being unloaded. Context: the module notifier. */
void ferro_gcov_tree_hide_of(const struct module *mod);
/*
 * Forgets removed entries: none can be looked up when this returns. The caller must not hold locks
 * that callbacks of the tree take.
 */
void ferro_gcov_tree_forget(void);

#endif /* CONFIG_GCOV_BUILTIN */

#endif /* _FERROTRACE_GCOV_TREE_H */
