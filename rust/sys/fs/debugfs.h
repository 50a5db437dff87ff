/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations for debugfs.rs. */
#ifndef _FERROTRACE_SYS_DEBUGFS_H
#define _FERROTRACE_SYS_DEBUGFS_H

#include <linux/types.h>

struct dentry;
struct file;
struct module;
struct mutex;

/* Lock of the list in debugfs.rs. */
extern struct mutex ferro_debugfs_lock;
/*
 * True if a struct file_operations and its functions belong to the module that its owner field
 * names.
 */
bool ferro_fops_owner_is_right(const void *operations);
/* An operation for which the removal of its file waits. On the stack of the task. */
struct ferro_file_operation {
	unsigned long mark;
	const struct dentry *dentry;
};
/*
 * Mark the start and the end of the operation; @operation does not move between them. Return: false
 * if the file has been removed; then nothing is marked.
 */
bool ferro_file_enter(struct ferro_file_operation *operation, const struct file *file);
void ferro_file_leave(struct ferro_file_operation *operation);
/*
 * Returns true if removing @dentry or @twin, unless NULL, would wait for an operation of the
 * current task. Context: process.
 */
bool ferro_file_waits_for_itself(struct dentry *dentry, struct dentry *twin);
/* As debugfs_remove(), and does nothing if @dentry has been removed. */
void ferro_debugfs_remove(struct dentry *dentry);
/* debugfs.rs. Context: the module notifier. */
void ferro_debugfs_module_going(struct module *mod);

#endif /* _FERROTRACE_SYS_DEBUGFS_H */
