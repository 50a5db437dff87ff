// SPDX-License-Identifier: GPL-2.0

//! A client's handler in Rust.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use core::marker::PhantomData;

use ferro_sys::sync::deferred_drop::Deferred;

use crate::error::must_sleep;
use crate::error::Error;
use crate::raw::handler::Handler;
use crate::raw::handler::Owner;

/// A handler that is registered until this is dropped, and gets the messages while it is armed:
/// until then, or until another takes its place.
///
/// It may be dropped anywhere. Where nothing may sleep, as in the handler, a work item does it: the handler is called until
/// then.
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

    /// Registers `H`, which gets no messages until it is armed: until then trace statements cost
    /// what they cost without a handler.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::NoMemory`].
    pub fn disarmed() -> Result<Self, Error> {
        must_sleep()?;
        Ok(Self {
            owner: Deferred::new(Ok::<_, Error>(Owner::new()))?,
            _handler: PhantomData,
        })
    }

    /// Makes it the current handler, if there is no other.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::ModuleGoes`],
    /// [`Error::Occupied`].
    pub fn arm_if_free(&self) -> Result<(), Error> {
        must_sleep()?;
        self.owner.arm_if_free::<H>()
    }

    /// Makes it the current handler, in place of another, if it is not.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::ModuleGoes`].
    pub fn arm(&self) -> Result<(), Error> {
        must_sleep()?;
        self.owner.arm::<H>()
    }

    /// Makes it the current handler no longer, if it is. Nobody is in the handler any more afterwards.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`].
    pub fn disarm(&self) -> Result<(), Error> {
        must_sleep()?;
        self.owner.disarm();
        Ok(())
    }

    /// Whether it is the current handler. Context: any.
    pub fn is_armed(&self) -> bool {
        self.owner.is_armed()
    }
}
