// SPDX-License-Identifier: GPL-2.0

//! Where nothing may be probed: code that handles probes, or runs where a trap cannot be handled.
//!
//! No list of it is kept up to date: sections and tables of the kernel and of its modules are asked each time.
//! Only the kernel's table of functions is copied, as it goes with the initialisation data. What `kprobe_add_*_blacklist()`
//! of `<linux/kprobes.h>` add is on a list of its own.
//!
//! Contexts: process, unless stated.
//! Locks: that of the list, for those who change it.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use ferro_sys::code::symbols;
use ferro_sys::code::symbols::NAME_LEN;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::sync::rcu::synchronize_rcu;

/// Which rule forbids to probe a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `__kprobes`: section `.kprobes.text`.
    KprobesText,
    /// `noinstr`: section `.noinstr.text`.
    NoinstrText,
    /// The kernel's entry code, written in assembly.
    EntryText,
    /// `NOKPROBE_SYMBOL()`.
    NokprobeSymbol,
    /// `kprobe_add_ksym_blacklist()`.
    Added,
}

/// A place is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The rule.
    pub rule: Rule,
    /// It applies to the function of which the compiler has made this one: that of `foo.cold` is `foo`.
    pub of_origin: bool,
}

/// Addresses that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first.
    pub start: usize,
    /// Behind the last.
    pub end: usize,
    /// The rule.
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
        let symbol = symbols::symbol_of(start)?;
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

/// The kernel's functions with `NOKPROBE_SYMBOL()`, sorted.
///
/// # Invariants
///
/// Only written before `ready`, and not changed after.
struct Functions {
    areas: UnsafeCell<KVVec<Area>>,
    ready: Atomic<bool>,
}

// SAFETY: By the type invariant nobody reads while somebody writes.
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
        // SAFETY: By the type invariant nobody writes any more.
        unsafe { &*self.areas.get() }
    }
}

/// An area that was added.
///
/// # Invariants
///
/// From `KBox`. While it is on [`ADDED`] only `next` is changed, with [`ADDING`] held; whoever has taken it off frees it when
/// a grace period of RCU has passed.
struct Added {
    area: Area,
    next: Atomic<*mut Added>,
}

/// The newest one.
static ADDED: Atomic<*mut Added> = Atomic::new(core::ptr::null_mut());

// SAFETY: `blacklist.c` has the mutex, made by `DEFINE_MUTEX()` for this.
static ADDING: StaticMutex<()> =
    unsafe { StaticMutex::new(&raw mut bindings::ferro_blacklist_lock, ()) };

/// What was added, the newest first.
fn added(_rcu: &rcu::Guard) -> impl Iterator<Item = Area> + '_ {
    // Acquire, here and below: pairs with the stores of `add()` and `take_off()`.
    let mut next = ADDED.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: By the type invariant it stays as long as this section of RCU.
        let one = unsafe { next.as_ref() }?;
        next = one.next.load(Acquire);
        Some(one.area)
    })
}

