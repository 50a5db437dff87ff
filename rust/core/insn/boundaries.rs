// SPDX-License-Identifier: GPL-2.0

//! Linear decoding of code.

use super::decode::DecodeError;
use super::operands::Insn;

/// Iterator over the instructions of a piece of code, each with its offset.
///
/// Invalid bytes end the iteration, with the error as the last item.
///
/// # Examples
///
/// ```
/// use ferro_core::insn::Boundaries;
///
/// let text = [0x55, 0x48, 0x89, 0xe5, 0xc3];
/// let starts: Vec<usize> = Boundaries::new(&text).map(|item| item.unwrap().0).collect();
/// assert_eq!(starts, [0, 1, 4]);
/// ```
#[derive(Clone, Debug)]
pub struct Boundaries<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Boundaries<'a> {
    /// Starts at the first byte of `text`, which has to be the start of an instruction.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns true if an instruction starts at `offset`, or the reason why the code before
    /// it cannot be decoded.
    ///
    /// The end of the code is a boundary, too.
    pub fn is_boundary(text: &'a [u8], offset: usize) -> Result<bool, DecodeError> {
        let mut walk = Self::new(text);
        while walk.at < offset {
            match walk.next() {
                Some(item) => item?,
                None => return Ok(false),
            };
        }
        Ok(walk.at == offset)
    }
}

impl Iterator for Boundaries<'_> {
    type Item = Result<(usize, Insn), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.text.get(at..).filter(|rest| !rest.is_empty())?;
        Some(match Insn::decode(rest) {
            Ok(insn) => {
                self.at = at.saturating_add(insn.len());
                Ok((at, insn))
            }
            Err(error) => {
                self.text = &[];
                Err(error)
            }
        })
    }
}
