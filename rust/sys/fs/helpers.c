// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/dcache.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/splice.h>

#include "helpers.h"

size_t ferro_mmap_size(const struct vm_area_desc *desc)
{
	return vma_desc_size(desc);
}
EXPORT_SYMBOL_GPL(ferro_mmap_size);

bool ferro_mmap_writable(const struct vm_area_desc *desc)
{
	return vma_desc_test(desc, VMA_WRITE_BIT);
}
EXPORT_SYMBOL_GPL(ferro_mmap_writable);

void ferro_mmap_fix(struct vm_area_desc *desc, bool writable)
{
	if (!writable)
		vma_desc_clear_flags(desc, VMA_MAYWRITE_BIT);
	vma_desc_set_flags(desc, VMA_DONTEXPAND_BIT, VMA_DONTDUMP_BIT);
}
EXPORT_SYMBOL_GPL(ferro_mmap_fix);

bool ferro_file_readable(const struct file *file)
{
	return file->f_mode & FMODE_READ;
}
EXPORT_SYMBOL_GPL(ferro_file_readable);

void ferro_file_no_positions(struct file *file)
{
	file->f_mode &= ~(FMODE_PREAD | FMODE_PWRITE);
}
EXPORT_SYMBOL_GPL(ferro_file_no_positions);

void ferro_get_file(struct file *file)
{
	get_file(file);
}
EXPORT_SYMBOL_GPL(ferro_get_file);

int ferro_add_to_pipe(struct pipe_inode_info *pipe, struct page *page, unsigned int offset,
		      unsigned int len, const struct pipe_buf_operations *ops,
		      unsigned long private)
{
	struct pipe_buffer buf = {
		.page = page,
		.offset = offset,
		.len = len,
		.ops = ops,
		.private = private,
	};
	ssize_t ret = add_to_pipe(pipe, &buf);

	return ret < 0 ? ret : 0;
}
EXPORT_SYMBOL_GPL(ferro_add_to_pipe);

struct dentry *ferro_dget(struct dentry *dentry)
{
	return dget(dentry);
}
EXPORT_SYMBOL_GPL(ferro_dget);

void ferro_i_size_set(struct dentry *dentry, loff_t size)
{
	i_size_write(d_inode(dentry), size);
}
EXPORT_SYMBOL_GPL(ferro_i_size_set);

void ferro_i_size_add(struct dentry *dentry, size_t size)
{
	struct inode *inode = d_inode(dentry);

	i_size_write(inode, i_size_read(inode) + size);
}
EXPORT_SYMBOL_GPL(ferro_i_size_add);
