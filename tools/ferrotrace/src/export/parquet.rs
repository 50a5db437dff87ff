// SPDX-License-Identifier: GPL-2.0

//! A table in Apache Parquet's format, with a row for each record.
//!
//! Rows are collected column by column, and written when there are [`ROWS`] of them or they take [`BYTES`] of memory.

#![deny(unsafe_code)]

use std::io;
use std::io::Write;
use std::mem;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::basic::LogicalType;
use parquet::basic::Repetition;
use parquet::basic::TimeUnit;
use parquet::basic::Type as Physical;
use parquet::data_type::ByteArray;
use parquet::data_type::ByteArrayType;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use parquet::schema::types::TypePtr;

use super::columns::Columns;
use super::columns::Shape;
use crate::merge::field::Field;
use crate::merge::field::Kind;
use crate::merge::field::signed;
use crate::merge::field::unsigned;
use crate::merge::format::Format;
use crate::merge::recording::Recording;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;
use crate::merge::value::Value;
use crate::merge::value::text;

/// The most rows that are kept.
const ROWS: usize = 128 << 10;

/// The most bytes that the rows may take before they are written.
const BYTES: usize = 16 << 20;

/// The columns that every table has, before those of the fields.
const ALWAYS: [&str; 6] = ["host", "boot_id", "wall", "time", "cpu", "type"];

/// The values of a column, without those that are missing.
enum Values {
    Numbers(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

/// A column of the rows that have not been written.
struct Rows {
    values: Values,
    list: bool,
    /// For each row, or each element of an array: 0 if there is no value, else 1, or for an element 2.
    defined: Vec<i16>,
    /// For each of them, 1 if it belongs to the same array as the one before.
    repeated: Vec<i16>,
}

impl Rows {
    fn new(shape: Shape) -> Self {
        let list = matches!(shape, Shape::Array { .. });
        let values = match shape {
            Shape::Text | Shape::Bytes => Values::Bytes(Vec::new()),
            _ => Values::Numbers(Vec::new()),
        };
        Self {
            values,
            list,
            defined: Vec::new(),
            repeated: Vec::new(),
        }
    }

    fn level(&mut self, defined: i16, repeated: i16) {
        self.defined.push(defined);
        if self.list {
            self.repeated.push(repeated);
        }
    }

    fn missing(&mut self) {
        self.level(0, 0);
    }

    /// Adds a number. Returns how many bytes that takes, here and below.
    fn number(&mut self, number: i64) -> usize {
        self.level(1, 0);
        if let Values::Numbers(numbers) = &mut self.values {
            numbers.push(number);
        }
        mem::size_of::<i64>()
    }

    fn bytes(&mut self, bytes: &[u8]) -> usize {
        self.level(1, 0);
        if let Values::Bytes(values) = &mut self.values {
            values.push(bytes.to_vec().into());
        }
        mem::size_of::<ByteArray>() + bytes.len()
    }

    fn array(&mut self, elements: impl Iterator<Item = i64>) -> usize {
        let mut count = 0;
        for element in elements {
            self.level(2, i16::from(count > 0));
            count += 1;
            if let Values::Numbers(numbers) = &mut self.values {
                numbers.push(element);
            }
        }
        if count == 0 {
            self.level(1, 0);
        }
        count * (mem::size_of::<i64>() + 2 * mem::size_of::<i16>())
    }

    fn clear(&mut self) {
        self.defined.clear();
        self.repeated.clear();
        match &mut self.values {
            Values::Numbers(numbers) => numbers.clear(),
            Values::Bytes(bytes) => bytes.clear(),
        }
    }
}

/// The same bits.
fn bits(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

fn element(bytes: &[u8], is_signed: bool) -> i64 {
    match is_signed {
        true => signed(bytes).unwrap_or_default(),
        false => bits(unsigned(bytes).unwrap_or_default()),
    }
}

/// Adds the value of `field` to its column, which may have to take those of other fields, too.
fn put(column: &mut Rows, shape: Shape, field: &Field, record: &[u8]) -> usize {
    let bytes = field.bytes(record);
    match (shape, field.kind) {
        (Shape::Signed | Shape::Unsigned, kind) => {
            column.number(element(bytes, kind == Kind::Signed))
        }
        (Shape::Array { .. }, Kind::Array { element: n, signed }) => {
            let elements = bytes.chunks_exact(n.max(1));
            column.array(elements.map(|bytes| element(bytes, signed)))
        }
        (Shape::Text, Kind::Text) => column.bytes(text(bytes).as_bytes()),
        (Shape::Bytes, _) => column.bytes(bytes),
        _ => column.bytes(Value::new(field, record).to_string().as_bytes()),
    }
}

/// The description of a column.
fn describe(
    name: &str,
    shape: Shape,
    logical: Option<LogicalType>,
) -> Result<TypePtr, ParquetError> {
    let (physical, usual) = match shape {
        Shape::Signed | Shape::Array { signed: true } => (Physical::INT64, None),
        Shape::Unsigned | Shape::Array { signed: false } => {
            (Physical::INT64, Some(LogicalType::integer(64, false)))
        }
        Shape::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Shape::Bytes => (Physical::BYTE_ARRAY, None),
    };
    let primitive = |name: &str, repetition| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical.clone().or(usual.clone()))
            .build()
            .map(Arc::new)
    };
    if !matches!(shape, Shape::Array { .. }) {
        return primitive(name, Repetition::OPTIONAL);
    }
    let repeated = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![primitive("element", Repetition::REQUIRED)?])
        .build()?;
    let list = Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(repeated)])
        .build()?;
    Ok(Arc::new(list))
}

