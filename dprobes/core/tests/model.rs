// SPDX-License-Identifier: GPL-2.0

//! A world for tests.

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

pub(super) struct Model {
    pub(super) registers: BTreeMap<u8, u64>,
    pub(super) user_registers: BTreeMap<u8, u64>,
    pub(super) bytes: BTreeMap<u64, u8>,
    pub(super) ports: BTreeMap<u16, u32>,
    pub(super) locals: RefCell<Vec<u64>>,
    pub(super) globals: RefCell<Vec<u64>>,
    pub(super) calls: Vec<(u32, u64)>,
    /// Last armed address of watchpoint 7.
    pub(super) armed: Cell<Option<Option<u64>>>,
    /// Amount of work in words, plus 64 for each failed access: slow accesses in a kernel.
    pub(super) work: Cell<u64>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            registers: (0..18).map(|n| (n, 0x100 + u64::from(n))).collect(),
            user_registers: (0..18).map(|n| (n, 0x200 + u64::from(n))).collect(),
            bytes: BTreeMap::new(),
            ports: BTreeMap::new(),
            locals: RefCell::new(vec![0; 4]),
            globals: RefCell::new(vec![0; 2]),
            calls: Vec::new(),
            armed: Cell::new(None),
            work: Cell::new(0),
        }
    }

    pub(super) fn with_bytes(address: u64, bytes: &[u8]) -> Self {
        let mut model = Self::new();
        model.bytes = (address..).zip(bytes.iter().copied()).collect();
        model
    }

    fn scope(&self, scope: Scope) -> &RefCell<Vec<u64>> {
        match scope {
            Scope::Local => &self.locals,
            Scope::Global => &self.globals,
        }
    }

    fn worked(&self, len: usize, is_done: bool) {
        let failed = if is_done { 0 } else { 64 };
        self.work.set(self.work.get() + len as u64 / 8 + failed);
    }

    fn change(&self, scope: Scope, index: u32, change: impl FnOnce(u64) -> u64) -> bool {
        let mut variables = self.scope(scope).borrow_mut();
        let found = variables.get_mut(index as usize);
        found.map(|value| *value = change(*value)).is_some()
    }
}

impl World for Model {
    fn register(&self, register: Register) -> Option<u64> {
        self.registers.get(&register.number()).copied()
    }

    fn set_register(&mut self, register: Register, value: u64) -> bool {
        let found = self.registers.get_mut(&register.number());
        found.map(|register| *register = value).is_some()
    }

    fn user_register(&self, register: Register) -> Option<u64> {
        self.user_registers.get(&register.number()).copied()
    }

    fn set_user_register(&mut self, register: Register, value: u64) -> bool {
        let found = self.user_registers.get_mut(&register.number());
        found.map(|register| *register = value).is_some()
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let mut at = address;
        let len = to.len();
        let is_done = to.iter_mut().all(|byte| {
            let found = self.bytes.get(&at);
            at = at.wrapping_add(1);
            found.map(|found| *byte = *found).is_some()
        });
        self.worked(len, is_done);
        is_done
    }

    fn read_string(&self, address: u64, to: &mut [u8]) -> Option<usize> {
        let len = to.len();
        for (n, byte) in to.iter_mut().enumerate() {
            let Some(found) = self.bytes.get(&address.wrapping_add(n as u64)) else {
                // There may have been many bytes before it.
                self.worked(len, false);
                return None;
            };
            *byte = *found;
            if *byte == 0 {
                self.worked(n, true);
                return Some(n);
            }
        }
        self.worked(len, true);
        Some(len)
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        if !self.can_access(address, from.len() as u64, true) {
            return false;
        }
        for (n, byte) in from.iter().enumerate() {
            self.bytes.insert(address.wrapping_add(n as u64), *byte);
        }
        true
    }

    fn can_access(&self, address: u64, len: u64, _for_writing: bool) -> bool {
        (0..len).all(|n| self.bytes.contains_key(&address.wrapping_add(n)))
    }

    fn port_in(&mut self, port: u16, width: u8) -> Option<u32> {
        let value = self.ports.get(&port)?;
        Some(value & u32::MAX >> (32 - 8 * u32::from(width)))
    }

    fn port_out(&mut self, port: u16, width: u8, value: u32) -> bool {
        let value = value & u32::MAX >> (32 - 8 * u32::from(width));
        self.ports.insert(port, value);
        true
    }

    fn segment(&self, selector: u16) -> Option<u64> {
        (selector == 0x33).then_some(0x1000)
    }

    fn variable(&self, scope: Scope, index: u32) -> Option<u64> {
        self.scope(scope).borrow().get(index as usize).copied()
    }

    fn set_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        self.change(scope, index, |_| value)
    }

    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        self.change(scope, index, |old| old.wrapping_add(value))
    }

    fn task(&self) -> u64 {
        0xffff_8880_0000_1000
    }

    fn process(&self) -> u32 {
        41
    }

    fn thread(&self) -> u32 {
        42
    }

    fn cpu(&self) -> u32 {
        3
    }

    fn time(&self) -> u64 {
        123_456
    }

    fn arm(&self, minor: u32, address: Option<u64>) -> bool {
        let is_there = minor == 7;
        if is_there {
            self.armed.set(Some(address));
        }
        is_there
    }

    fn call(&mut self, number: u32, argument: u64) -> Option<u64> {
        self.calls.push((number, argument));
        (number == 5).then_some(argument.wrapping_add(1))
    }
}
