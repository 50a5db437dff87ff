# SPDX-License-Identifier: GPL-2.0
#
# Configuration for a kernel without Ferrotrace's patches, such as a distribution's: Kbuild reads this file instead of
# the kernel's .config. This directory replaces what the code needs from a patched kernel:
#
#   on a patched kernel                        substitute
#   core, sys, gkhi and klog in the image      the module ferrotrace_core (core.c), which also runs their initcalls
#   bindings for our headers (0003)            a crate of our own, ferro_bindings (bindings.sh)
#   items of 7.3's crate on an older kernel    a crate that adds them under that name, raw/ferro_kernel.rs; C: stock.h
#   functions that are not exported            kernel_functions.c, under the names of kernel_functions.h
#   hook points task_fork, task_exit (0007)    tracepoints (hook_points.c)
#   hook point uprobe_done (0025)              fprobes (uprobe_done.c), while the point is active
#   sets of ops, stubs (0012 to 0016, 0023)    mainline's ftrace: a list of ops, a search for data
#   Rust engines (0001, 0002, 0008 to 0010)    mainline's engines; the APIs and clients run on either
#   hook point int3 (0008), for live coverage         a call in exc_int3() is replaced (coverage.c)
#   exporter of coverage (0009, 0022)          none: the kernel is not instrumented

CONFIG_FERROTRACE_STOCK := y
CONFIG_KLOG_RUST := y
CONFIG_RELAY_RUST_API := m
CONFIG_RELAY_FAST := m
CONFIG_KPROBES_RUST_API := m
CONFIG_KPROBES_RUST_EVENTS := m
CONFIG_FTRACE_RUST_API := m
CONFIG_FTRACE_RUST_FUNCTIONS := m
CONFIG_JPROBES_RUST := m
ifdef CONFIG_PREEMPT_RT
# As dprobes/Kconfig has it.
$(info ferrotrace: without DProbes, which a kernel with PREEMPT_RT cannot have)
else
CONFIG_DPROBES_RUST := m
endif
CONFIG_KLOG_RUST_RELAY := m
CONFIG_LIVE_COVERAGE := m

# For tests: SAMPLES=m.
CONFIG_SAMPLE_RELAY_C := $(SAMPLES)
CONFIG_SAMPLE_RELAY_SCHED := $(SAMPLES)
CONFIG_SAMPLE_GKHI := $(SAMPLES)
CONFIG_SAMPLE_FERRO_KPROBES := $(SAMPLES)
CONFIG_SAMPLE_JPROBES := $(SAMPLES)
CONFIG_RELAY_READTEST := $(SAMPLES)

# The include paths that patch 0001 sets in a patched kernel, and the options.
ferro-include := -I $(src)/include -I $(src)/include/uapi -I $(src)/stock/private/include -include $(src)/stock/stock.h
ccflags-y += $(ferro-include)
asflags-y += -I $(src)/include
# Names of symbols in Rust depend on the build, so that modules of one build do not load with the core of another.
rustflags-y += $(if $(FERRO_BUILD),-Cmetadata=$(FERRO_BUILD))
rustflags-y += --cfg CONFIG_FERROTRACE --cfg CONFIG_FERROTRACE_STOCK --cfg CONFIG_KLOG_RUST
