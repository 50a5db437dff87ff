/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GKHI, the generalised kernel hooks interface: places in the kernel and its modules to which other
 * modules attach functions.
 *
 * A hook is a line in the source; while no exit is armed on it, it costs one patched NOP. An exit
 * is a function that is registered on a hook by the hook's name, and called there while it is
 * armed. See Documentation/gkhi.rst in kernel/ferrotrace.
 *
 * A hook in a header or a file:
 *
 *	DECLARE_GKHOOK(packet_in, 2, GKH_RO);
 *	DEFINE_GKHOOK(packet_in, GKH_TASK, "dev, len");
 *	...
 *		GKHOOK_2VAR_RO(packet_in, dev, len);
 *
 * and an exit on it:
 *
 *	static GKH_EXIT_2VAR(count_packet, self, dev, len)
 *	{
 *		this_cpu_add(bytes, len);
 *		return GKH_CONTINUE;
 *	}
 *
 *	static struct gkh_record record = {
 *		.hook = "packet_in", .name = "count", .exit = count_packet, .params = 2,
 *	};
 *	...
 *		err = gkh_register(&record);
 *		if (!err)
 *			err = gkh_arm(&record);
 */
#ifndef _LINUX_GKHI_H
#define _LINUX_GKHI_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/types.h>

struct gkh_record;
struct module;

/* Largest number of a hook's parameters; one less if it has a return value. */
#define GKH_PARAMS_MAX 5

/* Longest name in bytes, without the closing NUL: letters, digits, "_", "-" and ".". */
#define GKH_NAME_MAX 63

/**
 * enum gkh_answer - Answer of an exit.
 * @GKH_CONTINUE: Go on with the next exit.
 * @GKH_TERMINATE: End this dispatch: no further exit is called. Any other value that is not
 *	0 does the same, and is passed to the code at the hook.
 * @GKH_RETURN: As @GKH_TERMINATE; in addition, if the hook is of a _RET form, the function
 *	that contains it returns at once, with the value that the exit has set by
 *	gkh_set_return().
 */
enum gkh_answer {
	GKH_CONTINUE = 0,
	GKH_TERMINATE = 1,
	GKH_RETURN = -1,
};

/**
 * enum gkh_context - Contexts in which a hook may fire.
 * @GKH_SLEEP: In process context, where sleeping is allowed. Exits may sleep too, but must
 *	not wait for a module to be loaded; disarming an exit of the hook waits for them.
 * @GKH_TASK: Also where preemption is possible. Exits must not sleep.
 * @GKH_ATOMIC: Only where preemption is not possible: interrupts, NMIs, traps, with
 *	preemption off.
 */
enum gkh_context {
	GKH_SLEEP,
	GKH_TASK,
	GKH_ATOMIC,
};

/**
 * enum gkh_access - Form in which exits get a hook's parameters.
 * @GKH_RO: Their values.
 * @GKH_RW: Their addresses, so that exits can change them.
 * @GKH_RO_RET: As @GKH_RO, and exits can make the function return.
 * @GKH_RW_RET: As @GKH_RW, and exits can make the function return.
 */
enum gkh_access {
	GKH_RO = 0,
	GKH_RW = 1,
	GKH_RO_RET = 2,
	GKH_RW_RET = 3,
};

/* Flags of a hook. */
enum gkh_hook_flags {
	/* Only one exit can be registered. */
	GKH_EXCLUSIVE = 1 << 0,
	/* Exits that require the other CPUs to be stopped are refused, even on a GKH_SLEEP hook. */
	GKH_NO_STOP = 1 << 1,
};

/* Flags of a record: the priority of its exit, and the conditions under which it is called. */
enum gkh_record_flags {
	/* Called before all others; only one exit of a hook can have this flag. */
	GKH_FIRST = 1 << 0,
	/* Called after all others; only one exit of a hook can have this flag. */
	GKH_LAST = 1 << 1,
	/* The only exit of its hook. */
	GKH_ONLY = GKH_FIRST | GKH_LAST,
	/* Called before, not after, the others that have no priority either. */
	GKH_LIFO = 1 << 2,
	/* Called with interrupts off. */
	GKH_IRQS_OFF = 1 << 3,
	/* Called with interrupts off while all other CPUs are stopped; on GKH_SLEEP hooks only. */
	GKH_CPUS_STOPPED = 1 << 4,
	/*
	 * Called even if an exit before it has ended the dispatch, which then ignores its answer
	 * and its value; not armed or disarmed through debugfs.
	 */
	GKH_PINNED = 1 << 5,
};

