// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers for inline functions and macros of the kernel, for probe programs. Functions that run in
 * probes are not traced.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/irq_work.h>
#include <linux/kgdb.h>
#include <linux/namei.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/shmem_fs.h>
#include <linux/sysrq.h>
#include <linux/uaccess.h>
#include <asm/asm.h>
#include <asm/debugreg.h>
#include <asm/msr.h>
#include <asm/special_insns.h>

#include "bindings.h"

notrace struct pt_regs *ferro_dprobes_user_regs(void)
{
	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || !current->mm)
		return NULL;
	return task_pt_regs(current);
}

notrace unsigned short ferro_dprobes_segment(const struct pt_regs *regs, bool stack)
{
	return stack ? regs->ss : regs->cs;
}

notrace unsigned int ferro_dprobes_uid(void)
{
	return from_kuid(&init_user_ns, current_uid());
}

notrace bool ferro_dprobes_register(unsigned int number, unsigned long *value)
{
	unsigned short segment = 0;

	switch (number) {
	case 18:
		*value = __KERNEL_CS;
		return true;
	case 19:
		*value = __KERNEL_DS;
		return true;
	case 20:
		asm("mov %%ds, %0" : "=r"(segment));
		*value = segment;
		return true;
	case 21:
		asm("mov %%es, %0" : "=r"(segment));
		*value = segment;
		return true;
	case 22:
		asm("mov %%fs, %0" : "=r"(segment));
		*value = segment;
		return true;
	case 23:
		asm("mov %%gs, %0" : "=r"(segment));
		*value = segment;
		return true;
	case 24:
		rdmsrq(MSR_FS_BASE, *value);
		return true;
	case 25:
		/* In the kernel, user space's base is in this MSR. */
		rdmsrq(MSR_KERNEL_GS_BASE, *value);
		return true;
	case 26:
		*value = read_cr0();
		return true;
	case 27:
		*value = read_cr2();
		return true;
	case 28:
		*value = __read_cr3();
		return true;
	case 29:
		*value = __read_cr4();
		return true;
	case 30:
	case 31:
	case 32:
	case 33:
		get_debugreg(*value, number - 30);
		return true;
	case 34:
		get_debugreg(*value, 6);
		return true;
	case 35:
		get_debugreg(*value, 7);
		return true;
	default:
		return false;
	}
}

notrace unsigned int ferro_dprobes_port_in(unsigned short port, unsigned int width)
{
	switch (width) {
	case 1:
		return inb(port);
	case 2:
		return inw(port);
	default:
		return inl(port);
	}
}

notrace void ferro_dprobes_port_out(unsigned short port, unsigned int width, unsigned int value)
{
	switch (width) {
	case 1:
		outb(value, port);
		break;
	case 2:
		outw(value, port);
		break;
	default:
		outl(value, port);
		break;
	}
}

/* Returns the name of a file within its file system, for kfree(); NULL without memory. */
static char *name_of(struct dentry *dentry)
{
	char *buffer = kmalloc(PATH_MAX, GFP_KERNEL);
	char *name, *start;

	if (!buffer)
		return NULL;
	start = dentry_path_raw(dentry, buffer, PATH_MAX);
	/* Names that are too long compare as equal. */
	name = kstrdup(IS_ERR(start) ? "" : start, GFP_KERNEL);
	kfree(buffer);
	return name;
}

/* Writes a byte without changing it, even if other CPUs write it at the same time. */
static __always_inline bool or_nothing(u8 *byte)
{
	int error = 0;

	asm volatile("1: lock orb $0, %1\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_EFAULT_REG, %0)
		     : "+r" (error), "+m" (*byte));
	return !error;
}

notrace bool ferro_dprobes_try_write(unsigned long address, bool user)
{
	bool is_done;

	if (!user)
		return or_nothing((u8 *)address);
	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || !current->mm ||
	    !access_ok((void __user *)address, 1))
		return false;
	pagefault_disable();
	__uaccess_begin();
	is_done = or_nothing((__force u8 *)address);
	__uaccess_end();
	pagefault_enable();
	return is_done;
}

