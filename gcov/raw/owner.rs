// SPDX-License-Identifier: GPL-2.0

//! Owners of objects: the kernel and modules. An object's counters are read and reset through an
//! [`Access`]. A module's unloading waits for each `Access`; afterwards there is none.
//!
//! Contexts: process; sleeps.

use core::num::NonZeroUsize;

use ferro_gcov_core::Memory;
use ferro_gcov_core::MergeFunction;
use ferro_gcov_core::Unreadable;
use ferro_sys::bindings;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::ffi::c_char;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Arc;
use kernel::sync::Mutex;

/// Identity of a module, for comparisons only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModuleId(NonZeroUsize);

impl ModuleId {
    pub(super) fn new(module: *const bindings::module) -> Option<Self> {
        NonZeroUsize::new(module.addr()).map(Self)
    }
}

/// Data that stay mapped as long as the owner is open.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    size: u64,
    is_writable: bool,
}

/// A module with objects, or the kernel.
///
/// # Invariants
///
/// Until the owner is closed, its data are mapped. A module's owner is closed before the module is
/// freed.
#[pin_data]
pub(crate) struct Owner {
    module: Option<ModuleId>,
    data: [Range; bindings::FERRO_GCOV_RANGES as usize],
    #[pin]
    closed: Mutex<bool>,
}

/// All owners that have objects.
static OWNERS: StaticMutex<KVec<Arc<Owner>>> = static_mutex!(ferro_gcov_owners_mutex, KVec::new());

impl Owner {
    /// Returns the owner of an address. Errors: -EFAULT if the address is in neither the kernel nor
    /// a module, -ENOMEM.
    ///
    /// # Safety
    ///
    /// If the owner is a module's, [`close`] is called for it after this call and before the module
    /// is freed. The exit on `module_event` does so, unless it has already run: a caller that
    /// cannot rule this out checks [`is_going`] afterwards, and then calls [`close`].
    pub(super) unsafe fn of(address: usize) -> Result<Arc<Self>> {
        let mut found = bindings::ferro_gcov_owner::default();
        // SAFETY: The variable is this function's; the address is only compared.
        if !unsafe { bindings::ferro_gcov_owner_of(address, &raw mut found) } {
            return Err(EFAULT);
        }
        let module = ModuleId::new(found.module);
        let mut owners = OWNERS.lock();
        if let Some(owner) = owners.iter().find(|owner| owner.module == module) {
            return Ok(owner.clone());
        }
        let data = found.data.map(|range| Range {
            start: range.start as u64,
            size: range.size as u64,
            is_writable: range.is_writable,
        });
        // INVARIANT: The image stays, and the caller guarantees that a module stays until its owner
        // is closed.
        let owner = Arc::pin_init(
            pin_init!(Self {
                module,
                data,
                closed <- new_mutex!(false),
            }),
            GFP_KERNEL,
        )?;
        owners.push(owner.clone(), GFP_KERNEL)?;
        Ok(owner)
    }

    /// Returns the module; `None` for the kernel.
    pub(crate) fn module(&self) -> Option<ModuleId> {
        self.module
    }

    /// Gives access to the data, or returns `None` if the module is unloaded. A module is not freed
    /// before the access is dropped.
    pub(crate) fn access(&self) -> Option<Access<'_>> {
        // The kernel is never unloaded and needs no lock.
        let guard = match self.module {
            None => None,
            Some(_) => {
                let closed = self.closed.lock();
                if *closed {
                    return None;
                }
                Some(closed)
            }
        };
        Some(Access {
            owner: self,
            _guard: guard,
        })
    }

    fn close(&self) {
        *self.closed.lock() = true;
    }
}

/// Returns true if an address is in a module being unloaded. The exit on `module_event` may
/// already have been called for it.
pub(super) fn is_going(address: usize) -> bool {
    let mut found = bindings::ferro_gcov_owner::default();
    // SAFETY: The variable is this function's; the address is only compared.
    unsafe { bindings::ferro_gcov_owner_of(address, &raw mut found) && found.is_going }
}

/// Closes the owner of a module being unloaded. Waits for users of its data.
pub(super) fn close(module: ModuleId) {
    let mut owners = OWNERS.lock();
    let index = owners.iter().position(|owner| owner.module == Some(module));
    if let Some(owner) = index.and_then(|index| owners.remove(index).ok()) {
        owner.close();
    }
}

/// Closes all owners, as the exit that reports the unloading of modules is about to be removed.
pub(super) fn close_all() {
    for owner in core::mem::take(&mut *OWNERS.lock()) {
        owner.close();
    }
}

/// Access to the data of an [`Owner`], which is not closed while this exists.
pub(crate) struct Access<'a> {
    owner: &'a Owner,
    _guard: Option<Guard<'a, bool, MutexBackend>>,
}

