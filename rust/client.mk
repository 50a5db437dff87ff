# SPDX-License-Identifier: GPL-2.0
#
# What a Rust module outside of the kernel tree is compiled with to use the crates of Ferrotrace. In its Kbuild:
#
#	include $(srctree)/kernel/ferrotrace/rust/client.mk
#	obj-m := my_client.o
#	RUSTFLAGS_my_client.o := $(ferrotrace-client)
#
# The crates that the module names in its source are all there; a crate that it does not name is not linked.

ferrotrace-crate-dirs := rust/core rust/sys rust/gkhi relay/api relay/fast kprobes/api ftrace_tramp/api klog
# A crate is there if its option is set.
ferrotrace-crates := $(wildcard $(foreach d,$(ferrotrace-crate-dirs),$(objtree)/kernel/ferrotrace/$(d)/lib*.rmeta))
ferrotrace-client := $(addprefix -L $(objtree)/kernel/ferrotrace/,$(ferrotrace-crate-dirs)) \
	$(patsubst lib%.rmeta,--extern %,$(notdir $(ferrotrace-crates)))
