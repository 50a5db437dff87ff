// SPDX-License-Identifier: GPL-2.0
/*
 * File operations for buffers of mainline's relay engine. They refuse to open a buffer before it is
 * initialised. They are in the core, because an open file may outlive the module of the relay API.
 */
#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/relay.h>

#include "helpers.h"

/*
 * Mainline's engine makes the file of a buffer before it initialises the buffer's count. An open
 * file would take a reference that the engine overwrites, and its close would free the buffer.
 */
static int open_buf(struct inode *inode, struct file *file)
{
	const struct rchan_buf *buf = inode->i_private;

	if (!kref_read(&buf->kref))
		return -EAGAIN;
	return relay_file_operations.open(inode, file);
}

const struct file_operations *ferro_relay_file_operations(void)
{
	static struct file_operations operations;
	static DEFINE_MUTEX(lock);

	guard(mutex)(&lock);
	if (!operations.open) {
		operations = relay_file_operations;
		operations.owner = THIS_MODULE;
		operations.open = open_buf;
	}
	return &operations;
}
EXPORT_SYMBOL_GPL(ferro_relay_file_operations);
