/* SPDX-License-Identifier: GPL-2.0 */
/* Extensions of ftrace. See Documentation/ftrace_tramp.rst of Ferrotrace. */
#ifndef _LINUX_FERROTRACE_FTRACE_H
#define _LINUX_FERROTRACE_FTRACE_H

#include <linux/bits.h>
#include <linux/ftrace.h>
#include <linux/gkhi_points.h>
#include <linux/rbtree_latch.h>

/*
 * For clients, on either engine: register or unregister several ops at once, all or none. The patch
 * of kernel/trace/ftrace.c describes them.
 */
int register_ftrace_functions(struct ftrace_ops **ops, unsigned int count);
int unregister_ftrace_functions(struct ftrace_ops **ops, unsigned int count);

#ifdef CONFIG_DYNAMIC_FTRACE
/*
 * Functions with data of their own, on either engine: the callback of an ops gets the data that
 * were attached with the function. The data may point to a structure with a callback of its own, so
 * that thousands of functions have different ones. Data can be attached and detached while other
 * functions are traced; one call changes code, and waits, once. ftrace_tramp/builtin/data.c
 * describes the functions.
 */
struct ftrace_data {
	/* The function, or its site */
	unsigned long ip;
	void *data;
};

/*
 * Callback like the one of ftrace_ops, with a function's data in place of the ops. It has to
 * prevent recursion itself, with ftrace_test_recursion_trylock().
 */
typedef void (*ftrace_data_func_t)(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs);

/*
 * The client sets func and flags; all other fields are 0 at first. The client has to call
 * ftrace_data_release() before it frees the structure.
 */
struct ftrace_data_ops {
	/* private: */
	struct ftrace_ops ops;
	struct ftrace_data_table __rcu *table;
	struct list_head list;
	bool registered;
	/* public: */
	ftrace_data_func_t func;
	/*
	 * 0 or FTRACE_OPS_FL_SAVE_REGS; FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED has the same effect
	 * here.
	 */
	unsigned long flags;
};

int ftrace_data_attach(struct ftrace_data_ops *ops, const struct ftrace_data *data, unsigned int count);
int ftrace_data_detach(struct ftrace_data_ops *ops, const unsigned long *ips, unsigned int count);
int ftrace_data_detach_nowait(struct ftrace_data_ops *ops, const unsigned long *ips, unsigned int count);
int ftrace_data_release(struct ftrace_data_ops *ops);
int ftrace_data_release_idle(struct ftrace_data_ops *ops);
#endif

/*
 * The rest is for kernel/trace/ftrace.c and an engine that makes trampolines.
 *
 * The engine gives each set of ops a number. The flags of a record have two numbers: in bits 32 to
 * 47 the set that the function should call, and in bits 48 to 63 the set whose trampoline its site
 * calls. 0 is none: ftrace itself handles the function. The declarations below are protected by
 * ftrace_lock.
 */

/* One more than the highest number. */
#define FTRACE_SETS 4096

/* In the flags of an ops that stands for a set, and has its trampoline. */
#define FTRACE_OPS_FL_SET BIT(31)
/* In the flags of the ops of a struct ftrace_data_ops */
#define FTRACE_OPS_FL_DATA BIT(30)

#ifdef CONFIG_DYNAMIC_FTRACE
/* Returns the client's callback. */
static inline void *ftrace_ops_callback(const struct ftrace_ops *ops)
{
	if (ops->flags & FTRACE_OPS_FL_DATA)
		return container_of(ops, const struct ftrace_data_ops, ops)->func;
	return ops->func;
}
#endif

#if IS_ENABLED(CONFIG_FTRACE_TRAMP_RUST) && defined(CONFIG_DYNAMIC_FTRACE)

#define FTRACE_SET_SHIFT 32
#define FTRACE_SET_EN_SHIFT 48
#define FTRACE_SET_MASK 0xffffUL

/*
 * Addresses of the sets' trampolines; 0 if a set has none. For a set with a single struct
 * ftrace_data_ops, whose functions have stubs of their own, the entry is the address of that
 * structure without the highest bit.
 */
extern unsigned long ftrace_set_addresses[FTRACE_SETS];
#define FTRACE_SET_KERNEL BIT(63)

/* An ops that stands for a set, with a node in the tree of trampolines. */
struct ftrace_set_ops {
	struct ftrace_ops ops;
	struct latch_tree_node node;
};

int ftrace_renew_trampolines(void);
void ftrace_set_trampoline_made(struct ftrace_ops *ops);
void ftrace_set_trampolines_gone(struct ftrace_ops *ops);
/*
 * Returns the address that a function of the ops should call, according to its current table.
 * Context: ftrace_lock held.
 */
