// SPDX-License-Identifier: GPL-2.0
/*
 * C part of persistent channels: a notifier for panics, restarts and halts, the last events of a
 * kernel; and the identity of the boot, the time, and the kernel release.
 */
#include <linux/kmsg_dump.h>
#include <linux/mutex.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/utsname.h>
#ifdef CONFIG_X86_64
#include <asm/cacheflush.h>
#endif

#include "bindings.h"

DEFINE_MUTEX(relay_fast_persistent_mutex);

void relay_fast_origin(struct relay_fast_origin *origin)
{
	static u64 boot[2];

	get_random_once(boot, sizeof(boot));
	memcpy(origin->boot, boot, sizeof(boot));
	origin->monotonic_ns = ktime_get_mono_fast_ns();
	origin->real_ns = ktime_get_real_fast_ns();
	strscpy_pad(origin->release, init_utsname()->release);
}

void relay_fast_flush(void *start, size_t size)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	clflush_cache_range(start, size);
#endif
}

static void dump(struct kmsg_dumper *dumper, struct kmsg_dump_detail *detail)
{
	relay_fast_dump(detail->reason);
}

static struct kmsg_dumper dumper = {
	.dump = dump,
	.max_reason = KMSG_DUMP_SHUTDOWN,
};

int relay_fast_dump_register(void)
{
	return kmsg_dump_register(&dumper);
}

void relay_fast_dump_unregister(void)
{
	kmsg_dump_unregister(&dumper);
}