bool ferro_dprobes_capable(void)
{
	return capable(CAP_SYS_ADMIN);
}

int ferro_dprobes_file(const char *name, loff_t offset, struct ferro_dprobes_file *found,
		       unsigned char *byte)
{
	struct inode *inode;
	struct file *file;
	ssize_t n;
	int error;

	error = kern_path(name, LOOKUP_FOLLOW, &found->path);
	if (error)
		return error;
	inode = d_real_inode(found->path.dentry);
	found->inode = inode;
	found->name = NULL;
	error = -EINVAL;
	/*
	 * Only files that can be mapped for execution: opening a file of debugfs, or of another
	 * file system without a page cache, may have side effects.
	 */
	if (!S_ISREG(inode->i_mode) ||
	    (!inode->i_mapping->a_ops->read_folio && !shmem_mapping(inode->i_mapping)))
		goto put;
	error = -ENOMEM;
	found->name = name_of(found->path.dentry);
	if (!found->name)
		goto put;
	file = dentry_open(&found->path, O_RDONLY | O_LARGEFILE, current_cred());
	error = PTR_ERR_OR_ZERO(file);
	if (error)
		goto put;
	n = kernel_read(file, byte, 1, &offset);
	fput(file);
	if (n == 1)
		return 0;
	error = n < 0 ? n : -ENXIO;
put:
	ferro_dprobes_file_put(found);
	return error;
}

void ferro_dprobes_file_put(struct ferro_dprobes_file *file)
{
	path_put(&file->path);
	kfree(file->name);
}

bool ferro_dprobes_file_is_current(const struct ferro_dprobes_file *file)
{
	struct dentry *dentry = file->path.dentry;
	bool is_same;
	char *name;

	if (d_unlinked(dentry) || d_real_inode(dentry) != file->inode)
		return false;
	name = name_of(dentry);
	/* Without memory the names cannot be compared. */
	is_same = !name || !strcmp(name, file->name);
	kfree(name);
	return is_same;
}

int ferro_dprobes_uprobe_error(struct uprobe *uprobe)
{
	return PTR_ERR_OR_ZERO(uprobe);
}

notrace void ferro_dprobes_debugger(void)
{
#ifdef CONFIG_KGDB
	if (kgdb_connected)
		kgdb_breakpoint();
#endif
}

notrace void ferro_dprobes_crash(void)
{
#ifdef CONFIG_MAGIC_SYSRQ
	handle_sysrq('c');
#endif
	panic("a probe program has asked for a crash dump");
}

/* Signals take locks, which the probed code may hold: so they are sent from an interrupt. */
struct ferro_dprobes_dump {
	struct irq_work work;
	struct pid *pid;
};

static void ferro_dprobes_send(struct irq_work *work)
{
	struct ferro_dprobes_dump *dump = container_of(work, struct ferro_dprobes_dump, work);
	struct pid *pid = xchg(&dump->pid, NULL);

	if (!pid)
		return;
	kill_pid(pid, SIGABRT, 1);
	put_pid(pid);
}

static DEFINE_PER_CPU(struct ferro_dprobes_dump, ferro_dprobes_dumps) = {
	/* Not hard: the signal takes a lock that sleeps on PREEMPT_RT. */
	.work = IRQ_WORK_INIT(ferro_dprobes_send),
};

notrace void ferro_dprobes_core_dump(void)
{
	struct ferro_dprobes_dump *dump = this_cpu_ptr(&ferro_dprobes_dumps);
	struct pid *pid;

	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || !current->mm)
		return;
	/* One at a time: only the same thread can ask again before the first signal is sent. */
	pid = get_pid(task_tgid(current));
	if (cmpxchg(&dump->pid, NULL, pid)) {
		put_pid(pid);
		return;
	}
	irq_work_queue(&dump->work);
}

void ferro_dprobes_finish(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		irq_work_sync(&per_cpu_ptr(&ferro_dprobes_dumps, cpu)->work);
}
