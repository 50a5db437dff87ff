/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What probe programs need of the kernel's headers, and what their C and their Rust share.
 */
#ifndef _FERROTRACE_DPROBES_BINDINGS_H
#define _FERROTRACE_DPROBES_BINDINGS_H

#include <linux/dprobes.h>
#include <linux/hw_breakpoint.h>
#include <linux/path.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>
#include <linux/uprobes.h>

/* The registers that the current thread had when it left user space, or NULL if it is of the kernel. Context: any. */
struct pt_regs *ferro_dprobes_user_regs(void);

/* The code's segment, or the stack's. Context: any. */
unsigned short ferro_dprobes_segment(const struct pt_regs *regs, bool stack);

/* The number of the current thread's user. Context: any. */
unsigned int ferro_dprobes_uid(void);

/*
 * Reads a register that no pt_regs has, by its number in ferro_core::rpn::Register. Whether there is one. Context: any, on one
 * CPU.
 */
bool ferro_dprobes_register(unsigned int number, unsigned long *value);

/* Read and write ports, 1, 2 or 4 bytes wide. Context: any. */
unsigned int ferro_dprobes_port_in(unsigned short port, unsigned int width);
void ferro_dprobes_port_out(unsigned short port, unsigned int width, unsigned int value);

/* A file that is probed. */
struct ferro_dprobes_file {
	struct path path;
	/* The inode that has the code. */
	struct inode *inode;
	/* Its name within its file system when it was found. */
	char *name;
};

/* Whether the current task may administer the system. Context: process. */
bool ferro_dprobes_capable(void);

/*
 * Finds a regular file and takes a reference to it, and reads the byte at an offset of it. Context: process.
 * Opening may take for ever, and may need a module.
 * Return: 0, -ENOENT and others, -EINVAL if it is not a regular file with a page cache, -ENXIO if it has no such byte.
 */
int ferro_dprobes_file(const char *name, loff_t offset, struct ferro_dprobes_file *file, unsigned char *byte);
/* Gives that back. Context: process; sleeps. */
void ferro_dprobes_file_put(struct ferro_dprobes_file *file);
/*
 * Returns true if a process that opens the name now gets the same code: the file has not been removed, renamed or replaced, nor
 * copied up by an overlay. Only this machine's own names are looked at, and no file system is asked. Context: process.
 */
bool ferro_dprobes_file_is_current(const struct ferro_dprobes_file *file);

/* A watchpoint on all CPUs, those that come later included. */
struct ferro_dprobes_watch;

/* Begins to look at CPUs that come and go, before the first watchpoint. Context: process; sleeps. Return: a state, or an error. */
int ferro_dprobes_watch_begin(void);
/* Ends that, after the last one. Context: process; sleeps. */
void ferro_dprobes_watch_end(int state);
/*
 * Watches an address. The type is one of HW_BREAKPOINT_.... Context: process; sleeps.
 * Return: what ferro_dprobes_watch_error() finds an error in, or not.
 */
struct ferro_dprobes_watch *ferro_dprobes_watch(unsigned long address, unsigned long len, unsigned int type,
						perf_overflow_handler_t triggered, void *context);
/* Undoes that; handlers may be running yet. Context: process; sleeps. */
void ferro_dprobes_unwatch(struct ferro_dprobes_watch *watch);
/* Waits until no handler runs of what was unwatched before. Context: process; sleeps. */
void ferro_dprobes_watch_sync(void);
/* The error that is in such a pointer, or 0. */
int ferro_dprobes_watch_error(struct ferro_dprobes_watch *watch);
/* What was given for context. Context: any. */
void *ferro_dprobes_watch_context(struct perf_event *event);

/* Has a work item call a function whenever it is asked to. Context: process. Return: 0, or -EBUSY if one does already. */
int ferro_dprobes_worker_begin(void (*f)(const void *context), const void *with);
/* Asks for a call; one that has begun before does not count. Context: any, NMI included. */
void ferro_dprobes_worker_ask(void);
/* Waits until what was asked for before is done. Context: process; sleeps. */
void ferro_dprobes_worker_wait(void);
/* The same, and then it is called no more. Nobody asks any more. Context: process; sleeps. */
void ferro_dprobes_worker_end(void);

/* The error that is in such a pointer, or 0. */
int ferro_dprobes_uprobe_error(struct uprobe *uprobe);

/* Calls what is registered under a number. Whether there is something. Context: any, with preemption off. */
bool ferro_dprobes_call(unsigned int number, unsigned long argument, unsigned long *result);

/* Calls what is registered under the number of an exit, if anything is. Context: any, with interrupts off. */
void ferro_dprobes_exit(unsigned int number, const struct dprobes_exit *left);

/*
 * Returns true if a byte that has just been read with success can be written, by writing what is there. @user: it is of user space.
 * Context: any, of which user space's memory is as the read has found it: an NMI may come while that changes.
 */
bool ferro_dprobes_try_write(unsigned long address, bool user);

/* Stops in the kernel's debugger, if one is connected. Context: any. */
void ferro_dprobes_debugger(void);
/* Crashes the kernel, for a dump. Context: any. */
void ferro_dprobes_crash(void);
/* Has the current process end with a core dump. Context: any, NMI included. */
void ferro_dprobes_core_dump(void);
/* Waits until that has been done, whoever has asked for it. Context: process; sleeps. */
void ferro_dprobes_finish(void);

#endif /* _FERROTRACE_DPROBES_BINDINGS_H */
