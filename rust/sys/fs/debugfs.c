// SPDX-License-Identifier: GPL-2.0
/* C half of debugfs.rs: its lock, and the cleanup after modules. */
#include <linux/cleanup.h>
#include <linux/container_of.h>
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "../code/module_going.h"
#include "../sync/stack_mark.h"
#include "debugfs.h"
#include "ferrotracefs.h"

DEFINE_MUTEX(ferro_debugfs_lock);
EXPORT_SYMBOL_GPL(ferro_debugfs_lock);

bool ferro_fops_owner_is_right(const void *operations)
{
	const struct file_operations *fops = operations;
	struct module *home;

	guard(rcu)();
	/* NULL for no module: built in, or memory that is never freed. */
	home = __module_address((unsigned long)fops);
	if (home && home != fops->owner)
		return false;
	return __module_address((unsigned long)fops->open) == fops->owner;
}
EXPORT_SYMBOL_GPL(ferro_fops_owner_is_right);

bool ferro_file_enter(struct ferro_file_operation *operation, const struct file *file)
{
	if (!ferro_fs_enter(file->f_path.dentry))
		return false;
	operation->dentry = file->f_path.dentry;
	barrier();
	WRITE_ONCE(operation->mark, ferro_stack_mark(&operation->mark, &ferro_debugfs_lock));
	return true;
}
EXPORT_SYMBOL_GPL(ferro_file_enter);

void ferro_file_leave(struct ferro_file_operation *operation)
{
	WRITE_ONCE(operation->mark, 0);
	ferro_fs_leave(operation->dentry);
}
EXPORT_SYMBOL_GPL(ferro_file_leave);

bool ferro_file_waits_for_itself(struct dentry *dentry, struct dentry *twin)
{
	const unsigned long *mark = NULL;

	while ((mark = ferro_next_stack_mark(mark, &ferro_debugfs_lock))) {
		const struct ferro_file_operation *operation =
			container_of(mark, struct ferro_file_operation, mark);

		/* The file is open, so its dentry exists. */
		struct dentry *file = (struct dentry *)operation->dentry;

		if (is_subdir(file, dentry) || (twin && is_subdir(file, twin)))
			return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(ferro_file_waits_for_itself);

void ferro_debugfs_remove(struct dentry *dentry)
{
	/* Removing a directory again would lower the link count of its parent again. */
	if (!d_is_dir(dentry) || !d_unlinked(dentry))
		debugfs_remove(dentry);
}
EXPORT_SYMBOL_GPL(ferro_debugfs_remove);

DEFINE_MODULE_GOING(ferro_debugfs_going, ferro_debugfs_module_going, 0);
