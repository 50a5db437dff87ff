// SPDX-License-Identifier: GPL-2.0

//! Tests of Ferrotrace's pure logic that need other programs: a second decoder, the kernel's own,
//! the CPU.
//!
//! The library has the code that the tests of `tests/` share.

/// Methods of a [`Machine`](ferro_kprobes_core::Machine) that neither calculates nor has memory.
#[macro_export]
macro_rules! without_memory {
    () => {
        fn calculate(
            operation: ::ferro_kprobes_core::Arithmetic,
            _: u64,
            _: u64,
            _: bool,
        ) -> (u64, u64) {
            panic!("{operation:?}, where nothing is calculated")
        }

        fn read(&mut self, address: u64, _: bool) -> Result<u64, ::ferro_kprobes_core::Fault> {
            Err(::ferro_kprobes_core::Fault { address })
        }

        fn write(
            &mut self,
            address: u64,
            _: u64,
            _: bool,
        ) -> Result<(), ::ferro_kprobes_core::Fault> {
            Err(::ferro_kprobes_core::Fault { address })
        }

        fn write_stack(&mut self, address: u64, _: u64) -> Result<(), ::ferro_kprobes_core::Fault> {
            Err(::ferro_kprobes_core::Fault { address })
        }
    };
}

pub mod corpus;
pub mod early;
pub mod forms;
pub mod function;
pub mod gcov;
pub mod iced;
pub mod images;
pub mod kernel;
pub mod mainline;
mod replay;
pub mod vmlinux;

pub use replay::replay;
