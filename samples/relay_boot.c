// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: records of the early boot, before other CPUs, user space or a file system to read from.
 *
 * Each initcall that ends is recorded in a fast relay channel, with its time, its function and its
 * result. Once the kernel is up:
 *
 *	ferrotrace relay record /sys/kernel/debug/relay_boot/cpu -o OUT
 *	ferrotrace relay merge OUT
 */
#include <linux/err.h>
#include <linux/ferrotrace_relay.h>
#include <linux/init.h>
#include <linux/module.h>
#include <trace/events/initcall.h>

struct record {
	u64 func;
	s32 ret;
	u32 reserved;
};

static const char format[] =
	"name: initcall\n"
	"ID: 0\n"
	"format:\n"
	"\tfield:u64 func;\toffset:0;\tsize:8;\tsigned:0;\n"
	"\tfield:s32 ret;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\tfield:u32 reserved;\toffset:12;\tsize:4;\tsigned:0;\n";

static struct relay_fast *chan;

static void initcall_finish(void *data, initcall_t func, int ret)
{
	struct record record = { .func = (unsigned long)func, .ret = ret };

	relay_fast_write_timed(chan, 0, &record, sizeof(record));
}

static int __init relay_boot_init(void)
{
	chan = relay_fast_open("relay_boot/cpu", NULL, 4096, 8, 0, format);
	if (IS_ERR(chan))
		return PTR_ERR(chan);
	return register_trace_initcall_finish(initcall_finish, NULL);
}
early_initcall(relay_boot_init);

/* The functions of initcalls are freed after the last initcall. */
static int __init relay_boot_end(void)
{
	if (!IS_ERR_OR_NULL(chan))
		unregister_trace_initcall_finish(initcall_finish, NULL);
	return 0;
}
late_initcall_sync(relay_boot_end);