/// Forbids to probe what is between an address of code and as much further as its symbol is long, which is returned.
///
/// Errors: -EINVAL if it is not code, or of no symbol; -ENOMEM.
pub(crate) fn add(entry: usize) -> Result<usize> {
    // SAFETY: Takes any address.
    if unsafe { bindings::kernel_text_address(entry) } == 0 {
        return Err(EINVAL);
    }
    let size = symbols::symbol_of(entry).ok_or(EINVAL)?.size;
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

/// Adds all symbols from `start` on up to `end`. Errors: as for [`add`]; what comes before one that fails has been added.
pub(crate) fn add_area(start: usize, end: usize) -> Result {
    let mut entry = start;
    while entry < end {
        // A second name of the next symbol may have no bytes.
        entry = entry.saturating_add(add(entry)?.max(1));
    }
    Ok(())
}

/// Forgets what was added of code for which `is_going` holds.
pub(crate) fn forget(is_going: impl Fn(usize) -> bool) {
    while let Some(one) = take_off(&is_going) {
        synchronize_rcu();
        // SAFETY: By the type invariant; nobody finds it any more.
        drop(unsafe { KBox::from_raw(one) });
    }
}

fn take_off(is_going: impl Fn(usize) -> bool) -> Option<*mut Added> {
    let _adding = ADDING.lock();
    let mut link = &ADDED;
    loop {
        let this = link.load(Relaxed);
        // SAFETY: By the type invariant: with the mutex held nobody else takes it off.
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
    // SAFETY: `forbidden` is there to be written.
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

/// The table of a module.
fn functions<'a>(forbidden: &bindings::ferro_forbidden, _rcu: &'a rcu::Guard) -> &'a [usize] {
    if forbidden.functions.is_null() {
        return &[];
    }
    // SAFETY: The table is part of a module that was found in this section of RCU, which keeps it.
    unsafe { core::slice::from_raw_parts(forbidden.functions, forbidden.count) }
}

/// What a module forbids.
fn of_module(module: *mut bindings::module, _rcu: &rcu::Guard) -> bindings::ferro_forbidden {
    let mut forbidden = bindings::ferro_forbidden::default();
    // SAFETY: The module was found in this section of RCU; `forbidden` is there to be written.
    unsafe { bindings::ferro_module_forbidden(module, &raw mut forbidden) };
    forbidden
}

/// The rule for an address, in the function that starts at `start`, whatever it is called.
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
    // SAFETY: Takes any address, in a section of RCU.
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

/// The rule that forbids to probe an address of code, if there is one.
pub fn forbids(addr: usize) -> Option<Forbidden> {
    let start = symbols::symbol_of(addr)?.start;
    let mut buffer = [0; NAME_LEN];
    forbids_in(addr, start, symbols::name_of(addr, &mut buffer)?)
}

/// The same for a caller that knows the function that it is in: where that starts, and its name.
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
    let origin = symbols::lookup_name(origin)?;
    let rule = rule_at(origin, origin)?;
    Some(Forbidden {
        rule,
        of_origin: true,
    })
}

/// The first symbol at or after `from` of the areas that were given. The areas come one by one: objtool refuses the names of
/// functions that walk through chains of them.
struct First {
    from: usize,
    found: Option<Area>,
}

impl First {
    fn new(from: usize) -> Self {
        Self { from, found: None }
    }

    /// The first symbol of an area at or after `from`.
    fn symbol_of(&self, area: Area) -> Option<Area> {
        let start = area.start.max(self.from);
        if start >= area.end || start != area.start && area.rule == Rule::NokprobeSymbol {
            return None;
        }
        // Sections are shown by the symbol, from the one that starts at or after `from`.
        let symbol = symbols::symbol_of(start)?;
        let next = symbol.start.checked_add(symbol.size)?;
        let (start, end) = match symbol.offset {
            0 => (start, next),
            _ if start == area.start => (start, next),
            _ => (next, next.checked_add(symbols::symbol_of(next)?.size)?),
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
        // Of two at one address the one that was given first.
        if self.found.is_none_or(|found| symbol.start < found.start) {
            self.found = Some(symbol);
        }
    }

    fn consider_sections(&mut self, forbidden: &bindings::ferro_forbidden) {
        for area in sections(forbidden) {
            self.consider(area);
        }
    }

    /// What was added of the kernel, or of modules.
    fn consider_added(&mut self, of_kernel: bool, rcu: &rcu::Guard) {
        for area in added(rcu) {
            if symbols::is_core_text(area.start) == of_kernel {
                self.consider(area);
            }
        }
    }
}

/// The forbidden symbol with the lowest address from `from` on, to walk through all of them.
///
/// Of the kernel all come before those of modules.
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
        // SAFETY: Takes any address, in a section of RCU.
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
        // SAFETY: The module was found in this section of RCU.
        last = unsafe { bindings::ferro_module_text(module) };
    }
}

/// Copies the kernel's table.
///
/// # Safety
///
/// Called once, while the kernel's initialisation data is there, from which the table comes.
pub(crate) unsafe fn init() {
    let forbidden = kernel();
    // SAFETY: The caller guarantees that the table is there.
    let table = unsafe { core::slice::from_raw_parts(forbidden.functions, forbidden.count) };
    let mut areas = KVVec::new();
    if areas.reserve(table.len(), GFP_KERNEL).is_err() {
        pr_err!("no memory for the list of what must not be probed\n");
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
    // SAFETY: By the type invariant nobody reads before `ready`, and by the caller's guarantee nobody else writes.
    unsafe { *FUNCTIONS.areas.get() = areas };
    // Release: pairs with the load of `get()`.
    FUNCTIONS.ready.store(true, Release);
}
