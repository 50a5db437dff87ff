// SPDX-License-Identifier: GPL-2.0
/*
 * Refusals, and their errors. The cases find gst_ro with "first", "last" and "middle" (armed), and
 * gst_zero with "only". They leave everything unchanged, as the caller compares.
 */
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "gkhi_selftest.h"

static GKH_EXIT_0VAR(nothing, self)
{
	return GKH_CONTINUE;
}

static unsigned long not_code[4];

static struct gkh_record stranger = {
	.hook = "gst_ro", .name = "stranger", .exit = nothing,
};

static int try(struct gkh_record record)
{
	int err = gkh_register(&record);

	if (!err)
		gkh_deregister(&record);
	else
		EXPECT_EQ(record.id, 0);
	return err;
}

#define TRY(...) try((struct gkh_record){ .hook = "gst_ro", .name = "new", .exit = nothing, __VA_ARGS__ })

static void null_record(void)
{
	EXPECT_EQ(gkh_register(NULL), -EINVAL);
	EXPECT_EQ(gkh_arm(NULL), -EINVAL);
	EXPECT_EQ(gkh_disarm(NULL), -EINVAL);
	EXPECT_EQ(gkh_deregister(NULL), -EINVAL);
	EXPECT_EQ(gkh_identify(NULL), -EINVAL);
	EXPECT_EQ(gkh_delete(NULL), -EINVAL);
}

static void null_parts(void)
{
	struct gkh_record record = { .hook = "gst_ro", .name = "new" };

	EXPECT_EQ(gkh_register(&record), -EINVAL);
	record = (struct gkh_record){ .hook = "gst_ro", .exit = nothing };
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	record = (struct gkh_record){ .name = "new", .exit = nothing };
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	EXPECT_EQ(record.id, 0);
}

static void names(void)
{
	static const char * const bad[] = { "", "a b", "a/b", "a,b", "a=b", ".", "..", ".a", "a\n", "\303\244" };
	char longest[GKH_NAME_MAX + 2];
	struct gkh_record record = { .hook = "gst_ro", .exit = nothing };
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		record.name = bad[i];
		if (!EXPECT_EQ(gkh_register(&record), -EINVAL))
			case_say("name \"%s\"\n", bad[i]);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[GKH_NAME_MAX + 1] = '\0';
	record.name = longest;
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	longest[GKH_NAME_MAX] = '\0';
	EXPECT_EQ(gkh_register(&record), 0);
	EXPECT_EQ(gkh_deregister(&record), 0);
	record.name = "Az_0-9.z";
	EXPECT_EQ(gkh_register(&record), 0);
	EXPECT_EQ(gkh_deregister(&record), 0);
}

static void unknown_hook(void)
{
	static const char * const unknown[] = { "nothing", "", "gst_r", "gst_roo", "GST_RO", "gst_ro/first" };
	struct gkh_record record = { .name = "new", .exit = nothing };
	int i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		record.hook = unknown[i];
		EXPECT_EQ(gkh_register(&record), -ENOENT);
	}
}

static void flags(void)
{
	int bit;

	for (bit = 6; bit < 32; bit++)
		EXPECT_EQ(TRY(.flags = 1U << bit), -EINVAL);
	EXPECT_EQ(TRY(.flags = ~0U), -EINVAL);
	EXPECT_EQ(TRY(.flags = GKH_FIRST | GKH_LIFO), -EINVAL);
	EXPECT_EQ(TRY(.flags = GKH_LAST | GKH_LIFO), -EINVAL);
	EXPECT_EQ(TRY(.flags = GKH_ONLY | GKH_LIFO), -EINVAL);
}

static void params(void)
{
	EXPECT_EQ(TRY(.params = 4), -E2BIG);
	EXPECT_EQ(TRY(.params = ~0U), -E2BIG);
	EXPECT_EQ(TRY(.params = 3), 0);
}

static void no_code(void)
{
	struct gkh_record record = { .hook = "gst_ro", .name = "new" };

	record.exit = (gkh_fn_t)(void *)not_code;
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	record.exit = (gkh_fn_t)(void *)&record;
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	record.exit = (gkh_fn_t)8UL;
	EXPECT_EQ(gkh_register(&record), -EINVAL);
	EXPECT_EQ(gst_init_text_err, -EINVAL);
}

static void taken(void)
{
	EXPECT_EQ(TRY(.flags = GKH_FIRST), -EEXIST);
	EXPECT_EQ(TRY(.flags = GKH_LAST), -EEXIST);
	EXPECT_EQ(TRY(.name = "middle"), -EEXIST);
	EXPECT_EQ(TRY(.flags = GKH_ONLY), -EBUSY);
	EXPECT_EQ(TRY(.hook = "gst_zero"), -EBUSY);
	EXPECT_EQ(TRY(.hook = "gst_zero", .flags = GKH_FIRST), -EBUSY);
	EXPECT_EQ(TRY(.hook = "gst_zero", .name = "only"), -EEXIST);
}

