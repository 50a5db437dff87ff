// SPDX-License-Identifier: GPL-2.0

//! What is not probed because of what it is called: code that has no mark of its own.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use crate::refusal::Refusal;

/// How the name of a symbol is recognised.
enum Name {
    Is(&'static [u8]),
    Starts(&'static [u8]),
    Ends(&'static [u8]),
}

use Name::Ends;
use Name::Is;
use Name::Starts;

/// The first that fits counts. Names are compared up to the first dot, after which compilers say what they did.
const RULES: &[(Name, Refusal)] = &[
    // What the compiler puts in front of functions: a type, room for a thunk, call depth tracking.
    (Starts(b"__cfi_"), Refusal::Preamble),
    (Starts(b"__pfx_"), Refusal::Preamble),
    // Trampolines of static calls, which are patched when the call is changed: anything else there is a BUG().
    (Starts(b"__SCT__"), Refusal::StaticCall),
    // Mitigations. Indirect branches, and what they are made of on CPUs with ITS and with call depth tracking.
    (Starts(b"__x86_indirect_"), Refusal::Thunk),
    (Starts(b"__x86_return_thunk"), Refusal::Thunk),
    // Returns, of retbleed_, srso_, srso_alias_, call_depth_ and its_, and the code that they share.
    (Ends(b"_return_thunk"), Refusal::Thunk),
    (Ends(b"_safe_ret"), Refusal::Thunk),
    (Ends(b"_untrain_ret"), Refusal::Thunk),
    (Starts(b"call_depth_"), Refusal::Thunk),
    // Where returns go that nobody has patched.
    (Is(b"warn_thunk_thunk"), Refusal::Thunk),
    (Is(b"__warn_thunk"), Refusal::Thunk),
    // Made into trampolines by copying, and patched in place.
    (Starts(b"ftrace_caller"), Refusal::Template),
    (Starts(b"ftrace_regs_call"), Refusal::Template),
    (Is(b"ftrace_call"), Refusal::Template),
    // What a CPU that comes, or that the machine's firmware has woken up, executes before it has loaded the table of interrupts: from
    // its first instruction in the kernel to `load_current_idt()`. A breakpoint there resets the machine.
    (Starts(b"startup_64"), Refusal::Early),
    (Starts(b"secondary_startup_64"), Refusal::Early),
    (Starts(b"common_startup_64"), Refusal::Early),
    (Is(b"verify_cpu"), Refusal::Early),
    (Is(b"sev_verify_cbit"), Refusal::Early),
    (Is(b"soft_restart_cpu"), Refusal::Early),
    (Is(b"early_setup_idt"), Refusal::Early),
    (Is(b"start_secondary"), Refusal::Early),
    (Is(b"cr4_init"), Refusal::Early),
    (Is(b"native_write_cr0"), Refusal::Early),
    (Is(b"native_write_cr4"), Refusal::Early),
    (Is(b"native_write_msr"), Refusal::Early),
    (Is(b"do_trace_write_msr"), Refusal::Early),
    (Is(b"cpu_init_exception_handling"), Refusal::Early),
    (Is(b"cpu_init_fred_exceptions"), Refusal::Early),
    (Is(b"cr4_update_irqsoff"), Refusal::Early),
    (Is(b"native_write_gdt_entry"), Refusal::Early),
    (Starts(b"native_load_"), Refusal::Early),
    (Is(b"load_current_idt"), Refusal::Early),
    // What of that the compiler may inline, or not.
    (Is(b"cr4_set_bits"), Refusal::Early),
    (Is(b"__write_cr4"), Refusal::Early),
    (Is(b"setup_getcpu"), Refusal::Early),
    (Starts(b"tss_setup_"), Refusal::Early),
    (Is(b"__set_tss_desc"), Refusal::Early),
    (Is(b"set_tssldt_descriptor"), Refusal::Early),
    (Is(b"init_idt_data"), Refusal::Early),
    (Is(b"idt_init_desc"), Refusal::Early),
    (Is(b"native_write_idt_entry"), Refusal::Early),
    (Is(b"early_cpu_to_node"), Refusal::Early),
    // Called whether memory is encrypted or not.
    (Is(b"setup_ghcb"), Refusal::Early),
    (Is(b"snp_register_per_cpu_ghcb"), Refusal::Early),
    (Is(b"snp_register_ghcb_early"), Refusal::Early),
    (Is(b"wakeup_long64"), Refusal::Early),
    (Is(b"do_suspend_lowlevel"), Refusal::Early),
    (Ends(b"restore_processor_state"), Refusal::Early),
    // What resumes from a disk: with the memory of another kernel, the first of them from a copy of a page.
    (Is(b"core_restore_code"), Refusal::Early),
    (Is(b"restore_image"), Refusal::Early),
    (Is(b"restore_registers"), Refusal::Early),
    // Instrumented code calls these everywhere, the code that handles probes as well.
    (Starts(b"__asan_"), Refusal::Sanitizer),
    (Starts(b"__hwasan_"), Refusal::Sanitizer),
    (Starts(b"__kasan_check_"), Refusal::Sanitizer),
    (Starts(b"kasan_check_"), Refusal::Sanitizer),
    (Starts(b"__msan_"), Refusal::Sanitizer),
    (Starts(b"__tsan_"), Refusal::Sanitizer),
    (Starts(b"__kcsan_"), Refusal::Sanitizer),
    (Starts(b"kcsan_"), Refusal::Sanitizer),
    (Starts(b"__ubsan_"), Refusal::Sanitizer),
    (Starts(b"__sanitizer_"), Refusal::Sanitizer),
    // Helpers of the crates that a hit runs through, and what debugging asks where a hook is.
    (Starts(b"rust_helper_"), Refusal::Own),
    (Starts(b"ferro_"), Refusal::Own),
    (Is(b"rcu_is_watching"), Refusal::Own),
];

/// The crates that a hit runs through.
const CRATES: &[&[u8]] = &[
    b"kprobes_engine",
    b"ferro_kprobes_builtin",
    b"ferro_core",
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

/// What refuses the symbol of this name, if anything does.
pub(crate) fn refuses(name: &[u8]) -> Option<Refusal> {
    if name.starts_with(b"_R") {
        let has = |part: &[u8]| name.windows(part.len()).any(|w| w == part);
        return CRATES.iter().any(|c| has(c)).then_some(Refusal::Own);
    }
    // A second name that code which runs before relocation has for the same.
    let name = name.strip_prefix(b"__pi_").unwrap_or(name);
    let name = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    let mut rules = RULES.iter();
    rules.find_map(|(rule, refusal)| rule.fits(name).then_some(*refusal))
}
