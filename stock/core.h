/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of the module ferrotrace_core. */
#ifndef _FERROTRACE_STOCK_CORE_H
#define _FERROTRACE_STOCK_CORE_H

#include <linux/kallsyms.h>
#include <linux/printk.h>
#include <linux/static_call.h>
#include <linux/types.h>

/* Binds a static call to the kernel's function of this name. */
#define BIND(call, name) ({						\
	void *address = (void *)kallsyms_lookup_name(name);		\
									\
	if (address)							\
		static_call_update(call, address);			\
	else								\
		pr_err("ferrotrace: the kernel has no %s\n", name);	\
	address ? 0 : -ENOENT;						\
})

/* Returns 0 or a negative errno, and logs why. */
int ferro_stock_kernel_functions_init(void);
int ferro_stock_hook_points_init(void);
void ferro_stock_hook_points_exit(void);

/* Attaches, or detaches, what fires the hook point uprobe_done. Logs why it fires nothing. */
void ferro_stock_uprobe_done(bool active);

/* True for an address in the image's code that has not been freed. */
bool ferro_stock_is_image_text(unsigned long addr);

#endif /* _FERROTRACE_STOCK_CORE_H */
