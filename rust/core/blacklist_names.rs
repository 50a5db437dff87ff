// SPDX-License-Identifier: GPL-2.0

//! Blacklist by symbol names, for code that has no mark of its own.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any name.

/// Reason why symbols with a name are not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Bytes in front of a function.
    Preamble,
    /// The trampoline of a static call, which is patched when the call changes.
    StaticCall,
    /// Thunks of indirect branches and returns on CPUs that need them.
    Thunk,
    /// Code that ftrace copies and patches.
    Template,
    /// Code that a CPU executes before it can handle breakpoints.
    Early,
    /// Code in which an idle or offline CPU waits for longer than any grace period.
    Idle,
    /// Code that the compiler's instrumentation calls.
    Sanitizer,
    /// Code that handles probes, and would hit its own probe.
    Own,
}

/// Pattern for the name of a symbol.
enum Name {
    Is(&'static [u8]),
    Starts(&'static [u8]),
    Ends(&'static [u8]),
}

use Name::Ends;
use Name::Is;
use Name::Starts;

/// Rules, of which the first match counts. Names are compared up to the first dot, after which
/// compilers add their suffixes.
const RULES: &[(Name, Reason)] = &[
    // Bytes that the compiler puts in front of functions: a type, room for a thunk, call depth
    // tracking.
    (Starts(b"__cfi_"), Reason::Preamble),
    (Starts(b"__pfx_"), Reason::Preamble),
    // Trampolines of static calls, which are patched when the call is changed: unexpected bytes are
    // a BUG().
    (Starts(b"__SCT__"), Reason::StaticCall),
    // Mitigations. Indirect branches, and their parts on CPUs with ITS and with call depth
    // tracking.
    (Starts(b"__x86_indirect_"), Reason::Thunk),
    (Starts(b"__x86_return_thunk"), Reason::Thunk),
    // Returns, of retbleed_, srso_, srso_alias_, call_depth_ and its_, and the code that they
    // share.
    (Ends(b"_return_thunk"), Reason::Thunk),
    (Ends(b"_safe_ret"), Reason::Thunk),
    (Ends(b"_untrain_ret"), Reason::Thunk),
    (Starts(b"call_depth_"), Reason::Thunk),
    // Targets of unpatched returns.
    (Is(b"warn_thunk_thunk"), Reason::Thunk),
    (Is(b"__warn_thunk"), Reason::Thunk),
    // Copied into trampolines, and patched in place.
    (Starts(b"ftrace_caller"), Reason::Template),
    (Starts(b"ftrace_regs_call"), Reason::Template),
    (Is(b"ftrace_call"), Reason::Template),
    // Code that a CPU executes during bring-up, or after a wake-up by the firmware, before it has
    // loaded the IDT: from its first instruction in the kernel to `load_current_idt()`. A
    // breakpoint there resets the machine.
    (Starts(b"startup_64"), Reason::Early),
    (Starts(b"secondary_startup_64"), Reason::Early),
    (Starts(b"common_startup_64"), Reason::Early),
    (Is(b"verify_cpu"), Reason::Early),
    (Is(b"sev_verify_cbit"), Reason::Early),
    (Is(b"soft_restart_cpu"), Reason::Early),
    (Is(b"early_setup_idt"), Reason::Early),
    (Is(b"start_secondary"), Reason::Early),
    (Is(b"cr4_init"), Reason::Early),
    (Is(b"native_write_cr0"), Reason::Early),
    (Is(b"native_write_cr4"), Reason::Early),
    (Is(b"native_write_msr"), Reason::Early),
    (Is(b"do_trace_write_msr"), Reason::Early),
    (Is(b"cpu_init_exception_handling"), Reason::Early),
    (Is(b"cpu_init_fred_exceptions"), Reason::Early),
    (Is(b"cr4_update_irqsoff"), Reason::Early),
    (Is(b"native_write_gdt_entry"), Reason::Early),
    (Is(b"load_direct_gdt"), Reason::Early),
    (Is(b"load_fixmap_gdt"), Reason::Early),
    (Starts(b"native_load_"), Reason::Early),
    (Is(b"load_current_idt"), Reason::Early),
    // Functions of that code that the compiler may or may not inline.
    (Is(b"cr4_set_bits"), Reason::Early),
    (Is(b"__write_cr4"), Reason::Early),
    (Is(b"setup_getcpu"), Reason::Early),
    (Starts(b"tss_setup_"), Reason::Early),
    (Is(b"__set_tss_desc"), Reason::Early),
    (Is(b"set_tssldt_descriptor"), Reason::Early),
    (Is(b"get_cpu_entry_area"), Reason::Early),
    (Is(b"init_idt_data"), Reason::Early),
    (Is(b"idt_init_desc"), Reason::Early),
    (Is(b"native_write_idt_entry"), Reason::Early),
    (Is(b"early_cpu_to_node"), Reason::Early),
    // Called even without memory encryption.
    (Is(b"setup_ghcb"), Reason::Early),
    (Is(b"sev_es_negotiate_protocol"), Reason::Early),
    (Is(b"snp_register_per_cpu_ghcb"), Reason::Early),
    (Is(b"snp_register_ghcb_early"), Reason::Early),
    (Is(b"wakeup_long64"), Reason::Early),
    (Is(b"do_suspend_lowlevel"), Reason::Early),
    (Ends(b"restore_processor_state"), Reason::Early),
    // Resume from a disk: with the memory of another kernel, the first of them from a copy of a
    // page.
    (Is(b"core_restore_code"), Reason::Early),
    (Is(b"restore_image"), Reason::Early),
    (Is(b"restore_registers"), Reason::Early),
    // `in` from the port of a C-state. In the kernel's image it is noinstr code; in a module it has
    // no mark.
    (Is(b"io_idle"), Reason::Idle),
    // Code of a dying CPU after its death has been reported: no grace period waits for it.
    (Is(b"cpuhp_ap_report_dead"), Reason::Idle),
    (Ends(b"play_dead"), Reason::Idle),
    (Is(b"play_dead_common"), Reason::Idle),
    (Is(b"tboot_shutdown"), Reason::Idle),
    // Instrumented code calls these everywhere, including the code that handles probes. (UBSAN's
    // are called only on errors, which users look for by a probe.)
    (Starts(b"__asan_"), Reason::Sanitizer),
    (Starts(b"__hwasan_"), Reason::Sanitizer),
    (Starts(b"__kasan_check_"), Reason::Sanitizer),
    (Starts(b"kasan_check_"), Reason::Sanitizer),
    (Starts(b"__msan_"), Reason::Sanitizer),
    (Starts(b"__tsan_"), Reason::Sanitizer),
    (Starts(b"__kcsan_"), Reason::Sanitizer),
    (Starts(b"kcsan_"), Reason::Sanitizer),
    (Starts(b"__sanitizer_"), Reason::Sanitizer),
    // Helpers of the crates on the path of a hit, and queries of debugging code at a hook.
    (Starts(b"rust_helper_"), Reason::Own),
    (Starts(b"ferro_"), Reason::Own),
    (Is(b"rcu_is_watching"), Reason::Own),
    // After a jump, this enables preemption, repeatedly as long as a reschedule is due.
    (Is(b"preempt_schedule_notrace"), Reason::Own),
];

/// Crates on the path of a hit.
const CRATES: &[&[u8]] = &[
    b"kprobes_engine",
    b"ferro_kprobes_builtin",
    b"ferro_kprobes_core",
    b"ferro_core",
    b"ferro_dprobes_core",
    b"ferro_fast_relay_core",
    b"ferro_kprobe_events_core",
    b"ferro_sys",
    b"ferro_gkhi",
];

impl Name {
    fn fits(&self, name: &[u8]) -> bool {
        match self {
            Self::Is(is) => name == *is,
            Self::Starts(start) => name.starts_with(start),
            Self::Ends(end) => name.ends_with(end),
        }
    }
}

/// Returns the reason why the symbol of this name is not probed, or `None`.
pub fn refuses(name: &[u8]) -> Option<Reason> {
    if name.starts_with(b"_R") {
        let has = |part: &[u8]| name.windows(part.len()).any(|w| w == part);
        return CRATES.iter().any(|c| has(c)).then_some(Reason::Own);
    }
    // Second name of code that runs before relocation.
    let name = name.strip_prefix(b"__pi_").unwrap_or(name);
    let name = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    let mut rules = RULES.iter();
    rules.find_map(|(rule, reason)| rule.fits(name).then_some(*reason))
}

#[cfg(test)]
mod tests {
    use super::refuses;
    use super::Reason;

    #[test]
    fn by_name() {
        let cases: &[(&str, Option<Reason>)] = &[
            ("vfs_read", None),
            ("__cfi_vfs_read", Some(Reason::Preamble)),
            ("__SCT__cond_resched", Some(Reason::StaticCall)),
            ("srso_alias_return_thunk", Some(Reason::Thunk)),
            ("retbleed_return_thunk_not", None),
            ("ftrace_regs_caller_end", Some(Reason::Template)),
            ("cr4_init", Some(Reason::Early)),
            ("cr4_init_not", None),
            ("get_cpu_entry_area", Some(Reason::Early)),
            ("io_idle", Some(Reason::Idle)),
            ("io_idle_not", None),
            ("native_play_dead", Some(Reason::Idle)),
            ("play_dead", Some(Reason::Idle)),
            ("preempt_schedule_notrace", Some(Reason::Own)),
            ("__asan_load8", Some(Reason::Sanitizer)),
            ("__ubsan_handle_shift_out_of_bounds", None),
            ("rust_helper_rcu_read_lock", Some(Reason::Own)),
            ("_RNvNtCs1_10ferro_core4insn6decode", Some(Reason::Own)),
            (
                "_RNvNtCs1_18ferro_dprobes_core6interp3run",
                Some(Reason::Own),
            ),
            (
                "_RNvNtCs1_21ferro_fast_relay_core4ring7reserve",
                Some(Reason::Own),
            ),
            ("_RNvNtCs1_18ferro_kprobes_core5probe2of", Some(Reason::Own)),
            ("_RNvNtCs1_6kernel4list3add", None),
            // Suffixes of compilers and the linker.
            ("cr4_init.constprop.0", Some(Reason::Early)),
            ("cpu_init_exception_handling.cold", Some(Reason::Early)),
            ("__pi_startup_64_load_idt", Some(Reason::Early)),
            ("vfs_read.cold", None),
            ("", None),
        ];
        for (name, reason) in cases {
            assert_eq!(refuses(name.as_bytes()), *reason, "{name}");
        }
    }
}
