// SPDX-License-Identifier: GPL-2.0
/* Per-function data: attachment, and lookup for functions without an engine's stub. */
#define pr_fmt(fmt) "ftrace_data: " fmt

#include <linux/export.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <asm/ibt.h>
#ifdef CONFIG_FTRACE_TRAMP_BUILTIN
#include <asm/text-patching.h>
#endif

#include <../kernel/trace/ftrace_internal.h>
#include <../kernel/trace/trace.h>
#include "builtin.h"

/* Value of `stub` for a function that has none and gets none. */
#define NO_STUB 1UL

/*
 * Table of functions, sorted by address, with a hash index. The index has the number of an entry,
 * from 1 on, at the address's hash or after it; 0 ends the search. At most half of the index is
 * used.
 */
struct ftrace_data_table {
	struct rcu_head rcu;
	unsigned int count;
	unsigned int bits;
	u32 *index;
	struct ftrace_data_entry entries[];
};

/* Protects the functions' data. Outside of ftrace's locks. */
DEFINE_MUTEX(ferro_tramp_data_mutex);
EXPORT_SYMBOL_GPL(ferro_tramp_data_mutex);

/* Registered ops. */
static LIST_HEAD(data_list);

#define DATA_FLAGS (FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED)

static_assert(offsetof(struct ftrace_data_ops, ops) == 0);

/*
 * Placeholder in the filter of every ops, never called: an empty filter would trace all functions.
 */
static noinline void ftrace_data_anchor(void)
{
	barrier();
}

static unsigned long anchor(void)
{
	return ftrace_location((unsigned long)ftrace_data_anchor);
}

static int compare(const void *a, const void *b)
{
	const struct ftrace_data_entry *one = a, *other = b;

	return one->ip < other->ip ? -1 : one->ip > other->ip;
}

static __always_inline struct ftrace_data_entry *find(struct ftrace_data_table *table,
						      unsigned long ip)
{
	u32 at, number;

	if (!table)
		return NULL;
	at = hash_32(ip, table->bits);
	while ((number = table->index[at])) {
		struct ftrace_data_entry *entry = &table->entries[number - 1];

		if (entry->ip == ip)
			return entry;
		at = (at + 1) & (BIT(table->bits) - 1);
	}
	return NULL;
}

/*
 * Callback for functions that do not call a stub: without an engine, or with several ops. The
 * caller may have been preempted before this, so the entry may no longer exist.
 */
static notrace void data_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			      struct ftrace_regs *fregs)
{
	struct ftrace_data_ops *ops = container_of(op, struct ftrace_data_ops, ops);
	struct ftrace_data_entry *entry;

	preempt_disable_notrace();
	entry = find(rcu_dereference_raw(ops->table), ip);
	if (entry)
		ops->func(ip, parent_ip, entry->data, fregs);
	preempt_enable_notrace();
}
NOKPROBE_SYMBOL(data_func);

static struct ftrace_data_table *table_of(struct ftrace_data_ops *ops)
{
	return rcu_dereference_protected(ops->table, lockdep_is_held(&ferro_tramp_data_mutex));
}

static struct ftrace_data_table *new_table(unsigned int count)
{
	unsigned int bits = order_base_2(max(count, 1)) + 1;
	struct ftrace_data_table *table;
	size_t size;

	size = size_add(struct_size(table, entries, count), array_size(BIT(bits), sizeof(u32)));
	table = kvzalloc(size, GFP_KERNEL);
	if (!table)
		return NULL;
	table->count = count;
	table->bits = bits;
	table->index = (u32 *)&table->entries[count];
	return table;
}

/* Adds all entries to the index. */
static void fill_index(struct ftrace_data_table *table)
{
	unsigned int i;
	u32 at;

	for (i = 0; i < table->count; i++) {
		at = hash_32(table->entries[i].ip, table->bits);
		while (table->index[at])
			at = (at + 1) & (BIT(table->bits) - 1);
		table->index[at] = i + 1;
	}
}

/* Makes a table visible to callbacks and to the lookup of stubs. */
static void publish(struct ftrace_data_ops *ops, struct ftrace_data_table *table)
{
	lockdep_assert_held(&ftrace_lock);
	rcu_assign_pointer(ops->table, table);
}

static void notify_engine(struct ftrace_data_ops *ops, enum ftrace_data_event event,
			  struct ftrace_data_entry *entries, unsigned int count)
{
#ifdef CONFIG_FTRACE_TRAMP_BUILTIN
	struct ftrace_data_change change = {
		.ops = ops,
		.event = event,
		.entries = entries,
		.count = count,
	};

