// SPDX-License-Identifier: GPL-2.0

//! The report as one page of HTML, which loads nothing else.

#![deny(unsafe_code)]

use std::io;
use std::io::Write;

use serde_json::Value as Json;

use super::collect::Collected;
use super::tables::Cell;
use super::tables::Table;
use super::timeline::Timeline;
use crate::clock::Wall;
use crate::merge::recording::Recording;
use crate::merge::run::Counts;
use crate::text::Markup;
use crate::text::printable_lines;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("page/data.js"),
    include_str!("page/timeline.js"),
    include_str!("page/views.js"),
    include_str!("page/page.js"),
];

/// Rows of a table.
const ROWS: usize = 100;

/// Returns a text as HTML, with its lines.
fn markup(text: &str) -> Markup<'_> {
    Markup(printable_lines(text))
}

/// Returns where and when a recording was made.
fn recorded(recording: &Recording) -> String {
    let metadata = &recording.metadata;
    let host = metadata.host.as_deref();
    let host = host.unwrap_or("a machine without a name");
    let mut text = format!("Recorded on {host}, {}", Wall(metadata.start_unix_ns));
    if let Some(boot) = &metadata.boot_id {
        text.push_str(&format!(", boot {boot}"));
    }
    text
}

/// Writes a table. The script makes links to the timeline of the names in its rows.
fn table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    let rows = table.rows.len();
    let first = match rows {
        ROWS => format!(" (the first {ROWS})"),
        _ => String::new(),
    };
    write!(
        out,
        "<h2>{}{first}</h2>\n<div class=\"wide\"><table>\n<thead><tr>",
        table.title
    )?;
    for column in table.columns {
        write!(out, "<th>{column}</th>")?;
    }
    out.write_all(b"</tr></thead>\n<tbody>\n")?;
    for row in &table.rows {
        match row.first() {
            Some(Cell::Name(name)) => write!(out, "<tr data-name=\"{}\">", markup(name))?,
            Some(cpu) => write!(out, "<tr data-track=\"CPU {cpu}\">")?,
            None => out.write_all(b"<tr>")?,
        }
        for cell in row {
            match cell.number() {
                Some(number) => write!(out, "<td data-value=\"{number}\">")?,
                None => out.write_all(b"<td>")?,
            }
            write!(out, "{}</td>", markup(&cell.to_string()))?;
        }
        out.write_all(b"</tr>\n")?;
    }
    out.write_all(b"</tbody>\n</table></div>\n")
}

/// Writes counts of the items that the page lacks.
fn notes(out: &mut impl Write, data: &Json) -> io::Result<()> {
    for (name, what) in [
        (
            "dropped_slices",
            "slices are too short to be drawn one by one; a grey area shows their share of the time",
        ),
        (
            "dropped_instants",
            "instants are too many to be drawn one by one; their number is",
        ),
        (
            "left_out",
            "slices and instants are of threads beyond the first 256 tracks",
        ),
        ("without_fields", "records are without their fields"),
    ] {
        match data.get(name).and_then(Json::as_u64) {
            None | Some(0) => (),
            Some(count) => writeln!(out, "<p class=\"warning\">{count} {what}.</p>")?,
        }
    }
    Ok(())
}

/// Writes the page.
pub fn write(
    out: &mut impl Write,
    recording: &Recording,
    collected: &Collected,
    counts: &Counts,
    warnings: &[String],
) -> io::Result<()> {
    let (data, items) = match &collected.timeline {
        Some(timeline) => timeline.data(),
        None => Timeline::default().data(),
    };
    let counts = counts.to_string();
    let summary: Vec<_> = counts
        .lines()
        .filter(|line| !line.starts_with("cpu "))
        .collect();
    let mut rest = PAGE;
    while let Some((before, (name, after))) = rest
        .split_once("{{")
        .and_then(|(before, from)| Some((before, from.split_once("}}")?)))
    {
        out.write_all(before.as_bytes())?;
        rest = after;
        match name {
            "title" => write!(
                out,
                "{}",
                markup(&recording.metadata.channel.display().to_string())
            )?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "recorded" => write!(out, "{}", markup(&recorded(recording)))?,
            "summary" => write!(out, "{}", markup(&summary.join("; ")))?,
            "counts" => write!(out, "{}", markup(&counts))?,
            "warnings" => {
                for warning in warnings {
                    writeln!(out, "<p class=\"warning\">{}</p>", markup(warning))?;
                }
            }
            "notes" => notes(out, &data)?,
            "tables" => {
                for one in collected.tables.tables(ROWS) {
                    table(out, &one)?;
                }
            }
            // In a script, only "<" could be taken for its end.
            "data" => out.write_all(data.to_string().replace('<', "\\u003c").as_bytes())?,
            "items" => out.write_all(items.as_bytes())?,
            _ => {
                for script in SCRIPTS {
                    out.write_all(script.as_bytes())?;
                }
            }
        }
    }
    out.write_all(rest.as_bytes())
}