static void exclusive(void)
{
	struct gkh_record record = { .hook = "gst_exclusive", .name = "new", .exit = nothing };

	EXPECT_EQ(gkh_register(&record), 0);
	EXPECT_EQ(TRY(.hook = "gst_exclusive", .name = "other"), -EBUSY);
	EXPECT_EQ(gkh_deregister(&record), 0);
	EXPECT_EQ(TRY(.hook = "gst_exclusive", .name = "other"), 0);
}

static void twice(void)
{
	struct gkh_record record = { .hook = "gst_ro", .name = "new", .exit = nothing };
	struct gkh_record before;

	EXPECT_EQ(gkh_register(&record), 0);
	before = record;
	EXPECT_EQ(gkh_register(&record), -EALREADY);
	record.name = "other";
	EXPECT_EQ(gkh_register(&record), -EALREADY);
	EXPECT_EQ(record.id, before.id);
	/* both once more do no harm */
	EXPECT_EQ(gkh_arm(&record), 0);
	EXPECT_EQ(gkh_arm(&record), 0);
	EXPECT(gkh_is_armed(&record));
	EXPECT_EQ(gkh_register(&record), -EALREADY);
	EXPECT(gkh_is_armed(&record));
	EXPECT_EQ(gkh_disarm(&record), 0);
	EXPECT_EQ(gkh_disarm(&record), 0);
	EXPECT(!gkh_is_armed(&record));
	EXPECT_EQ(gkh_deregister(&record), 0);
	EXPECT_EQ(record.id, 0);
	EXPECT_EQ(gkh_deregister(&record), -ESRCH);
	EXPECT(!gkh_is_armed(&record));
}

static void unregistered(void)
{
	struct gkh_record copy = { .hook = "gst_ro", .name = "new", .exit = nothing };
	struct gkh_record record = copy;

	EXPECT_EQ(gkh_arm(&stranger), -ESRCH);
	EXPECT_EQ(gkh_disarm(&stranger), -ESRCH);
	EXPECT_EQ(gkh_deregister(&stranger), -ESRCH);
	EXPECT(!gkh_is_armed(&stranger));
	/* a copy of a record is another one */
	EXPECT_EQ(gkh_register(&record), 0);
	copy = record;
	EXPECT_EQ(gkh_arm(&copy), -ESRCH);
	EXPECT_EQ(gkh_deregister(&copy), -ESRCH);
	EXPECT_EQ(gkh_deregister(&record), 0);
	copy = stranger;
	copy.id = ~0UL;
	EXPECT_EQ(gkh_arm(&copy), -ESRCH);
}

/* Nothing happens to those before and after the bad one. */
static void lists(void)
{
	struct gkh_record one = { .hook = "gst_ro", .name = "one", .exit = nothing };
	struct gkh_record two = { .hook = "gst_a", .name = "two", .exit = nothing };
	struct gkh_record three = { .hook = "gst_ro", .name = "three", .exit = nothing };

	EXPECT_EQ(gkh_register(&one), 0);
	EXPECT_EQ(gkh_register(&two), 0);
	EXPECT_EQ(gkh_register(&three), 0);
	one.next = &stranger;
	stranger.next = &two;
	EXPECT_EQ(gkh_arm(&one), -ESRCH);
	EXPECT(!gkh_is_armed(&one) && !gkh_is_armed(&two));
	one.next = &two;
	two.next = &three;
	EXPECT_EQ(gkh_arm(&one), 0);
	EXPECT(gkh_is_armed(&one) && gkh_is_armed(&two) && gkh_is_armed(&three));
	one.next = &stranger;
	EXPECT_EQ(gkh_disarm(&one), -ESRCH);
	EXPECT_EQ(gkh_deregister(&one), -ESRCH);
	EXPECT(gkh_is_armed(&one) && gkh_is_armed(&two) && gkh_is_armed(&three));
	stranger.next = NULL;

	one.next = &two;
	two.next = &one;
	EXPECT_EQ(gkh_disarm(&one), -ELOOP);
	two.next = &two;
	EXPECT_EQ(gkh_deregister(&one), -ELOOP);
	EXPECT(gkh_is_armed(&one) && gkh_is_armed(&two) && gkh_is_armed(&three));
	two.next = &three;
	EXPECT_EQ(gkh_deregister(&one), 0);
	EXPECT(!one.id && !two.id && !three.id);
}

DECLARE_GKHOOK(gst_extra, 1, GKH_RO);
DEFINE_GKHOOK(gst_extra, GKH_ATOMIC, "a");
static struct gkhook same_name = { .armed = &gkh_idle, .name = "gst_ro", .params = "" };
static struct gkhook bad_hook = { .armed = &gkh_idle };

static int identify(const char *name, const char *names, int count, int context, int access)
{
	bad_hook.name = name;
	bad_hook.params = names;
	bad_hook.count = count;
	bad_hook.context = context;
	bad_hook.access = access;
	return gkh_identify(&bad_hook);
}

