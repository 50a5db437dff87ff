// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of debugfs.rs: its lock, and modules that go.
 */
#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "../code/module_going.h"
#include "debugfs.h"

DEFINE_MUTEX(ferro_debugfs_lock);
EXPORT_SYMBOL_GPL(ferro_debugfs_lock);

bool ferro_fops_owner_is_right(const void *operations)
{
	const struct file_operations *fops = operations;
	struct module *home;

	guard(rcu)();
	/* Neither in a module: built in, or memory that is never freed. */
	home = __module_address((unsigned long)fops);
	if (home && home != fops->owner)
		return false;
	return __module_address((unsigned long)fops->open) == fops->owner;
}
EXPORT_SYMBOL_GPL(ferro_fops_owner_is_right);

DEFINE_MODULE_GOING(ferro_debugfs_going, ferro_debugfs_module_going, 0);
