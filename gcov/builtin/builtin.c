// SPDX-License-Identifier: GPL-2.0
/*
 * Parts of the gcov exporter that must be in the image.
 *
 * Has the functions that compiled code calls, for both compilers: a module may be built by another
 * compiler than the kernel. While an engine is attached, its exits on the hook points gcov_object
 * and llvm_gcov_object take the objects. Otherwise a list here has them, unless kernel/gcov/ does.
 */
#define pr_fmt(fmt) "gcov: " fmt

#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/gkhi_points.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/llvm_profile.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/sections.h>

#include "../../rust/sys/code/module_going.h"
#include "builtin.h"
#include "runtime.h"
#include "tree.h"

DEFINE_MUTEX(ferro_gcov_mutex);
EXPORT_SYMBOL_GPL(ferro_gcov_mutex);

DEFINE_MUTEX(ferro_gcov_owners_mutex);
EXPORT_SYMBOL_GPL(ferro_gcov_owners_mutex);

/*
 * Held while objects arrive and while they are handed over. The engine takes its mutex within it.
 */
static DEFINE_MUTEX(objects_lock);

/* Objects of the kernel's own compiler in the image, linked by their next. */
static struct gcov_info *image;

struct kept {
	struct list_head list;
	struct gcov_object object;
};

/* All other objects. */
static LIST_HEAD(others);

static void keep(const struct gcov_object *object)
{
	struct kept *kept = kmalloc_obj(*kept);

	if (!kept) {
		pr_warn("no memory for an object: it will have no file\n");
		return;
	}
	kept->object = *object;
	list_add_tail(&kept->list, &others);
}

/* Adds an object that GCC compiled, from its constructor. */
static void __maybe_unused add_gcc_object(struct gcov_info *info)
{
	guard(mutex)(&objects_lock);
	if (GKHOOK_1VAR_RO(gcov_object, info))
		return;
	if (IS_ENABLED(CONFIG_CC_IS_GCC) && is_kernel_core_data((unsigned long)info)) {
		info->next = image;
		image = info;
	} else {
		keep(&(struct gcov_object){ .info = info });
	}
}

/* Adds an object that LLVM compiled, from its constructor. */
static void __maybe_unused add_llvm_object(gcov_llvm_callback writeout, gcov_llvm_callback flush)
{
	guard(mutex)(&objects_lock);
	if (GKHOOK_2VAR_RO(llvm_gcov_object, writeout, flush))
		return;
	keep(&(struct gcov_object){ .writeout = writeout, .flush = flush });
}

static unsigned long address_of(const struct gcov_object *object)
{
	return (unsigned long)object->info ?: (unsigned long)object->writeout;
}

static void module_going(struct module *mod)
{
	struct kept *kept, *next;

	/* Removes the files of an engine that has not removed them itself. */
	ferro_gcov_tree_hide_of(mod);
	guard(mutex)(&objects_lock);
	list_for_each_entry_safe(kept, next, &others, list) {
		if (!within_module(address_of(&kept->object), mod))
			continue;
		list_del(&kept->list);
		kfree(kept);
	}
}

DEFINE_MODULE_GOING(ferro_gcov_going, module_going, 0);

#if IS_MODULE(CONFIG_GCOV_RUST)
/* Only one engine exists. */
static const struct gcov_taker *taker_of_all;

/* Returns true if the object's module is being unloaded: module_going() may have run for it. */
static bool is_going(const struct gcov_object *object)
{
	struct ferro_gcov_owner owner;

	return !ferro_gcov_owner_of(address_of(object), &owner) || owner.is_going;
}

/*
 * Offers an object to the engine. If the engine has no memory for it, keeps it for the next engine,
 * or until objects are given back, unless its module is being unloaded. The module stays during
 * this call: kernel/gcov/'s notifier, the last one, waits for gcov_lock, which is held.
 */
static bool take_or_keep(const struct gcov_object *object)
{
	if (!taker_of_all->object(object)) {
		guard(mutex)(&objects_lock);
		if (!is_going(object))
			keep(object);
	}
	return true;
}
#endif

#ifdef CONFIG_RUST_COVERAGE
static struct llvm_profile image_profile = {
	.name = "vmlinux",
	.data = __start___llvm_prf_data,
	.counters = __start___llvm_prf_cnts,
	.names = __start___llvm_prf_names,
};

static const struct gcov_taker *profile_taker;

/*
 * Offers a profile. Skips a module that is still being loaded: an exit on module_event reports it
 * once it is loaded. If its loading fails instead, its removal may not be reported.
 */
static void take_profile(const struct llvm_profile *profile)
{
	if (profile != &image_profile &&
	    READ_ONCE(container_of(profile, struct module, profile)->state) != MODULE_STATE_LIVE)
		return;
	profile_taker->object(&(struct gcov_object){ .profile = profile });
}

