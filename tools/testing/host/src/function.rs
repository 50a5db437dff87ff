// SPDX-License-Identifier: GPL-2.0

//! Places for jumps in a function of an image. The function is searched once for all of its
//! instructions.

use crate::vmlinux::Vmlinux;
use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::Entry;
use ferro_kprobes_core::jump::Found;
use ferro_kprobes_core::jump::Piece;
use ferro_kprobes_core::jump::Reason;
use ferro_kprobes_core::jump::displaceable_alone;
use ferro_kprobes_core::jump::search;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Results of the analysis for the function that contains a piece.
pub struct Function {
    starts: BTreeSet<u64>,
    entered: BTreeMap<u64, Entry>,
    result: Result<(), Reason>,
}

impl Function {
    /// Searches it.
    pub fn of(piece: Piece, image: &Vmlinux) -> Self {
        let (mut starts, mut entered) = (BTreeSet::new(), BTreeMap::new());
        let result = search(piece, image, |found| match found {
            Found::Start(at) => {
                starts.insert(at);
            }
            Found::Entered(at, by) => {
                entered.insert(at, by);
            }
        });
        Self {
            starts,
            entered,
            result,
        }
    }

    /// Returns the result of [`displaceable`](ferro_kprobes_core::jump::displaceable) for an
    /// address in the piece.
    ///
    /// # Errors
    ///
    /// The reason why there can be no jump.
    pub fn displaceable(&self, address: u64, image: &Vmlinux) -> Result<Displaced, Reason> {
        let displaced = displaceable_alone(address, image)?;
        if let Some((_, by)) = self.entered.range(displaced.inside()).next() {
            return Err(Reason::Entered(*by));
        }
        self.result?;
        match self.starts.contains(&address) {
            true => Ok(displaced),
            false => Err(Reason::NotAnInstruction),
        }
    }
}
