// SPDX-License-Identifier: GPL-2.0

//! Functions that a hit executes: a breakpoint in one of them would hit itself again, until the
//! stack is full.
//!
//! The kernel marks the entry of a breakpoint (`noinstr`), and the functions that the entry calls
//! (`NOKPROBE_SYMBOL()`). This lists the rest.

/// Functions on the path.
const NAMES: &[&[u8]] = &[
    // Read-side sections of RCU, and debuggers.
    b"__rcu_read_lock",
    b"__rcu_read_unlock",
    b"rcu_read_unlock_special",
    b"kgdb_ll_trap",
    b"__kgdb_notify",
    b"kgdb_handle_exception",
    // Compilers call these: the decoder of instructions compares bytes.
    b"bcmp",
    b"memcmp",
    b"memcpy",
    b"memmove",
    b"memset",
    // The entry calls back the tracers of latencies while they sample.
    b"trace_hwlat_callback",
    b"trace_osnoise_callback",
    b"trace_clock_local",
    b"sched_clock",
    // Page tables without the memory of a session, and after a resume from a disk the segments of
    // another kernel, until `restore_processor_state()`.
    b"machine_real_restart",
    b"load_trampoline_pgtable",
    b"create_image",
    b"hibernation_snapshot",
    b"swsusp_arch_suspend",
    // After these no breakpoint can be handled.
    b"machine_kexec",
    b"load_segments",
    b"idt_invalidate",
    b"native_idt_invalidate",
    b"native_gdt_invalidate",
];

/// Parts of the names of functions of our own modules.
const PARTS: &[&[u8]] = &[
    b"ferro_",
    b"kprobes_engine",
    b"dprobes_engine",
    b"ftrace_tramp_engine",
];

/// Returns true if a hit may execute the function. A suffix of the compiler does not count.
pub fn has(name: &[u8]) -> bool {
    let function = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    let contains = |part: &&[u8]| name.windows(part.len()).any(|at| at == *part);
    NAMES.contains(&function) || PARTS.iter().any(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        assert!(has(b"__rcu_read_unlock"));
        assert!(has(b"rcu_read_unlock_special.isra.0"));
        assert!(!has(b"__rcu_read_unlock_not"));
        assert!(has(b"trace_hwlat_callback") && has(b"create_image.cold"));
        assert!(has(b"bcmp") && !has(b"memchr"));
        assert!(!has(b"vfs_read"));
        assert!(!has(b""));
        assert!(has(b"_RNvCs1_12ferro_ftrace4call") && !has(b"_RNvCs1_6kernel4init"));
    }
}