struct gkh_exit;

/*
 * Type of the function that a hook calls. @p0 to @p3, and @p4 unless the hook has a return value,
 * are the hook's parameters; those beyond its number of parameters are undefined. GKH_EXIT_2VAR()
 * and the like define such functions.
 */
typedef long (*gkh_fn_t)(const struct gkh_exit *self, unsigned long p0, unsigned long p1,
			 unsigned long p2, unsigned long p3, unsigned long p4);

/**
 * struct gkh_exit - An exit as a hook calls it.
 * @fn: private: The function that the hook calls.
 * @hits: private: Calls from the hook.
 * @data: The record's.
 * @record: The record; NULL for an exit in Rust.
 * @count: The number of the hook's parameters, which may be more than the exit was compiled
 *	for.
 */
struct gkh_exit {
	gkh_fn_t fn;
	unsigned long __percpu *hits;
	void *data;
	struct gkh_record *record;
	unsigned int count;
};

/**
 * struct gkh_record - Registration data of an exit.
 * @hook: The name of the hook.
 * @name: The exit's name in debugfs, unique among the exits of the hook.
 * @exit: The function.
 * @params: The number of parameters that the function was compiled for: at most as many as
 *	the hook has.
 * @flags: of enum gkh_record_flags.
 * @data: Passed to the function in its struct gkh_exit.
 * @next: The next record of a list, for gkh_arm(), gkh_disarm() and gkh_deregister(), or
 *	NULL.
 * @id: private: The registration, or 0.
 *
 * A record belongs to the caller of gkh_register(), and must stay until gkh_deregister() has
 * returned. Exits with a function in a module are deregistered before that module is unloaded.
 */
struct gkh_record {
	const char *hook;
	const char *name;
	gkh_fn_t exit;
	unsigned int params;
	unsigned int flags;
	void *data;
	struct gkh_record *next;
	unsigned long id;
};

/**
 * struct gkhook - A hook.
 * @armed: private: The exit to call, while @key is on.
 * @key: private: On while an exit is armed.
 * @name: Its name, unique among the hooks that are identified.
 * @params: The names of its parameters, with commas between them.
 * @count: The number of its parameters.
 * @access: of enum gkh_access.
 * @context: of enum gkh_context.
 * @flags: of enum gkh_hook_flags.
 */
struct gkhook {
	const struct gkh_exit *armed;
	struct static_key_false key;
	const char *name;
	const char *params;
	unsigned char count;
	unsigned char access;
	unsigned char context;
	unsigned char flags;
};

#ifdef CONFIG_FERROTRACE

/* private: Called by hooks that no longer have an exit armed. */
extern const struct gkh_exit gkh_idle;

/**
 * gkh_register() - Makes an exit known to its hook, not armed yet.
 * @record: The exit.
 *
 * Context: Process; sleeps. Not with CPU hotplug held off or from its callbacks, and not
 *	from an exit.
 * Return: 0, or
 *	* -EINVAL: @record, its exit or its names are missing; an unknown flag, or %GKH_LIFO with a
 *	  priority; a name with other characters or too long; an @exit that is not code, or is code
 *	  that is freed when its module has been initialised
 *	* -EALREADY: @record is registered
 *	* -ENOENT: no hook has this name
 *	* -E2BIG: the exit was compiled for more parameters than the hook has
 *	* -EOPNOTSUPP: the hook does not fire where the other CPUs can be stopped
 *	* -EBUSY: the hook has an exit, and it allows only one or @record asks to be the only one
 *	* -EEXIST: the hook has a first exit, or a last one, or one of this name
 *	* -ESHUTDOWN: @record or its exit is in a module being unloaded
 *	* -EDEADLK: the caller is not allowed to sleep, or is in an exit of a GKH_SLEEP hook
 *	* -ENOMEM
 */
