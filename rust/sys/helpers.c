// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/dcache.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/kasan.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/splice.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "helpers.h"

unsigned int ferro_next_possible_cpu(int cpu)
{
	return cpumask_next(cpu, cpu_possible_mask);
}
EXPORT_SYMBOL_GPL(ferro_next_possible_cpu);

unsigned int ferro_next_online_cpu(int cpu)
{
	return cpumask_next(cpu, cpu_online_mask);
}
EXPORT_SYMBOL_GPL(ferro_next_online_cpu);

bool ferro_cpu_possible(unsigned int cpu)
{
	return cpu < nr_cpu_ids && cpu_possible(cpu);
}
EXPORT_SYMBOL_GPL(ferro_cpu_possible);

void ferro_cpus_read_lock(void)
{
	cpus_read_lock();
}
EXPORT_SYMBOL_GPL(ferro_cpus_read_lock);

void ferro_cpus_read_unlock(void)
{
	cpus_read_unlock();
}
EXPORT_SYMBOL_GPL(ferro_cpus_read_unlock);

void __percpu *ferro_alloc_percpu_ptr(void)
{
	return alloc_percpu(void *);
}
EXPORT_SYMBOL_GPL(ferro_alloc_percpu_ptr);

void **ferro_per_cpu_ptr(void __percpu *slots, unsigned int cpu)
{
	return per_cpu_ptr((void * __percpu *)slots, cpu);
}
EXPORT_SYMBOL_GPL(ferro_per_cpu_ptr);

void **ferro_this_cpu_ptr(void __percpu *slots)
{
	return this_cpu_ptr((void * __percpu *)slots);
}
EXPORT_SYMBOL_GPL(ferro_this_cpu_ptr);

bool ferro_in_nmi(void)
{
	return in_nmi();
}
EXPORT_SYMBOL_GPL(ferro_in_nmi);

bool ferro_irqs_disabled(void)
{
	return irqs_disabled();
}
EXPORT_SYMBOL_GPL(ferro_irqs_disabled);

unsigned long ferro_local_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}
EXPORT_SYMBOL_GPL(ferro_local_irq_save);
NOKPROBE_SYMBOL(ferro_local_irq_save);

void ferro_local_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}
EXPORT_SYMBOL_GPL(ferro_local_irq_restore);
NOKPROBE_SYMBOL(ferro_local_irq_restore);

void ferro_preempt_disable(void)
{
	preempt_disable_notrace();
}
EXPORT_SYMBOL_GPL(ferro_preempt_disable);

void ferro_preempt_enable(void)
{
	preempt_enable_notrace();
}
EXPORT_SYMBOL_GPL(ferro_preempt_enable);

void ferro_preempt_schedule(void)
{
#ifdef CONFIG_PREEMPTION
	__preempt_schedule_notrace();
#endif
}
EXPORT_SYMBOL_GPL(ferro_preempt_schedule);

bool ferro_booting(void)
{
	return system_state < SYSTEM_RUNNING;
}
EXPORT_SYMBOL_GPL(ferro_booting);

void ferro_init_irq_work(struct irq_work *work, void (*func)(struct irq_work *))
{
	init_irq_work(work, func);
}
EXPORT_SYMBOL_GPL(ferro_init_irq_work);

bool ferro_waitqueue_active(struct wait_queue_head *head)
{
	/* The barrier is the caller's, see WaitQueue::is_active(). */
	return waitqueue_active(head);
}
EXPORT_SYMBOL_GPL(ferro_waitqueue_active);

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

size_t ferro_mmap_size(const struct vm_area_desc *desc)
{
	return vma_desc_size(desc);
}
EXPORT_SYMBOL_GPL(ferro_mmap_size);

bool ferro_mmap_writable(const struct vm_area_desc *desc)
{
	return vma_desc_test(desc, VMA_WRITE_BIT);
}
EXPORT_SYMBOL_GPL(ferro_mmap_writable);

void ferro_mmap_fix(struct vm_area_desc *desc, bool writable)
{
	if (!writable)
		vma_desc_clear_flags(desc, VMA_MAYWRITE_BIT);
	vma_desc_set_flags(desc, VMA_DONTEXPAND_BIT, VMA_DONTDUMP_BIT);
}
EXPORT_SYMBOL_GPL(ferro_mmap_fix);

bool ferro_file_readable(const struct file *file)
{
	return file->f_mode & FMODE_READ;
}
EXPORT_SYMBOL_GPL(ferro_file_readable);

void ferro_file_no_positions(struct file *file)
{
	file->f_mode &= ~(FMODE_PREAD | FMODE_PWRITE);
}
EXPORT_SYMBOL_GPL(ferro_file_no_positions);

