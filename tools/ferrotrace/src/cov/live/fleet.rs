// SPDX-License-Identifier: GPL-2.0

//! Runs of many hosts: merged for a report, as Parquet tables, and as hosts of each function.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use parquet::basic::Compression;
use parquet::data_type::BoolType;
use parquet::data_type::ByteArray;
use parquet::data_type::ByteArrayType;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::super::error::Error;
use super::super::error::Result;
use super::control::State;
use super::functions::Found;
use super::functions::Function;
use super::functions::Selection;
use super::functions::find;
use super::functions::without_cold;
use super::lines::Row;
use super::lines::Rows;
use super::lines::Source;
use super::print::States;
use super::run::Run;
use super::run::combine;
use super::run::states;
use super::text::Image;
use super::text::Text;
use crate::directory::Directory;
use crate::dprobes::module_file::running_build_id;
use crate::elf::binary::hex;
use crate::file::IoError;
use crate::kallsyms::Kallsyms;
use crate::kallsyms::Modules;
use crate::kallsyms::demangled;
use crate::probes::types;

/// Columns of a table. `offset` counts from the start of the block's function or of its cold part.
const COLUMNS: &str = "message coverage {
    required int64 time (TIMESTAMP(MICROS,true));
    required binary function (STRING);
    optional binary module (STRING);
    optional binary file (STRING);
    optional int64 line;
    optional int64 offset;
    required boolean hit;
}";

/// Last second of the year 9999, the maximum of RFC 3339.
const LAST: u64 = 253_402_300_799;

/// A module with the functions that runs have watched.
struct Module {
    name: String,
    build_id: String,
    found: Found,
}

/// A kernel with the blocks of all of its functions.
pub struct Kernel {
    /// Its build ID.
    pub build_id: String,
    found: Found,
    modules: Vec<Module>,
    /// The image, if it was read from a file.
    pub source: Option<Source>,
}

impl Kernel {
    /// Finds the kernel of a build ID, which is one of these images, or the running one.
    pub fn find(build_id: &str, images: &[PathBuf]) -> Result<Self> {
        let found = |kallsyms, text| find(kallsyms, text, &Selection::default());
        for path in images {
            let (image, build, kallsyms) = Image::of_file(path)?;
            if build.as_deref().map(hex).as_deref() != Some(build_id) {
                continue;
            }
            return Ok(Self {
                build_id: build_id.to_owned(),
                found: found(&kallsyms, &Text::image(image))?,
                modules: Vec::new(),
                source: Some(Source {
                    path: path.clone(),
                    shift: 0,
                }),
            });
        }
        let running = running_build_id(Path::new("/"), None);
        if running.as_deref().map(hex).as_deref() != Some(build_id) {
            return Err(Error::NoImageOf(build_id.to_owned()));
        }
        let kallsyms = Kallsyms::running(&Modules::running());
        let kallsyms = kallsyms.map_err(|source| {
            Error::Io(IoError {
                action: "read",
                path: "/proc/kallsyms".into(),
                source,
            })
        })?;
        Ok(Self {
            build_id: build_id.to_owned(),
            found: found(&kallsyms, &Text::running()?)?,
            modules: Vec::new(),
            source: None,
        })
    }

