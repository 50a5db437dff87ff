// SPDX-License-Identifier: GPL-2.0
/*
 * A page to map, debugfs klog_selftest/stall, that is absent until a command makes it present: a
 * task that writes from it to another file waits in the operation of that file. It is full of ones,
 * as text.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "klog_selftest.h"

static DECLARE_WAIT_QUEUE_HEAD(queue);
static struct page *page;
static atomic_t waiting;
static bool released;

static vm_fault_t stall_fault(struct vm_fault *vmf)
{
	int killed;

	atomic_inc(&waiting);
	killed = wait_event_killable(queue, READ_ONCE(released));
	atomic_dec(&waiting);
	if (killed)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct stall_vm_ops = {
	.fault = stall_fault,
};

static int stall_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &stall_vm_ops;
	return 0;
}

static const struct file_operations stall_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.mmap = stall_mmap,
};

void kst_stall(bool wait)
{
	WRITE_ONCE(released, !wait);
	wake_up_all(&queue);
}

int kst_stalled(void)
{
	return atomic_read(&waiting);
}

int kst_stall_init(struct dentry *dir)
{
	page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	memset(page_address(page), '1', PAGE_SIZE);
	/* the file that debugfs puts before others cannot be mapped */
	debugfs_create_file_unsafe("stall", 0400, dir, NULL, &stall_fops);
	return 0;
}

void kst_stall_exit(void)
{
	put_page(page);
}
