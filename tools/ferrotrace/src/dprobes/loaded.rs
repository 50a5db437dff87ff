// SPDX-License-Identifier: GPL-2.0

//! Programs that are loaded for a while.

#![deny(unsafe_code)]

use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::SetRef;

use super::control::Control;
use super::error::Error;
use super::error::Result;
use super::set::SetError;
use super::state::State;

/// Programs that are loaded as long as this value exists.
#[derive(Debug)]
pub struct Loaded<'a> {
    control: &'a Control,
    names: Vec<String>,
}

impl<'a> Loaded<'a> {
    /// Loads a set without `MERGE`, if there is one: also what it replaces is not loaded again. Returns the state after that.
    pub fn load(control: &'a Control, set: Option<&[u8]>) -> Result<(Self, State)> {
        let Some(set) = set else {
            let none = Self {
                control,
                names: Vec::new(),
            };
            return Ok((none, control.state()?));
        };
        let names = names(set)?;
        let state = control.insert(set)?;
        Ok((Self { control, names }, state))
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

/// The programs of a set.
fn names(set: &[u8]) -> Result<Vec<String>> {
    let set = SetRef::decode(set, &mut vec![0; CODE_MAX]);
    let set = set.map_err(|refusal| Error::Set(SetError::Refused(refusal)))?;
    Ok(set.programs().map(|one| one.name.to_owned()).collect())
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // Another error is being reported.
            let _ = self.control.remove(name);
        }
    }
}
