// SPDX-License-Identifier: GPL-2.0

//! Programs whose places are known, and the bytes in which they are loaded.

#![deny(unsafe_code)]

use std::collections::BTreeSet;

use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::Header;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointSource;
use ferro_dprobes_core::ProgramSource;
use ferro_dprobes_core::Refusal;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::SetRef;
use ferro_dprobes_core::encode;
use thiserror::Error;

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Its fields.
    pub point: Point,
    /// Symbol that the offset is relative to; empty without a symbol.
    pub symbol: String,
    /// Code of the point.
    pub code: Vec<Insn>,
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Loadable {
    /// Its fields.
    pub header: Header,
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<Located>,
}

/// Why programs do not make a set.
#[derive(Debug, Error)]
pub enum SetError {
    /// The kernel would refuse it.
    #[error("the kernel would not take these programs: {0}")]
    Refused(Refusal),
    /// Two have the same name.
    #[error(
        "there are two programs for {0}, and a set has one: put all points below one \"name =\", or insert the second file with --merge"
    )]
    Twice(String),
    /// Something does not fit.
    #[error("a name is too long, or there are too many programs")]
    TooLong,
    /// Nothing is left to load.
    #[error("no point is left: none has the groups and types that were chosen")]
    Empty,
}

/// Points that are wanted, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Groups; all if there are none.
    pub groups: Vec<u32>,
    /// Types; all if there are none.
    pub types: Vec<u32>,
}

impl Selection {
    fn has(&self, point: &Point) -> bool {
        let is_in = |list: &[u32], number| list.is_empty() || list.contains(&number);
        is_in(&self.groups, point.group) && is_in(&self.types, point.kind_number)
    }

    /// Leaves out other points, and programs without any.
    pub fn select(&self, programs: &mut Vec<Loadable>) -> Result<(), SetError> {
        for program in programs.iter_mut() {
            program.points.retain(|point| self.has(&point.point));
        }
        programs.retain(|program| !program.points.is_empty());
        match programs.is_empty() {
            true => Err(SetError::Empty),
            false => Ok(()),
        }
    }
}

/// The bytes of a set, which the kernel takes as far as it can be known here.
pub fn bytes(header: SetHeader, programs: &[Loadable]) -> Result<Vec<u8>, SetError> {
    let mut names = BTreeSet::new();
    let mut all = programs.iter();
    if let Some(second) = all.find(|program| !names.insert(&program.name)) {
        return Err(SetError::Twice(second.name.clone()));
    }
    let points: Vec<Vec<PointSource<'_>>> = programs
        .iter()
        .map(|program| program.points.iter().map(Located::source).collect())
        .collect();
    let sources: Vec<_> = programs
        .iter()
        .zip(&points)
        .map(|(program, points)| ProgramSource {
            header: program.header,
            name: &program.name,
            points,
        })
        .collect();
    let mut bytes = Vec::new();
    encode(&mut bytes, header, &sources).map_err(|_| SetError::TooLong)?;
    SetRef::decode(&bytes, &mut vec![0; CODE_MAX]).map_err(SetError::Refused)?;
    Ok(bytes)
}

/// Returns the programs of a set.
pub fn programs(set: &SetRef<'_>) -> Vec<Loadable> {
    let programs = set.programs().map(|program| Loadable {
        header: program.header,
        name: program.name.to_owned(),
        points: program
            .points()
            .map(|point| Located {
                point: point.point,
                symbol: point.symbol.to_owned(),
                code: point.code.insns().collect(),
            })
            .collect(),
    });
    programs.collect()
}

impl Located {
    fn source(&self) -> PointSource<'_> {
        PointSource {
            point: self.point,
            symbol: &self.symbol,
            code: &self.code,
        }
    }

    /// Returns true if the point changes registers or memory, calls out or asks for a crash, which
    /// needs permission.
    pub fn writes(&self) -> bool {
        self.code.iter().any(Insn::needs_permission)
    }
}
