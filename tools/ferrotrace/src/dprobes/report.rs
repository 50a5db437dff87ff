// SPDX-License-Identifier: GPL-2.0

//! The loaded programs and their variables, for people and as JSON.

#![deny(unsafe_code)]

use std::fmt::Write;
use std::ops::RangeInclusive;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::state::Point;
use super::state::Program;
use super::state::State;

/// Returns the explanation of a point's state.
fn explain(point: &Point) -> String {
    let why = match &*point.state {
        "mismatch" => match point.found.as_deref() {
            None => "the code does not begin with opcode",
            Some("ftrace") => {
                "ftrace has its call or a NOP there, which opcode = 0xe8 and opcode = 0x0f fit"
            }
            Some(byte) => return format!("the code begins with {byte}, not with opcode"),
        },
        "replaced" => "the file was replaced, moved, removed or copied up: load the program again",
        "disabled" => "maxhits is reached",
        "removed" => "the program removed it",
        "waiting" => "the module is not loaded",
        "disarmed" => "no program says what it watches",
        "invalid" => "there is no such symbol or offset",
        "unavailable" => "no debug register is free",
        "error" => "the kernel refuses a probe there",
        _ => "",
    };
    why.to_owned()
}

/// A line for a program that was loaded.
pub fn inserted(program: &Program) -> String {
    format!("{}: {} points\n", program.name, program.points.len())
}

/// Why points of a program do not run, if they do not.
pub fn idle(program: &Program) -> Vec<String> {
    let points = program.points.iter();
    // What waits for its program to say an address is as it should be.
    let points = points.filter(|point| !matches!(&*point.state, "active" | "disarmed"));
    let idle = points.map(|point| {
        let (name, place, state) = (&program.name, &point.place, &point.state);
        match explain(point) {
            why if why.is_empty() => format!("{name}: {place} is {state}"),
            why => format!("{name}: {place} is {state}: {why}"),
        }
    });
    idle.collect()
}

/// The programs. `extended` adds all that is known of each point.
pub fn query(programs: &[Program], extended: bool) -> String {
    if programs.is_empty() {
        return "no programs\n".to_owned();
    }
    let mut text = String::new();
    for program in programs {
        let Program {
            name,
            kind,
            major,
            id,
            points,
            ..
        } = program;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name}: {kind}, id {id}, major {major}, {} points",
            points.len()
        );
        if extended {
            let writes = if program.writes { "yes" } else { "no" };
            let _ = writeln!(
                text,
                "  jmpmax {}, logmax {}, local variables {}, log target {}, unsafe writes {writes}",
                program.jmpmax,
                program.logmax,
                program.locals.len(),
                program.target
            );
        }
        text.push_str(&table(points, extended));
    }
    text
}

