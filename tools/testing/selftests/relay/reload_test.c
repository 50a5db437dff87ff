// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading the client and the engine while writers, readers and
 * the CPUs are busy. The engine's module is named by RELAY_ENGINE_KO.
 */
#include "relay_test.h"
#include "load.h"

FIXTURE(reload) { int none; };

FIXTURE_SETUP(reload)
{
	relay_setup("reload", _metadata->name);
	if (!getenv("RELAY_ENGINE_KO"))
		SKIP(return, "the engine is not a module");
}

FIXTURE_TEARDOWN(reload)
{
	if (!module_loaded("rust_relay") && getenv("RELAY_ENGINE_KO"))
		module_load_file(getenv("RELAY_ENGINE_KO"));
	if (!module_loaded("relay_selftest"))
		module_load();
	relay_teardown();
}

static bool load(const char *path)
{
	int ret = module_load_file(path);

	if (ret)
		fprintf(stderr, "# loading %s: %s\n", path, strerror(-ret));
	return !ret;
}

static unsigned int turn;

/* The channel is open and being written when its client is unloaded. */
static bool client_round(void)
{
	if (!module_loaded("relay_selftest") && module_load())
		return false;
	if (ctl("open subbuf=4096 n=4 file=%s mode=%s",
		turn % 2 ? "plain" : "unsafe",
		turn % 3 ? "nooverwrite" : "overwrite") ||
	    ctl("storm count=300 len=200 vary=1 irq=2 period=500"))
		return false;
	turn++;
	if (turn % 4 == 0 && ctl("stormwait"))
		return false;
	return unload("relay_selftest");
}

static bool engine_round(void)
{
	return client_round() && unload("rust_relay") &&
	       load(getenv("RELAY_ENGINE_KO"));
}

TEST_F_TIMEOUT(reload, client_under_load, 300)
{
	ASSERT_FALSE(leaks(client_round, 50, true));
}

TEST_F_TIMEOUT(reload, engine_100_times_under_load, 300)
{
	ASSERT_FALSE(leaks(engine_round, 100, true));
}

TEST_F(reload, engine_goes_when_the_last_file_is_closed)
{
	int fd;

	CTL("open subbuf=4096 n=4");
	fd = open_cpu(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
	ASSERT_EQ(0, close(fd));
	ASSERT_EQ(0, module_unload("rust_relay"));
}

TEST_F(reload, engine_stays_while_a_client_is_loaded)
{
	ASSERT_EQ(-EWOULDBLOCK, module_unload("rust_relay"));
	ASSERT_EQ(0, module_unload("relay_selftest"));
	ASSERT_EQ(0, module_unload("rust_relay"));
}

TEST_HARNESS_MAIN
