# SPDX-License-Identifier: GPL-2.0
#
# For the Makefiles of selftests: builds module/ against the kernel in KDIR, in OUT/module.
#
#	make KDIR=<kernel build directory> OUT=<directory>

KDIR ?= $(error KDIR= must name a kernel build directory)
OUT ?= $(error OUT= must name a directory for the output)

# integration/kernel.sh gives the tools that the kernel was built with in MAKE_MODULE
MAKE_MODULE ?= $(MAKE) -C $(KDIR)

module:
	@mkdir -p $(OUT)/module
	$(MAKE_MODULE) M=$(CURDIR)/module MO=$(OUT)/module modules

.PHONY: module
