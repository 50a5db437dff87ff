// SPDX-License-Identifier: GPL-2.0

//! Makes a note of a number of another owner, and so takes it away.
#![forbid(unsafe_code)]

use ferro_sys::hook::Note;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_note_made_up",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

fn take_away() -> Result {
    let mut note = Note::new()?;
    note.set(1, None); //~ E0133
    note.defer();
    Ok(())
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
