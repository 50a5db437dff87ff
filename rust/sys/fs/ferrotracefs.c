// SPDX-License-Identifier: GPL-2.0
/*
 * The filesystem "ferrotrace", for /sys/kernel/ferrotrace. It mirrors our directories in debugfs,
 * except those that C code makes. From "integrity" on, lockdown closes files of debugfs that can be
 * written or mapped. It closes the files here from "confidentiality" on, as in tracefs.
 *
 * Nodes pin the filesystem's module. On a kernel without our patches this file is a module of its
 * own, so that the modules that make nodes can be unloaded.
 */
#include <linux/completion.h>
#include <linux/dcache.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fsnotify.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "ferrotracefs.h"

#define MAGIC 0x66657272

/* d_fsdata of a file. */
struct file_node {
	const struct file_operations *operations;
	/* One until the file is removed, and one for each operation in progress. */
	refcount_t users;
	struct completion drained;
};

static void release_dentry(struct dentry *dentry)
{
	kfree(dentry->d_fsdata);
}

static const struct dentry_operations dentry_operations = {
	.d_release = release_dentry,
};

static void free_inode(struct inode *inode)
{
	if (S_ISLNK(inode->i_mode))
		kfree(inode->i_link);
	free_inode_nonrcu(inode);
}

static const struct super_operations super_operations = {
	.statfs = simple_statfs,
	.free_inode = free_inode,
};

static int fill_super(struct super_block *sb, struct fs_context *fc)
{
	static const struct tree_descr no_files[] = {{""}};
	int err = simple_fill_super(sb, MAGIC, no_files);

	if (err)
		return err;
	sb->s_op = &super_operations;
	sb->s_iflags |= SB_I_NOEXEC | SB_I_NODEV;
	sb->s_d_flags |= DCACHE_DONTCACHE;
	set_default_d_op(sb, &dentry_operations);
	d_inode(sb->s_root)->i_mode = S_IFDIR | 0700;
	return 0;
}

static int get_tree(struct fs_context *fc)
{
	/* A first mount with "ro" must not make the shared superblock read-only. */
	fc->sb_flags &= ~SB_RDONLY;
	return get_tree_single(fc, fill_super);
}

static const struct fs_context_operations context_operations = {
	.get_tree = get_tree,
};

static int init_fs_context(struct fs_context *fc)
{
	fc->ops = &context_operations;
	return 0;
}

static struct file_system_type fs_type = {
	.owner = THIS_MODULE,
	.name = "ferrotrace",
	.init_fs_context = init_fs_context,
	.kill_sb = kill_anon_super,
};
MODULE_ALIAS_FS("ferrotrace");

/*
 * Each node pins the filesystem, and so does each reference of ferro_fs_get(): no dentry may be
 * left when the last pin goes.
 */
static struct vfsmount *mount;
static int mount_count;

bool ferro_fs_enter(const struct dentry *dentry)
{
	struct file_node *node = dentry->d_fsdata;

	if (dentry->d_sb->s_type != &fs_type)
		return true;
	/* The file is unhashed before drain(): new operations must not delay the removal. */
	return !d_unlinked(dentry) && refcount_inc_not_zero(&node->users);
}
EXPORT_SYMBOL_GPL(ferro_fs_enter);

void ferro_fs_leave(const struct dentry *dentry)
{
	struct file_node *node = dentry->d_fsdata;

	if (dentry->d_sb->s_type == &fs_type && refcount_dec_and_test(&node->users))
		complete(&node->drained);
}
EXPORT_SYMBOL_GPL(ferro_fs_leave);

/*
 * Opens a file with the operations of its maker. The maker's module may be unloaded once the file
 * has been removed.
 */
static int open_file(struct inode *inode, struct file *file)
{
	const struct dentry *dentry = file->f_path.dentry;
	const struct file_node *node = dentry->d_fsdata;
	const struct file_operations *operations;
	int err = security_locked_down(LOCKDOWN_TRACEFS);

	if (err)
		return err;
	if (!ferro_fs_enter(dentry))
		return -ENOENT;
	operations = fops_get(node->operations);
	if (operations) {
		replace_fops(file, operations);
		err = operations->open(inode, file);
	} else {
		err = -ENXIO;
	}
	ferro_fs_leave(dentry);
	return err;
}

static const struct file_operations open_operations = {
	.owner = THIS_MODULE,
	.open = open_file,
};

void ferro_fs_get(struct dentry *dentry)
{
	/* Cannot fail: the caller's reference pins the filesystem. */
	WARN_ON(simple_pin_fs(&fs_type, &mount, &mount_count));
	dget(dentry);
}
EXPORT_SYMBOL_GPL(ferro_fs_get);

void ferro_fs_put(struct dentry *dentry)
{
	dput(dentry);
	simple_release_fs(&mount, &mount_count);
}
EXPORT_SYMBOL_GPL(ferro_fs_put);

/* Looks up a new name, and locks the directory. */
static struct dentry *start_node(struct dentry *parent, const char *name)
{
	struct dentry *dentry;
	int err = simple_pin_fs(&fs_type, &mount, &mount_count);

	if (err)
		return ERR_PTR(err);
	dentry = simple_start_creating(parent ?: mount->mnt_root, name);
	if (IS_ERR(dentry))
		simple_release_fs(&mount, &mount_count);
	return dentry;
}

