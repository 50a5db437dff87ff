// SPDX-License-Identifier: GPL-2.0

//! The columns of a table with a row for each record, whatever its type: one for each name of a field.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use crate::merge::field::Field;
use crate::merge::field::Kind;
use crate::merge::format::Format;
use crate::merge::recording::Formats;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Numbers that fit into an `i64`.
    Signed,
    /// Numbers of 8 bytes without a sign, and addresses.
    Unsigned,
    /// Characters.
    Text,
    /// Bytes.
    Bytes,
    /// Arrays of numbers.
    Array {
        /// True if the elements fit into an `i64`.
        signed: bool,
    },
}

impl Shape {
    /// Returns the shape for `field`.
    pub fn of(field: &Field) -> Self {
        match field.kind {
            Kind::Unsigned | Kind::Hex if field.size == Some(8) => Self::Unsigned,
            Kind::Unsigned | Kind::Hex | Kind::Signed => Self::Signed,
            Kind::Text => Self::Text,
            Kind::Array { element, signed } => Self::Array {
                signed: signed || element < 8,
            },
            Kind::Bytes => Self::Bytes,
        }
    }

    /// Returns a shape for the values of both.
    fn join(self, other: Self) -> Self {
        if self == other { self } else { Self::Text }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, which no other has, in whatever case.
    pub name: String,
    /// Type of the values.
    pub shape: Shape,
}

/// The columns of the fields of a recording.
#[derive(Debug, PartialEq, Eq)]
pub struct Columns {
    /// The columns.
    pub columns: Vec<Column>,
    /// Those of the fields of each description.
    places: BTreeMap<u32, Vec<usize>>,
    /// That of the bytes of records that are not described.
    data: Vec<usize>,
}

impl Columns {
    /// The columns for what `formats` describes, beside others that are called `reserved`.
    pub fn new(formats: &Formats, reserved: &[&str]) -> Self {
        // A description of nothing but bytes, as that of an unknown type.
        let raw = Format::raw(0);
        let described: Vec<&Format> = match formats {
            Formats::Fixed(fixed) => vec![&fixed.format],
            Formats::Typed(typed) => typed.iter().chain([&raw]).collect(),
        };
        let mut columns: Vec<Column> = Vec::new();
        let mut known = BTreeMap::<&str, usize>::new();
        let mut places = BTreeMap::new();
        for format in described {
            let mut place = Vec::new();
            for field in &format.fields {
                let shape = Shape::of(field);
                let index = *known.entry(&field.name).or_insert_with(|| {
                    let name = free(&field.name, reserved, &columns);
                    columns.push(Column { name, shape });
                    columns.len() - 1
                });
                if let Some(column) = columns.get_mut(index) {
                    column.shape = column.shape.join(shape);
                }
                place.push(index);
            }
            places.insert(format.id, place);
        }
        let data = places.remove(&raw.id).unwrap_or_default();
        Self {
            columns,
            places,
            data,
        }
    }

    /// The columns of the fields of `format`, in their order.
    pub fn of(&self, format: &Format) -> &[usize] {
        self.places.get(&format.id).unwrap_or(&self.data)
    }
}

/// `name`, with underscores until there is no such column. Readers do not distinguish case.
fn free(name: &str, reserved: &[&str], columns: &[Column]) -> String {
    let mut name = name.to_owned();
    let taken = |name: &str| {
        let mut names = columns.iter().map(|column| column.name.as_str());
        reserved
            .iter()
            .copied()
            .chain(&mut names)
            .any(|other| other.eq_ignore_ascii_case(name))
    };
    while taken(&name) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::format::TypedFormats;

    #[test]
    fn fields_of_one_name_share_a_column() {
        let text = "\
name: a
ID: 1
field:s32 pid;offset:0;size:4;signed:1;
field:u64 value;offset:8;size:8;
field:char Comm[8];offset:16;size:8;
name: b
ID: 2
field:u32 pid;offset:0;size:4;
field:s64 value;offset:8;size:8;signed:1;
field:u16 comm[2];offset:16;size:4;
field:u64 host[1];offset:24;size:8;
";
        let formats = Formats::Typed(TypedFormats::parse(text).unwrap());
        let columns = Columns::new(&formats, &["host", "time"]);
        let found: Vec<_> = columns
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.shape))
            .collect();
        let (signed, array) = (Shape::Signed, |signed| Shape::Array { signed });
        assert_eq!(
            found,
            [
                ("pid", signed),
                // No number holds both.
                ("value", Shape::Text),
                ("Comm", Shape::Text),
                ("comm_", array(true)),
                ("host_", array(false)),
                ("data", Shape::Bytes),
            ]
        );
        let Formats::Typed(typed) = &formats else {
            panic!("{formats:?}");
        };
        assert_eq!(columns.of(typed.get(2).unwrap()), [0, 1, 3, 4]);
        assert_eq!(columns.of(&Format::raw(7)), [5]);
    }
}