/// Writes a table.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    name: String,
    host: Option<String>,
    boot: Option<String>,
    clock: Option<u64>,
    columns: Columns,
    rows: Vec<Rows>,
    count: usize,
    bytes: usize,
}

/// The system's answer, if that is what failed.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a table of `recording` in `out`, which is called `name`.
    pub fn new(out: W, name: String, recording: &Recording) -> Result<Self, WriteError> {
        let columns = Columns::new(&recording.formats, &ALWAYS);
        match begin(out, recording, &columns) {
            Ok(writer) => {
                let always = ALWAYS.iter().map(|name| always(name).0);
                let shapes = always.chain(columns.columns.iter().map(|column| column.shape));
                Ok(Self {
                    writer,
                    name,
                    host: recording.metadata.host.clone(),
                    boot: recording.metadata.boot_id.clone(),
                    clock: recording.clock_offset(),
                    rows: shapes.map(Rows::new).collect(),
                    columns,
                    count: 0,
                    bytes: 0,
                })
            }
            Err(error) => Err(WriteError {
                to: name,
                source: io_error(error),
            }),
        }
    }

    /// Writes the rows that are kept.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.count == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for rows in &mut self.rows {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let defined = Some(rows.defined.as_slice());
            let repeated = rows.list.then_some(rows.repeated.as_slice());
            match &rows.values {
                Values::Numbers(numbers) => {
                    let typed = column.typed::<Int64Type>();
                    typed.write_batch(numbers, defined, repeated)?;
                }
                Values::Bytes(bytes) => {
                    let typed = column.typed::<ByteArrayType>();
                    typed.write_batch(bytes, defined, repeated)?;
                }
            }
            column.close()?;
            rows.clear();
        }
        group.close()?;
        (self.count, self.bytes) = (0, 0);
        Ok(())
    }

    fn add(&mut self, event: &Event, format: &Format) {
        let wall = self.clock.filter(|_| event.timed);
        let wall = wall.and_then(|offset| event.time.checked_add(offset));
        let [host, boot] = [&self.host, &self.boot].map(|text| text.as_ref().map(String::as_bytes));
        let (always, fields) = self
            .rows
            .split_at_mut_checked(ALWAYS.len())
            .unwrap_or_default();
        for (name, rows) in ALWAYS.iter().zip(always) {
            let bytes = match *name {
                "host" => host.map(|host| rows.bytes(host)),
                "boot_id" => boot.map(|boot| rows.bytes(boot)),
                "wall" => wall.map(|wall| rows.number(bits(wall))),
                "time" => Some(rows.number(bits(event.time))),
                "cpu" => Some(rows.number(event.cpu.into())),
                _ => Some(rows.bytes(format.name.as_bytes())),
            };
            match bytes {
                Some(bytes) => self.bytes += bytes,
                None => rows.missing(),
            }
        }
        let places = self.columns.of(format);
        for (index, (rows, column)) in fields.iter_mut().zip(&self.columns.columns).enumerate() {
            let field = places.iter().position(|place| *place == index);
            match field.and_then(|field| format.fields.get(field)) {
                Some(field) => self.bytes += put(rows, column.shape, field, &event.bytes),
                None => rows.missing(),
            }
        }
        self.bytes += 2 * self.rows.len();
        self.count += 1;
    }

    fn failed(&self, error: ParquetError) -> WriteError {
        WriteError {
            to: self.name.clone(),
            source: io_error(error),
        }
    }
}

/// Returns the shape and type of a column of [`ALWAYS`].
fn always(name: &str) -> (Shape, Option<LogicalType>) {
    match name {
        "host" | "boot_id" | "type" => (Shape::Text, None),
        "wall" => {
            let nanos = LogicalType::timestamp(true, TimeUnit::NANOS);
            (Shape::Signed, Some(nanos))
        }
        "time" => (Shape::Unsigned, None),
        _ => (Shape::Signed, None),
    }
}

fn begin<W: Write + Send>(
    out: W,
    recording: &Recording,
    columns: &Columns,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let own = ALWAYS.iter().map(|name| {
        let (shape, logical) = always(name);
        describe(name, shape, logical)
    });
    let fields = columns.columns.iter();
    let fields = fields.map(|column| describe(&column.name, column.shape, None));
    let fields = own.chain(fields).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("record")
        .with_fields(fields)
        .build()?;
    let channel = recording.metadata.channel.display().to_string();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("ferrotrace version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new("channel".to_owned(), channel)]))
        .build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        self.add(event, format);
        if self.count >= ROWS || self.bytes >= BYTES {
            return self.flush().map_err(|error| self.failed(error));
        }
        Ok(())
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let written = self.flush().and_then(|()| {
            let summary = serde_json::to_string(counts).ok();
            let summary = KeyValue::new("summary".to_owned(), summary);
            self.writer.append_key_value_metadata(summary);
            self.writer.finish().map(|_| ())
        });
        written.map_err(|error| self.failed(error))
    }
}
