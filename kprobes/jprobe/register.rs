// SPDX-License-Identifier: GPL-2.0

//! Registering jprobes, all or none, and what refuses one.
//!
//! Contexts: process, and sleeping.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::error::JprobeError;
use crate::raw::jprobe::Batch;
use crate::raw::jprobe::Claims;
use crate::raw::jprobe::Jprobe;

/// Adds a jprobe to those that are about to be registered.
fn claim<'a>(claims: &mut Claims<'a>, jprobe: Jprobe<'a>) -> Result<(), JprobeError> {
    if jprobe.is_claimed() {
        return Err(JprobeError::Registered);
    }
    if jprobe.has_handlers() {
        return Err(JprobeError::HasHandlers);
    }
    if !jprobe.has_entry() {
        return Err(JprobeError::NoEntry);
    }
    match claims.add(jprobe)? {
        true => Ok(()),
        false => Err(JprobeError::EntryIsNotText),
    }
}

/// Says in the log why.
fn refuse(jprobe: Jprobe<'_>, error: JprobeError) -> Error {
    pr_info!("no jprobe at {}: {}\n", jprobe.target(), error);
    error.errno()
}

/// Registers jprobes, all or none, and says in the log what refused one.
pub(crate) fn register(batch: Batch<'_>) -> Result {
    let mut claims = Claims::with_capacity(batch.len())?;
    for jprobe in batch.iter() {
        let jprobe = jprobe.ok_or_else(|| {
            pr_info!("no jprobe: NULL\n");
            EINVAL
        })?;
        claim(&mut claims, jprobe).map_err(|error| refuse(jprobe, error))?;
    }
    let registered = claims.register().map_err(|(claims, error)| {
        // Put back first, so that the log names the place as the client gave it.
        let count = claims.len();
        drop(claims);
        match batch.iter().flatten().next() {
            Some(only) if count == 1 => refuse(only, JprobeError::Engine(error)),
            _ => {
                let errno = error.to_errno();
                pr_info!("none of {count} jprobes: error {errno} from kprobes\n");
                error
            }
        }
    })?;
    // Only the engine knows the places for sure. Handlers have not been called anywhere else.
    if let Some(jprobe) = registered.first_not_at_entry() {
        registered.undo();
        return Err(refuse(jprobe, JprobeError::NotAtEntry));
    }
    Ok(())
}
