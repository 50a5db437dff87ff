// SPDX-License-Identifier: GPL-2.0
/*
 * A CPU that is slow to start: it waits after relay has prepared for it, and before it is online,
 * until a channel has been opened or, as the opener may wait for the CPU, for 2 s from then.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/delay.h>

#include "relay_selftest.h"

static enum cpuhp_state state;
static atomic_t slow_cpu = ATOMIC_INIT(-1);

static int prepare(unsigned int cpu)
{
	int i;

	if (atomic_cmpxchg(&slow_cpu, cpu, -1) != cpu)
		return 0;
	WRITE_ONCE(rst.coming_up, true);
	for (i = 0; i < 3000 && !READ_ONCE(rst.opening); i++)
		msleep(20);
	/* the opener may be waiting for us */
	for (i = 0; i < 100 && !READ_ONCE(rst.chan); i++)
		msleep(20);
	WRITE_ONCE(rst.coming_up, false);
	return 0;
}

/* CPUs that were taken down */
static atomic_t gone_down = ATOMIC_INIT(0);

static int dead(unsigned int cpu)
{
	atomic_inc(&gone_down);
	return 0;
}

int rst_down(void)
{
	return atomic_read(&gone_down);
}

/* Does another CPU go down while we wait? */
bool rst_wait_down(int before)
{
	int i;

	for (i = 0; i < 500; i++) {
		if (atomic_read(&gone_down) != before)
			return true;
		msleep(20);
	}
	return false;
}

/* slowcpu cpu=: the next time that it starts */
int rst_slow_cpu(const struct ctl_args *a)
{
	u64 cpu = 0;
	int ret = ctl_num(a, "cpu", &cpu);

	if (!ret) {
		WRITE_ONCE(rst.opening, false);
		atomic_set(&slow_cpu, cpu);
	}
	return ret;
}

int rst_hotplug_init(void)
{
	/* these states are after relay's */
	int ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN,
					    "relay_selftest:prepare",
					    prepare, dead);

	state = ret;
	return ret < 0 ? ret : 0;
}

void rst_hotplug_exit(void)
{
	cpuhp_remove_state_nocalls(state);
}
