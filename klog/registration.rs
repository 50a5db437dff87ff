// SPDX-License-Identifier: GPL-2.0

//! Registration of a client's handler in Rust.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use core::marker::PhantomData;

use ferro_sys::sync::deferred_drop::Deferred;

use crate::error::must_sleep;
use crate::error::Error;
use crate::raw::handler::Handler;
use crate::raw::handler::Owner;

/// Registration of a handler. The armed handler gets messages until the registration is disarmed or
/// dropped, or another handler replaces it.
///
/// Dropping is allowed in any context. In contexts that cannot sleep, such as the handler, a work
/// item removes the handler later; the handler may still be called until then.
pub struct Registration<H: Handler> {
    owner: Deferred<Owner>,
    _handler: PhantomData<H>,
}

impl<H: Handler> Registration<H> {
    /// Registers `H`, and makes it the current handler.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::ModuleGoes`],
    /// [`Error::NoMemory`].
    pub fn register() -> Result<Self, Error> {
        let new = Self::disarmed()?;
        new.arm()?;
        Ok(new)
    }

    /// Registers `H`, which gets no messages until armed. Until then trace statements cost as much
    /// as without a handler.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::NoMemory`].
    pub fn disarmed() -> Result<Self, Error> {
        must_sleep()?;
        Ok(Self {
            owner: Deferred::new(Ok::<_, Error>(Owner::new()))?,
            _handler: PhantomData,
        })
    }

    /// Makes `H` the current handler, if there is no other.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::ModuleGoes`],
    /// [`Error::Occupied`].
    pub fn arm_if_free(&self) -> Result<(), Error> {
        must_sleep()?;
        Ok(self.owner.arm_if_free::<H>()?)
    }

    /// Makes `H` the current handler, replacing another. Has no effect on the current one.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::ModuleGoes`].
    pub fn arm(&self) -> Result<(), Error> {
        must_sleep()?;
        Ok(self.owner.arm::<H>()?)
    }

    /// Removes this handler if current, and waits until no CPU executes it.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`].
    pub fn disarm(&self) -> Result<(), Error> {
        must_sleep()?;
        self.owner.disarm();
        Ok(())
    }

    /// Returns true if this registration has the current handler. Context: any.
    pub fn is_armed(&self) -> bool {
        self.owner.is_armed()
    }
}
