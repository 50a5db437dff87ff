# SPDX-License-Identifier: GPL-2.0
#
# What a Rust module outside of the kernel tree is compiled with to use the crates of Ferrotrace. In its Kbuild:
#
#	include $(srctree)/kernel/ferrotrace/rust/client.mk
#	obj-m := my_client.o
#	RUSTFLAGS_my_client.o := $(ferrotrace-client)
#
# The crates that the module names in its source are all there; a crate that it does not name is not linked.

ferrotrace-crate-dirs := rust/core rust/sys gkhi/core gkhi relay/api fast_relay/core fast_relay kprobes/api ftrace_tramp/api klog
# A crate is there if its option is set.
ferrotrace-crates := $(wildcard $(foreach d,$(ferrotrace-crate-dirs),$(objtree)/kernel/ferrotrace/$(d)/lib*.rmeta))
# In stock/ are the bindings for a kernel without our patches, and for an older one the substitute of its crate.
ferrotrace-client := $(addprefix -L $(objtree)/kernel/ferrotrace/,$(ferrotrace-crate-dirs) stock stock/raw) \
	$(patsubst lib%.rmeta,--extern %,$(notdir $(ferrotrace-crates))) \
	$(addprefix --extern kernel=,$(wildcard $(objtree)/kernel/ferrotrace/stock/raw/libferro_kernel.rmeta))

# $(eval $(call ferrotrace-crate,NAME)): NAME.rs, a part of a module, is also a crate for other
# modules of this directory. The rest of that module is NAME_exports.o, which is made here. So the
# Kbuild has
#
#	obj-m := my_module.o my_client.o
#	my_module-y := my_crate.o my_crate_exports.o
#	$(eval $(call ferrotrace-crate,my_crate))
#	RUSTFLAGS_my_client.o := $(ferrotrace-client)
#	$(eval $(call ferrotrace-uses,my_client,my_crate))
define ferrotrace-crate
RUSTFLAGS_$(1).o := $(ferrotrace-client) --emit=metadata=$(obj)/lib$(1).rmeta
$(obj)/$(1)_exports.c: $(obj)/$(1).o FORCE
	$$(call if_changed,ferro_exports)
targets += $(1)_exports.c
$(obj)/$(1)_exports.o: private ferro-exported := $(obj)/$(1).o
$(obj)/$(1)_exports.o: private cmd_gensymtypes_c = $$(cmd_ferro_versions)
endef

# $(eval $(call ferrotrace-uses,OBJECT,CRATE)): OBJECT, without suffix, uses such a crate.
define ferrotrace-uses
RUSTFLAGS_$(1).o += -L $(obj) --extern $(2)
$(obj)/$(1).o: $(obj)/$(2).o
endef

# Lists the symbols that a crate defines, as the kernel does for its own crates in rust/Makefile;
# but not those whose names modpost has no room for: instances of generic functions with private
# types (of -Os), which only their crate calls.
quiet_cmd_ferro_exports = EXPORTS $@
      cmd_ferro_exports = \
	{ echo '/* SPDX-License-Identifier: GPL-2.0 */'; echo '$(pound)include <linux/export.h>'; \
	echo '$(pound)define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)'; \
	$(NM) -p --defined-only $(filter %.o,$^) | awk '$$2~/(T|R|D|B)/ && $$3~/^_R/ && \
		$$3!~/_(init|cleanup)_module$$/ && $$3!~/__(pfx|cfi|odr_asan)/ && length($$3) < 400 \
		{ printf "EXPORT_SYMBOL_RUST_GPL(%s);\n",$$3 }'; } > $@

# With MODVERSIONS, the versions of what exports.c exports. To C, each symbol of Rust is an int:
# their types are in the crates' objects, except for those of methods of enums, where gendwarfksyms
# does not look. What C knows has its version from the header that its users include.
cmd_ferro_versions = { $(call getexportsymbols,\1) | grep -v '^_R' | $(gendwarfksyms) $@; \
	$(call getexportsymbols,\1) | grep '^_R' | \
	$(subst .symtypes,_rust.symtypes,$(gendwarfksyms)) $(ferro-exported) $@; }
