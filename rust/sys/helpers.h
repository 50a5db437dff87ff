/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 * Each does what the macro or function in its name does.
 */
#ifndef _FERROTRACE_HELPERS_H
#define _FERROTRACE_HELPERS_H

#include <linux/types.h>

struct dentry;
struct file;
struct irq_work;
struct page;
struct pipe_buf_operations;
struct pipe_inode_info;
struct task_struct;
struct vm_area_desc;
struct wait_queue_head;

/* cpumask.h: the next CPU after @cpu (-1: the first), or nr_cpu_ids. */
unsigned int ferro_next_possible_cpu(int cpu);
unsigned int ferro_next_online_cpu(int cpu);
bool ferro_cpu_possible(unsigned int cpu);

/* cpu.h: hold off CPU hotplug, which nothing does without CONFIG_HOTPLUG_CPU. */
void ferro_cpus_read_lock(void);
void ferro_cpus_read_unlock(void);

/* percpu.h: a per-CPU pointer, NULL on every CPU. */
void __percpu *ferro_alloc_percpu_ptr(void);
void **ferro_per_cpu_ptr(void __percpu *slots, unsigned int cpu);
void **ferro_this_cpu_ptr(void __percpu *slots);

/* preempt.h */
bool ferro_in_nmi(void);

/* irqflags.h */
bool ferro_irqs_disabled(void);
unsigned long ferro_local_irq_save(void);
void ferro_local_irq_restore(unsigned long flags);

/* preempt.h; the last asks the scheduler, when enabling left nothing in its way. */
void ferro_preempt_disable(void);
void ferro_preempt_enable(void);
void ferro_preempt_schedule(void);

/* kernel.h: whether the kernel has not come to user space yet. */
bool ferro_booting(void);

/* irq_work.h, wait.h */
void ferro_init_irq_work(struct irq_work *work, void (*func)(struct irq_work *));
bool ferro_waitqueue_active(struct wait_queue_head *head);

/* gfp.h: a zeroed page, or NULL without a warning and without killing anybody. */
struct page *ferro_alloc_page(void);

/* vmalloc.h, mm.h: a kernel mapping of @count pages, read and write. */
void *ferro_vmap(struct page **pages, unsigned int count);
void ferro_get_page(struct page *page);

/* mm.h: what a mapping asks for. */
size_t ferro_mmap_size(const struct vm_area_desc *desc);
bool ferro_mmap_writable(const struct vm_area_desc *desc);
/* Forbid growing the mapping, dumping it, and, unless it is writable now, making it writable later. */
void ferro_mmap_fix(struct vm_area_desc *desc, bool writable);

/* fs.h: whether the file was opened for reading. */
bool ferro_file_readable(const struct file *file);
/* Only read() and sendfile() from where the file is: no pread(), no pwrite(). */
void ferro_file_no_positions(struct file *file);
void ferro_get_file(struct file *file);

/*
 * splice.h: append a buffer to a locked pipe; 0 or a negative errno, and then it has been released.
 */
int ferro_add_to_pipe(struct pipe_inode_info *pipe, struct page *page, unsigned int offset,
		      unsigned int len, const struct pipe_buf_operations *ops,
		      unsigned long private);

/*
 * mm.h: whether anybody has a reference beside the one allocated with, those of user mappings, and those of who has
 * pinned the page through one, for as long as he likes.
 */
bool ferro_page_shared(struct page *page, bool may_be_pinned);

/* dcache.h, fs.h */
struct dentry *ferro_dget(struct dentry *dentry);
void ferro_i_size_set(struct dentry *dentry, loff_t size);
void ferro_i_size_add(struct dentry *dentry, size_t size);

/*
 * stop_machine.h: run @fn on @cpu, in a thread that only what has preemption off holds up, and wait for it.
 * -ENOENT if the CPU is offline.
 */
int ferro_stop_one_cpu(unsigned int cpu, int (*fn)(void *), void *arg);

/* For owner_lock.rs: how many locks this CPU held or awaited before. With interrupts off. */
unsigned int ferro_owner_locks_enter(void);
void ferro_owner_locks_exit(void);

/* sched.h, sched/signal.h */
void ferro_cond_resched(void);
bool ferro_fatal_signal_pending(void);

/* sched.h: the thread's number; its name is copied to @comm, of TASK_COMM_LEN bytes. */
int ferro_task_info(const struct task_struct *task, char *comm);

/* kernel.h: whether there is code of the kernel or of a module. */
bool ferro_is_text(const void *addr);

/* kasan.h: let everybody use this part of a stack, whose variables are gone. */
void ferro_kasan_unpoison(const void *start, size_t size);

/* The lock of the list of debugfs.rs. */
extern struct mutex ferro_debugfs_lock;
/* Whether a struct file_operations and its functions are of the module that its owner says. */
bool ferro_fops_owner_is_right(const void *operations);
/* rust/sys/debugfs.rs. Context: the module notifier. */
void ferro_debugfs_module_going(struct module *mod);

/* tracepoint.h */
void ferro_tracepoint_synchronize_unregister(void);

#endif /* _FERROTRACE_HELPERS_H */
