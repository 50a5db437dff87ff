// SPDX-License-Identifier: GPL-2.0
/*
 * Targets of probe programs: a faulting instruction, functions that they call and end with, a
 * handler of klog, and an object that is made, changed and freed. Parameters trigger them: writing
 * an address to "load" loads a word from there, "klog" has the last message, and writing a number
 * to "object" stores it in the object, which is made for the first number and freed for 0.
 */
#include <linux/dprobes.h>
#include <linux/kernel.h>
#include <linux/klog.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/asm.h>

#include "dprobes_selftest.h"

#define CALL	5
#define EXIT	5

/* The longest text of klog fits. */
static char message[1024];
static unsigned long called;
static char exited[64];
static unsigned int exits;

/* Where objtool lists the sites of ftrace, it leaves a file out that has a list already. */
#ifdef CONFIG_FTRACE_MCOUNT_USE_OBJTOOL
#define LIST_SITE
#else
#define LIST_SITE ".pushsection __mcount_loc, \"a\", @progbits\n" \
	".balign 8\n" \
	".quad 3b\n" \
	".popsection\n"
#endif

/*
 * After a site of ftrace, without which points are refused, there are instructions of 2, 3, 3 and 5
 * bytes. The second, at LOAD_OFFSET of ../src/module.rs, is the load; it has no other effect.
 */
asm(".text\n"
	".globl dprobes_selftest_read\n"
	".type dprobes_selftest_read, @function\n"
	"dprobes_selftest_read:\n"
	"3:	call __fentry__\n"
	LIST_SITE
	"	xor %eax, %eax\n"
	"1:	mov (%rdi), %rdx\n"
	"	mov %rdx, (%rsi)\n"
	"	mov $1, %eax\n"
	"2:	" ASM_RET
	_ASM_EXTABLE(1b, 2b)
	".size dprobes_selftest_read, . - dprobes_selftest_read\n");

static int load_set(const char *text, const struct kernel_param *param)
{
	unsigned long address, word;
	int error = kstrtoul(text, 0, &address);

	if (error)
		return error;
	return dprobes_selftest_read(address ?: (unsigned long)&called, &word) ? 0 : -EFAULT;
}

static const struct kernel_param_ops load_ops = { .set = load_set };
module_param_cb(load, &load_ops, NULL, 0200);
MODULE_PARM_DESC(load, "An address to load from; 0 is one that is there");

module_param_string(klog, message, sizeof(message), 0400);
MODULE_PARM_DESC(klog, "The last message of klog");

module_param(called, ulong, 0400);
MODULE_PARM_DESC(called, "How often programs have called");

module_param_string(exited, exited, sizeof(exited), 0400);
MODULE_PARM_DESC(exited, "How often programs have ended with the function, and what the last one left");

static unsigned long *object;

noinline void dprobes_selftest_take(unsigned long *taken)
{
	/* Not left out. */
	barrier_data(taken);
}

noinline void dprobes_selftest_give(unsigned long *given)
{
	barrier_data(given);
}

static int object_set(const char *text, const struct kernel_param *param)
{
	bool is_new = !object;
	unsigned long word;
	int error = kstrtoul(text, 0, &word);

	if (error)
		return error;
	if (!word) {
		dprobes_selftest_give(object);
		kfree(object);
		object = NULL;
		return 0;
	}
	if (is_new)
		object = kmalloc(sizeof(*object), GFP_KERNEL);
	if (!object)
		return -ENOMEM;
	WRITE_ONCE(*object, word);
	if (is_new)
		dprobes_selftest_take(object);
	return 0;
}

static const struct kernel_param_ops object_ops = { .set = object_set };
module_param_cb(object, &object_ops, NULL, 0200);
MODULE_PARM_DESC(object, "A word to store in the object; 0 frees it");

static unsigned long call(unsigned long argument)
{
	WRITE_ONCE(called, called + 1);
	dprobes_selftest_take(&called);
	return 2 * argument + 1;
}

static void on_exit(const struct dprobes_exit *left)
{
	snprintf(exited, sizeof(exited), "%u %u.%u %zu %*ph", ++exits, left->major, left->minor, left->len,
		 min_t(int, left->len, 16), left->log);
}

static void on_message(const void *data, int len)
{
	len = min_t(int, len, sizeof(message) - 1);
	memcpy(message, data, len);
	message[len] = 0;
}

static const struct klog_operations operations = { .klog = on_message };

static int __init selftest_init(void)
{
	int error;

	if (dprobes_register_call(DPROBES_CALLS, call) != -EINVAL || dprobes_register_call(CALL, NULL) != -EINVAL)
		return -EINVAL;
	error = dprobes_register_call(CALL, call);
	if (error)
		return error;
	if (dprobes_register_call(CALL, call) != -EBUSY) {
		dprobes_unregister_call(CALL);
		return -EINVAL;
	}
	if (dprobes_register_exit(3, on_exit) != -EINVAL || dprobes_register_exit(DPROBES_EXITS, on_exit) != -EINVAL ||
	    dprobes_register_exit(EXIT, NULL) != -EINVAL || dprobes_register_exit(EXIT, on_exit) ||
	    dprobes_register_exit(EXIT, on_exit) != -EBUSY) {
		dprobes_unregister_exit(EXIT);
		dprobes_unregister_call(CALL);
		return -EINVAL;
	}
	register_klog_handler(&operations);
	return 0;
}

static void __exit selftest_exit(void)
{
	unregister_klog_handler();
	dprobes_unregister_exit(EXIT);
	dprobes_unregister_call(CALL);
	kfree(object);
}

module_init(selftest_init);
module_exit(selftest_exit);
MODULE_DESCRIPTION("What probe programs are tried on");
MODULE_LICENSE("GPL");