	lockdep_assert_held(&ftrace_lock);
	GKHOOK_1VAR_RO(trampoline_data, &change);
#endif
}

/*
 * Returns true if the filter has a function: its site is traced, or will be once such a site exists
 * again.
 */
static bool in_filter(struct ftrace_data_ops *ops, unsigned long ip)
{
	guard(preempt_notrace)();
	return ftrace_ops_test(&ops->ops, ip, ops);
}

/*
 * Makes stubs for new functions now; they never get one later. Functions in the filter already keep
 * their call target: the anchor, and a function at an address that was detached after its module
 * had been unloaded.
 */
static void make_stubs(struct ftrace_data_ops *ops, struct ftrace_data_table *table)
{
	unsigned int i;

	for (i = 0; i < table->count; i++)
		if (!table->entries[i].stub && in_filter(ops, table->entries[i].ip))
			table->entries[i].stub = NO_STUB;
	notify_engine(ops, FTRACE_DATA_ATTACH, table->entries, table->count);
	for (i = 0; i < table->count; i++)
		if (!table->entries[i].stub)
			table->entries[i].stub = NO_STUB;
}

/*
 * Registers the ops once, with the anchor: unregistering waits for all tasks, with ftrace_lock
 * held.
 */
static int start(struct ftrace_data_ops *ops)
{
	unsigned long site = anchor();
	int err;

	if (ops->registered)
		return 0;
	/* The ops may be a leftover that functions still call. */
	if (ftrace_is_dead())
		return -ENODEV;
	ops->ops.func = data_func;
	ops->ops.flags &= ~DATA_FLAGS;
	ops->ops.flags |= FTRACE_OPS_FL_DATA;
	/* ftrace itself ignores the second flag if registers can be saved. */
	if (ops->flags & DATA_FLAGS)
		ops->ops.flags |= FTRACE_OPS_FL_SAVE_REGS;
	/*
	 * The call target of a site stays fixed once it is traced, so a trampoline for stubs has to
	 * exist before.
	 */
	scoped_guard(mutex, &ftrace_lock)
		notify_engine(ops, FTRACE_DATA_ATTACH, NULL, 0);
	err = ftrace_set_filter_ips(&ops->ops, &site, 1, 0, 1);
	if (!err)
		err = register_ftrace_function(&ops->ops);
	if (err) {
		if (!(ops->ops.flags & FTRACE_OPS_FL_ENABLED))
			ftrace_free_filter(&ops->ops);
		guard(mutex)(&ftrace_lock);
		if (!ftrace_is_dead())
			notify_engine(ops, FTRACE_DATA_RELEASED, NULL, 0);
		return err;
	}
	ops->registered = true;
	list_add(&ops->list, &data_list);
	return 0;
}

/*
 * Looks up the sites of new functions, in the order of @data, and fills sorted entries for the
 * table.
 */
static int prepare_entries(struct ftrace_data_table *old, struct ftrace_data_entry *entries,
			   const struct ftrace_data *data, unsigned long *ips, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		ips[i] = ftrace_location(data[i].ip);
		if (!ips[i]) {
			pr_warn("%pS is not the entry of a function that can be traced\n", (void *)data[i].ip);
			return -EINVAL;
		}
		if (find(old, ips[i])) {
			pr_warn("%pS is attached already\n", (void *)ips[i]);
			return -EEXIST;
		}
		entries[i] = (struct ftrace_data_entry){ .ip = ips[i], .data = data[i].data };
	}
	sort(entries, count, sizeof(*entries), compare, NULL);
	for (i = 1; i < count; i++)
		if (entries[i].ip == entries[i - 1].ip) {
			pr_warn("%pS is listed twice\n", (void *)entries[i].ip);
			return -EEXIST;
		}
	return 0;
}

/* Merges the functions of @old and new ones, both sorted, into @table. */
static void merge(struct ftrace_data_table *table, const struct ftrace_data_table *old,
		  const struct ftrace_data_entry *entries, unsigned int count)
{
	unsigned int i, has = old ? old->count : 0, from_old = 0, from_new = 0;

	for (i = 0; i < table->count; i++)
		if (from_new == count || (from_old < has && old->entries[from_old].ip < entries[from_new].ip))
			table->entries[i] = old->entries[from_old++];
		else
			table->entries[i] = entries[from_new++];
	fill_index(table);
}

