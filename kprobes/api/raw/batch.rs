// SPDX-License-Identifier: GPL-2.0

//! Registration of probes of either kind, many at a time.
//!
//! Contexts: process; sleeps.

use core::cell::Cell;

use ferro_sys::hook::is_going;
use ferro_sys::sync::deferred_drop::may_sleep;
use ferro_sys::sync::deferred_drop::Deferred;
use kernel::alloc::AllocError;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::leaked_probes;
use super::leaked_probes::Functions;

/// Flag that is true from the registration of a probe until its owner unregisters it. Only this
/// file changes it. On mainline's engine the probe may have been unregistered with its module.
pub(crate) struct IsRegistered(Cell<bool>);

impl IsRegistered {
    pub(super) fn no() -> Self {
        Self(Cell::new(false))
    }

    pub(super) fn get(&self) -> bool {
        self.0.get()
    }
}

/// Probe, with the structure that an engine uses. Unless [`IsRegistered`] is true, no engine has
/// it, and no handler is running.
///
/// # Safety
///
/// `in_engine()` is in `self`, and stays there. An engine may use the value of `fresh()` in that
/// place, and everything that it points to, until the drop of `self`. The drop unregisters it if
/// `is_registered()`. `register()` and `unregister()` are the functions of the C interface.
pub(crate) unsafe trait InEngine: Send + Sync + 'static {
    /// Structure of the C interface.
    type Struct;

    fn in_engine(&self) -> *mut Self::Struct;

    /// Returns the structure as it is before registration.
    fn fresh(&self) -> Self::Struct;

    fn is_registered(&self) -> &IsRegistered;

    /// Returns the addresses of the functions that an engine calls, which are code of the client,
    /// or 0.
    fn handlers() -> [usize; 2];

    /// Registers all of them, or none.
    ///
    /// # Safety
    ///
    /// There are so many, none of them registered.
    unsafe fn register(all: *mut *mut Self::Struct, count: c_int) -> c_int;

    /// Unregisters all of them.
    ///
    /// # Safety
    ///
    /// There are so many, all of them registered.
    unsafe fn unregister(all: *mut *mut Self::Struct, count: c_int);
}

/// Probe that is not registered yet.
///
/// # Invariants
///
/// `is_registered()` is false.
pub(crate) struct Unregistered<R: InEngine>(Deferred<R>);

impl<R: InEngine> Unregistered<R> {
    pub(super) fn new(init: impl PinInit<R, Error>) -> Result<Self> {
        // INVARIANT: Only `register()` makes it true, for values of this type.
        Ok(Self(Deferred::new(init)?))
    }
}

/// Registers probes in their order, up to the first refusal or error of `prepared`. Returns the
/// registered ones, wrapped by `wrap`, and the refusal or error.
///
/// Errors: no memory, and `ESHUTDOWN` if the module of the handlers is being unloaded; then none is
/// registered. No lock joins the check of the module to the registration. Unloading waits for a
/// module's code that can call this before an engine looks for its probes.
pub(crate) fn register_all<R: InEngine, P, E: From<Error> + From<AllocError>>(
    prepared: impl Iterator<Item = Result<Unregistered<R>, E>>,
    wrap: impl Fn(Deferred<R>) -> P,
) -> Result<(KVVec<P>, Option<E>), E> {
    if R::handlers().into_iter().any(is_going) {
        return Err(ESHUTDOWN.into());
    }
    let mut all = KVVec::new();
    let mut unprepared = None;
    for one in prepared {
        match one {
            Ok(one) => all.push(one, GFP_KERNEL)?,
            Err(error) => {
                unprepared = Some(error);
                break;
            }
        }
    }
    let mut registered = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
    let mut pointers = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
    let (count, refusal) = up_to_refused(&all, |some| register(some, &mut pointers));
    for Unregistered(probe) in all.into_iter().take(count) {
        registered.push(wrap(probe), GFP_KERNEL)?;
    }
    Ok((registered, refusal.map(E::from).or(unprepared)))
}

/// Calls `register` with as many items as it accepts at once, up to the first that it refuses.
/// `register` takes all items of a call, or none. Returns the number of registered items, and the
/// error of the refused one.
fn up_to_refused<T>(all: &[T], mut register: impl FnMut(&[T]) -> Result) -> (usize, Option<Error>) {
    let mut done = 0;
    let mut some = all.len();
    while let Some(next) = all.get(done..).filter(|rest| !rest.is_empty()) {
        some = some.clamp(1, next.len());
        match register(next.get(..some).unwrap_or(next)) {
            Ok(()) => done += some,
            Err(error) if some == 1 => return (done, Some(error)),
            // The refused one is among these.
            Err(_) => (),
        }
        some /= 2;
    }
    (done, None)
}

/// Registers all of them, or none.
fn register<R: InEngine>(some: &[Unregistered<R>], pointers: &mut KVVec<*mut R::Struct>) -> Result {
    pointers.clear();
    for Unregistered(probe) in some {
        let place = probe.in_engine();
        // SAFETY: By the type invariant no engine has it, nor does a handler use it; a refused
        // batch is not registered either. A later registration must not see the values that an
        // engine has left in it.
        unsafe { place.write(probe.fresh()) };
        pointers.push(place, GFP_KERNEL)?;
    }
    let functions = Functions {
        handlers: R::handlers(),
        register: R::register,
        unregister: unregister_at::<R>,
    };
    // SAFETY: The array has so many pointers, to structures that stay until they have been
    // unregistered, by the trait; no engine has them, by the type invariant.
    unsafe { leaked_probes::register(pointers, &functions) }?;
    // They no longer count as `Unregistered`: `register_all()` continues after them.
    some.iter()
        .for_each(|one| one.0.is_registered().0.set(true));
    Ok(())
}

/// Unregisters a probe.
///
/// # Safety
///
/// There is a registered structure of `R` at the address.
unsafe fn unregister_at<R: InEngine>(place: usize) {
    let mut place = core::ptr::with_exposed_provenance_mut(place);
    // SAFETY: By the rules of this function.
    unsafe { R::unregister(&raw mut place, 1) };
}

/// Drops many probes with one wait for all handlers. Drops them one by one without memory, or in a
/// context that must not sleep.
pub(crate) fn drop_all<R: InEngine>(probes: impl Iterator<Item = Deferred<R>>) {
    if !may_sleep() {
        return probes.for_each(drop);
    }
    let mut all = KVVec::new();
    for probe in probes {
        // Dropped at once without memory.
        let _ = all.push(probe, GFP_KERNEL);
    }
    // The drop unregisters those that are left on an error.
    let _ = unregister(&all);
}

fn unregister<R: InEngine>(all: &[Deferred<R>]) -> Result {
    let mut pointers = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
    let registered = || all.iter().filter(|probe| probe.is_registered().get());
    for probe in registered() {
        pointers.push(probe.in_engine(), GFP_KERNEL)?;
    }
    let most = c_int::try_from(pointers.len()).map_err(|_| E2BIG)?;
    leaked_probes::delist(&mut pointers);
    let count = c_int::try_from(pointers.len()).unwrap_or(most);
    // SAFETY: The array has so many pointers, to structures that are registered and stay. The
    // function waits until none of their handlers runs.
    unsafe { R::unregister(pointers.as_mut_ptr(), count) };
    registered().for_each(|probe| probe.is_registered().0.set(false));
    Ok(())
}
