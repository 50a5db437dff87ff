// SPDX-License-Identifier: GPL-2.0

//! The layouts of types, as the calling convention looks at them.

#![deny(unsafe_code)]

use super::Id;
use super::Result;
use super::Shape;
use super::Types;
use super::abi::Kind;
use super::abi::Layout;
use super::abi::Leaf;

/// Types within types, of which there is an end.
const DEPTH_MAX: usize = 64;

/// A larger type is in memory, whatever is in it.
const REGISTERS_MAX: u64 = 64;

/// Returns the bytes of a type; those of a pointer for one that is not known.
pub(crate) fn size_of(types: &dyn Types, ty: Id) -> Result<u64> {
    Ok(match types.shape(ty)? {
        Shape::Number { size, .. }
        | Shape::Float { size, .. }
        | Shape::Vector { size }
        | Shape::Struct { size, .. } => size,
        Shape::Array { of, len } => size_of(types, of)?.saturating_mul(len),
        Shape::Pointer { .. } | Shape::Function | Shape::Other(_) => 8,
    })
}

/// Returns the layout of a type. `None` if that is not known.
pub(crate) fn layout(types: &dyn Types, ty: Id) -> Result<Option<Layout>> {
    let mut leaves = Vec::new();
    let align = collect(types, ty, 0, &mut leaves, DEPTH_MAX)?;
    let by_reference = matches!(
        types.shape(ty)?,
        Shape::Struct {
            by_reference: true,
            ..
        }
    );
    let size = size_of(types, ty)?;
    Ok(align.map(|align| Layout {
        size,
        align,
        leaves,
        by_reference,
    }))
}

/// Adds a scalar, and returns its alignment.
fn add(to: &mut Vec<Leaf>, bit: u64, size: u64, align: u64, kind: Kind) -> Option<u64> {
    to.push(Leaf {
        bit,
        bits: size.saturating_mul(8),
        kind,
        is_unaligned: align != 0 && (bit / 8) % align != 0,
    });
    Some(align)
}

/// Adds the scalars of a type that begins at a bit, and returns its alignment. `None` if it is not
/// known.
fn collect(
    types: &dyn Types,
    ty: Id,
    bit: u64,
    to: &mut Vec<Leaf>,
    depth: usize,
) -> Result<Option<u64>> {
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(None);
    };
    Ok(match types.shape(ty)? {
        Shape::Number { size, .. } => add(to, bit, size, size.min(16), Kind::Integer),
        Shape::Pointer { .. } => add(to, bit, 8, 8, Kind::Integer),
        Shape::Vector { size } => add(to, bit, size, size, Kind::Sse),
        Shape::Float {
            size,
            count: 2,
            is_x87: true,
        } => add(to, bit, size, 16, Kind::ComplexX87),
        Shape::Float {
            size, is_x87: true, ..
        } => add(to, bit, size, 16, Kind::X87),
        Shape::Float { size, count, .. } => {
            let one = size / count.max(1);
            for number in 0..count {
                let bit = bit.saturating_add(one.saturating_mul(8).saturating_mul(number));
                add(to, bit, one, one, Kind::Sse);
            }
            Some(one)
        }
        Shape::Array { of, len } => {
            let one = size_of(types, of)?;
            // Of a large one only the alignment counts.
            let count = match one.saturating_mul(len) <= REGISTERS_MAX {
                true => len,
                false => len.min(1),
            };
            let mut align = Some(1);
            for number in 0..count {
                let bit = bit.saturating_add(one.saturating_mul(8).saturating_mul(number));
                align = collect(types, of, bit, to, depth)?;
                // Nothing is added by what has no size.
                if align.is_none() || one == 0 {
                    break;
                }
            }
            align
        }
        Shape::Struct { align, .. } => {
            let mut most = 1;
            for member in types.members(ty)? {
                let bit = bit.saturating_add(member.bit_offset);
                match member.bits {
                    // A field without a name is padding.
                    Some(_) if member.name.is_empty() => (),
                    Some(bits) => {
                        most = most.max(size_of(types, member.ty)?.min(16));
                        to.push(Leaf {
                            bit,
                            bits,
                            kind: Kind::Integer,
                            is_unaligned: false,
                        });
                    }
                    None => match collect(types, member.ty, bit, to, depth)? {
                        Some(align) if (bit / 8) % align.max(1) == 0 => most = most.max(align),
                        Some(_) => (),
                        None => return Ok(None),
                    },
                }
            }
            Some(align.unwrap_or(most))
        }
        Shape::Function | Shape::Other(_) => None,
    })
}