/**
 * ftrace_data_attach - trace functions with data of their own
 * @ops: ops that the functions are added to, with its callback and its flags
 * @data: functions, by their address or that of their site, and the data for the callback
 * @count: number of functions
 *
 * Attaches all or none. Code is changed once. The callback may be called before this returns.
 *
 * Context: sleeps.
 * Return: 0; -EINVAL for an address that cannot be traced, no callback, or a flag other than
 * FTRACE_OPS_FL_SAVE_REGS(_IF_SUPPORTED); -EEXIST for a function that @ops has, or that @data has
 * twice; -ENOMEM; -ENODEV if ftrace has failed.
 */
int ftrace_data_attach(struct ftrace_data_ops *ops, const struct ftrace_data *data,
		       unsigned int count)
{
	struct ftrace_data_table *old, *table;
	struct ftrace_data_entry *entries;
	unsigned long *ips;
	int err = -ENOMEM;

	if (!ops->func || ops->flags & ~DATA_FLAGS) {
		pr_warn("an ops without a callback, or with flags %#lx\n", ops->flags);
		return -EINVAL;
	}
	if (!count)
		return 0;

	guard(mutex)(&ferro_tramp_data_mutex);
	old = table_of(ops);
	if (count > INT_MAX - (old ? old->count : 0))
		return -ENOMEM;
	ips = kvmalloc_array(count, sizeof(*ips), GFP_KERNEL);
	entries = kvmalloc_array(count, sizeof(*entries), GFP_KERNEL);
	table = new_table((old ? old->count : 0) + count);
	if (!ips || !entries || !table)
		goto out;
	err = prepare_entries(old, entries, data, ips, count);
	if (!err)
		err = start(ops);
	if (err)
		goto out;
	merge(table, old, entries, count);

	scoped_guard(mutex, &ftrace_lock) {
		make_stubs(ops, table);
		publish(ops, table);
	}
	err = ftrace_set_filter_ips(&ops->ops, ips, count, 0, 0);
	if (err) {
		/* No site calls the new functions. */
		guard(mutex)(&ftrace_lock);
		publish(ops, old);
		for (unsigned int i = 0; i < count && !ftrace_is_dead(); i++)
			notify_engine(ops, FTRACE_DATA_DETACHED, find(table, ips[i]), 1);
		/* ftrace may have failed after changing some sites. */
		if (ftrace_is_dead())
			err = -ENODEV;
		swap(old, table);
	}
	kvfree(entries);
	kvfree(ips);
	/* Callbacks may still read it. */
	kvfree_rcu(old, rcu);
	return err;

out:
	kvfree(table);
	kvfree(entries);
	kvfree(ips);
	return err;
}
EXPORT_SYMBOL_GPL(ftrace_data_attach);

/*
 * Divides the entries of @ops: first those that stay, then those that are removed. @sites are
 * sorted.
 */
static int divide(struct ftrace_data_table *old, struct ftrace_data_table *table,
		  const unsigned long *sites, unsigned int count)
{
	unsigned int i, kept = 0, removed = 0;

	for (i = 0; i < old->count; i++) {
		struct ftrace_data_entry *entry = &old->entries[i];

		if (removed < count && entry->ip == sites[removed])
			table->entries[old->count - count + removed++] = *entry;
		else if (kept < old->count - count)
			table->entries[kept++] = *entry;
		else
			break;
	}
	if (removed < count) {
		pr_warn("%pS is not attached, or listed twice\n", (void *)sites[removed]);
		return -ENOENT;
	}
	table->count = kept;
	fill_index(table);
	return 0;
}

/*
 * Collects the sites of removed entries that are in the filter, except the anchor and those of an
 * unloaded module.
 */
static unsigned int traced_sites(struct ftrace_data_ops *ops,
				 const struct ftrace_data_entry *entries, unsigned int count,
				 unsigned long *sites)
{
	unsigned long anchored = anchor();
	unsigned int i, traced = 0;

	for (i = 0; i < count; i++) {
		unsigned long ip = entries[i].ip;

		if (ip != anchored && in_filter(ops, ip) && ftrace_location(ip) == ip)
			sites[traced++] = ip;
	}
	return traced;
}