fn table(points: &[Point], extended: bool) -> String {
    let mut head = vec![
        "place",
        "kind",
        "minor",
        "state",
        "hits",
        "runs",
        "missed",
        "faults",
        "truncated",
    ];
    if extended {
        head.extend(["group", "type", "maxhits", "passcount", "address"]);
    }
    head.push("");
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for point in points {
        let mut row = vec![
            point.place.clone(),
            point.kind.clone(),
            point.minor.to_string(),
            point.state.clone(),
            point.hits.to_string(),
            point.runs.to_string(),
            point.missed.to_string(),
            point.faults.to_string(),
            point.truncated.to_string(),
        ];
        if extended {
            row.extend([
                point.group.to_string(),
                point.kind_number.to_string(),
                point.max_hits.to_string(),
                point.pass_count.to_string(),
                format!("{:#x}", point.address),
            ]);
        }
        row.push(explain(point));
        rows.push(row);
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in &rows {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(line, " {cell:<width$}", width = width(column));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line about records for klog that were lost, if any.
pub fn klog_lost(state: &State) -> String {
    match state.klog_lost {
        0 => String::new(),
        lost => format!("{lost} records for KLOG lost: klog had no handler\n"),
    }
}

/// A program's name, and its local variables.
pub type Locals = (String, Vec<u64>);

/// Which variables are shown.
#[derive(Clone, Debug)]
pub struct Variables {
    /// The local ones.
    pub local: bool,
    /// The global ones.
    pub global: bool,
    /// Only these indexes.
    pub indexes: Option<RangeInclusive<usize>>,
}

impl Variables {
    fn chosen<'a>(&'a self, all: &'a [u64]) -> impl Iterator<Item = (usize, u64)> + 'a {
        let all = all.iter().copied().enumerate();
        all.filter(|(index, _)| {
            let range = self.indexes.as_ref();
            range.is_none_or(|range| range.contains(index))
        })
    }

    /// The variables of programs, and the shared ones: without indexes, those of them that are not 0.
    pub fn text(&self, programs: &[Locals], globals: &[u64]) -> String {
        let mut text = String::new();
        if self.local {
            for (name, locals) in programs {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{name}: {} local variables", locals.len());
                for (index, value) in self.chosen(locals) {
                    let _ = writeln!(text, "  lv {index:3} = {}", number(value));
                }
            }
        }
        if self.global {
            let _ = writeln!(text, "global variables");
            for (index, value) in self.chosen(globals) {
                if value != 0 || self.indexes.is_some() {
                    let _ = writeln!(text, "  gv {index:3} = {}", number(value));
                }
            }
        }
        text
    }

    /// The same as JSON: all of them.
    pub fn json(&self, programs: &[Locals], globals: &[u64]) -> Value {
        let list = |all: &[u64]| -> Value {
            let pairs = self.chosen(all);
            let pairs = pairs.map(|(index, value)| (index.to_string(), value.into()));
            Value::Object(pairs.collect())
        };
        let mut document = Map::new();
        if self.local {
            let programs = programs.iter();
            let programs: Vec<_> = programs
                .map(|(name, locals)| json!({"name": name, "locals": list(locals)}))
                .collect();
            document.insert("programs".to_owned(), programs.into());
        }
        if self.global {
            document.insert("globals".to_owned(), list(globals));
        }
        document.into()
    }
}

/// A word, as a number of either sign that is short, and in hexadecimal.
fn number(value: u64) -> String {
    let signed = i64::from_ne_bytes(value.to_ne_bytes());
    match value {
        0..10 => value.to_string(),
        _ if (-0x1_0000_0000..0).contains(&signed) => format!("{signed} ({value:#x})"),
        _ => format!("{value} ({value:#x})"),
    }
}

/// The programs with one of these names, or all.
pub fn select<'a>(state: &'a State, names: &[String]) -> Result<Vec<&'a Program>, String> {
    if names.is_empty() {
        return Ok(state.programs.iter().collect());
    }
    let find = |name: &String| {
        let wanted = super::control::kernel_name(name);
        let mut programs = state.programs.iter();
        programs
            .find(|program| program.name == wanted)
            .ok_or_else(|| name.clone())
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::STATE;
    use super::*;

    #[test]
    fn tables() {
        let state = State::parse(STATE).unwrap();
        let text = query(&state.programs, false);
        let expected = "\
vmlinux: kernel, id 7, major 1, 1 points
  place            kind  minor state  hits runs missed faults truncated
  kernel_clone+0x0 break 2     active 100  98   1      0      3
/a b/libc.so.6: user, id 0, major 2, 1 points
  place    kind minor state    hits runs missed faults truncated
  0x404040 w    1     mismatch 0    0    0      0      0         the code begins with 0xf3, not with opcode
";
        assert_eq!(text, expected);
        assert!(query(&state.programs, true).contains("local variables 2, log target relay"));
        assert_eq!(query(&[], false), "no programs\n");
        assert_eq!(
            klog_lost(&state),
            "12 records for KLOG lost: klog had no handler\n"
        );
    }

    #[test]
    fn variables() {
        let state = State::parse(STATE).unwrap();
        let programs = state.programs.iter();
        let programs: Vec<Locals> = programs
            .map(|program| (program.name.clone(), program.locals.clone()))
            .collect();
        let all = Variables {
            local: true,
            global: true,
            indexes: None,
        };
        let expected = "\
vmlinux: 2 local variables
  lv   0 = 0
  lv   1 = 98 (0x62)
/a b/libc.so.6: 0 local variables
global variables
  gv   0 = 5
";
        assert_eq!(all.text(&programs, &state.globals), expected);
        let some = Variables {
            local: false,
            global: true,
            indexes: Some(1..=2),
        };
        assert_eq!(
            some.text(&programs, &state.globals),
            "global variables\n  gv   1 = 0\n  gv   2 = 0\n"
        );
        assert_eq!(
            some.json(&programs, &state.globals),
            json!({"globals": {"1": 0, "2": 0}})
        );
        assert_eq!(number(u64::MAX), "-1 (0xffffffffffffffff)");
    }

    #[test]
    fn programs_by_name() {
        let state = State::parse(STATE).unwrap();
        let names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            select(&state, &names).map(|programs| programs.len())
        };
        assert_eq!(names(&[]), Ok(2));
        assert_eq!(names(&["bzImage"]), Ok(1));
        assert_eq!(names(&["vmlinux", "none"]), Err("none".to_owned()));
    }
}