static void hand_over_profiles(const struct gcov_taker *taker)
{
	image_profile.data_size = __stop___llvm_prf_data - __start___llvm_prf_data;
	image_profile.counters_size = __stop___llvm_prf_cnts - __start___llvm_prf_cnts;
	image_profile.names_size = __stop___llvm_prf_names - __start___llvm_prf_names;
	/* Only one engine exists. */
	profile_taker = taker;
	if (image_profile.data_size)
		take_profile(&image_profile);
	for_each_module_profile(take_profile);
}
#else
static void hand_over_profiles(const struct gcov_taker *taker)
{
}
#endif

const struct llvm_profile *ferro_gcov_profile_of(const struct module *mod)
{
#ifdef CONFIG_RUST_COVERAGE
	if (mod->profile.data_size)
		return &mod->profile;
#endif
	return NULL;
}
EXPORT_SYMBOL_GPL(ferro_gcov_profile_of);

void ferro_gcov_hand_over(const struct gcov_taker *taker)
{
	struct kept *kept, *next;

	scoped_guard(mutex, &objects_lock) {
		list_for_each_entry_safe(kept, next, &others, list) {
			if (!taker->object(&kept->object))
				continue;
			list_del(&kept->list);
			kfree(kept);
		}
		while (image) {
			struct gcov_object object = { .info = image };

			image = image->next;
			if (!taker->object(&object))
				keep(&object);
			cond_resched();
		}
	}
#if IS_MODULE(CONFIG_GCOV_RUST)
	taker_of_all = taker;
	gcov_hand_over(&(struct gcov_taker){ .object = take_or_keep, .kept = taker->kept });
#endif
	hand_over_profiles(taker);
}
EXPORT_SYMBOL_GPL(ferro_gcov_hand_over);

#if IS_MODULE(CONFIG_GCOV_RUST)
/*
 * Returns true if kernel/gcov/ can read the object: it knows only the format of the kernel's own
 * compiler.
 */
static bool is_own(const struct gcov_object *object)
{
	if (!IS_ENABLED(CONFIG_CC_IS_GCC))
		return object->writeout;
	return object->info && object->info->version >> 16 == GCOV_OWN_VERSION;
}

static bool (*next_object)(struct gcov_object *object);

/*
 * Returns the next object for kernel/gcov/. Keeps the objects that kernel/gcov/ cannot read, and
 * returns those that the engine had no memory for.
 */
static bool next_own_object(struct gcov_object *object)
{
	struct kept *kept;

	while (next_object(object)) {
		if (is_own(object))
			return true;
		guard(mutex)(&objects_lock);
		if (!is_going(object))
			keep(object);
	}
	guard(mutex)(&objects_lock);
	list_for_each_entry(kept, &others, list) {
		if (!is_own(&kept->object))
			continue;
		*object = kept->object;
		list_del(&kept->list);
		kfree(kept);
		return true;
	}
	return false;
}

void ferro_gcov_take_back(bool (*next)(struct gcov_object *object))
{
	next_object = next;
	gcov_take_back(next_own_object);
}
EXPORT_SYMBOL_GPL(ferro_gcov_take_back);
#else
int gcov_persist = 1;

static int __init gcov_persist_setup(char *str)
{
	return kstrtoint(str, 0, &gcov_persist) == 0;
}
__setup("gcov_persist=", gcov_persist_setup);
#endif

bool ferro_gcov_persist(void)
{
	return READ_ONCE(gcov_persist);
}
EXPORT_SYMBOL_GPL(ferro_gcov_persist);

const char ferro_gcov_object_tree[] = OBJECT_TREE "/";
EXPORT_SYMBOL_GPL(ferro_gcov_object_tree);

static struct ferro_gcov_range range(const void *start, size_t size, bool is_writable)
{
	return (struct ferro_gcov_range){ (unsigned long)start, size, is_writable };
}

bool ferro_gcov_owner_of(unsigned long address, struct ferro_gcov_owner *owner)
{
	struct module *mod;

	*owner = (struct ferro_gcov_owner){};
	if (is_kernel_core_data(address) || core_kernel_text(address)) {
		owner->data[0] = range(__bss_start, __bss_stop - __bss_start, true);
		owner->data[1] = range(_sdata, _edata - _sdata, true);
		owner->data[2] = range(__start_rodata, __end_rodata - __start_rodata, false);
		return true;
	}
	guard(rcu)();
	mod = __module_address(address);
	if (!mod)
		return false;
	owner->module = mod;
	owner->is_going = READ_ONCE(mod->state) == MODULE_STATE_GOING;
	owner->data[0] = range(mod->mem[MOD_DATA].base, mod->mem[MOD_DATA].size, true);
	owner->data[1] = range(mod->mem[MOD_RODATA].base, mod->mem[MOD_RODATA].size, false);
	owner->data[2] = range(mod->mem[MOD_RO_AFTER_INIT].base, mod->mem[MOD_RO_AFTER_INIT].size, false);
	return true;
}
EXPORT_SYMBOL_GPL(ferro_gcov_owner_of);

