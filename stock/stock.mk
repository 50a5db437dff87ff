# SPDX-License-Identifier: GPL-2.0
#
# Objects that only a kernel without our patches needs.

obj-m += ferrotrace_core.o ferrotrace_fs.o
ferrotrace_fs-y := rust/sys/fs/ferrotracefs.o
ferrotrace_core-y += stock/core.o stock/ferro_bindings.o stock/hook_points.o stock/image.o stock/kernel_functions.o stock/stack.o stock/uprobe_done.o
ferrotrace_ftrace-y := ftrace_tramp/builtin/data.o stock/ftrace.o

# A kernel older than 7.3 has an older crate: a crate of that name that adds what it lacks.
ifeq ($(shell RUSTC_BOOTSTRAP=1 $(RUSTC) -Zls=items $(objtree)/rust/libkernel.rmeta | grep ' Fn this_module '),)
ferrotrace_core-y += stock/raw/ferro_kernel.o
RUSTFLAGS_stock/raw/ferro_kernel.o := --emit=metadata=$(obj)/stock/raw/libferro_kernel.rmeta
ferro-kernel := $(obj)/stock/raw/ferro_kernel.o
ferro-kernel-flags := -L $(obj)/stock/raw --extern kernel=$(obj)/stock/raw/libferro_kernel.rmeta
ccflags-y += -DFERRO_STOCK_OLDER
# Its parameters are of type bool, which older kernels do not have in Rust.
CONFIG_SAMPLE_RELAY_SCHED :=
endif

# As rust/Makefile calls bindgen, but with the few flags of the compiler that change what a header declares.
ferro-bindgen-flags = $(NOSTDINC_FLAGS) $(LINUXINCLUDE) $(ferro-include) -Wp,-MMD,$(depfile) \
	$(filter -D% -std=% -fms-% -funsigned-char -fshort-wchar -m64,$(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS)) \
	-w --target=x86_64-linux-gnu -fno-builtin -D__BINDGEN__ -DMODULE -DKBUILD_MODNAME=ferrotrace_core
quiet_cmd_ferro_bindgen = BINDGEN $@
      cmd_ferro_bindgen = $(src)/stock/bindings.sh $@ $(src)/bindings.h $(src) $(objtree)/rust/libbindings.rmeta -- $(ferro-bindgen-flags)
$(obj)/stock/ferro_bindings.rs: $(src)/stock/bindings.sh $(src)/bindings.h FORCE
	$(call if_changed_dep,ferro_bindgen)
targets += stock/ferro_bindings.rs

ferro-bindings := ferro_bindings
$(eval $(call ferro-crate,stock,ferro_bindings,))
