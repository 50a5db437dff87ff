/* SPDX-License-Identifier: GPL-2.0 */
/* Kernel headers that probe programs need, and the interface between their C and their Rust. */
#ifndef _FERROTRACE_DPROBES_BINDINGS_H
#define _FERROTRACE_DPROBES_BINDINGS_H

#include <linux/dprobes.h>
#include <linux/hw_breakpoint.h>
#include <linux/path.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>
#include <linux/uprobes.h>

/*
 * Returns the registers that the current thread had when it left user space; NULL for a thread of
 * the kernel. Context: any.
 */
struct pt_regs *ferro_dprobes_user_regs(void);

/* Returns the code segment, or the stack segment. Context: any. */
unsigned short ferro_dprobes_segment(const struct pt_regs *regs, bool stack);

/* Returns the user ID of the current thread. Context: any. */
unsigned int ferro_dprobes_uid(void);

/*
 * Reads a register that pt_regs lacks, by its number in ferro_dprobes_core::Register. Returns false
 * if there is no such register. Context: any, on one CPU.
 */
bool ferro_dprobes_register(unsigned int number, unsigned long *value);

/* Reads and writes ports, 1, 2 or 4 bytes wide. Context: any. */
unsigned int ferro_dprobes_port_in(unsigned short port, unsigned int width);
void ferro_dprobes_port_out(unsigned short port, unsigned int width, unsigned int value);

/* Probed file. */
struct ferro_dprobes_file {
	struct path path;
	/* Inode that has the code. */
	struct inode *inode;
	/* Name within its file system at the time of the look-up. */
	char *name;
};

/* Returns true if the current task may administer the system. Context: process. */
bool ferro_dprobes_capable(void);

/*
 * Finds a regular file, takes a reference to it, and reads the byte at an offset.
 * Context: process. Opening may block indefinitely, and may need a module.
 * Return: 0, -ENOENT and others, -EINVAL if not a regular file with a page cache, -ENXIO if there
 * is no such byte.
 */
int ferro_dprobes_file(const char *name, loff_t offset, struct ferro_dprobes_file *file,
		       unsigned char *byte);
/* Drops the references of ferro_dprobes_file(). Context: process; sleeps. */
void ferro_dprobes_file_put(struct ferro_dprobes_file *file);
/*
 * Returns true if a process that opens the name now gets the same code. That is, the file has not
 * been removed, renamed or replaced, nor copied up by an overlay. Only this machine's own names are
 * compared; no file system is asked. Context: process.
 */
bool ferro_dprobes_file_is_current(const struct ferro_dprobes_file *file);

/* Watchpoint on all CPUs, including those that are brought online later. */
struct ferro_dprobes_watch;

/*
 * Registers the CPU hotplug callbacks, before the first watchpoint. Context: process; sleeps.
 * Return: a state, or an error.
 */
int ferro_dprobes_watch_begin(void);
/* Unregisters the callbacks, after the last watchpoint. Context: process; sleeps. */
void ferro_dprobes_watch_end(int state);
/*
 * Watches an address. The type is one of HW_BREAKPOINT_.... Context: process; sleeps.
 * Return: a pointer to be checked by ferro_dprobes_watch_error().
 */
struct ferro_dprobes_watch *ferro_dprobes_watch(unsigned long address, unsigned long len,
						unsigned int type,
						perf_overflow_handler_t triggered,
						void *context);
/* Unregisters a watchpoint; handlers may still be running. Context: process; sleeps. */
void ferro_dprobes_unwatch(struct ferro_dprobes_watch *watch);
/*
 * Waits until no handler runs of watchpoints that were unregistered before. Context: process;
 * sleeps.
 */
void ferro_dprobes_watch_sync(void);
/* Returns the error in a pointer, or 0. */
int ferro_dprobes_watch_error(struct ferro_dprobes_watch *watch);
/* Returns the context given to ferro_dprobes_watch(). Context: any. */
void *ferro_dprobes_watch_context(struct perf_event *event);

/*
 * Gives the work item a function to call. Context: process. Return: 0, or -EBUSY if it has a
 * function already.
 */
int ferro_dprobes_worker_begin(void (*f)(const void *context), const void *with);
/*
 * Queues the work item. A call that has already begun does not count. Context: any, NMI included.
 */
void ferro_dprobes_worker_ask(void);
/* Waits until the earlier requests are done. Context: process; sleeps. */
void ferro_dprobes_worker_wait(void);
/*
 * Waits likewise, then removes the function. The work item must not be queued after this.
 * Context: process; sleeps.
 */
void ferro_dprobes_worker_end(void);

/* Returns the error in a pointer, or 0. */
int ferro_dprobes_uprobe_error(struct uprobe *uprobe);

/*
 * Calls the function registered under a number. Returns false if there is none. Context: any, with
 * preemption off.
 */
bool ferro_dprobes_call(unsigned int number, unsigned long argument, unsigned long *result);

/*
 * Calls the function registered under the number of an exit, if any. Context: any, with interrupts
 * off.
 */
void ferro_dprobes_exit(unsigned int number, const struct dprobes_exit *left);

/*
 * Returns true if a byte that has just been read successfully can be written, by writing its value
 * back. @user: the byte is in user space. Context: any, provided that user space's memory is as the
 * read found it. An NMI may interrupt a change of that memory.
 */
bool ferro_dprobes_try_write(unsigned long address, bool user);

/* Stops in the kernel's debugger, if one is connected. Context: any. */
void ferro_dprobes_debugger(void);
/* Crashes the kernel, for a dump. Context: any. */
void ferro_dprobes_crash(void);
/* Makes the current process end with a core dump. Context: any, NMI included. */
void ferro_dprobes_core_dump(void);
/* Waits until all requested core dumps have been started. Context: process; sleeps. */
void ferro_dprobes_finish(void);

#endif /* _FERROTRACE_DPROBES_BINDINGS_H */
