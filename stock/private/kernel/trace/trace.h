/* SPDX-License-Identifier: GPL-2.0 */
/* Stands in for ftrace's private header: the hash of the functions in a filter. */
#ifndef _FERROTRACE_STOCK_TRACE_H
#define _FERROTRACE_STOCK_TRACE_H

#include <linux/types.h>

struct ftrace_hash {
	unsigned long size_bits;
	struct hlist_head *buckets;
	unsigned long count;
};


#endif /* _FERROTRACE_STOCK_TRACE_H */
