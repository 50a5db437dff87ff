// SPDX-License-Identifier: GPL-2.0

//! The report as one page of HTML, which loads nothing else.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::io::Write;

use super::collect::Collected;
use super::tables::Table;
use crate::clock::Wall;
use crate::merge::recording::Recording;
use crate::merge::run::Counts;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Rows of a table.
const ROWS: usize = 100;

/// Text in HTML.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                _ => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// The beginning of a page: what was recorded where and when, and the counts.
fn heading(out: &mut impl Write, recording: &Recording, counts: &Counts) -> io::Result<()> {
    let metadata = &recording.metadata;
    let channel = metadata.channel.display().to_string();
    let channel = Text(&channel);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<title>{channel} - ferrotrace</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{channel}</h1>\n<p>"
    )?;
    let host = metadata
        .host
        .as_deref()
        .unwrap_or("a machine that is not named");
    write!(
        out,
        "Recorded on {}, {}",
        Text(host),
        Wall(metadata.start_unix_ns)
    )?;
    if let Some(boot) = &metadata.boot_id {
        write!(out, ", boot {}", Text(boot))?;
    }
    write!(out, "</p>\n<pre>{}</pre>\n", Text(&counts.to_string()))
}

fn table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    let rows = table.rows.len();
    let first = match rows {
        ROWS => format!(" (the first {ROWS})"),
        _ => String::new(),
    };
    write!(out, "<h2>{}{first}</h2>\n<table>\n<thead><tr>", table.title)?;
    for column in table.columns {
        write!(out, "<th>{column}</th>")?;
    }
    out.write_all(b"</tr></thead>\n<tbody>\n")?;
    for row in &table.rows {
        out.write_all(b"<tr>")?;
        for cell in row {
            let text = cell.to_string();
            match cell.number() {
                Some(number) => write!(out, "<td data-value=\"{number}\">{}</td>", Text(&text))?,
                None => write!(out, "<td>{}</td>", Text(&text))?,
            }
        }
        out.write_all(b"</tr>\n")?;
    }
    out.write_all(b"</tbody>\n</table>\n")
}

/// Writes the page.
pub fn write(
    out: &mut impl Write,
    recording: &Recording,
    collected: &Collected,
    counts: &Counts,
    warnings: &[String],
) -> io::Result<()> {
    heading(out, recording, counts)?;
    for warning in warnings {
        writeln!(out, "<p class=\"warning\">{}</p>", Text(warning))?;
    }
    let data = collected.timeline.json();
    out.write_all(b"<h2>Timeline</h2>\n")?;
    let number = |name: &str| {
        data.get(name)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0)
    };
    for (count, what) in [
        (
            number("dropped_slices"),
            "slices are too short or too many to be drawn, but as the grey share of the time that they take",
        ),
        (
            number("dropped_instants"),
            "instants are drawn as how many there are",
        ),
        (
            number("left_out"),
            "slices and instants are of threads that there is no room for",
        ),
    ] {
        if count > 0 {
            writeln!(out, "<p>{count} {what}.</p>")?;
        }
    }
    out.write_all(
        b"<p>Ctrl and the wheel, or + and -, zoom; drag to move; a double click, or 0, shows all.</p>\n\
          <noscript><p class=\"warning\">The timeline needs JavaScript, the tables do not.</p></noscript>\n\
          <div id=\"timeline\"><canvas id=\"axis\"></canvas><canvas id=\"lanes\"></canvas></div>\n<div id=\"tip\"></div>\n",
    )?;
    for one in collected.tables.tables(ROWS) {
        table(out, &one)?;
    }
    // In a script, only "<" could be taken for its end.
    let data = data.to_string().replace('<', "\\u003c");
    write!(
        out,
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}
