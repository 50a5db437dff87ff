// SPDX-License-Identifier: GPL-2.0

//! Blacklist: code that handles probes, or runs where a trap cannot be handled.
//!
//! Lookups read the sections and tables of the kernel and of its modules each time, so no list has
//! to be kept up to date. Only the kernel's table of functions is copied, as it is freed with the
//! initialisation data. Areas added by `kprobe_add_*_blacklist()` of `<linux/kprobes.h>` are on a
//! list of their own.
//!
//! Contexts: process, unless stated.
//! Locks: that of the list, for writers.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use ferro_sys::code::kallsyms;

use ferro_sys::bindings;
use ferro_sys::code::kallsyms::NAME_LEN;
use ferro_sys::code::symbols;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::sync::rcu::synchronize_rcu;

/// Rule that forbids to probe a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `__kprobes`: section `.kprobes.text`.
    KprobesText,
    /// `noinstr`: section `.noinstr.text`.
    NoinstrText,
    /// Entry code of the kernel, written in assembly.
    EntryText,
    /// `NOKPROBE_SYMBOL()`.
    NokprobeSymbol,
    /// `kprobe_add_ksym_blacklist()`.
    Added,
}

/// Reason why a place is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Rule that applies.
    pub rule: Rule,
    /// The rule applies to the function that the compiler has split this one from: `foo` for
    /// `foo.cold`.
    pub of_origin: bool,
}

/// Addresses that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address.
    pub start: usize,
    /// End, exclusive.
    pub end: usize,
    /// Rule that applies.
    pub rule: Rule,
}

impl Area {
    fn new(area: bindings::ferro_area, rule: Rule) -> Self {
        Self {
            start: area.start,
            end: area.end,
            rule,
        }
    }

    fn of_function(start: usize) -> Option<Self> {
        let symbol = kallsyms::symbol_of(start)?;
        Some(Self {
            start,
            end: start.checked_add(symbol.size)?,
            rule: Rule::NokprobeSymbol,
        })
    }

    fn has(&self, addr: usize) -> bool {
        (self.start..self.end).contains(&addr)
    }
}

/// Functions of the kernel with `NOKPROBE_SYMBOL()`, sorted.
///
/// # Invariants
///
/// Written only before `ready` is set, and constant afterwards.
struct Functions {
    areas: UnsafeCell<KVVec<Area>>,
    ready: Atomic<bool>,
}

// SAFETY: By the type invariant reads and writes never overlap.
unsafe impl Sync for Functions {}

static FUNCTIONS: Functions = Functions {
    areas: UnsafeCell::new(KVVec::new()),
    ready: Atomic::new(false),
};

impl Functions {
    fn get(&self) -> &[Area] {
        // Acquire: pairs with the store of `init()`.
        if !self.ready.load(Acquire) {
            return &[];
        }
        // SAFETY: By the type invariant there are no more writes.
        unsafe { &*self.areas.get() }
    }
}

/// Added area.
///
/// # Invariants
///
/// From `KBox`. While it is on [`ADDED`] only `next` is changed, with [`ADDING`] held. The code
/// that has taken it off frees it after an RCU grace period.
struct Added {
    area: Area,
    next: Atomic<*mut Added>,
}

/// Newest added area.
static ADDED: Atomic<*mut Added> = Atomic::new(core::ptr::null_mut());

static ADDING: StaticMutex<()> = static_mutex!(ferro_blacklist_lock, ());

/// Returns the added areas, newest first.
fn added(_rcu: &rcu::Guard) -> impl Iterator<Item = Area> + '_ {
    // Acquire, here and below: pairs with the stores of `add()` and `take_off()`.
    let mut next = ADDED.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: By the type invariant it stays as long as this RCU read-side section.
        let one = unsafe { next.as_ref() }?;
        next = one.next.load(Acquire);
        Some(one.area)
    })
}

/// Adds the code from an address on to the blacklist, over the length of its symbol, and returns
/// the length.
///
/// Errors: -EINVAL for an address without code or symbol; -ENOMEM.
pub(crate) fn add(entry: usize) -> Result<usize> {
    // SAFETY: Takes any address.
    if unsafe { bindings::kernel_text_address(entry) } == 0 {
        return Err(EINVAL);
    }
    let size = kallsyms::symbol_of(entry).ok_or(EINVAL)?.size;
    let area = Area {
        start: entry,
        end: entry.checked_add(size).ok_or(EINVAL)?,
        rule: Rule::Added,
    };
    let next = Atomic::new(core::ptr::null_mut());
    let one = KBox::new(Added { area, next }, GFP_KERNEL)?;
    let _adding = ADDING.lock();
    one.next.store(ADDED.load(Relaxed), Relaxed);
    // INVARIANT: From `KBox`.
    // Release: pairs with the loads of `added()`.
    ADDED.store(KBox::into_raw(one), Release);
    Ok(size)
}

