// SPDX-License-Identifier: GPL-2.0
/*
 * Share of places with jumps instead of breakpoints: in all of the kernel's text, and in functions
 * that are called often.
 */
#include <linux/array_size.h>
#include <linux/delay.h>
#include <linux/kallsyms.h>
#include <linux/kstrtox.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bench.h"

#define JUMP 0xe9
/* Milliseconds without a new jump after which no further jump is expected. */
#define QUIET 3000
/* Random places; and how far they are apart at least, which is more than a jump displaces. */
#define RANDOM 3000
#define APART 20
#define MOST_HOT 4000

/* Addresses of symbols that are not exported: set by run.sh. */
static unsigned long stext_is, etext_is;
module_param_named(_stext, stext_is, ulong, 0);
module_param_named(_etext, etext_is, ulong, 0);

static bool is_jump(const struct kprobe *kp)
{
	return READ_ONCE(*kp->addr) == JUMP;
}

static unsigned int jumps(struct kprobe *kps, unsigned int count)
{
	unsigned int n = 0;

	while (count--)
		n += is_jump(&kps[count]);
	return n;
}

/* Returns the number of jumps when no further jumps are placed. */
unsigned int bench_jumps_in_the_end(struct kprobe *kps, unsigned int count)
{
	unsigned int before = 0, n, quiet = 0;

	do {
		msleep(100);
		n = jumps(kps, count);
		quiet = n == before ? quiet + 100 : 0;
		before = n;
	} while (n < count && quiet < QUIET);
	return n;
}

/* Pieces of text. */
struct code {
	unsigned int count;
	unsigned long size;
	struct {
		unsigned long at, size;
	} piece[MOST_HOT];
};

static void add(struct code *code, unsigned long at, unsigned long size)
{
	if (code->count == MOST_HOT)
		return;
	code->piece[code->count].at = at;
	code->piece[code->count++].size = size;
	code->size += size;
}

static unsigned long random_place(const struct code *code, struct rnd_state *random)
{
	unsigned long offset = prandom_u32_state(random) % code->size;
	unsigned int i;

	for (i = 0; offset >= code->piece[i].size; i++)
		offset -= code->piece[i].size;
	return code->piece[i].at + offset;
}

/* The functions at these addresses, as kallsyms knows them. */
static int add_functions(struct code *code, char *offsets)
{
	static char symbol[KSYM_SYMBOL_LEN];
	unsigned long offset, size;
	char *one, *slash;
	int err;

	while ((one = strsep(&offsets, ",")) != NULL) {
		err = kstrtoul(one, 16, &offset);
		if (err)
			return err;
		/* NAME+0x0/0xSIZE */
		sprint_symbol(symbol, stext_is + offset);
		slash = strrchr(symbol, '/');
		err = slash ? kstrtoul(slash + 1, 16, &size) : -ENOENT;
		if (err)
			return err;
		add(code, stext_is + offset, size);
	}
	return code->size ? 0 : -ENOENT;
}

/*
 * Measures the percentage among random places. Each kernel chooses its own: those that can be
 * probed.
 */
static int share(const char *name, const struct code *code, struct kprobe *kps, struct kprobe **list, bool post)
{
	struct rnd_state random;
	unsigned int count = 0, tries = 0;

	prandom_seed_state(&random, 16);
	while (count < RANDOM && tries++ < 50 * RANDOM) {
		unsigned long at = random_place(code, &random);
		unsigned int i;

		for (i = 0; i < count; i++)
			if (abs((long)(at - (unsigned long)kps[i].addr)) < APART)
				break;
		if (i < count)
			continue;
		kps[count] = (struct kprobe){
			.addr = (kprobe_opcode_t *)at, .pre_handler = bench_pre, .post_handler = post ? bench_post : NULL,
		};
		list[count] = &kps[count];
		if (register_kprobe(&kps[count]) == 0)
			count++;
		cond_resched();
	}
	if (count == RANDOM)
		bench_print(name, bench_jumps_in_the_end(kps, RANDOM) * 100000ULL / RANDOM);
	unregister_kprobes(list, count);
	return count == RANDOM ? 0 : -ENODATA;
}

/* Both with handlers before, and after as well, where the C engine has none. */
static int shares(const char *name, const char *post, const struct code *code, struct kprobe *kps, struct kprobe **list)
{
	int err = share(name, code, kps, list, false);

	if (!IS_ENABLED(CONFIG_KPROBES_ENGINE_C))
		err = err ?: share(post, code, kps, list, true);
	return err;
}

int bench_shares(char *hot)
{
	struct kprobe *kps = kvcalloc(RANDOM, sizeof(*kps), GFP_KERNEL);
	struct kprobe **list = kvcalloc(RANDOM, sizeof(*list), GFP_KERNEL);
	struct code *all = kvzalloc(sizeof(*all), GFP_KERNEL);
	struct code *often = kvzalloc(sizeof(*often), GFP_KERNEL);
	int err = kps && list && all && often ? 0 : -ENOMEM;

	if (!err)
		add(all, stext_is, etext_is - stext_is);
	err = err ?: shares("jump_share", "jump_share_post", all, kps, list);
	err = err ?: add_functions(often, hot);
	err = err ?: shares("jump_share_hot", "jump_share_hot_post", often, kps, list);
	kvfree(kps);
	kvfree(list);
	kvfree(all);
	kvfree(often);
	return err;
}