static void hooks(void)
{
	EXPECT_EQ(gkh_identify(GKHOOK(gst_ro)), -EALREADY);
	EXPECT_EQ(gkh_identify(&same_name), -EEXIST);
	EXPECT_EQ(gkh_delete(&same_name), -ESRCH);
	EXPECT_EQ(gkh_delete(GKHOOK(gst_extra)), -ESRCH);
	EXPECT_EQ(identify(NULL, "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("", "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("a/b", "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("hooks", "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("arm", "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("disarm", "", 0, 0, 0), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "a", 2, 0, 0), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "a, b", 1, 0, 0), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "a, b, c, d, e, f", 6, 0, 0), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "a, b, c, d, e", 5, 0, GKH_RO_RET), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "", 0, GKH_ATOMIC + 1, 0), -EINVAL);
	EXPECT_EQ(identify("gst_bad", "", 0, 0, GKH_RW_RET + 1), -EINVAL);
}

static void deleted(void)
{
	struct gkh_record armed = { .hook = "gst_extra", .name = "armed", .exit = nothing };
	struct gkh_record idle = { .hook = "gst_extra", .name = "idle", .exit = nothing };
	struct gkh_record other = { .hook = "gst_a", .name = "other", .exit = nothing };

	EXPECT_EQ(gkh_identify(GKHOOK(gst_extra)), 0);
	EXPECT_EQ(gkh_register(&armed), 0);
	EXPECT_EQ(gkh_register(&idle), 0);
	EXPECT_EQ(gkh_register(&other), 0);
	EXPECT_EQ(gkh_arm(&armed), 0);
	EXPECT_EQ(gkh_delete(GKHOOK(gst_extra)), 0);
	EXPECT_EQ(gkh_delete(GKHOOK(gst_extra)), -ESRCH);
	EXPECT(!static_key_enabled(&GKHOOK(gst_extra)->key));
	EXPECT(!gkh_is_armed(&armed));
	EXPECT_EQ(gkh_arm(&armed), -ENODEV);
	other.next = &idle;
	EXPECT_EQ(gkh_arm(&other), -ENODEV);
	EXPECT(!gkh_is_armed(&other));
	EXPECT_EQ(gkh_disarm(&armed), 0);
	EXPECT_EQ(gkh_register(&armed), -EALREADY);
	/* The hook is identified again without them. */
	EXPECT_EQ(gkh_identify(GKHOOK(gst_extra)), 0);
	EXPECT_EQ(gkh_arm(&armed), -ENODEV);
	idle.next = &armed;
	EXPECT_EQ(gkh_deregister(&other), 0);
	EXPECT_EQ(gkh_deregister(&idle), -ESRCH);
	armed.next = NULL;
	EXPECT_EQ(gkh_register(&armed), 0);
	EXPECT_EQ(gkh_arm(&armed), 0);
	EXPECT_EQ(gkh_deregister(&armed), 0);
	EXPECT_EQ(gkh_delete(GKHOOK(gst_extra)), 0);
}

/* A change waits for dispatches, so its caller must not be in one, nor where it may not sleep. */
static void change_all(struct gkh_record *armed)
{
	EXPECT_EQ(gkh_register(&stranger), -EDEADLK);
	EXPECT_EQ(gkh_arm(armed), -EDEADLK);
	EXPECT_EQ(gkh_disarm(armed), -EDEADLK);
	EXPECT_EQ(gkh_deregister(armed), -EDEADLK);
	EXPECT_EQ(gkh_identify(GKHOOK(gst_extra)), -EDEADLK);
	EXPECT_EQ(gkh_delete(GKHOOK(gst_sleep)), -EDEADLK);
}

static GKH_EXIT_0VAR(changing, self)
{
	change_all(self->record);
	return GKH_TERMINATE;
}

static void cannot_wait(void)
{
	struct gkh_record record = { .hook = "gst_sleep", .name = "changing", .exit = changing };
	long answer;

	EXPECT_EQ(gkh_register(&record), 0);
	EXPECT_EQ(gkh_arm(&record), 0);
	EXPECT_EQ(gst_fire("gst_sleep", &answer), 0);
	EXPECT_EQ(answer, GKH_TERMINATE);
	preempt_disable();
	change_all(&record);
	preempt_enable();
	rcu_read_lock();
	change_all(&record);
	rcu_read_unlock();
	EXPECT(gkh_is_armed(&record));
	EXPECT_EQ(gkh_deregister(&record), 0);
}

const struct test_case gst_refusals[] = {
	{ "refuse.null", null_record },
	{ "refuse.null_parts", null_parts },
	{ "refuse.names", names },
	{ "refuse.unknown_hook", unknown_hook },
	{ "refuse.flags", flags },
	{ "refuse.params", params },
	{ "refuse.no_code", no_code },
	{ "refuse.taken", taken },
	{ "refuse.exclusive", exclusive },
	{ "refuse.twice", twice },
	{ "refuse.unregistered", unregistered },
	{ "refuse.lists", lists },
	{ "refuse.hooks", hooks },
	{ "refuse.deleted_hook", deleted },
	{ "refuse.cannot_wait", cannot_wait },
	{ }
};
