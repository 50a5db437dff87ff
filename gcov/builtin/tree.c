// SPDX-License-Identifier: GPL-2.0
/*
 * Inodes of debugfs gcov/. The engine knows the entries. An inode is made when a name is looked up,
 * and dropped when memory is short. An inode only has a number, so that it needs nothing of the
 * engine, which may be removed first.
 */
#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/xarray.h>

/* find_next_child() */
#include "../../../../fs/internal.h"
#include "tree.h"

/*
 * Held for read around calls of the engine, for write to change @shown. Nests inside the lock of a
 * directory, outside the engine's locks.
 */
static DECLARE_RWSEM(lock);
/*
 * Held while inodes are dropped, so that the root stays. Outside of @lock, and of the locks of file
 * systems mounted there.
 */
static DEFINE_MUTEX(dropping);
static const struct ferro_gcov_tree *shown;
static struct dentry *root;
/* Generation of the shown tree: its ids mean nothing to another tree. */
static u32 generation;

/* Inode numbers are above the other ones in debugfs. */
static u64 number_of(const struct ferro_gcov_node *node)
{
	return BIT_ULL(32) + 2ULL * node->id + (node->kind == FERRO_GCOV_LINK);
}

static u32 id_of(const struct inode *inode)
{
	return (unsigned long)inode->i_private;
}

/* Returns the shown tree if an inode belongs to it. */
static const struct ferro_gcov_tree *tree_of(const struct inode *inode)
{
	return inode->i_generation == generation ? shown : NULL;
}

/* Modes and owners that were changed, by inode number. */
struct changed {
	umode_t mode;
	kuid_t uid;
	kgid_t gid;
};

static DEFINE_XARRAY(all_changed);

static int keep_changed(const struct inode *inode)
{
	struct changed *changed, *old;

	guard(rwsem_write)(&lock);
	if (!tree_of(inode) || !inode->i_private)
		return 0;
	changed = kmalloc_obj(*changed);
	if (!changed)
		return -ENOMEM;
	*changed = (struct changed){ inode->i_mode, inode->i_uid, inode->i_gid };
	old = xa_store(&all_changed, inode->i_ino, changed, GFP_KERNEL);
	if (xa_is_err(old)) {
		kfree(changed);
		return xa_err(old);
	}
	kfree(old);
	return 0;
}

static void restore_changed(struct inode *inode)
{
	const struct changed *changed = xa_load(&all_changed, inode->i_ino);

	if (!changed)
		return;
	inode->i_mode = changed->mode;
	inode->i_uid = changed->uid;
	inode->i_gid = changed->gid;
}

static void forget_changed(void)
{
	struct changed *changed;
	unsigned long number;

	xa_for_each(&all_changed, number, changed)
		kfree(changed);
	xa_destroy(&all_changed);
}

/* As in debugfs; the values are also kept for the next inode of the same number. */
static int set_attributes(struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attributes)
{
	bool changes = attributes->ia_valid & (ATTR_MODE | ATTR_UID | ATTR_GID);
	int err;

	if (changes) {
		err = security_locked_down(LOCKDOWN_DEBUGFS);
		if (err)
			return err;
	}
	err = simple_setattr(&nop_mnt_idmap, dentry, attributes);
	return err || !changes ? err : keep_changed(d_inode(dentry));
}

static const struct inode_operations link_attributes = {
	.get_link = simple_get_link,
	.setattr = set_attributes,
};

static const struct inode_operations file_attributes = {
	.setattr = set_attributes,
};

/*
 * Gives a file the engine's operations, with a reference on their module. Returns -ESTALE if the
 * engine has removed the file.
 */
static int open_shown(struct inode *inode, struct file *file)
{
	const struct file_operations *files;
	const struct ferro_gcov_tree *tree;
	int err;

	guard(rwsem_read)(&lock);
	tree = tree_of(inode);
	if (!tree)
		return -ENOENT;
	files = fops_get(tree->files);
	if (!files)
		return -ENOENT;
	err = tree->open(id_of(inode), &file->private_data);
	if (err) {
		fops_put(files);
		return err == -ENOENT ? -ESTALE : err;
	}
	replace_fops(file, files);
	return 0;
}

static int open_file(struct inode *inode, struct file *file)
{
	int err;

	err = security_locked_down(LOCKDOWN_DEBUGFS);
	if (err)
		return err;
	err = open_shown(inode, file);
	/*
	 * Found in a directory that is still in use although it was dropped: the VFS looks the name
	 * up again.
	 */
	if (err == -ESTALE)
		d_invalidate(file->f_path.dentry);
	return err;
}

static const struct file_operations files = {
	.open = open_file,
	.llseek = noop_llseek,
};

static const struct inode_operations dir_lookup;
static const struct file_operations dirs;

/* Makes an inode, which only the caller knows. */
static struct inode *make_inode(struct inode *dir, const struct ferro_gcov_tree *tree, const struct ferro_gcov_node *node)
{
	char *target = NULL;
	struct inode *inode;

	if (node->kind == FERRO_GCOV_LINK) {
		target = tree->target(node->id);
		if (!target)
			return NULL;
	}
	inode = new_inode(dir->i_sb);
	if (!inode) {
		kfree(target);
		return NULL;
	}
	inode->i_ino = number_of(node);
	inode->i_generation = dir->i_generation;
	inode->i_private = (void *)(unsigned long)node->id;
	simple_inode_init_ts(inode);
	switch (node->kind) {
	case FERRO_GCOV_DIR:
		inode->i_mode = S_IFDIR | 0755;
		inode->i_op = &dir_lookup;
		inode->i_fop = &dirs;
		break;
	case FERRO_GCOV_FILE:
		inode->i_mode = S_IFREG | 0600;
		inode->i_op = &file_attributes;
		inode->i_fop = &files;
		break;
	case FERRO_GCOV_LINK:
		inode->i_mode = S_IFLNK | 0777;
		inode->i_op = &link_attributes;
		/* debugfs frees it */
		inode->i_link = target;
		break;
	}
	restore_changed(inode);
	return inode;
}

