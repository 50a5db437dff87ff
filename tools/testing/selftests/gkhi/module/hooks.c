// SPDX-License-Identifier: GPL-2.0
/*
 * Hooks of every form, and their places.
 */
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "gkhi_selftest.h"

DEFINE_GKHOOK(gst_zero, GKH_ATOMIC, "");
DEFINE_GKHOOK(gst_ro, GKH_TASK, "a, b, c");
DEFINE_GKHOOK(gst_rw, GKH_SLEEP, "a, b");
DEFINE_GKHOOK(gst_ret, GKH_TASK, "a");
DEFINE_GKHOOK(gst_rw_ret, GKH_TASK, "a");
DEFINE_GKHOOK(gst_sleep, GKH_SLEEP, "a");
DEFINE_GKHOOK_FLAGS(gst_no_stop, GKH_SLEEP, "", GKH_NO_STOP);
DEFINE_GKHOOK_FLAGS(gst_exclusive, GKH_TASK, "", GKH_EXCLUSIVE);
DEFINE_GKHOOK(gst_a, GKH_ATOMIC, "p");
DEFINE_GKHOOK(gst_b, GKH_ATOMIC, "p");
DEFINE_GKHOOK(gst_task_a, GKH_TASK, "p");
DEFINE_GKHOOK(gst_task_b, GKH_TASK, "p");

static struct gkhook *const hooks[] = {
	GKHOOK(gst_zero), GKHOOK(gst_ro), GKHOOK(gst_rw), GKHOOK(gst_ret), GKHOOK(gst_rw_ret),
	GKHOOK(gst_sleep), GKHOOK(gst_no_stop), GKHOOK(gst_exclusive), GKHOOK(gst_a), GKHOOK(gst_b),
	GKHOOK(gst_task_a), GKHOOK(gst_task_b),
};

struct gkhook *gst_hook(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		if (!strcmp(hooks[i]->name, name))
			return hooks[i];
	return NULL;
}

/* They return the value of an exit, or 1000. */
static noinline int place_ret(long a)
{
	GKHOOK_1VAR_RO_RET(int, gst_ret, a);
	return 1000;
}

static noinline int place_rw_ret(long a)
{
	GKHOOK_1VAR_RW_RET(int, gst_rw_ret, a);
	return a * 1000;
}

int gst_fire(const char *name, long *answer)
{
	unsigned int a = 1, b = 2;
	u8 c = 3;

	if (!strcmp(name, "gst_zero")) {
		preempt_disable();
		*answer = GKHOOK_0VAR(gst_zero);
		preempt_enable();
	} else if (!strcmp(name, "gst_ro")) {
		*answer = GKHOOK_3VAR_RO(gst_ro, a, b, c);
	} else if (!strcmp(name, "gst_rw")) {
		*answer = GKHOOK_2VAR_RW(gst_rw, a, b) + 100 * a + 1000 * b;
	} else if (!strcmp(name, "gst_ret")) {
		*answer = place_ret(7);
	} else if (!strcmp(name, "gst_rw_ret")) {
		*answer = place_rw_ret(7);
	} else if (!strcmp(name, "gst_sleep")) {
		*answer = GKHOOK_1VAR_RO(gst_sleep, a);
	} else if (!strcmp(name, "gst_a")) {
		preempt_disable();
		*answer = GKHOOK_1VAR_RO(gst_a, &a);
		preempt_enable();
	} else {
		return -ENOENT;
	}
	return 0;
}

int gst_hooks_init(void)
{
	int i, err;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		err = gkh_identify(hooks[i]);
		if (err) {
			while (i--)
				gkh_delete(hooks[i]);
			return err;
		}
	}
	return 0;
}

void gst_hooks_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		gkh_delete(hooks[i]);
}