unsigned long ftrace_data_address(struct ftrace_data_ops *ops, unsigned long ip);
/* Returns true if an instruction is in a stub. Context: any, NMI included. */
bool ftrace_data_is_stub(unsigned long ip);

static inline unsigned long ftrace_rec_set(const struct dyn_ftrace *rec)
{
	return rec->flags >> FTRACE_SET_SHIFT & FTRACE_SET_MASK;
}

static inline unsigned long ftrace_rec_set_en(const struct dyn_ftrace *rec)
{
	return rec->flags >> FTRACE_SET_EN_SHIFT & FTRACE_SET_MASK;
}

/* Returns the address that the site at @ip calls if its function has this set. */
static inline unsigned long ftrace_set_address(unsigned long set, unsigned long ip)
{
	unsigned long address = set < FTRACE_SETS ? ftrace_set_addresses[set] : 0;

	if (!address || address & FTRACE_SET_KERNEL)
		return address;
	return ftrace_data_address((void *)(address | FTRACE_SET_KERNEL), ip);
}

/* Records that the site of the function calls its set, or nothing. */
static inline void ftrace_rec_enable_set(struct dyn_ftrace *rec, bool enable)
{
	rec->flags &= ~(FTRACE_SET_MASK << FTRACE_SET_EN_SHIFT);
	if (enable)
		rec->flags |= ftrace_rec_set(rec) << FTRACE_SET_EN_SHIFT;
}

static inline void ftrace_rec_tell_set(struct dyn_ftrace *rec, enum ftrace_set_event event, struct ftrace_ops *ops)
{
	struct ftrace_set_change change = {
		.event = event,
		.ip = rec->ip,
		.count = ftrace_rec_count(rec),
		.ops = ops,
		.set = ftrace_rec_set(rec),
	};

	if (!GKHOOK_1VAR_RO(trampoline_set, &change))
		change.set = 0;
	rec->flags &= ~(FTRACE_SET_MASK << FTRACE_SET_SHIFT);
	rec->flags |= (change.set & FTRACE_SET_MASK) << FTRACE_SET_SHIFT;
}

/*
 * Tells the engine that an ops was added to the function's ops or removed; the record has already
 * counted it.
 */
static inline void ftrace_rec_change_set(struct dyn_ftrace *rec, struct ftrace_ops *ops, bool added)
{
	ftrace_rec_tell_set(rec, added ? FTRACE_SET_ADD : FTRACE_SET_REMOVE, ops);
}

/* Tells the engine that the record is removed, or should have no number. */
static inline void ftrace_rec_drop_set(struct dyn_ftrace *rec)
{
	if (ftrace_rec_set(rec))
		ftrace_rec_tell_set(rec, FTRACE_SET_DROP, NULL);
}

/* Asks the engine for a number for a record that has ops and no number. */
static inline void ftrace_rec_find_set(struct dyn_ftrace *rec)
{
	if (ftrace_rec_count(rec))
		ftrace_rec_tell_set(rec, FTRACE_SET_FIND, NULL);
}

/* Tells the engine that sites are about to be changed. */
static inline void ftrace_sets_change(void)
{
	GKHOOK_1VAR_RO(trampoline_sets, FTRACE_SETS_CHANGE);
}

/*
 * Tells the engine that each site calls its new set, or, if ftrace has given up, permanently its
 * old one.
 */
static inline void ftrace_sets_changed(bool given_up)
{
	GKHOOK_1VAR_RO(trampoline_sets, given_up ? FTRACE_SETS_GIVEN_UP : FTRACE_SETS_CHANGED);
}

#else

static inline bool ftrace_data_is_stub(unsigned long ip) { return false; }

#ifdef CONFIG_DYNAMIC_FTRACE

static inline unsigned long ftrace_rec_set(const struct dyn_ftrace *rec) { return 0; }
static inline unsigned long ftrace_rec_set_en(const struct dyn_ftrace *rec) { return 0; }
static inline unsigned long ftrace_set_address(unsigned long set, unsigned long ip) { return 0; }
static inline void ftrace_rec_enable_set(struct dyn_ftrace *rec, bool enable) { }
static inline void ftrace_rec_change_set(struct dyn_ftrace *rec, struct ftrace_ops *ops, bool added) { }
static inline void ftrace_rec_drop_set(struct dyn_ftrace *rec) { }
static inline void ftrace_rec_find_set(struct dyn_ftrace *rec) { }
static inline void ftrace_sets_change(void) { }
static inline void ftrace_sets_changed(bool given_up) { }

#endif /* CONFIG_DYNAMIC_FTRACE */
#endif

#endif /* _LINUX_FERROTRACE_FTRACE_H */