static int untrace_sites(struct ftrace_data_ops *ops, const struct ftrace_data_entry *entries,
			 unsigned int count, unsigned long *sites)
{
	unsigned int before, traced = count;
	int err = 0;

	do {
		before = traced;
		traced = traced_sites(ops, entries, count, sites);
		if (traced)
			err = ftrace_set_filter_ips(&ops->ops, sites, traced, 1, 0);
		/* A module may be unloaded concurrently. */
	} while ((err == -EINVAL || err == -ENOENT) && traced && traced < before);
	/* ftrace returns this error only if it had failed before. */
	if (ftrace_is_dead())
		return -ENODEV;
	return traced ? err : 0;
}

/*
 * Returns the site of a function that is being detached. For an unloaded module only the table
 * knows it.
 */
static unsigned long site_of(struct ftrace_data_table *table, unsigned long ip)
{
	unsigned long site = ftrace_location(ip);

	if (site)
		return site;
	return find(table, ip) || !find(table, ip + ENDBR_INSN_SIZE) ? ip : ip + ENDBR_INSN_SIZE;
}

static int compare_sites(const void *a, const void *b)
{
	unsigned long one = *(unsigned long *)a, other = *(unsigned long *)b;

	return one < other ? -1 : one > other;
}

/**
 * ftrace_data_detach_nowait - stop tracing functions
 * @ops: as for ftrace_data_attach()
 * @ips: addresses of the functions
 * @count: number of functions
 *
 * Detaches all or none. Earlier calls may still reach the callback with their data until an
 * RCU-tasks grace period has ended.
 *
 * Context: sleeps.
 * Return: 0; -ENOENT for a function that @ops does not have, or that @ips has twice; -ENOMEM;
 * -ENODEV if ftrace has failed: the callback may then be called forever.
 */
int ftrace_data_detach_nowait(struct ftrace_data_ops *ops, const unsigned long *ips,
			      unsigned int count)
{
	struct ftrace_data_table *old, *table = NULL;
	struct ftrace_data_entry *removed;
	unsigned long *sites;
	unsigned int i;
	int err = -ENOMEM;

	if (!count)
		return 0;
	guard(mutex)(&ferro_tramp_data_mutex);
	old = table_of(ops);
	if (!old || old->count < count) {
		pr_warn("%pS is not attached, or listed twice\n", (void *)ips[0]);
		return -ENOENT;
	}
	sites = kvmalloc_array(count, sizeof(*sites), GFP_KERNEL);
	table = new_table(old->count);
	if (!sites || !table)
		goto out;
	for (i = 0; i < count; i++)
		sites[i] = site_of(old, ips[i]);
	sort(sites, count, sizeof(*sites), compare_sites, NULL);
	err = divide(old, table, sites, count);
	if (err)
		goto out;
	removed = table->entries + table->count;
	/* A module that is loaded again concurrently has sites that use the old table. */
	for (;;) {
		err = untrace_sites(ops, removed, count, sites);
		if (err)
			goto out;
		mutex_lock(&ftrace_lock);
		if (!traced_sites(ops, removed, count, sites))
			break;
		mutex_unlock(&ftrace_lock);
	}
	publish(ops, table);
	notify_engine(ops, FTRACE_DATA_DETACHED, removed, count);
	mutex_unlock(&ftrace_lock);
	kvfree(sites);
	kvfree_rcu(old, rcu);
	return 0;

out:
	kvfree(table);
	kvfree(sites);
	return err;
}
EXPORT_SYMBOL_GPL(ftrace_data_detach_nowait);

static void wait_for_tasks(void)
{
	/* As in ftrace_shutdown(): for preempted tasks, and for CPUs where RCU is not watching. */
	synchronize_rcu_tasks_rude();
	synchronize_rcu_tasks();
}

/**
 * ftrace_data_detach - stop tracing functions, and wait
 * @ops: as for ftrace_data_attach()
 * @ips: addresses of the functions
 * @count: number of functions
 *
 * As ftrace_data_detach_nowait(). After it has returned 0 no callback uses these functions' data.
 * Waits once.
 */
int ftrace_data_detach(struct ftrace_data_ops *ops, const unsigned long *ips, unsigned int count)
{
	int err = ftrace_data_detach_nowait(ops, ips, count);

	if (!err && count)
		wait_for_tasks();
	return err;
}
EXPORT_SYMBOL_GPL(ftrace_data_detach);

