// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/kasan.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "helpers.h"

struct page *ferro_alloc_page(void)
{
	return alloc_page(GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
}
EXPORT_SYMBOL_GPL(ferro_alloc_page);

void *ferro_vmap(struct page **pages, unsigned int count)
{
	return vmap(pages, count, VM_MAP, PAGE_KERNEL);
}
EXPORT_SYMBOL_GPL(ferro_vmap);

void ferro_get_page(struct page *page)
{
	get_page(page);
}
EXPORT_SYMBOL_GPL(ferro_get_page);

DEFINE_MUTEX(ferro_reserve_mem_mutex);

bool ferro_reserve_mem_find(const char *name, u64 *start, u64 *size)
{
	phys_addr_t at, bytes;

	if (!reserve_mem_find_by_name(name, &at, &bytes))
		return false;
	*start = at;
	*size = bytes;
	return true;
}
EXPORT_SYMBOL_GPL(ferro_reserve_mem_find);

struct page *ferro_reserved_page(u64 address)
{
	unsigned long pfn = PHYS_PFN(address);

	/* Excludes pages that were given to the page allocator later. */
	return pfn_valid(pfn) && PageReserved(pfn_to_page(pfn)) ? pfn_to_page(pfn) : NULL;
}
EXPORT_SYMBOL_GPL(ferro_reserved_page);

bool ferro_reserved_page_busy(struct page *page)
{
	/* The initial reference since boot; a mapping has one of its own. */
	return page_count(page) != 1;
}
EXPORT_SYMBOL_GPL(ferro_reserved_page_busy);

bool ferro_page_shared(struct page *page, bool may_be_pinned)
{
	struct folio *folio = page_folio(page);
	int others = folio_ref_count(folio) - 1;

	/*
	 * In this order: a page table takes its reference before its mapping, and drops the mapping
	 * first. So mappings that end in between only leave too many references.
	 */
	smp_rmb();
	others -= folio_mapcount(folio);

	/*
	 * A pin counts as this many references. The remainder are plain references, unless there
	 * are exactly as many of these.
	 */
	return may_be_pinned ? others % GUP_PIN_COUNTING_BIAS : others;
}
EXPORT_SYMBOL_GPL(ferro_page_shared);

bool ferro_read_kernel(void *to, const void *from, size_t len)
{
#ifdef CONFIG_X86_64
	/*
	 * Kernel addresses that are canonical with four and five levels; the vsyscall page is in
	 * the last 16 MB.
	 */
	const unsigned long first = 0xffff800000000000UL, last = 0xffffffffff000000UL;

	if (IS_ENABLED(CONFIG_UML) || (unsigned long)from - first >= last - first || len % sizeof(u64))
		return !copy_from_kernel_nofault(to, from, len);

	pagefault_disable();
	for (; len; len -= sizeof(u64)) {
		__get_kernel_nofault(to, from, u64, fault);
		to += sizeof(u64);
		from += sizeof(u64);
	}
	pagefault_enable();
	return true;
fault:
	pagefault_enable();
	return false;
#else
	return !copy_from_kernel_nofault(to, from, len);
#endif
}
EXPORT_SYMBOL_GPL(ferro_read_kernel);
NOKPROBE_SYMBOL(ferro_read_kernel);

void ferro_kasan_unpoison(const void *start, size_t size)
{
	kasan_unpoison_range(start, size);
}
EXPORT_SYMBOL_GPL(ferro_kasan_unpoison);
NOKPROBE_SYMBOL(ferro_kasan_unpoison);