int gkh_register(struct gkh_record *record);

/**
 * gkh_arm() - Arms the exits of a list, all at once.
 * @list: The first record; the others by their @next.
 *
 * No CPU ever sees some of them armed and others not: the other CPUs are stopped for a moment if
 * the list names several hooks. Exits that are armed already stay armed.
 *
 * Context: As gkh_register().
 * Return: 0; an error changes nothing:
 *	* -EINVAL: @list is NULL
 *	* -ESRCH: one is not registered
 *	* -ENODEV: the hook of one has been deleted
 *	* -ELOOP: the list is circular
 *	* -EDEADLK: as gkh_register()
 *	* -ENOMEM
 */
int gkh_arm(struct gkh_record *list);

/**
 * gkh_disarm() - Disarms the exits of a list, all at once, and waits until no CPU is in them.
 * @list: The first record; the others by their @next.
 *
 * Context: As gkh_register().
 * Return: As gkh_arm(), without -ENODEV: an exit whose hook has been deleted is disarmed.
 */
int gkh_disarm(struct gkh_record *list);

/**
 * gkh_deregister() - Removes the exits of a list from their hooks; disarms the armed ones, all at
 * once.
 * @list: The first record; the others by their @next.
 *
 * When it returns 0, no CPU is in one of these exits, and none will be.
 *
 * Context: As gkh_register().
 * Return: As gkh_arm(), without -ENODEV.
 */
int gkh_deregister(struct gkh_record *list);

/**
 * gkh_identify() - Makes a hook known by its name.
 * @hook: The hook, from DEFINE_GKHOOK().
 *
 * A module does this in its initialisation. The hook points of the kernel are identified at boot.
 *
 * Context: As gkh_register().
 * Return: 0, or
 *	* -EINVAL: @hook is NULL, its name is not valid, or it names another number of
 *	  parameters than its count
 *	* -EALREADY: it is identified
 *	* -EEXIST: another hook has the name
 *	* -ESHUTDOWN: it is in a module being unloaded
 *	* -EDEADLK: as gkh_register()
 *	* -ENOMEM
 */
int gkh_identify(struct gkhook *hook);

/**
 * gkh_delete() - Removes a hook's name.
 * @hook: The hook.
 *
 * Disarms the armed exits, all at once, and detaches all exits: afterwards they can only be
 * deregistered. When it returns, no CPU is in one of them through this hook. A module's hooks are
 * deleted at the latest when the module is unloaded.
 *
 * Context: As gkh_register().
 * Return: 0; an error changes nothing: -EINVAL if @hook is NULL, -ESRCH if it is not
 *	identified, -EDEADLK as gkh_register(), or -ENOMEM.
 */
int gkh_delete(struct gkhook *hook);

/**
 * gkh_disarm_self() - Disarms the exit that is being called.
 * @self: The first argument of the exit.
 *
 * Afterwards no hook calls the exit, until it is armed again; calls on other CPUs may be in
 * progress, unless its record says GKH_CPUS_STOPPED.
 *
 * Context: Any, NMI included, from the exit itself.
 * Return: true for the one call that disarmed it.
 */
bool gkh_disarm_self(const struct gkh_exit *self);

/**
 * gkh_is_armed() - Checks if an exit is armed.
 * @record: The exit.
 *
 * Context: As gkh_register().
 * Return: true if it is registered and armed, and has not disarmed itself.
 */
bool gkh_is_armed(const struct gkh_record *record);

/*
 * private: Called before and after a hook's exits, in kernels with these checks. They report a hook
 * that fires outside of its context, and an exit that sleeps where it must not.
 */
#define GKH_CHECKS	(IS_ENABLED(CONFIG_PROVE_RCU) || IS_ENABLED(CONFIG_DEBUG_ATOMIC_SLEEP))
void gkh_check_enter(const struct gkhook *hook);
void gkh_check_leave(const struct gkhook *hook);

