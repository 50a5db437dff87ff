/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_FS_HELPERS_H
#define _FERROTRACE_SYS_FS_HELPERS_H

#include <linux/types.h>

struct dentry;
struct file;
struct file_operations;
struct page;
struct pipe_buf_operations;
struct pipe_inode_info;
struct vm_area_desc;

/* mm.h: the request of a mapping. */
size_t ferro_mmap_size(const struct vm_area_desc *desc);
bool ferro_mmap_writable(const struct vm_area_desc *desc);
/* Forbids to grow or dump the mapping, and to make a read-only one writable later. */
void ferro_mmap_fix(struct vm_area_desc *desc, bool writable);

/* fs.h: true if the file was opened for reading. */
bool ferro_file_readable(const struct file *file);
/* Only read() and sendfile() at the file's position: no pread(), no pwrite(). */
void ferro_file_no_positions(struct file *file);
void ferro_get_file(struct file *file);

/*
 * splice.h: appends a buffer to a locked pipe. Returns 0, or a negative errno; then the buffer has
 * been released.
 */
int ferro_add_to_pipe(struct pipe_inode_info *pipe, struct page *page, unsigned int offset,
		      unsigned int len, const struct pipe_buf_operations *ops,
		      unsigned long private);

/* dcache.h, fs.h */
struct dentry *ferro_dget(struct dentry *dentry);
void ferro_i_size_set(struct dentry *dentry, loff_t size);
void ferro_i_size_add(struct dentry *dentry, size_t size);

/* relay_file.c: with mainline's relay engine. Context: process. */
const struct file_operations *ferro_relay_file_operations(void);

#endif /* _FERROTRACE_SYS_FS_HELPERS_H */
