// SPDX-License-Identifier: GPL-2.0

//! Registering jprobes, all or none, and unregistering them.
//!
//! Contexts: process, and sleeping.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::error::JprobeError;
use crate::ffi::Batch;
use crate::ffi::Given;
use crate::ffi::Jprobe;

/// A jprobe that is about to be registered. Dropping it puts it back as the client gave it.
struct Claim {
    jprobe: Jprobe,
    given: Given,
}

impl Claim {
    fn new(jprobe: Jprobe) -> Result<Self, JprobeError> {
        if jprobe.is_claimed() {
            return Err(JprobeError::Registered);
        }
        if jprobe.has_handlers() {
            return Err(JprobeError::HasHandlers);
        }
        if !jprobe.has_entry() {
            return Err(JprobeError::NoEntry);
        }
        if !jprobe.entry_is_text() {
            return Err(JprobeError::EntryIsNotText);
        }
        let given = jprobe.given();
        jprobe.claim();
        Ok(Self { jprobe, given })
    }

    fn refuse(&self, error: JprobeError) -> Error {
        refuse(self.jprobe, error)
    }

    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.jprobe.give_back(self.given);
    }
}

/// Says in the log why.
fn refuse(jprobe: Jprobe, error: JprobeError) -> Error {
    pr_info!("no jprobe at {}: {}\n", jprobe.place(), error);
    error.errno()
}

/// Registers jprobes, all or none, and says in the log what refused one.
pub(crate) fn register(batch: Batch<'_>) -> Result {
    let mut claims = KVVec::with_capacity(batch.len(), GFP_KERNEL)?;
    for jprobe in batch.iter() {
        let jprobe = jprobe.ok_or_else(|| {
            pr_info!("no jprobe: NULL\n");
            EINVAL
        })?;
        let claim = Claim::new(jprobe).map_err(|error| refuse(jprobe, error))?;
        claims.push(claim, GFP_KERNEL)?;
    }
    batch.register().map_err(|error| match claims.first() {
        Some(only) if claims.len() == 1 => only.refuse(JprobeError::Engine(error)),
        _ => {
            let errno = error.to_errno();
            pr_info!(
                "none of {} jprobes: error {errno} from kprobes\n",
                claims.len()
            );
            error
        }
    })?;
    // Only the engine knows the places for sure. Handlers have not been called anywhere else.
    if let Some(claim) = claims.iter().find(|claim| !claim.jprobe.is_at_entry()) {
        batch.unregister();
        return Err(claim.refuse(JprobeError::NotAtEntry));
    }
    claims.into_iter().for_each(Claim::keep);
    Ok(())
}

/// Unregisters those that are registered. No handler of theirs runs any more when this returns.
pub(crate) fn unregister(batch: Batch<'_>) {
    let registered = || batch.iter().flatten().filter(|jprobe| jprobe.is_claimed());
    if registered().count() == batch.len() {
        batch.unregister();
    } else {
        registered().for_each(Jprobe::unregister);
    }
    registered().for_each(Jprobe::release);
}
