// SPDX-License-Identifier: GPL-2.0

//! Programs that are loaded for a while.

#![deny(unsafe_code)]

use super::control::Control;
use super::error::Error;
use super::error::Result;
use super::state::State;

/// Programs that are loaded as long as this value exists.
#[derive(Debug)]
pub struct Loaded<'a> {
    control: &'a Control,
    names: Vec<String>,
}

impl<'a> Loaded<'a> {
    /// Loads a set, if there is one. Returns the state after that.
    pub fn load(control: &'a Control, set: Option<&[u8]>) -> Result<(Self, State)> {
        let before = control.state()?;
        let mut loaded = Self {
            control,
            names: Vec::new(),
        };
        let Some(set) = set else {
            return Ok((loaded, before));
        };
        let state = control.insert(set)?;
        let old = before.names();
        loaded.names = state.names();
        loaded.names.retain(|name| !old.contains(name));
        Ok((loaded, state))
    }

    /// Removes them.
    pub fn remove(mut self) -> Result<()> {
        while let Some(name) = self.names.pop() {
            match self.control.remove(&name) {
                // Somebody has done it already.
                Ok(_) | Err(Error::NoProgram { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // Another error is being reported.
            let _ = self.control.remove(name);
        }
    }
}
