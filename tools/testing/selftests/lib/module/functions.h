/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for ftrace_data_attach(), from a file.
 */
#ifndef _SELFTEST_FUNCTIONS_H
#define _SELFTEST_FUNCTIONS_H

#include <linux/ferrotrace_ftrace.h>
#include <linux/kernel_read_file.h>
#include <linux/kstrtox.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

/*
 * Returns the functions of a file, which has an address a line in hexadecimal digits; the data of
 * each is the address of its entry here. NULL if there are none. The caller frees it with vfree().
 */
static inline struct ftrace_data *read_functions(const char *file, unsigned int *count)
{
	struct ftrace_data *data = NULL;
	char *text = NULL, *line, *rest;
	unsigned int lines = 1;
	ssize_t len;

	*count = 0;
	/* Not READING_UNKNOWN, because IPE, where it is configured, warns about that. */
	len = kernel_read_file_from_path(file, 0, (void **)&text, SZ_16M, NULL, READING_POLICY);
	if (len <= 0)
		return NULL;
	text[len - 1] = '\0';
	for (rest = text; *rest; rest++)
		lines += *rest == '\n';
	data = vmalloc_array(lines, sizeof(*data));
	for (rest = text; data && (line = strsep(&rest, "\n"));)
		if (!kstrtoul(line, 16, &data[*count].ip)) {
			data[*count].data = &data[*count];
			(*count)++;
		}
	vfree(text);
	if (!*count) {
		vfree(data);
		return NULL;
	}
	return data;
}

#endif /* _SELFTEST_FUNCTIONS_H */
