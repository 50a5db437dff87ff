// SPDX-License-Identifier: GPL-2.0

//! Registration of jprobes, all or none, and its refusals.
//!
//! Contexts: process, and sleeping.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::error::JprobeError;
use crate::raw::jprobe::Batch;
use crate::raw::jprobe::Claims;
use crate::raw::jprobe::Jprobe;

/// Claims a jprobe for registration.
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

/// Logs the reason of a refusal.
fn refuse(jprobe: Jprobe<'_>, error: JprobeError) -> Error {
    pr_info!("no jprobe at {}: {}\n", jprobe.target(), error);
    error.errno()
}

/// Registers jprobes, all or none, and logs the reason of a refusal.
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
        // Restore first, so that the log names the place as the client gave it.
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
    // Only the engine knows the exact places. Handlers have not been called at any other place.
    if let Some(jprobe) = registered.first_not_at_entry() {
        registered.undo();
        return Err(refuse(jprobe, JprobeError::NotAtEntry));
    }
    Ok(())
}
