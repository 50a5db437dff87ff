# SPDX-License-Identifier: GPL-2.0
#
# The developer's commands; "make help" lists them. Inside a kernel tree this directory is built by Kbuild, which
# prefers the file of that name to this one.

# A configuration of the user's own is not of a variant of ours.
VARIANT ?= $(if $(KCONFIG),own,modular)
CMD ?=
MAKEFLAGS += --no-print-directory

# Paths of the user's own: unchanged, with any characters, through the environment.
$(foreach name,KTREE KSRC KCONFIG,$(eval override $(name) := $$(value $(name))))
export CPUS MEM TIMEOUT ICOUNT APPEND QEMU_OPTS OUT CONSOLE PARALLEL KTREE KSRC KCONFIG JOBS

# Tests that "make check" leaves out for time: suites on the variants debug, size and distro; and on
# all its variants storms of their whole length, Miri over all of the core, and Debian packages. A
# storm on debug takes ten times as long: a short one there.
LONG_STORMS = host export insn relay klog gkhi selftests-kprobes ftrace-tramp ftrace-rust dprobes probes functions gcov reload deb
LONG_DEBUG = kunit relay klog gkhi kprobes ftrace-tramp gcov clients reload soundness fault-injection
LONG_SIZE = kunit kprobes ftrace-tramp
# Without suites that need no kernel, engines that are modules, or checkers, and without coverage;
# "tools" includes blktrace.
LONG_DISTRO = insn kunit relay klog gkhi kprobes ftrace-tramp ftrace-rust clients dprobes 43-probes functions 55-ferrotrace mitigations
SHORT_DISTRO = kunit selftests-kprobes kprobes-clients ftrace-tramp ftrace-rust
# On Debian's own kernel, without our patches.
LONG_STOCK = stock dkms fleet soundness live-coverage klog gkhi relay-fast flight dprobes 43-probes functions graph
LONG_STOCK_SID = $(filter-out dkms fleet flight graph,$(LONG_STOCK))
# Against mainline's engines on the same configuration.
LONG_DISTROS = permissions tools all-functions

.PHONY: rust-dev stock stock-install stock-uninstall help setup install-tools update update-deps kernel kdir kmake export deb vm demo test check check-long check-distro check-browser check-toolchains coverage bench fuzz mutants fmt lint doc rust-analyzer clean distclean

help:
	@cat integration/help.txt

setup:
	@integration/setup.sh

# Below PREFIX, /usr/local by default, which DESTDIR precedes.
install-tools: export DESTDIR := $(DESTDIR)
install-tools: export PREFIX := $(PREFIX)
install-tools:
	@integration/install-tools.sh

update:
	@integration/source.sh --update

update-deps:
	@integration/deps.py update cargo $(ARGS)

kernel:
	@integration/kernel.sh build '$(VARIANT)'

kdir:
	@integration/kernel.sh kdir '$(VARIANT)'

# kbuild in the variant's directory, e.g. make kmake VARIANT=modular ARGS='M=/path/to/module modules'
kmake:
	@integration/kernel.sh make '$(VARIANT)' $(ARGS)

# Ferrotrace into a kernel tree of the user's own; UNDO=1 removes it, UNDO=force also files that
# were changed in it.
export:
	$(if $(filter-out 1 force,$(UNDO)),$(error UNDO=$(UNDO): it is 1 or force))
	@integration/export.sh $(if $(UNDO),--undo$(if $(filter force,$(UNDO)),=force)) "$$KTREE"

# Debian packages of a variant and of the command.
deb:
	@integration/deb.sh '$(VARIANT)'

# For a kernel of the distribution.
rust-dev:
	@integration/stock.sh rust-dev "$${RELEASE:-$$(integration/stock.sh release)}"

KDIR = /lib/modules/$(shell uname -r)/build
stock:
	@stock/build.sh modules '$(KDIR)' build/stock

# Below DESTDIR or INSTALL_MOD_PATH.
stock-install stock-uninstall: export INSTALL_MOD_PATH := $(or $(INSTALL_MOD_PATH),$(DESTDIR))
stock-install: stock
	@stock/build.sh install '$(KDIR)' build/stock

stock-uninstall:
	@stock/build.sh uninstall '$(KDIR)'

# CMD reaches the shell through the environment, so that it may hold any quotes. Its output is
# CMD's: the path of the image is not printed.
# GDB=1: a separate kernel with debugging information; the guest waits for gdb.
vm: export FERROTRACE_CMD = $(value CMD)
ifneq ($(filter-out 0,$(GDB)),)
vm: export GDB := $(GDB)
vm: export FERROTRACE_DEBUG_INFO := 1
endif
vm:
	@integration/kernel.sh build '$(VARIANT)' >/dev/null
	@tools/testing/vm/run.py '$(VARIANT)' "$$FERROTRACE_CMD"

demo:
	@integration/setup.sh --quiet
	@tools/testing/vm/demo.sh

# One suite, or some of its cases: T=SUITE, T=SUITE:CASE; without T what there is.
test:
	@tools/testing/test.py '$(T)' '$(VARIANT)'

check:
	@tools/testing/check.sh

check-long:
	@integration/lint.sh lint
	@FERROTRACE_STORM=long MIRI_TESTS= LOGS=build/check-storms tools/testing/check.sh 10-build $(LONG_STORMS)
	@VARIANTS=debug LOGS=build/check-debug tools/testing/check.sh 10-build $(LONG_DEBUG)
	@VARIANTS=size LOGS=build/check-size tools/testing/check.sh 10-build $(LONG_SIZE)
	@$(MAKE) check-distro
	@VARIANTS=stock FERROTRACE_TOOL_VARIANTS=stock LOGS=build/check-stock tools/testing/check.sh $(LONG_STOCK)
	@VARIANTS=stock-sid LOGS=build/check-stock-sid tools/testing/check.sh $(LONG_STOCK_SID)
	@VARIANTS="stock-cloud stock-rt" LOGS=build/check-stock-flavours tools/testing/check.sh stock
	@VARIANTS=gcov LOGS=build/check-gcov tools/testing/check.sh 10-build gcov

# Debian's own configuration: the suites that make sense there; SHORT=1 is the core of it.
check-distro:
	@VARIANTS=distro LOGS=build/check-distro tools/testing/check.sh 10-build $(if $(SHORT),$(SHORT_DISTRO),$(LONG_DISTRO))
ifndef SHORT
	@VARIANTS="distro-mainline distro" LOGS=build/check-distros tools/testing/check.sh 10-build $(LONG_DISTROS)
endif

check-browser:
	@tools/testing/browser.sh

check-toolchains:
	@tools/testing/toolchains.sh

coverage:
	@tools/testing/coverage.sh

bench:
	@tools/testing/bench/run.sh

fuzz:
	@tools/testing/fuzz.sh

mutants:
	@tools/testing/mutants.sh

fmt:
	@integration/lint.sh fmt

lint:
	@integration/lint.sh lint

doc:
	@integration/doc.sh

# rust-project.json; CHECK=1 asks rust-analyzer for definitions.
rust-analyzer:
	@integration/kernel.sh build '$(VARIANT)' >/dev/null
	@integration/kernel.sh make '$(VARIANT)' -s rust-analyzer
	@integration/rust-analyzer.py "$$(integration/kernel.sh kdir '$(VARIANT)')" $(if $(CHECK),--check rust-analyzer)

clean:
	@integration/clean.sh

distclean:
	@integration/clean.sh --all
