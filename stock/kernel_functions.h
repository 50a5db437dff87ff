/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the kernel that it does not export. Each name is that of a substitute in
 * kernel_functions.c, in our code and in declarations of the kernel's headers. For Rust,
 * bindings.sh gives the substitute the name of the kernel's function.
 */
#ifndef _FERROTRACE_STOCK_KERNEL_FUNCTIONS_H
#define _FERROTRACE_STOCK_KERNEL_FUNCTIONS_H

#define __module_address ferro_stock___module_address
#define __module_text_address ferro_stock___module_text_address
#define copy_to_kernel_nofault ferro_stock_copy_to_kernel_nofault
#define ftrace_location ferro_stock_ftrace_location
#define ftrace_location_range ferro_stock_ftrace_location_range
#define is_module_address ferro_stock_is_module_address
#define kallsyms_lookup_name ferro_stock_kallsyms_lookup_name
#define kallsyms_lookup_size_offset ferro_stock_kallsyms_lookup_size_offset
#define kernel_text_address ferro_stock_kernel_text_address
#define lookup_symbol_name ferro_stock_lookup_symbol_name
#define relay_stats ferro_stock_relay_stats
#define stop_one_cpu ferro_stock_stop_one_cpu

#endif /* _FERROTRACE_STOCK_KERNEL_FUNCTIONS_H */