static int release(struct ftrace_data_ops *ops)
{
	struct ftrace_data_table *old = table_of(ops);
	int err;

	list_del(&ops->list);
	ops->registered = false;
	err = unregister_ftrace_function(&ops->ops);
	/* ftrace may have failed within that call. */
	if (ftrace_is_dead())
		err = -ENODEV;
	scoped_guard(mutex, &ftrace_lock) {
		publish(ops, NULL);
		if (!err)
			notify_engine(ops, FTRACE_DATA_RELEASED, old ? old->entries : NULL,
				      old ? old->count : 0);
	}
	if (!err)
		ftrace_free_filter(&ops->ops);
	/* ftrace itself waits for dynamic ops. */
	if (!(ops->ops.flags & FTRACE_OPS_FL_DYNAMIC))
		wait_for_tasks();
	kvfree_rcu(old, rcu);
	return err;
}

/**
 * ftrace_data_release - stop tracing all functions of an ops
 * @ops: as for ftrace_data_attach()
 *
 * Call this before freeing @ops or unloading its callback. After it has returned 0 no task is in
 * the callback or can reach it, and @ops may be used again.
 *
 * Context: sleeps, and waits for all tasks.
 * Return: 0, or -ENODEV if ftrace has failed: functions may then still call the callback, as with
 * any ops.
 */
int ftrace_data_release(struct ftrace_data_ops *ops)
{
	guard(mutex)(&ferro_tramp_data_mutex);
	return ops->registered ? release(ops) : 0;
}
EXPORT_SYMBOL_GPL(ftrace_data_release);

/**
 * ftrace_data_release_idle - release an ops unless functions are attached
 * @ops: as for ftrace_data_attach()
 *
 * ftrace keeps an ops without functions registered for later ones, until this.
 */
int ftrace_data_release_idle(struct ftrace_data_ops *ops)
{
	struct ftrace_data_table *table;

	guard(mutex)(&ferro_tramp_data_mutex);
	table = table_of(ops);
	if (!ops->registered || (table && table->count))
		return 0;
	return release(ops);
}
EXPORT_SYMBOL_GPL(ftrace_data_release_idle);

#ifdef CONFIG_FTRACE_TRAMP_BUILTIN
unsigned long ftrace_data_address(struct ftrace_data_ops *ops, unsigned long ip)
{
	struct ftrace_data_entry *entry;

	lockdep_assert_held(&ftrace_lock);
	entry = find(rcu_dereference_protected(ops->table, true), ip);
	return entry && entry->stub > NO_STUB ? entry->stub : ops->ops.trampoline;
}

/* movabs $data, %r11; jmp trampoline: ftrace_tramp/core/stub.rs */
#define STUB_LOAD 10
#define STUB_LEN (STUB_LOAD + JMP32_INSN_SIZE)

/*
 * Returns true if a stub is at this address: nothing else that looks like one jumps to the start of
 * a trampoline. Reads only the pool's memory: other memory may be a device's.
 */
static bool is_stub(unsigned long at)
{
	struct ftrace_ops *ops;
	unsigned long to;
	u8 code[STUB_LEN];

	if (!is_kprobe_insn_slot(at) || !is_kprobe_insn_slot(at + sizeof(code) - 1))
		return false;
	if (copy_from_kernel_nofault(code, (void *)at, sizeof(code)))
		return false;
	if (code[0] != 0x49 || code[1] != 0xbb || code[STUB_LOAD] != JMP32_INSN_OPCODE)
		return false;
	to = at + STUB_LEN + get_unaligned((s32 *)&code[STUB_LOAD + 1]);
	ops = ftrace_ops_trampoline(to);
	return ops && ops->trampoline == to;
}

bool ftrace_data_is_stub(unsigned long ip)
{
	return is_stub(ip) || is_stub(ip - STUB_LOAD);
}

void ferro_tramp_each_data(enum ftrace_data_event event,
			   void (*visit)(struct ftrace_data_change *change))
{
	struct ftrace_data_ops *ops;
	unsigned int i;

	lockdep_assert_held(&ferro_tramp_data_mutex);
	guard(mutex)(&ftrace_lock);
	list_for_each_entry(ops, &data_list, list) {
		struct ftrace_data_table *table = table_of(ops);
		struct ftrace_data_change change = {
			.ops = ops,
			.event = event,
			.entries = table ? table->entries : NULL,
			.count = table ? table->count : 0,
		};

		if (event == FTRACE_DATA_ATTACH)
			for (i = 0; i < change.count; i++)
				table->entries[i].stub = table->entries[i].ip == anchor() ? NO_STUB : 0;
		visit(&change);
		for (i = 0; i < change.count; i++)
			if (event != FTRACE_DATA_ATTACH || !table->entries[i].stub)
				table->entries[i].stub = NO_STUB;
	}
}
EXPORT_SYMBOL_GPL(ferro_tramp_each_data);
#endif
