/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations of ferrotracefs.c. */
#ifndef _FERROTRACE_SYS_FERROTRACEFS_H
#define _FERROTRACE_SYS_FERROTRACEFS_H

#include <linux/types.h>

struct dentry;
struct file;
struct file_operations;

/*
 * Makes a node in the directory @parent of this filesystem; NULL is its root. Context: process.
 * Return: a dentry for ferro_fs_put(); -EEXIST, -ENOMEM, -ENOENT if the directory has been removed.
 */
struct dentry *ferro_fs_dir(struct dentry *parent, const char *name);
struct dentry *ferro_fs_link(struct dentry *parent, const char *name, const char *target);
/* @operations, which have an open(), get @data as i_private of the inode. */
struct dentry *ferro_fs_file(struct dentry *parent, const char *name, umode_t mode, void *data,
			     const struct file_operations *operations);
/* Takes and drops a reference to a node, which also keeps the filesystem. Context: process. */
void ferro_fs_get(struct dentry *dentry);
void ferro_fs_put(struct dentry *dentry);
/*
 * Removes a node, with its contents. Waits for operations between ferro_fs_enter() and
 * ferro_fs_leave(). Does nothing if the node has been removed. Context: process.
 */
void ferro_fs_remove(struct dentry *dentry);
/* Renames a file within its directory. Return: 0, -EEXIST, -ENOMEM, -ENOENT if it was removed. */
int ferro_fs_rename(struct dentry *dentry, const char *name);
/*
 * Begins and ends an operation of a file: the removal of the file waits for the end. Return: false
 * if the file has been removed; true for files of other filesystems.
 */
bool ferro_fs_enter(const struct dentry *dentry);
void ferro_fs_leave(const struct dentry *dentry);

#endif /* _FERROTRACE_SYS_FERROTRACEFS_H */