static struct dentry *lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	const struct ferro_gcov_tree *tree;
	struct ferro_gcov_node node;
	struct inode *inode;
	int err;

	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	guard(rwsem_read)(&lock);
	tree = tree_of(dir);
	if (!tree)
		return ERR_PTR(-ENOENT);
	err = tree->lookup(id_of(dir), dentry->d_name.name, dentry->d_name.len, &node);
	if (err)
		return ERR_PTR(err);
	inode = make_inode(dir, tree, &node);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	/* The dentries of debugfs are not cached after their last use; these are. */
	scoped_guard(spinlock, &dentry->d_lock)
		dentry->d_flags &= ~DCACHE_DONTCACHE;
	return d_splice_alias(inode, dentry);
}

static const struct inode_operations dir_lookup = {
	.lookup = lookup,
	.setattr = set_attributes,
};

static size_t list_from(struct inode *dir, u64 position, struct ferro_gcov_entry *entries, size_t max)
{
	const struct ferro_gcov_tree *tree;

	guard(rwsem_read)(&lock);
	tree = tree_of(dir);
	return tree ? tree->list(id_of(dir), position, entries, max) : 0;
}

static bool emit(struct dir_context *context, const struct ferro_gcov_entry *entry)
{
	static const unsigned char types[] = {
		[FERRO_GCOV_DIR] = DT_DIR,
		[FERRO_GCOV_FILE] = DT_REG,
		[FERRO_GCOV_LINK] = DT_LNK,
	};

	return dir_emit(context, entry->name, entry->len, number_of(&entry->node), types[entry->node.kind]);
}

/* Lists a directory. Only the lock of the directory is held while user space is written to. */
static int list(struct file *file, struct dir_context *context)
{
	enum { SOME = 14 };
	struct ferro_gcov_entry *entries __free(kfree) = NULL;
	size_t i, count;

	if (!dir_emit_dots(file, context))
		return 0;
	entries = kmalloc_objs(*entries, SOME);
	if (!entries)
		return -ENOMEM;
	while ((count = list_from(file_inode(file), context->pos - 2, entries, SOME))) {
		for (i = 0; i < count; i++) {
			context->pos = entries[i].position + 2;
			if (!emit(context, &entries[i]))
				return 0;
			context->pos++;
		}
	}
	return 0;
}

/* Positions are hashes, which may be above the largest file size of debugfs. */
static loff_t seek(struct file *file, loff_t offset, int whence)
{
	return generic_file_llseek_size(file, offset, whence, S64_MAX, 0);
}

static const struct file_operations dirs = {
	.llseek = seek,
	.read = generic_read_dir,
	.iterate_shared = list,
};

int ferro_gcov_tree_show(const struct ferro_gcov_tree *tree)
{
	struct dentry *made = debugfs_create_dir("gcov", NULL);
	struct inode *inode;

	if (IS_ERR(made))
		return PTR_ERR(made);
	guard(rwsem_write)(&lock);
	inode = d_inode(made);
	inode->i_generation = ++generation;
	inode->i_op = &dir_lookup;
	inode->i_fop = &dirs;
	root = made;
	shown = tree;
	return 0;
}
EXPORT_SYMBOL_GPL(ferro_gcov_tree_show);

/* Returns true if the engine still has the entry of a dentry. */
static bool is_shown(const struct dentry *dentry)
{
	const struct inode *dir = d_inode(dentry->d_parent);
	const struct ferro_gcov_tree *tree;
	struct ferro_gcov_node node;

	guard(rwsem_read)(&lock);
	tree = tree_of(dir);
	return tree && !tree->lookup(id_of(dir), dentry->d_name.name, dentry->d_name.len, &node) &&
	       number_of(&node) == d_inode(dentry)->i_ino;
}

/*
 * Drops the looked-up entries that are not shown any longer, the deepest first, and unmounts mounts
 * on them. Entries in use stay, for their users only. One pass, as tasks may look names up at the
 * same time. Nothing is renamed here, so names and parents do not change.
 */
static void drop_gone(void)
{
	struct dentry *at = dget(root), *last = NULL, *child;

	for (;;) {
		/* This drops the reference on the last one. */
		child = find_next_child(at, last);
		if (child) {
			at = child;
			last = NULL;
			continue;
		}
		if (at == root)
			break;
		if (!is_shown(at))
			d_invalidate(at);
		last = at;
		at = at->d_parent;
	}
	dput(root);
}

void ferro_gcov_tree_hide(void)
{
	guard(mutex)(&dropping);
	/* Nothing can be looked up after this. */
	scoped_guard(rwsem_write, &lock) {
		shown = NULL;
		forget_changed();
	}
	/* debugfs_remove() would handle these inodes as its own. */
	drop_gone();
	debugfs_remove(root);
	root = NULL;
}
EXPORT_SYMBOL_GPL(ferro_gcov_tree_hide);

void ferro_gcov_tree_hide_of(const struct module *mod)
{
	scoped_guard(rwsem_read, &lock)
		if (!shown || shown->files->owner != mod)
			return;
	ferro_gcov_tree_hide();
}

void ferro_gcov_tree_forget(void)
{
	guard(mutex)(&dropping);
	/*
	 * A task that found an entry before its removal has inserted it into the directory by now.
	 */
	scoped_guard(rwsem_write, &lock)
		if (!shown)
			return;
	drop_gone();
}
EXPORT_SYMBOL_GPL(ferro_gcov_tree_forget);