/* The task that has called ferro_gcov_describe(), and its listener. */
static DEFINE_MUTEX(describe_lock);
static struct task_struct *asking;
static const struct ferro_gcov_listener *listener;
static void *listener_data;

void ferro_gcov_describe(gcov_llvm_callback writeout, const struct ferro_gcov_listener *to, void *data)
{
	guard(mutex)(&describe_lock);
	listener = to;
	listener_data = data;
	WRITE_ONCE(asking, current);
	writeout();
	WRITE_ONCE(asking, NULL);
}
EXPORT_SYMBOL_GPL(ferro_gcov_describe);

bool ferro_gcov_start_file(const char *filename, u32 version, u32 checksum)
{
	if (READ_ONCE(asking) != current)
		return false;
	listener->file(listener_data, filename, version, checksum);
	return true;
}

bool ferro_gcov_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum)
{
	if (READ_ONCE(asking) != current)
		return false;
	listener->function(listener_data, ident, func_checksum, cfg_checksum);
	return true;
}

bool ferro_gcov_emit_arcs(u32 num_counters, u64 *counters)
{
	if (READ_ONCE(asking) != current)
		return false;
	listener->arcs(listener_data, num_counters, counters);
	return true;
}

void ferro_gcov_copy(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
}
EXPORT_SYMBOL_GPL(ferro_gcov_copy);

size_t ferro_gcov_copy_string(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size);

	memcpy(to, from, len);
	return len;
}
EXPORT_SYMBOL_GPL(ferro_gcov_copy_string);

/* Functions that compiled code calls, as far as kernel/gcov/ does not have them. */
#if IS_BUILTIN(CONFIG_GCOV_RUST) || !defined(CONFIG_CC_IS_GCC)
void __gcov_init(struct gcov_info *info)
{
	add_gcc_object(info);
}
EXPORT_SYMBOL(__gcov_init);

/* For user programs: called at exit. */
void __gcov_flush(void)
{
}
EXPORT_SYMBOL(__gcov_flush);

void __gcov_exit(void)
{
}
EXPORT_SYMBOL(__gcov_exit);

/* An object refers to these to say how its counters are merged. They are never called. */
#define MERGE_FUNCTION(name)				\
	void name(long *counters, unsigned int count)	\
	{						\
	}						\
	EXPORT_SYMBOL(name)

MERGE_FUNCTION(__gcov_merge_add);
MERGE_FUNCTION(__gcov_merge_single);
MERGE_FUNCTION(__gcov_merge_delta);
MERGE_FUNCTION(__gcov_merge_ior);
MERGE_FUNCTION(__gcov_merge_time_profile);
MERGE_FUNCTION(__gcov_merge_icall_topn);
#endif

/* Used since GCC 10, for value profiling, which kernels do not use. */
void __gcov_merge_topn(long *counters, unsigned int count)
{
}
EXPORT_SYMBOL(__gcov_merge_topn);

const unsigned long ferro_gcov_merge_functions[FERRO_GCOV_MERGES] = {
	[FERRO_GCOV_MERGE_ADD] = (unsigned long)__gcov_merge_add,
	[FERRO_GCOV_MERGE_IOR] = (unsigned long)__gcov_merge_ior,
	[FERRO_GCOV_MERGE_TIME_PROFILE] = (unsigned long)__gcov_merge_time_profile,
	[FERRO_GCOV_MERGE_SINGLE] = (unsigned long)__gcov_merge_single,
	[FERRO_GCOV_MERGE_ICALL_TOPN] = (unsigned long)__gcov_merge_icall_topn,
	[FERRO_GCOV_MERGE_TOPN] = (unsigned long)__gcov_merge_topn,
};
EXPORT_SYMBOL_GPL(ferro_gcov_merge_functions);

#if IS_BUILTIN(CONFIG_GCOV_RUST) || !defined(CONFIG_CC_IS_CLANG)
void llvm_gcov_init(gcov_llvm_callback writeout, gcov_llvm_callback flush)
{
	add_llvm_object(writeout, flush);
}
EXPORT_SYMBOL(llvm_gcov_init);

void llvm_gcda_start_file(const char *filename, u32 version, u32 checksum)
{
	ferro_gcov_start_file(filename, version, checksum);
}
EXPORT_SYMBOL(llvm_gcda_start_file);

void llvm_gcda_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum)
{
	ferro_gcov_emit_function(ident, func_checksum, cfg_checksum);
}
EXPORT_SYMBOL(llvm_gcda_emit_function);

void llvm_gcda_emit_arcs(u32 num_counters, u64 *counters)
{
	ferro_gcov_emit_arcs(num_counters, counters);
}
EXPORT_SYMBOL(llvm_gcda_emit_arcs);

void llvm_gcda_summary_info(void)
{
}
EXPORT_SYMBOL(llvm_gcda_summary_info);

void llvm_gcda_end_file(void)
{
}
EXPORT_SYMBOL(llvm_gcda_end_file);
#endif