    /// Adds the modules of the runs of this kernel. Hosts may watch different functions of one.
    pub fn with_modules<'a>(self, runs: impl Iterator<Item = &'a Run>) -> Self {
        let mut all: BTreeMap<(&str, &str), BTreeMap<u64, Function>> = BTreeMap::new();
        let runs = runs.filter(|run| run.build_id() == self.build_id);
        for text in runs.flat_map(|run| &run.texts) {
            let Some(name) = &text.module else {
                continue;
            };
            let module = all.entry((name, &text.build_id)).or_default();
            for function in text.functions() {
                if let Some(first) = function.blocks.first() {
                    module.entry(first.range.start).or_insert(function);
                }
            }
        }
        let modules = all.into_iter().map(|((name, build_id), functions)| Module {
            name: name.to_owned(),
            build_id: build_id.to_owned(),
            found: Found {
                functions: functions.into_values().collect(),
                text: Some(0),
                ..Found::default()
            },
        });
        Self {
            modules: modules.collect(),
            ..self
        }
    }

    /// Returns the functions of the kernel and of the modules, with their states in a run.
    fn functions(&self, run: &Run) -> impl Iterator<Item = (&Function, Vec<State>)> {
        let modules = self.modules.iter().flat_map(move |module| {
            let states = states(run.module(&module.name, &module.build_id), &module.found);
            module.found.functions.iter().zip(states)
        });
        let kernel = self.found.functions.iter().zip(run.states(&self.found));
        kernel.chain(modules)
    }

    /// Returns the functions with a watched block, with the state of each block in any of `runs`.
    /// Blocks that a run of `before` executed are [`State::Before`]. All runs must be of this
    /// kernel.
    pub fn states(&self, runs: &[Run], before: &[Run]) -> Box<States<'_>> {
        let united = |runs: &[Run]| {
            let states = runs.iter().map(|run| {
                let states = self.functions(run).map(|(_, states)| states);
                states.collect()
            });
            let both = |one, other| combine(one, other, State::with);
            states.reduce(both).unwrap_or_default()
        };
        let states = combine(united(runs), united(before), State::since);
        let modules = self.modules.iter().map(|module| &module.found);
        let all = [&self.found].into_iter().chain(modules);
        let all = all.flat_map(|found| &found.functions).zip(states);
        all.filter(|(_, states)| states.iter().any(|state| state.is_hit().is_some()))
            .collect()
    }

    /// Returns the lines of the kernel's functions, if its image has them.
    fn rows(&self) -> Result<Option<Rows>> {
        let functions = self.found.functions.iter();
        let rows = self.source.as_ref();
        match rows.map(|source| source.rows(functions)) {
            None | Some(Err(Error::Types(_, types::Error::NoDwarf(_)))) => Ok(None),
            Some(rows) => Ok(Some(rows?)),
        }
    }

    /// Adds the hosts of the runs of this kernel to the functions that they watched or executed.
    /// A function is given by its name and the end of the path of its source file. Files are
    /// compared if they are known.
    pub fn add_hosts(
        &self,
        runs: &[Run],
        to: &mut BTreeMap<(String, String), Hosts>,
    ) -> Result<()> {
        let rows = self.rows()?;
        let files: HashMap<_, _> = rows.iter().flat_map(Rows::files_of_functions).collect();
        let is_in = |function: usize, file: &str| {
            let own = files.get(&function);
            own.is_none_or(|own| format!("/{own}").ends_with(&format!("/{file}")))
        };
        // Strips the path of a Rust name, and a compiler's suffix such as .isra.0.
        let name = |function: &Function| {
            let name = demangled(&function.name);
            let name = name.rsplit("::").next().unwrap_or_default();
            name.split('.').next().unwrap_or_default().to_owned()
        };
        let runs = runs.iter();
        for run in runs.filter(|run| run.build_id() == self.build_id) {
            for (at, (function, states)) in self.functions(run).enumerate() {
                let name = name(function);
                let of_name = to.range_mut((name.clone(), String::new())..);
                for ((_, file), hosts) in of_name.take_while(|((one, _), _)| *one == name) {
                    // A cold part is entered from its function, and its file is often unknown.
                    let is_cold = without_cold(&function.name) != function.name;
                    let is_other = is_cold && rows.is_some() || !is_in(at, file);
                    if function.module.is_none() && is_other {
                        continue;
                    }
                    hosts.is_compiled = true;
                    let hit = states.iter().copied().reduce(State::with);
                    let hit = hit.and_then(State::is_hit);
                    if hit.is_some() {
                        hosts.watched.insert(run.host.clone());
                    }
                    if hit == Some(true) {
                        hosts.executed.insert(run.host.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a table for each run of this kernel, in a file below a directory.
    pub fn write_tables(&self, runs: &[Run], dir: &Directory) -> Result<()> {
        let functions = &self.found.functions;
        let rows = self.rows()?;
        let names = names(functions);
        let runs = runs.iter();
        for run in runs.filter(|run| run.build_id() == self.build_id) {
            let states = run.states(&self.found);
            let mut table = Table::default();
            match &rows {
                Some(rows) => table.lines(rows, &states, &names),
                None => table.blocks(functions.iter().zip(&states), &names),
            }
            let kernel = table.hits.len();
            for Module {
                name,
                build_id,
                found,
            } in &self.modules
            {
                let states = self::states(run.module(name, build_id), found);
                let functions = &found.functions;
                table.blocks(functions.iter().zip(&states), &self::names(functions));
                let count = table.hits.len() - kernel;
                table.modules.resize(count, name.as_str().into());
            }
            table.write(run, dir).map_err(|source| {
                Error::Io(IoError {
                    action: "write a table below",
                    path: dir.path().into(),
                    source,
                })
            })?;
        }
        Ok(())
    }
}

/// Hosts of a function.
#[derive(Debug, Default)]
pub struct Hosts {
    /// True if the image, or a module that a run watched, has the function.
    pub is_compiled: bool,
    /// Hosts that watched it.
    pub watched: BTreeSet<String>,
    /// Hosts that executed it.
    pub executed: BTreeSet<String>,
}

/// Returns the build IDs of runs with the release of each.
pub fn builds<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeMap<&'a str, &'a str> {
    runs.map(|run| (run.build_id(), &*run.release)).collect()
}

/// Returns the number of hosts of runs.
pub fn hosts(runs: &[Run]) -> usize {
    BTreeSet::from_iter(runs.iter().map(|run| &run.host)).len()
}

/// Returns the names of functions. A part that is seldom executed has the name of its function.
fn names(functions: &[Function]) -> Vec<ByteArray> {
    let names = functions.iter();
    let names = names.map(|one| ByteArray::from(&*demangled(without_cold(&one.name))));
    names.collect()
}

/// Columns of a run. Rows of the kernel precede those of modules, rows of lines those of blocks.
#[derive(Default)]
struct Table {
    modules: Vec<ByteArray>,
    functions: Vec<ByteArray>,
    files: Vec<ByteArray>,
    lines: Vec<i64>,
    offsets: Vec<i64>,
    hits: Vec<bool>,
}

impl Table {
    /// Adds the lines of functions.
    fn lines(&mut self, all: &Rows, states: &[Vec<State>], names: &[ByteArray]) {
        let files = all.files.iter().map(|file| ByteArray::from(file.as_str()));
        let files = Vec::from_iter(files);
        let states = |row: &Row| states.get(row.function)?.get(row.block).copied();
        for (row, hit) in all.hits(states, |row| (row.file, row.line, row.function)) {
            self.functions.extend(names.get(row.function).cloned());
            self.files.extend(files.get(row.file).cloned());
            self.lines.push(row.line.into());
            self.hits.push(hit);
        }
    }

    /// Adds blocks of functions.
    fn blocks<'a>(
        &mut self,
        states: impl Iterator<Item = (&'a Function, &'a Vec<State>)>,
        names: &[ByteArray],
    ) {
        for ((function, states), name) in states.zip(names) {
            let start = function.blocks.first().map_or(0, |block| block.range.start);
            for (block, state) in function.blocks.iter().zip(states) {
                if let Some(hit) = state.is_hit() {
                    self.functions.push(name.clone());
                    let offset = block.range.start.wrapping_sub(start);
                    self.offsets.push(i64::try_from(offset).unwrap_or(i64::MAX));
                    self.hits.push(hit);
                }
            }
        }
    }

    /// Writes the file of a run.
    fn write(&self, run: &Run, dir: &Directory) -> io::Result<()> {
        let start = Duration::from_secs(run.time.start.min(LAST));
        let time = format_rfc3339_seconds(SystemTime::UNIX_EPOCH + start).to_string();
        let date = time.split('T').next().unwrap_or_default();
        let dir = dir.subdirectory(&partition("build_id", run.build_id()))?;
        let dir = dir.subdirectory(&partition("host", &run.host))?;
        let dir = dir.subdirectory(&partition("date", date))?;
        let name = format!("{}-{}.parquet", plain(&run.boot_id), run.time.start);
        let file = dir.create_file(OsStr::new(&name))?;
        self.write_to(file, run).map_err(io::Error::other)
    }

    fn write_to(&self, file: File, run: &Run) -> std::result::Result<(), ParquetError> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let schema = Arc::new(parse_message_type(COLUMNS)?);
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
        let count = self.hits.len();
        let time = i64::try_from(run.time.start.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        // The first rows have values, or the last ones.
        let first = |values: usize| (0..count).map(|at| i16::from(at < values)).collect();
        let last = |values: usize| {
            (0..count)
                .map(|at| i16::from(at + values >= count))
                .collect()
        };
        let mut group = writer.next_row_group()?;
        for at in 0..7 {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let mut numbers = |numbers: &[i64], defined: Option<Vec<i16>>| {
                let typed = column.typed::<Int64Type>();
                typed.write_batch(numbers, defined.as_deref(), None)
            };
            match at {
                0 => numbers(&vec![time; count], None)?,
                4 => numbers(&self.lines, Some(first(self.lines.len())))?,
                5 => numbers(&self.offsets, Some(last(self.offsets.len())))?,
                6 => column
                    .typed::<BoolType>()
                    .write_batch(&self.hits, None, None)?,
                _ => {
                    let (texts, defined) = match at {
                        1 => (&self.functions, None),
                        2 => (&self.modules, Some(last(self.modules.len()))),
                        _ => (&self.files, Some(first(self.files.len()))),
                    };
                    let typed = column.typed::<ByteArrayType>();
                    typed.write_batch(texts, defined.as_deref(), None)?
                }
            };
            column.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

/// Escapes a text for a file name. The texts of a run may have any character.
fn plain(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).into(),
        _ => format!("%{byte:02X}"),
    });
    bytes.collect()
}

/// Returns the name of the directory of a partition.
fn partition(name: &str, value: &str) -> OsString {
    format!("{name}={}", plain(value)).into()
}