void ferro_get_file(struct file *file)
{
	get_file(file);
}
EXPORT_SYMBOL_GPL(ferro_get_file);

int ferro_add_to_pipe(struct pipe_inode_info *pipe, struct page *page, unsigned int offset,
		      unsigned int len, const struct pipe_buf_operations *ops,
		      unsigned long private)
{
	struct pipe_buffer buf = {
		.page = page,
		.offset = offset,
		.len = len,
		.ops = ops,
		.private = private,
	};
	ssize_t ret = add_to_pipe(pipe, &buf);

	return ret < 0 ? ret : 0;
}
EXPORT_SYMBOL_GPL(ferro_add_to_pipe);

bool ferro_page_shared(struct page *page, bool may_be_pinned)
{
	struct folio *folio = page_folio(page);
	int others = folio_ref_count(folio) - 1 - folio_mapcount(folio);

	/* A pin counts as so many references: what is left are plain ones, unless somebody has exactly as many of these. */
	return may_be_pinned ? others % GUP_PIN_COUNTING_BIAS : others;
}
EXPORT_SYMBOL_GPL(ferro_page_shared);

struct dentry *ferro_dget(struct dentry *dentry)
{
	return dget(dentry);
}
EXPORT_SYMBOL_GPL(ferro_dget);

void ferro_i_size_set(struct dentry *dentry, loff_t size)
{
	i_size_write(d_inode(dentry), size);
}
EXPORT_SYMBOL_GPL(ferro_i_size_set);

void ferro_i_size_add(struct dentry *dentry, size_t size)
{
	struct inode *inode = d_inode(dentry);

	i_size_write(inode, i_size_read(inode) + size);
}
EXPORT_SYMBOL_GPL(ferro_i_size_add);

int ferro_stop_one_cpu(unsigned int cpu, int (*fn)(void *), void *arg)
{
	return stop_one_cpu(cpu, fn, arg);
}
EXPORT_SYMBOL_GPL(ferro_stop_one_cpu);

/* How many of the locks of owner_lock.rs this CPU holds or awaits. */
static DEFINE_PER_CPU(unsigned int, owner_locks);

unsigned int ferro_owner_locks_enter(void)
{
	/* One instruction: NMIs nest. */
	return this_cpu_inc_return(owner_locks) - 1;
}
EXPORT_SYMBOL_GPL(ferro_owner_locks_enter);

void ferro_owner_locks_exit(void)
{
	this_cpu_dec(owner_locks);
}
EXPORT_SYMBOL_GPL(ferro_owner_locks_exit);

void ferro_cond_resched(void)
{
	cond_resched();
}
EXPORT_SYMBOL_GPL(ferro_cond_resched);

bool ferro_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}
EXPORT_SYMBOL_GPL(ferro_fatal_signal_pending);

int ferro_task_info(const struct task_struct *task, char *comm)
{
	memcpy(comm, task->comm, TASK_COMM_LEN);
	return task->pid;
}
EXPORT_SYMBOL_GPL(ferro_task_info);

bool ferro_is_text(const void *addr)
{
	return kernel_text_address((unsigned long)addr);
}
EXPORT_SYMBOL_GPL(ferro_is_text);

void ferro_kasan_unpoison(const void *start, size_t size)
{
	kasan_unpoison_range(start, size);
}
EXPORT_SYMBOL_GPL(ferro_kasan_unpoison);
NOKPROBE_SYMBOL(ferro_kasan_unpoison);

void ferro_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}
EXPORT_SYMBOL_GPL(ferro_tracepoint_synchronize_unregister);

DEFINE_MUTEX(ferro_debugfs_lock);

bool ferro_fops_owner_is_right(const void *operations)
{
	const struct file_operations *fops = operations;
	struct module *home;

	guard(rcu)();
	/* Neither in a module: built in, or memory that is never freed. */
	home = __module_address((unsigned long)fops);
	if (home && home != fops->owner)
		return false;
	return __module_address((unsigned long)fops->open) == fops->owner;
}
EXPORT_SYMBOL_GPL(ferro_fops_owner_is_right);
EXPORT_SYMBOL_GPL(ferro_debugfs_lock);

static int module_event(struct notifier_block *nb, unsigned long state, void *mod)
{
	if (state == MODULE_STATE_GOING)
		ferro_debugfs_module_going(mod);
	return NOTIFY_DONE;
}

static struct notifier_block module_nb = {
	.notifier_call = module_event,
};

static int __init helpers_init(void)
{
	return register_module_notifier(&module_nb);
}
early_initcall(helpers_init);
