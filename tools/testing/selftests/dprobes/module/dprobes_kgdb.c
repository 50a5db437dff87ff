// SPDX-License-Identifier: GPL-2.0
/*
 * Scripted debugger for kgdb: asks why the kernel has stopped, and continues it. It connects when
 * the module is loaded, and detaches when the module is unloaded. Parameters show how often the
 * kernel has stopped, and its last answer.
 */
#include <linux/kgdb.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/serial_core.h>

/*
 * Input from the other end of the line, once the kernel has stopped: packets, and a '+' for each
 * that the kernel sends.
 */
#define ASK	"$?#3f+"
#define GO_ON	"$c#63"
#define LEAVE	"$D#44+"

static unsigned int stops;
module_param(stops, uint, 0400);
MODULE_PARM_DESC(stops, "How often the kernel has stopped");

static char said[64];
module_param_string(said, said, sizeof(said), 0400);
MODULE_PARM_DESC(said, "What it said at the last stop, the beginning");

static const char *script;
static unsigned int length;
static bool is_leaving;

static void stopped(void)
{
	/* A debugger that is connected gets the reason without asking. */
	if (!kgdb_connected)
		script = ASK GO_ON;
	else if (is_leaving)
		script = "+" LEAVE;
	else
		script = "+" ASK GO_ON;
	length = 0;
	stops++;
}

static int read_char(void)
{
	return *script ? *script++ : NO_POLL_CHAR;
}

static void write_char(u8 c)
{
	if (length < sizeof(said) - 1)
		said[length++] = c;
	said[length] = 0;
}

static struct kgdb_io line = {
	.name = KBUILD_MODNAME,
	.read_char = read_char,
	.write_char = write_char,
	.pre_exception = stopped,
};

static int __init debugger_init(void)
{
	int error = kgdb_register_io_module(&line);

	if (error)
		return error;
	kgdb_breakpoint();
	if (kgdb_connected)
		return 0;
	kgdb_unregister_io_module(&line);
	return -EIO;
}

static void __exit debugger_exit(void)
{
	is_leaving = true;
	kgdb_breakpoint();
	kgdb_unregister_io_module(&line);
}

module_init(debugger_init);
module_exit(debugger_exit);
MODULE_DESCRIPTION("A debugger that only looks");
MODULE_LICENSE("GPL");
