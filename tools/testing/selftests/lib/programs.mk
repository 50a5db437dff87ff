# SPDX-License-Identifier: GPL-2.0
#
# For the Makefiles of selftests with programs: builds NAME_test of each of TESTS from NAME_test.c, SHARED and testlib, and the
# module CLIENT that they drive.

# Not KSRC, which the user gives to the top level.
TREE := $(KDIR)/source
KIT := $(abspath ../lib)
PROGRAMS := $(TESTS:%=$(OUT)/%_test)

CFLAGS += -O2 -g -Wall -I$(TREE)/tools/testing/selftests -I$(CURDIR) -I$(KIT) '-DCLIENT="$(CLIENT)"'
LDLIBS += -lpthread

all: $(PROGRAMS) module

$(OUT)/%_test: %_test.c $(SHARED) $(HEADERS) $(KIT)/testlib.c $(wildcard $(KIT)/*.h) $(MAKEFILE_LIST)
	@mkdir -p $(OUT)
	$(CC) $(CFLAGS) -o $@ $< $(SHARED) $(KIT)/testlib.c $(LDLIBS)

include $(KIT)/module.mk

.PHONY: all
