// SPDX-License-Identifier: GPL-2.0

//! Live coverage for people and as JSON.

#![deny(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use serde_json::json;

use super::super::coverage::Share;
use super::super::print::Table;
use super::super::print::fraction;
use super::super::print::percent;
use super::control::State;
use super::control::reason;
use super::functions::Function;
use crate::kallsyms::demangled;

/// States of the blocks of functions.
pub type States<'a> = [(&'a Function, Vec<State>)];

pub(super) fn share(states: &[State]) -> Share {
    Share::of(states.iter().filter_map(|state| state.is_hit()))
}

fn name(function: &Function) -> String {
    let name = demangled(&function.name);
    match &function.module {
        Some(module) => format!("{name} [{module}]"),
        None => name.into(),
    }
}

/// Numbers of all functions.
struct Totals {
    functions: Share,
    blocks: Share,
    /// Blocks that are not watched, by reason.
    refused: BTreeMap<&'static str, usize>,
}

impl Totals {
    fn of(states: &States<'_>) -> Self {
        let mut totals = Self {
            functions: Share::default(),
            blocks: Share::default(),
            refused: BTreeMap::new(),
        };
        for (_, states) in states {
            let share = share(states);
            totals.functions.total += usize::from(share.total > 0);
            totals.functions.hit += usize::from(share.hit > 0);
            totals.blocks.hit += share.hit;
            totals.blocks.total += share.total;
            for state in states {
                if let State::Refused(refusal) = state {
                    *totals.refused.entry(reason(*refusal)).or_default() += 1;
                }
            }
        }
        totals
    }
}

/// Returns the functions that were executed, or those that were not, the largest first.
fn rows(states: &States<'_>, missed: bool) -> Vec<(Share, String)> {
    let all = states.iter();
    let all = all.map(|(function, states)| (share(states), name(function)));
    let chosen = all.filter(|(share, _)| share.total > 0 && (share.hit == 0) == missed);
    let mut rows: Vec<_> = chosen.collect();
    rows.sort_by(|(a, one), (b, other)| {
        (Reverse(a.hit), Reverse(a.total), one).cmp(&(Reverse(b.hit), Reverse(b.total), other))
    });
    rows
}

/// Returns the line on rows that a table leaves out.
fn more(rows: usize, top: usize) -> String {
    match rows.saturating_sub(top) {
        0 => String::new(),
        hidden => format!("and {hidden} more functions\n"),
    }
}

/// Returns the names of the executed functions, or of those not executed, and a summary.
pub fn names(states: &States<'_>, missed: bool, top: Option<usize>) -> String {
    let rows = rows(states, missed);
    let top = top.unwrap_or(usize::MAX);
    let names = rows.iter().take(top).map(|(_, name)| format!("{name}\n"));
    let functions = Totals::of(states).functions;
    format!(
        "{}{}functions {} ({})\n",
        names.collect::<String>(),
        more(rows.len(), top),
        percent(functions),
        fraction(functions)
    )
}

/// Returns a table of the executed functions, or of those not executed, and a summary.
pub fn text(states: &States<'_>, missed: bool, top: Option<usize>) -> String {
    let rows = rows(states, missed);
    let top = top.unwrap_or(usize::MAX);
    let mut table = vec![["blocks", "", "function"].map(str::to_owned)];
    for (share, name) in rows.iter().take(top) {
        table.push([fraction(*share), percent(*share), name.clone()]);
    }
    let mut text = Table(table).text() + &more(rows.len(), top);
    // Writing to a string does not fail.
    let totals = Totals::of(states);
    let (functions, blocks) = (totals.functions, totals.blocks);
    let _ = writeln!(
        text,
        "functions {} ({}), blocks {} ({})",
        percent(functions),
        fraction(functions),
        percent(blocks),
        fraction(blocks),
    );
    let refused: usize = totals.refused.values().sum();
    if refused > 0 {
        let reasons = totals.refused.iter();
        let reasons: Vec<_> = reasons
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        let _ = writeln!(
            text,
            "not watched: {refused} blocks: {}",
            reasons.join(", ")
        );
    }
    text
}

/// Returns one JSON document. `places` has the address of each block's breakpoint.
pub fn json(states: &States<'_>, places: &[Option<u64>]) -> Value {
    let mut places = places.iter().copied();
    let functions = states.iter().map(|(function, states)| {
        let share = share(states);
        let blocks = function.blocks.iter().zip(states).map(|(block, state)| {
            let place = places.next().flatten();
            let place = place.filter(|_| !matches!(state, State::Refused(_)));
            json!({
                "address": format!("{:#x}", block.range.start),
                "size": block.range.end - block.range.start,
                "place": place.map(|place| format!("{place:#x}")),
                "executed": state.is_hit(),
            })
        });
        json!({
            "function": demangled(&function.name),
            "module": function.module,
            "executed": share.hit,
            "watched": share.total,
            "blocks": blocks.collect::<Vec<_>>(),
        })
    });
    let totals = Totals::of(states);
    json!({
        "functions": functions.collect::<Vec<_>>(),
        "summary": {
            "functions": { "executed": totals.functions.hit, "watched": totals.functions.total },
            "blocks": { "executed": totals.blocks.hit, "watched": totals.blocks.total },
            "not_watched": totals.refused,
        },
    })
}

#[cfg(test)]
mod tests {
    use ferro_coverage_core::Refusal;

    use super::*;
    use crate::cov::live::blocks::Block;

    fn function(name: &str, blocks: u64) -> Function {
        let blocks = (0..blocks).map(|at| Block {
            range: at * 4..at * 4 + 4,
            places: vec![at * 4],
        });
        Function {
            name: name.to_owned(),
            module: None,
            blocks: blocks.collect(),
        }
    }

    #[test]
    fn tables() {
        let (one, two, three) = (function("one", 3), function("two", 1), function("three", 1));
        let states = [
            (
                &one,
                vec![
                    State::Hit,
                    State::Missed,
                    State::Refused(Some(Refusal::JumpLabel)),
                ],
            ),
            (&two, vec![State::Missed]),
            (&three, vec![State::Refused(Some(Refusal::NotExecutable))]),
        ];
        assert_eq!(
            text(&states, false, None),
            "blocks         function\n   1/2  50.0%  one\n\
             functions 50.0% (1/2), blocks 33.3% (1/3)\n\
             not watched: 2 blocks: 1 a static key, 1 no instruction that the trap can execute\n"
        );
        let missed = text(&states, true, None);
        assert!(missed.contains("0/1  0.0%  two\n"), "{missed}");
        assert!(!missed.contains("one\n"), "{missed}");
        let names = names(&states, false, Some(0));
        assert_eq!(names, "and 1 more functions\nfunctions 50.0% (1/2)\n");
        let json = json(&states, &[Some(0), Some(6), Some(8), None, Some(1)]);
        assert_eq!(json["summary"]["blocks"]["watched"], 3);
        assert_eq!(json["functions"][0]["blocks"][1]["executed"], false);
        assert_eq!(json["functions"][0]["blocks"][1]["place"], "0x6");
        assert_eq!(json["functions"][0]["blocks"][2]["place"], Value::Null);
        assert_eq!(json["functions"][2]["blocks"][0]["executed"], Value::Null);
    }
}
