/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_MM_HELPERS_H
#define _FERROTRACE_SYS_MM_HELPERS_H

#include <linux/types.h>

struct mutex;
struct page;

/* gfp.h: a zeroed page, or NULL, without a warning and without the OOM killer. */
struct page *ferro_alloc_page(void);

/* vmalloc.h, mm.h: a kernel mapping of @count pages, read and write. */
void *ferro_vmap(struct page **pages, unsigned int count);
void ferro_get_page(struct page *page);

/*
 * mm.h: the range of the memory of reserve_mem=SIZE:ALIGN:NAME, or false; its pages, which are
 * never freed; lock for claims on it.
 */
bool ferro_reserve_mem_find(const char *name, u64 *start, u64 *size);
struct page *ferro_reserved_page(u64 address);
/*
 * True if user space still has the page, by a mapping, in a pipe, or in a registered buffer.
 * Context: any.
 */
bool ferro_reserved_page_busy(struct page *page);
extern struct mutex ferro_reserve_mem_mutex;

/*
 * mm.h: true if the page has references other than the one from its allocation, those of user
 * mappings, and, with @may_be_pinned, long-term pins through such a mapping.
 */
bool ferro_page_shared(struct page *page, bool may_be_pinned);

/*
 * uaccess.h: reads @len bytes of kernel memory, as copy_from_kernel_nofault() does, with less
 * overhead for short data.
 */
bool ferro_read_kernel(void *to, const void *from, size_t len);

/* kasan.h: unpoisons a part of a stack with variables that are out of scope. */
void ferro_kasan_unpoison(const void *start, size_t size);

#endif /* _FERROTRACE_SYS_MM_HELPERS_H */
