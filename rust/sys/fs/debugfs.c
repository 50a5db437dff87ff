// SPDX-License-Identifier: GPL-2.0
/* C half of debugfs.rs: its lock, and the cleanup after modules. */
#include <linux/cleanup.h>
#include <linux/container_of.h>
#include <linux/dcache.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "../code/module_going.h"
#include "../sync/stack_mark.h"
#include "debugfs.h"

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

void ferro_file_enter(struct ferro_file_operation *operation, const struct file *file)
{
	operation->dentry = file->f_path.dentry;
	barrier();
	WRITE_ONCE(operation->mark, ferro_stack_mark(&operation->mark, &ferro_debugfs_lock));
}
EXPORT_SYMBOL_GPL(ferro_file_enter);

void ferro_file_leave(struct ferro_file_operation *operation)
{
	WRITE_ONCE(operation->mark, 0);
}
EXPORT_SYMBOL_GPL(ferro_file_leave);

bool ferro_file_waits_for_itself(struct dentry *dentry)
{
	const unsigned long *mark = NULL;

	while ((mark = ferro_next_stack_mark(mark, &ferro_debugfs_lock))) {
		const struct ferro_file_operation *operation =
			container_of(mark, struct ferro_file_operation, mark);

		/* The file is open, so its dentry exists. */
		if (is_subdir((struct dentry *)operation->dentry, dentry))
			return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(ferro_file_waits_for_itself);

DEFINE_MODULE_GOING(ferro_debugfs_going, ferro_debugfs_module_going, 0);
