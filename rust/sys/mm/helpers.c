// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 */
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/kasan.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
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

bool ferro_page_shared(struct page *page, bool may_be_pinned)
{
	struct folio *folio = page_folio(page);
	int others = folio_ref_count(folio) - 1 - folio_mapcount(folio);

	/* A pin counts as so many references: what is left are plain ones, unless somebody has exactly as many of these. */
	return may_be_pinned ? others % GUP_PIN_COUNTING_BIAS : others;
}
EXPORT_SYMBOL_GPL(ferro_page_shared);

void ferro_kasan_unpoison(const void *start, size_t size)
{
	kasan_unpoison_range(start, size);
}
EXPORT_SYMBOL_GPL(ferro_kasan_unpoison);
NOKPROBE_SYMBOL(ferro_kasan_unpoison);