/// Adds all symbols from `start` up to `end`. Errors: as for [`add`]; the symbols before one that
/// fails stay added.
pub(crate) fn add_area(start: usize, end: usize) -> Result {
    let mut entry = start;
    while entry < end {
        // An alias of the next symbol may have no bytes.
        entry = entry.saturating_add(add(entry)?.max(1));
    }
    Ok(())
}

/// Removes the added areas if `is_going` returns true for their start address.
pub(crate) fn forget(is_going: impl Fn(usize) -> bool) {
    while let Some(one) = take_off(&is_going) {
        synchronize_rcu();
        // SAFETY: By the type invariant; no reader finds it after the grace period.
        drop(unsafe { KBox::from_raw(one) });
    }
}

fn take_off(is_going: impl Fn(usize) -> bool) -> Option<*mut Added> {
    let _adding = ADDING.lock();
    let mut link = &ADDED;
    loop {
        let this = link.load(Relaxed);
        // SAFETY: By the type invariant: with the mutex held no other writer takes it off.
        let one = unsafe { this.as_ref() }?;
        if is_going(one.area.start) {
            // Release: pairs with the loads of `added()`.
            link.store(one.next.load(Relaxed), Release);
            return Some(this);
        }
        link = &one.next;
    }
}

fn kernel() -> bindings::ferro_forbidden {
    let mut forbidden = bindings::ferro_forbidden::default();
    // SAFETY: `forbidden` is valid for writes.
    unsafe { bindings::ferro_kernel_forbidden(&raw mut forbidden) };
    forbidden
}

fn sections(forbidden: &bindings::ferro_forbidden) -> [Area; 3] {
    [
        Area::new(forbidden.kprobes_text, Rule::KprobesText),
        Area::new(forbidden.noinstr_text, Rule::NoinstrText),
        Area::new(forbidden.entry_text, Rule::EntryText),
    ]
}

/// Returns the table of a module.
fn functions<'a>(forbidden: &bindings::ferro_forbidden, _rcu: &'a rcu::Guard) -> &'a [usize] {
    if forbidden.functions.is_null() {
        return &[];
    }
    // SAFETY: The table is part of a module that was found in this RCU read-side section, which
    // keeps it.
    unsafe { core::slice::from_raw_parts(forbidden.functions, forbidden.count) }
}

/// Returns a module's blacklist.
fn of_module(module: *mut bindings::module, _rcu: &rcu::Guard) -> bindings::ferro_forbidden {
    let mut forbidden = bindings::ferro_forbidden::default();
    // SAFETY: The module was found in this RCU read-side section; `forbidden` is valid for writes.
    unsafe { bindings::ferro_module_forbidden(module, &raw mut forbidden) };
    forbidden
}

/// Returns the rule for an address in the function at `start`, without regard to the function's
/// name.
fn rule_at(addr: usize, start: usize) -> Option<Rule> {
    if added(&rcu::read_lock()).any(|area| area.has(addr)) {
        return Some(Rule::Added);
    }
    if symbols::is_core_text(addr) {
        let functions = FUNCTIONS.get();
        let behind = functions.partition_point(|area| area.start <= addr);
        let function = behind.checked_sub(1).and_then(|i| functions.get(i));
        return Iterator::chain(sections(&kernel()).iter(), function)
            .find(|area| area.has(addr))
            .map(|area| area.rule);
    }

    let rcu = rcu::read_lock();
    // SAFETY: Takes any address, in an RCU read-side section.
    let module = unsafe { bindings::ferro_text_module(addr) };
    if module.is_null() {
        return None;
    }
    let forbidden = of_module(module, &rcu);
    if let Some(area) = sections(&forbidden).iter().find(|area| area.has(addr)) {
        return Some(area.rule);
    }
    functions(&forbidden, &rcu)
        .contains(&start)
        .then_some(Rule::NokprobeSymbol)
}

/// Returns the rule that forbids to probe an address of code, if any.
pub fn forbids(addr: usize) -> Option<Forbidden> {
    let start = kallsyms::symbol_of(addr)?.start;
    let mut buffer = [0; NAME_LEN];
    forbids_in(addr, start, kallsyms::name_of(addr, &mut buffer)?)
}

