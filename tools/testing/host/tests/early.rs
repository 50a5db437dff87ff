// SPDX-License-Identifier: GPL-2.0

//! Code of built kernels that a CPU executes before it can handle breakpoints: probes there are
//! refused.

use ferro_host::early::Early;
use ferro_host::early::Image;
use ferro_host::images::build_directories;

/// Functions that are part of it in every kernel.
const SURE: [&str; 6] = [
    "secondary_startup_64",
    "early_setup_idt",
    "cr4_init",
    "native_write_cr4",
    "cpu_init_exception_handling",
    "load_current_idt",
];

/// Places that jump to an address stored in memory. All the targets are roots.
const LOST: [&str; 3] = ["common_startup_64", "wakeup_long64", "core_restore_code"];

/// Functions that load an IDT and may be probed: they reset the CPU, or run when the CPU
/// does without an IDT.
const LOADERS: [&str; 1] = ["idt_invalidate+0x0"];

#[test]
#[ignore = "needs build directories of kernels in INSN_IMAGES"]
fn nothing_early_is_probed() {
    for directory in build_directories() {
        let file = directory.join("vmlinux");
        let image = Image::read(&file).expect("an image can be read");
        let early = Early::of(&image);
        let symbols = early.symbols();
        println!("{}: {symbols:?}", file.display());
        let missed: Vec<_> = SURE
            .iter()
            .filter(|name| !symbols.contains(*name))
            .collect();
        assert!(missed.is_empty(), "not reached: {missed:?}");
        let probeable = early.probeable();
        assert!(probeable.is_empty(), "probes are taken at {probeable:#?}");
        let lost = early.lost();
        assert!(
            lost.iter().all(|name| LOST.contains(name)),
            "the code cannot be followed in {lost:?}"
        );
        let loaders = image.loaders();
        assert!(
            loaders.iter().all(|name| LOADERS.contains(&name.as_str())),
            "probes are taken in {loaders:?}"
        );
    }
}