impl Access<'_> {
    /// Finds the range that contains these bytes.
    fn range(&self, address: u64, len: u64) -> Option<&Range> {
        self.owner.data.iter().find(|range| {
            let offset = address.wrapping_sub(range.start);
            offset < range.size && len <= range.size.wrapping_sub(offset)
        })
    }

    /// Returns the string at an address without its NUL, if the string is in read-only data of the
    /// kernel's image.
    pub(super) fn image_string(&self, address: u64) -> Option<&'static [u8]> {
        let range = self.range(address, 1)?;
        if self.owner.module.is_some() || range.is_writable {
            return None;
        }
        let left = range.size.wrapping_sub(address.wrapping_sub(range.start));
        let (start, left) = (address as usize as *const u8, left as usize);
        // SAFETY: These bytes are in the image, which stays, in read-only data.
        let bytes = unsafe { core::slice::from_raw_parts(start, left) };
        let len = bytes.iter().position(|byte| *byte == 0)?;
        bytes.get(..len)
    }

    /// Returns true if this access is for `owner`.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        core::ptr::eq(self.owner, owner)
    }

    /// Returns true if `count` words at `address` are aligned and in writable data.
    pub(super) fn has_counters(&self, address: u64, count: u32) -> bool {
        let range = self.range(address, u64::from(count).saturating_mul(8));
        address % 8 == 0 && range.is_some_and(|range| range.is_writable)
    }
}

/// Copies words one by one, as other code may write them at the same time. Returns the bitwise OR
/// of all words.
///
/// # Safety
///
/// `from` points to as many words as `to` has room for.
#[inline(always)]
unsafe fn copy_words(from: *const u64, to: &mut [u8]) -> u64 {
    let (mut from, mut bits) = (from, 0);
    let mut copy = |place: &mut [u8]| {
        // SAFETY: By the rules of this function.
        let word = unsafe { from.read_volatile() };
        place.copy_from_slice(&word.to_le_bytes());
        bits |= word;
        from = from.wrapping_add(1);
    };
    let mut groups = to.chunks_exact_mut(32);
    for group in &mut groups {
        group.chunks_exact_mut(8).for_each(&mut copy);
    }
    groups.into_remainder().chunks_exact_mut(8).for_each(copy);
    bits
}

impl Memory for Access<'_> {
    #[inline]
    fn copy(&self, address: u64, to: &mut [u8]) -> Result<(), Unreadable> {
        self.range(address, to.len() as u64).ok_or(Unreadable)?;
        let from = address as usize as *const u8;
        if (address | to.len() as u64) % 8 == 0 {
            // SAFETY: These bytes are in data of the owner that stay, by its invariant, as the
            // owner is not closed while `self` exists; the address is aligned.
            let _ = unsafe { copy_words(from.cast(), to) };
            return Ok(());
        }
        // SAFETY: The bytes are in data of the owner that stay, by its invariant, as the owner is
        // not closed while `self` exists. `to` is a Rust buffer. C code copies, so other code may
        // write at the same time.
        unsafe { bindings::ferro_gcov_copy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
        Ok(())
    }

    #[inline(always)]
    fn words<const N: usize>(&self, address: u64) -> Result<[u64; N], Unreadable> {
        let mut words = [0; N];
        self.range(address, size_of_val(&words) as u64)
            .filter(|_| address % 8 == 0)
            .ok_or(Unreadable)?;
        let mut from = address as usize as *const u64;
        for word in &mut words {
            // SAFETY: These words are in data of the owner that stay, by its invariant, as the
            // owner is not closed while `self` exists; the address is aligned. The read is
            // volatile, as other code may write at the same time.
            *word = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
        Ok(words)
    }

    #[inline]
    fn copy_counters(&self, address: u64, to: &mut [u8]) -> Result<bool, Unreadable> {
        self.range(address, to.len() as u64)
            .filter(|_| (address | to.len() as u64) % 8 == 0)
            .ok_or(Unreadable)?;
        // SAFETY: These words are in data of the owner that stay, by its invariant, as the owner is
        // not closed while `self` exists; the address is aligned.
        Ok(unsafe { copy_words(address as usize as *const u64, to) } != 0)
    }

    /// Copies the string in one call, not byte by byte.
    fn string<'t>(&self, address: u64, to: &'t mut [u8]) -> Result<Option<&'t [u8]>, Unreadable> {
        let range = self.range(address, 1).ok_or(Unreadable)?;
        let left = range.size.wrapping_sub(address.wrapping_sub(range.start));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let len = left.min(to.len());
        let (to, from) = (to.get_mut(..len).ok_or(Unreadable)?, address as usize);
        // SAFETY: These bytes are in data of the owner that stay, by its invariant, as the owner is
        // not closed while `self` exists. `to` is a Rust buffer of the same length. C code copies,
        // so the name may even change at the same time, although compilers make it read-only.
        let found = unsafe {
            bindings::ferro_gcov_copy_string(to.as_mut_ptr().cast(), from as *const c_char, len)
        };
        match found < len {
            true => Ok(to.get(..found)),
            false if len == left => Err(Unreadable),
            false => Ok(None),
        }
    }

    #[inline]
    fn is_readable(&self, address: u64, len: u64) -> bool {
        self.range(address, len).is_some()
    }

    fn merge_function(&self, address: u64) -> Option<MergeFunction> {
        // SAFETY: `builtin.c` has the table, which is constant.
        let functions = unsafe { &bindings::ferro_gcov_merge_functions };
        let index = functions
            .iter()
            .position(|function| *function as u64 == address)?;
        Some(match u32::try_from(index).ok()? {
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_ADD => MergeFunction::Add,
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_IOR => MergeFunction::Ior,
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_TIME_PROFILE => MergeFunction::TimeProfile,
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_SINGLE => MergeFunction::Single,
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_ICALL_TOPN => MergeFunction::IcallTopN,
            bindings::ferro_gcov_merge_FERRO_GCOV_MERGE_TOPN => MergeFunction::TopN,
            _ => return None,
        })
    }
}
