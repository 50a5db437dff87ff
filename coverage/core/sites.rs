// SPDX-License-Identifier: GPL-2.0

//! Instructions that the kernel patches, or finds by their addresses: the entries of its tables.

use crate::Refusal;

/// Kind of a table's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// A static key.
    JumpLabel,
    /// A static call.
    StaticCall,
    /// An entry of the exception table.
    Exception,
}

/// Number of bits for the kind, below the offset.
const KIND_BITS: u32 = 2;

impl Site {
    /// Packs a site at a distance from the start of the text. Packed sites are in the order of
    /// their places.
    pub fn packed(self, offset: u32) -> u64 {
        let kind = match self {
            Self::JumpLabel => 0,
            Self::StaticCall => 1,
            Self::Exception => 2,
        };
        u64::from(offset) << KIND_BITS | kind
    }
}

/// Sites of a text, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Sites<'a>(&'a [u64]);

impl<'a> Sites<'a> {
    /// Wraps packed sites, which are in ascending order.
    pub fn new(packed: &'a [u64]) -> Self {
        Self(packed)
    }

    /// Returns the reason that the tables have against a place at a distance from the start of the
    /// text.
    pub fn refusal(&self, offset: usize) -> Option<Refusal> {
        let wanted = (offset as u64).checked_mul(1 << KIND_BITS)?;
        let first = self.0.partition_point(|site| *site < wanted);
        let site = *self.0.get(first)?;
        if site >> KIND_BITS != offset as u64 {
            return None;
        }
        Some(match site & ((1 << KIND_BITS) - 1) {
            0 => Refusal::JumpLabel,
            1 => Refusal::StaticCall,
            _ => Refusal::Exception,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_offset() {
        let mut packed = [
            Site::Exception.packed(7),
            Site::JumpLabel.packed(0),
            Site::StaticCall.packed(u32::MAX),
            Site::StaticCall.packed(8),
            Site::Exception.packed(8),
        ];
        packed.sort_unstable();
        let sites = Sites::new(&packed);
        assert_eq!(sites.refusal(0), Some(Refusal::JumpLabel));
        assert_eq!(sites.refusal(7), Some(Refusal::Exception));
        assert_eq!(sites.refusal(8), Some(Refusal::StaticCall));
        assert_eq!(sites.refusal(u32::MAX as usize), Some(Refusal::StaticCall));
        for none in [1, 6, 9, usize::MAX] {
            assert_eq!(sites.refusal(none), None);
        }
        assert_eq!(Sites::new(&[]).refusal(0), None);
    }
}
