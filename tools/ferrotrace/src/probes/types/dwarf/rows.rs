// SPDX-License-Identifier: GPL-2.0

//! Source lines of all code.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;

use super::DwarfTypes;
use super::Reader;
use super::Result;
use super::Unit;
use crate::cov::paths::plain;

impl DwarfTypes {
    /// Passes on each address where code of a line begins, with the path of the file, the line, and
    /// true if a statement begins there.
    ///
    /// The other addresses are those of instructions that were moved out of their statement, and
    /// often the first ones of cold parts.
    pub fn rows(&self, mut to: impl FnMut(u64, &str, u32, bool)) -> Result<()> {
        let failed = |error| self.bad(error);
        for (_, unit) in &self.units {
            let Some(program) = unit.line_program.clone() else {
                continue;
            };
            let mut paths: HashMap<u64, String> = HashMap::new();
            let mut rows = program.rows();
            while let Some((header, row)) = rows.next_row().map_err(failed)? {
                let Some(line) = row.line().filter(|_| !row.end_sequence()) else {
                    continue;
                };
                let Ok(line) = u32::try_from(line.get()) else {
                    continue;
                };
                let index = row.file_index();
                if !paths.contains_key(&index) {
                    let path = match header.file(index) {
                        Some(file) => self.path_of(unit, header, file)?,
                        None => continue,
                    };
                    paths.insert(index, path);
                }
                if let Some(path) = paths.get(&index) {
                    to(row.address(), path, line, row.is_stmt());
                }
            }
        }
        Ok(())
    }

    /// Returns the path of a file, with the directory of the build if it is relative.
    fn path_of(
        &self,
        unit: &Unit,
        header: &gimli::LineProgramHeader<Reader>,
        file: &gimli::FileEntry<Reader>,
    ) -> Result<String> {
        let text = |value: gimli::AttributeValue<Reader>| {
            let text = self.loaded.dwarf.attr_string(unit, value);
            let text =
                text.and_then(|text| Ok(gimli::Reader::to_string_lossy(&text)?.into_owned()));
            text.map_err(|error| self.bad(error))
        };
        let base = match &unit.comp_dir {
            Some(dir) => gimli::Reader::to_string_lossy(dir)
                .map_err(|error| self.bad(error))?
                .into_owned(),
            None => String::new(),
        };
        let dir = file.directory(header).map(text).transpose()?;
        let path = Path::new(&base).join(dir.unwrap_or_default());
        let path = path.join(text(file.path_name())?);
        Ok(plain(&path).to_string_lossy().into_owned())
    }
}