/* Declares a hook, in a header or in the file; @access is of enum gkh_access. */
#define DECLARE_GKHOOK(h, n, access)							\
	enum { __gkhook_count_##h = (n), __gkhook_access_##h = (access) };		\
	static_assert((n) >= 0 && (n) <= GKH_PARAMS_MAX - ((int)(access) >= GKH_RO_RET));	\
	extern struct gkhook __gkhook_##h

/*
 * Defines the hook that was declared. @hook_context is of enum gkh_context, @hook_flags of enum
 * gkh_hook_flags, @names the names of its parameters: "dev, len".
 */
#define DEFINE_GKHOOK_FLAGS(h, hook_context, names, hook_flags)				\
	struct gkhook __gkhook_##h =							\
		__GKHOOK_INIT(#h, __gkhook_count_##h, __gkhook_access_##h, hook_context, names, hook_flags)
#define DEFINE_GKHOOK(h, hook_context, names)						\
	struct gkhook __gkhook_##h =							\
		__GKHOOK_INIT(#h, __gkhook_count_##h, __gkhook_access_##h, hook_context, names, 0)
#define __GKHOOK_INIT(hook_name, n, hook_access, hook_context, names, hook_flags) {	\
		.armed = &gkh_idle,							\
		.key = STATIC_KEY_FALSE_INIT,						\
		.name = hook_name,							\
		.params = names,							\
		.count = n,								\
		.access = hook_access,							\
		.context = hook_context,						\
		.flags = hook_flags,							\
	}

/* Returns the hook itself, for gkh_identify() and gkh_delete(). */
#define GKHOOK(h) (&__gkhook_##h)

/* Returns true if an exit of the hook is armed: the patched NOP. */
#define GKHOOK_ACTIVE(h) static_branch_unlikely(&__gkhook_##h.key)

/*
 * Returns the armed exit, loaded into the register that passes it; GCC does not do that by itself.
 */
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#define __GKH_ARMED(hook)							\
	({									\
		const struct gkh_exit *__gkh_armed;				\
										\
		asm volatile("movq %1, %0" : "=D"(__gkh_armed) : "m"((hook).armed));	\
		__gkh_armed;							\
	})
#else
#define __GKH_ARMED(hook) READ_ONCE((hook).armed)
#endif

/*
 * Calls the exits, if the NOP has said that some are armed. The parameters have been evaluated
 * before, because that may sleep: nothing may sleep between loading @armed and the call.
 */
#define __GKH_CALL(h, proto, ...)							\
	({										\
		const struct gkh_exit *__gkh_exit = __GKH_ARMED(__gkhook_##h);		\
		long __gkh_answer;							\
											\
		if (GKH_CHECKS)								\
			gkh_check_enter(&__gkhook_##h);					\
		this_cpu_inc(*__gkh_exit->hits);					\
		/* gkh_disarm_self() may exchange it. */				\
		__gkh_answer = ((proto)(void *)data_race(__gkh_exit->fn))(__gkh_exit, ##__VA_ARGS__); \
		if (GKH_CHECKS)								\
			gkh_check_leave(&__gkhook_##h);					\
		__gkh_answer;								\
	})

#define __gkh_ul unsigned long
#ifdef CONFIG_CFI
/* The type of the call is checked, so that all parameters are passed. */
#define __GKH_CALL_0(h)		__GKH_CALL(h, gkh_fn_t, 0, 0, 0, 0, 0)
#define __GKH_PASS_1(h, a)	__GKH_CALL(h, gkh_fn_t, a, 0, 0, 0, 0)
#define __GKH_PASS_2(h, a, b)	__GKH_CALL(h, gkh_fn_t, a, b, 0, 0, 0)
#define __GKH_PASS_3(h, a, b, c)	__GKH_CALL(h, gkh_fn_t, a, b, c, 0, 0)
#define __GKH_PASS_4(h, a, b, c, d)	__GKH_CALL(h, gkh_fn_t, a, b, c, d, 0)
#else
#define __GKH_PROTO(...)	long (*)(const struct gkh_exit *, ##__VA_ARGS__)
#define __GKH_CALL_0(h)		__GKH_CALL(h, __GKH_PROTO())
#define __GKH_PASS_1(h, a)	__GKH_CALL(h, __GKH_PROTO(__gkh_ul), a)
#define __GKH_PASS_2(h, a, b)	__GKH_CALL(h, __GKH_PROTO(__gkh_ul, __gkh_ul), a, b)
#define __GKH_PASS_3(h, a, b, c)						\
	__GKH_CALL(h, __GKH_PROTO(__gkh_ul, __gkh_ul, __gkh_ul), a, b, c)
#define __GKH_PASS_4(h, a, b, c, d)						\
	__GKH_CALL(h, __GKH_PROTO(__gkh_ul, __gkh_ul, __gkh_ul, __gkh_ul), a, b, c, d)
#endif
#define __GKH_CALL_1(h, a)						\
	({								\
		__gkh_ul __gkh_a = (a);					\
									\
		__GKH_PASS_1(h, __gkh_a);				\
	})
#define __GKH_CALL_2(h, a, b)						\
	({								\
		__gkh_ul __gkh_a = (a), __gkh_b = (b);			\
									\
		__GKH_PASS_2(h, __gkh_a, __gkh_b);			\
	})
#define __GKH_CALL_3(h, a, b, c)					\
	({								\
		__gkh_ul __gkh_a = (a), __gkh_b = (b), __gkh_c = (c);	\
									\
		__GKH_PASS_3(h, __gkh_a, __gkh_b, __gkh_c);		\
	})
#define __GKH_CALL_4(h, a, b, c, d)					\
	({								\
		__gkh_ul __gkh_a = (a), __gkh_b = (b);			\
		__gkh_ul __gkh_c = (c), __gkh_d = (d);			\
									\
		__GKH_PASS_4(h, __gkh_a, __gkh_b, __gkh_c, __gkh_d);	\
	})
#define __GKH_CALL_5(h, a, b, c, d, e)					\
	({								\
		__gkh_ul __gkh_a = (a), __gkh_b = (b), __gkh_c = (c);	\
		__gkh_ul __gkh_d = (d), __gkh_e = (e);			\
									\
		__GKH_CALL(h, gkh_fn_t, __gkh_a, __gkh_b, __gkh_c, __gkh_d, __gkh_e);	\
	})

#define __GKH_CHECK(h, n, a)							\
	static_assert((int)__gkhook_count_##h == (n) &&				\
		      (int)__gkhook_access_##h == (int)(a),			\
		      "not as the hook " #h " was declared")

#define __GKHOOK(h, n, acc, ...)						\
	({									\
		__GKH_CHECK(h, n, acc);						\
		GKHOOK_ACTIVE(h) ? __GKH_CALL_##n(h, ##__VA_ARGS__) : 0L;	\
	})

#define __GKHOOK_RET(type, h, n, acc, a, b, c, d)				\
	do {									\
		__GKH_CHECK(h, n, acc);						\
		if (GKHOOK_ACTIVE(h)) {						\
			long __gkh_ret = 0;					\
										\
			if (__GKH_CALL_5(h, a, b, c, d, (unsigned long)&__gkh_ret) ==	\
			    GKH_RETURN)						\
				return (type)__gkh_ret;				\
		}								\
	} while (0)

#else /* !CONFIG_FERROTRACE */

static inline int gkh_register(struct gkh_record *record)
{
	return -EOPNOTSUPP;
}

static inline int gkh_arm(struct gkh_record *list)
{
	return -EOPNOTSUPP;
}

static inline int gkh_disarm(struct gkh_record *list)
{
	return -EOPNOTSUPP;
}

static inline int gkh_deregister(struct gkh_record *list)
{
	return -EOPNOTSUPP;
}

static inline int gkh_identify(struct gkhook *hook)
{
	return 0;
}

static inline int gkh_delete(struct gkhook *hook)
{
	return 0;
}

static inline bool gkh_disarm_self(const struct gkh_exit *self)
{
	return false;
}

static inline bool gkh_is_armed(const struct gkh_record *record)
{
	return false;
}

/* Without hooks: parameters count as used, but are not evaluated. */
#define DECLARE_GKHOOK(h, n, access) struct gkhook
#define DEFINE_GKHOOK_FLAGS(h, hook_context, names, hook_flags) struct gkhook
#define DEFINE_GKHOOK(h, hook_context, names) struct gkhook
#define GKHOOK(h) ((struct gkhook *)NULL)
#define GKHOOK_ACTIVE(h) false
#define __GKH_UNUSED(zero, a, b, c, d, e, ...)					\
	((void)sizeof(a), (void)sizeof(b), (void)sizeof(c), (void)sizeof(d), (void)sizeof(e))
#define __GKHOOK(h, n, acc, ...)						\
	({ __GKH_UNUSED(0, ##__VA_ARGS__, 0, 0, 0, 0, 0); 0L; })
#define __GKHOOK_RET(type, h, n, acc, a, b, c, d) __GKH_UNUSED(0, a, b, c, d, 0)

#endif

#define __GKH_V(x) ((unsigned long)(x))
#define __GKH_A(x) ((unsigned long)&(x))

/*
 * Sites of a hook. Each is an expression with the answer that ended the dispatch, or 0. Parameters
 * are numbers or pointers; they are evaluated only while an exit is armed. RO passes their values,
 * RW their addresses.
 */
#define GKHOOK_0VAR(h)			__GKHOOK(h, 0, GKH_RO)
#define GKHOOK_1VAR_RO(h, a)		__GKHOOK(h, 1, GKH_RO, __GKH_V(a))
#define GKHOOK_2VAR_RO(h, a, b)		__GKHOOK(h, 2, GKH_RO, __GKH_V(a), __GKH_V(b))
#define GKHOOK_3VAR_RO(h, a, b, c)	__GKHOOK(h, 3, GKH_RO, __GKH_V(a), __GKH_V(b), __GKH_V(c))
#define GKHOOK_4VAR_RO(h, a, b, c, d)	\
	__GKHOOK(h, 4, GKH_RO, __GKH_V(a), __GKH_V(b), __GKH_V(c), __GKH_V(d))
#define GKHOOK_5VAR_RO(h, a, b, c, d, e)	\
	__GKHOOK(h, 5, GKH_RO, __GKH_V(a), __GKH_V(b), __GKH_V(c), __GKH_V(d), __GKH_V(e))

#define GKHOOK_1VAR_RW(h, a)		__GKHOOK(h, 1, GKH_RW, __GKH_A(a))
#define GKHOOK_2VAR_RW(h, a, b)		__GKHOOK(h, 2, GKH_RW, __GKH_A(a), __GKH_A(b))
#define GKHOOK_3VAR_RW(h, a, b, c)	__GKHOOK(h, 3, GKH_RW, __GKH_A(a), __GKH_A(b), __GKH_A(c))
#define GKHOOK_4VAR_RW(h, a, b, c, d)	\
	__GKHOOK(h, 4, GKH_RW, __GKH_A(a), __GKH_A(b), __GKH_A(c), __GKH_A(d))
#define GKHOOK_5VAR_RW(h, a, b, c, d, e)	\
	__GKHOOK(h, 5, GKH_RW, __GKH_A(a), __GKH_A(b), __GKH_A(c), __GKH_A(d), __GKH_A(e))

/*
 * Statements: the function that contains them, with the return type @type, returns if an exit says
 * so.
 */
#define GKHOOK_0VAR_RET(type, h)	__GKHOOK_RET(type, h, 0, GKH_RO_RET, 0, 0, 0, 0)
#define GKHOOK_1VAR_RO_RET(type, h, a)	\
	__GKHOOK_RET(type, h, 1, GKH_RO_RET, __GKH_V(a), 0, 0, 0)
#define GKHOOK_2VAR_RO_RET(type, h, a, b)	\
	__GKHOOK_RET(type, h, 2, GKH_RO_RET, __GKH_V(a), __GKH_V(b), 0, 0)
#define GKHOOK_3VAR_RO_RET(type, h, a, b, c)	\
	__GKHOOK_RET(type, h, 3, GKH_RO_RET, __GKH_V(a), __GKH_V(b), __GKH_V(c), 0)
#define GKHOOK_4VAR_RO_RET(type, h, a, b, c, d)	\
	__GKHOOK_RET(type, h, 4, GKH_RO_RET, __GKH_V(a), __GKH_V(b), __GKH_V(c), __GKH_V(d))

#define GKHOOK_1VAR_RW_RET(type, h, a)	\
	__GKHOOK_RET(type, h, 1, GKH_RW_RET, __GKH_A(a), 0, 0, 0)
#define GKHOOK_2VAR_RW_RET(type, h, a, b)	\
	__GKHOOK_RET(type, h, 2, GKH_RW_RET, __GKH_A(a), __GKH_A(b), 0, 0)
#define GKHOOK_3VAR_RW_RET(type, h, a, b, c)	\
	__GKHOOK_RET(type, h, 3, GKH_RW_RET, __GKH_A(a), __GKH_A(b), __GKH_A(c), 0)
#define GKHOOK_4VAR_RW_RET(type, h, a, b, c, d)	\
	__GKHOOK_RET(type, h, 4, GKH_RW_RET, __GKH_A(a), __GKH_A(b), __GKH_A(c), __GKH_A(d))

/*
 * Defines an exit compiled for that many parameters:
 *
 *	static GKH_EXIT_1VAR(my_exit, self, cpu) { ... }
 *
 * All parameters are unsigned long: the value with an RO hook, the address with an RW hook.
 */
#define __GKH_EXIT(fn, self, p0, p1, p2, p3, p4)					\
	long fn(const struct gkh_exit *self, unsigned long p0, unsigned long p1,	\
		unsigned long p2, unsigned long p3, unsigned long p4)
#define GKH_EXIT_0VAR(fn, self)		\
	__GKH_EXIT(fn, self, __gkh_0, __gkh_1, __gkh_2, __gkh_3, __gkh_4)
#define GKH_EXIT_1VAR(fn, self, a)	__GKH_EXIT(fn, self, a, __gkh_1, __gkh_2, __gkh_3, __gkh_4)
#define GKH_EXIT_2VAR(fn, self, a, b)	__GKH_EXIT(fn, self, a, b, __gkh_2, __gkh_3, __gkh_4)
#define GKH_EXIT_3VAR(fn, self, a, b, c)	__GKH_EXIT(fn, self, a, b, c, __gkh_3, __gkh_4)
#define GKH_EXIT_4VAR(fn, self, a, b, c, d)	__GKH_EXIT(fn, self, a, b, c, d, __gkh_4)
#define GKH_EXIT_5VAR(fn, self, a, b, c, d, e)	__GKH_EXIT(fn, self, a, b, c, d, e)

/* As above, for a hook of a _RET form: @ret is for gkh_set_return(). */
#define GKH_EXIT_0VAR_RET(fn, self, ret) \
	__GKH_EXIT(fn, self, __gkh_0, __gkh_1, __gkh_2, __gkh_3, ret)
#define GKH_EXIT_1VAR_RET(fn, self, ret, a)	__GKH_EXIT(fn, self, a, __gkh_1, __gkh_2, __gkh_3, ret)
#define GKH_EXIT_2VAR_RET(fn, self, ret, a, b)	__GKH_EXIT(fn, self, a, b, __gkh_2, __gkh_3, ret)
#define GKH_EXIT_3VAR_RET(fn, self, ret, a, b, c)	__GKH_EXIT(fn, self, a, b, c, __gkh_3, ret)
#define GKH_EXIT_4VAR_RET(fn, self, ret, a, b, c, d)	__GKH_EXIT(fn, self, a, b, c, d, ret)

/**
 * gkh_set_return() - Sets the return value of the function that contains the hook, for an exit that
 * then answers %GKH_RETURN.
 * @ret: The parameter of that name of GKH_EXIT_1VAR_RET() and the like.
 * @value: The value.
 *
 * Return: %GKH_RETURN
 */
static inline long gkh_set_return(unsigned long ret, long value)
{
	*(long *)ret = value;
	return GKH_RETURN;
}

#endif /* _LINUX_GKHI_H */