/// Returns the rule like [`forbids`], for a caller that knows the start and the name of the
/// function.
pub fn forbids_in(addr: usize, start: usize, name: &CStr) -> Option<Forbidden> {
    if let Some(rule) = rule_at(addr, start) {
        return Some(Forbidden {
            rule,
            of_origin: false,
        });
    }

    let dot = name.to_bytes().iter().position(|byte| *byte == b'.')?;
    let mut buffer = [0; NAME_LEN];
    let origin = name.to_bytes().get(..dot)?;
    buffer.get_mut(..dot)?.copy_from_slice(origin);
    let origin = CStr::from_bytes_until_nul(&buffer).ok()?;
    let origin = kallsyms::lookup_name(origin)?;
    let rule = rule_at(origin, origin)?;
    Some(Forbidden {
        rule,
        of_origin: true,
    })
}

/// Search for the first forbidden symbol at or after `from`. Callers pass areas one by one: objtool
/// refuses the symbol names of functions that iterate over chains of them.
struct First {
    from: usize,
    found: Option<Area>,
}

impl First {
    fn new(from: usize) -> Self {
        Self { from, found: None }
    }

    /// Returns the first symbol of an area at or after `from`.
    fn symbol_of(&self, area: Area) -> Option<Area> {
        let start = area.start.max(self.from);
        if start >= area.end || start != area.start && area.rule == Rule::NokprobeSymbol {
            return None;
        }
        // List sections by symbol, from the first that starts at or after `from`.
        let symbol = kallsyms::symbol_of(start)?;
        let next = symbol.start.checked_add(symbol.size)?;
        let (start, end) = match symbol.offset {
            0 => (start, next),
            _ if start == area.start => (start, next),
            _ => (next, next.checked_add(kallsyms::symbol_of(next)?.size)?),
        };
        (start < area.end).then_some(Area {
            start,
            end: end.min(area.end),
            rule: area.rule,
        })
    }

    fn consider(&mut self, area: Area) {
        let Some(symbol) = self.symbol_of(area) else {
            return;
        };
        // For two at one address, keep the one passed first.
        if self.found.is_none_or(|found| symbol.start < found.start) {
            self.found = Some(symbol);
        }
    }

    fn consider_sections(&mut self, forbidden: &bindings::ferro_forbidden) {
        for area in sections(forbidden) {
            self.consider(area);
        }
    }

    /// Considers the added areas of the kernel, or those of modules.
    fn consider_added(&mut self, of_kernel: bool, rcu: &rcu::Guard) {
        for area in added(rcu) {
            if symbols::is_core_text(area.start) == of_kernel {
                self.consider(area);
            }
        }
    }
}

/// Returns the forbidden symbol with the lowest address from `from` on. Repeated calls walk all of
/// them.
///
/// The kernel's symbols precede those of modules.
pub fn next_from(from: usize) -> Option<Area> {
    let functions = FUNCTIONS.get();
    let at = functions.partition_point(|area| area.start < from);
    let function = functions.get(at).copied();
    let mut first = First::new(from);
    first.consider_sections(&kernel());
    if let Some(function) = function {
        first.consider(function);
    }
    first.consider_added(true, &rcu::read_lock());
    first.found.or_else(|| next_of_modules(from))
}

fn next_of_modules(from: usize) -> Option<Area> {
    let rcu = rcu::read_lock();
    let mut first = First::new(from);
    first.consider_added(false, &rcu);
    let mut last = 0;
    loop {
        // SAFETY: Takes any address, in an RCU read-side section.
        let module = unsafe { bindings::ferro_next_module(last) };
        if module.is_null() {
            return first.found;
        }
        let forbidden = of_module(module, &rcu);
        for start in functions(&forbidden, &rcu) {
            if let Some(area) = Area::of_function(*start) {
                first.consider(area);
            }
        }
        first.consider_sections(&forbidden);
        // SAFETY: The module was found in this RCU read-side section.
        last = unsafe { bindings::ferro_module_text(module) };
    }
}

/// Copies the kernel's table.
///
/// # Safety
///
/// Called once, before the kernel's initialisation data, which has the table, is freed.
pub(crate) unsafe fn init() {
    let forbidden = kernel();
    // SAFETY: The caller guarantees that the table is valid.
    let table = unsafe { core::slice::from_raw_parts(forbidden.functions, forbidden.count) };
    let mut areas = KVVec::new();
    if areas.reserve(table.len(), GFP_KERNEL).is_err() {
        pr_err!("no memory for the list of functions that must not be probed\n");
        return;
    }
    for area in table.iter().filter_map(|start| Area::of_function(*start)) {
        let at = areas.partition_point(|other: &Area| other.start < area.start);
        // There is room for all of them.
        if areas.push_within_capacity(area).is_ok() {
            if let Some(behind) = areas.get_mut(at..) {
                behind.rotate_right(1);
            }
        }
    }
    // SAFETY: By the type invariant there are no readers before `ready`, and by the caller's
    // guarantee no other writers.
    unsafe { *FUNCTIONS.areas.get() = areas };
    // Release: pairs with the load of `get()`.
    FUNCTIONS.ready.store(true, Release);
}