static struct inode *new_node(struct dentry *dentry, umode_t mode)
{
	struct inode *inode = new_inode(dentry->d_sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = mode;
	simple_inode_init_ts(inode);
	return inode;
}

/* Adds the node, unless @inode is NULL, and unlocks the directory. */
static struct dentry *finish_node(struct dentry *dentry, struct inode *inode)
{
	struct inode *dir = d_inode(dentry->d_parent);

	if (inode) {
		d_make_persistent(dentry, inode);
		if (S_ISDIR(inode->i_mode)) {
			inc_nlink(dir);
			fsnotify_mkdir(dir, dentry);
		} else {
			fsnotify_create(dir, dentry);
		}
		ferro_fs_get(dentry);
	}
	simple_done_creating(dentry);
	if (inode)
		return dentry;
	simple_release_fs(&mount, &mount_count);
	return ERR_PTR(-ENOMEM);
}

struct dentry *ferro_fs_dir(struct dentry *parent, const char *name)
{
	struct dentry *dentry = start_node(parent, name);
	struct inode *inode;

	if (IS_ERR(dentry))
		return dentry;
	inode = new_node(dentry, S_IFDIR | 0755);
	if (inode) {
		inode->i_op = &simple_dir_inode_operations;
		inode->i_fop = &simple_dir_operations;
		/* For its ".". */
		inc_nlink(inode);
	}
	return finish_node(dentry, inode);
}
EXPORT_SYMBOL_GPL(ferro_fs_dir);

struct dentry *ferro_fs_file(struct dentry *parent, const char *name, umode_t mode, void *data,
			     const struct file_operations *operations)
{
	struct dentry *dentry = start_node(parent, name);
	struct file_node *node;
	struct inode *inode;

	if (IS_ERR(dentry))
		return dentry;
	node = kmalloc_obj(*node);
	inode = node ? new_node(dentry, S_IFREG | mode) : NULL;
	if (inode) {
		inode->i_private = data;
		inode->i_fop = &open_operations;
		node->operations = operations;
		refcount_set(&node->users, 1);
		init_completion(&node->drained);
		dentry->d_fsdata = node;
	} else {
		kfree(node);
	}
	return finish_node(dentry, inode);
}
EXPORT_SYMBOL_GPL(ferro_fs_file);

struct dentry *ferro_fs_link(struct dentry *parent, const char *name, const char *target)
{
	struct dentry *dentry = start_node(parent, name);
	struct inode *inode;
	char *text;

	if (IS_ERR(dentry))
		return dentry;
	text = kstrdup(target, GFP_KERNEL);
	inode = text ? new_node(dentry, S_IFLNK | 0777) : NULL;
	if (inode) {
		inode->i_op = &simple_symlink_inode_operations;
		inode->i_link = text;
	} else {
		kfree(text);
	}
	return finish_node(dentry, inode);
}
EXPORT_SYMBOL_GPL(ferro_fs_link);

/* Called with the directory locked, once the node is unhashed. */
static void drain(struct dentry *victim)
{
	struct file_node *node = victim->d_fsdata;

	if (node && !refcount_dec_and_test(&node->users))
		wait_for_completion(&node->drained);
	simple_release_fs(&mount, &mount_count);
}

void ferro_fs_remove(struct dentry *dentry)
{
	struct dentry *parent = dget_parent(dentry);

	inode_lock_nested(d_inode(parent), I_MUTEX_PARENT);
	/* Removing a directory again would lower the link count of its parent again. */
	if (simple_positive(dentry) && dentry->d_parent == parent)
		locked_recursive_removal(dentry, drain);
	inode_unlock(d_inode(parent));
	dput(parent);
}
EXPORT_SYMBOL_GPL(ferro_fs_remove);

int ferro_fs_rename(struct dentry *dentry, const char *name)
{
	struct dentry *parent = dget_parent(dentry);
	struct name_snapshot old;
	struct dentry *target;
	int err = 0;

	inode_lock_nested(d_inode(parent), I_MUTEX_PARENT);
	target = lookup_noperm(&QSTR(name), parent);
	if (IS_ERR(target)) {
		err = PTR_ERR(target);
	} else if (!simple_positive(dentry) || dentry->d_parent != parent) {
		err = -ENOENT;
	} else if (target != dentry && d_is_positive(target)) {
		err = -EEXIST;
	} else if (target != dentry) {
		take_dentry_name_snapshot(&old, dentry);
		d_move(dentry, target);
		fsnotify_move(d_inode(parent), d_inode(parent), &old.name, false, NULL, dentry);
		release_dentry_name_snapshot(&old);
	}
	inode_unlock(d_inode(parent));
	if (!IS_ERR(target))
		dput(target);
	dput(parent);
	return err;
}
EXPORT_SYMBOL_GPL(ferro_fs_rename);

static int __init ferro_fs_init(void)
{
	int err = sysfs_create_mount_point(kernel_kobj, fs_type.name);

	if (err)
		return err;
	err = register_filesystem(&fs_type);
	if (err)
		sysfs_remove_mount_point(kernel_kobj, fs_type.name);
	return err;
}
postcore_initcall(ferro_fs_init);

static void __exit ferro_fs_exit(void)
{
	unregister_filesystem(&fs_type);
	sysfs_remove_mount_point(kernel_kobj, fs_type.name);
	/* For free_inode(). */
	rcu_barrier();
}
module_exit(ferro_fs_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Filesystem of Ferrotrace's files");
