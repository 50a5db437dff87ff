/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For debugfs.rs.
 */
#ifndef _FERROTRACE_SYS_DEBUGFS_H
#define _FERROTRACE_SYS_DEBUGFS_H

#include <linux/types.h>

struct module;
struct mutex;

/* The lock of the list in debugfs.rs. */
extern struct mutex ferro_debugfs_lock;
/* Whether a struct file_operations and its functions belong to the module that its owner names. */
bool ferro_fops_owner_is_right(const void *operations);
/* debugfs.rs. Context: the module notifier. */
void ferro_debugfs_module_going(struct module *mod);

#endif /* _FERROTRACE_SYS_DEBUGFS_H */
