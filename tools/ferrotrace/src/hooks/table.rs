// SPDX-License-Identifier: GPL-2.0

//! Hooks as a table for people: a row for each, and below it one for each of its exits, in the order in which they are
//! called.

#![deny(unsafe_code)]

use std::fmt;

use super::model::Access;
use super::model::Conditions;
use super::model::Context;
use super::model::Exit;
use super::model::Hook;
use super::model::Name;

/// Shows hooks.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Hook]);

struct Row {
    name: String,
    state: &'static str,
    hits: String,
    module: String,
    details: String,
}

/// A number with its noun.
fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

fn owner(module: Option<&Name>) -> String {
    module.map_or("kernel", Name::as_str).to_owned()
}

impl Hook {
    fn row(&self) -> Row {
        let context = match self.context {
            Context::Sleep => "may sleep",
            Context::Task => "task context",
            Context::Atomic => "atomic context",
        };
        let (access, returns) = match self.access {
            Access::ReadOnly => ("read-only", ""),
            Access::Modify => ("modifiable", ""),
            Access::ReadOnlyReturn => ("read-only", ", exits may make the function return"),
            Access::ModifyReturn => ("modifiable", ", exits may make the function return"),
        };
        let params = if self.params.is_empty() {
            "no parameters".to_owned()
        } else {
            let names: Vec<_> = self.params.iter().map(Name::as_str).collect();
            format!("{access} {}", names.join(" "))
        };
        let sites = match self.sites {
            Some(count) => counted(count, "site"),
            None => "sites not counted".to_owned(),
        };
        Row {
            name: self.name.to_string(),
            state: if self.active { "active" } else { "dormant" },
            hits: self.hits.to_string(),
            module: owner(self.module.as_ref()),
            details: format!("{context}, {params}{returns}, {sites}"),
        }
    }
}

impl Exit {
    fn row(&self) -> Row {
        let mut details = format!(
            "priority {}, takes {}",
            self.priority.word(),
            counted(self.params, "parameter")
        );
        details.push_str(match self.conditions {
            Conditions::None => "",
            Conditions::IrqsOff => ", interrupts off",
            Conditions::CpusStopped => ", other CPUs stopped",
        });
        if self.stops != 0 {
            details.push_str(&format!(
                ", ended the dispatch {}",
                counted(self.stops, "time")
            ));
        }
        Row {
            name: format!("{:>3} {}", self.order, self.name),
            state: if self.armed { "armed" } else { "disarmed" },
            hits: self.hits.to_string(),
            module: owner(self.module.as_ref()),
            details,
        }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "no hooks");
        }
        let mut rows = vec![Row {
            name: "hook, its exits".to_owned(),
            state: "state",
            hits: "hits".to_owned(),
            module: "module".to_owned(),
            details: "details".to_owned(),
        }];
        for hook in self.0 {
            rows.push(hook.row());
            rows.extend(hook.exits.iter().map(Exit::row));
        }
        let widest = |column: fn(&Row) -> &str| {
            let widths = rows.iter().map(|row| column(row).len());
            widths.max().unwrap_or(0)
        };
        let name = widest(|row| &row.name);
        let state = widest(|row| row.state);
        let hits = widest(|row| &row.hits);
        let module = widest(|row| &row.module);
        for row in &rows {
            writeln!(
                f,
                "{:name$}  {:state$}  {:>hits$}  {:module$}  {}",
                row.name, row.state, row.hits, row.module, row.details
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::sample;
    use super::*;

    #[test]
    fn columns() {
        let hooks = parse(sample::TEXT).unwrap();
        assert_eq!(
            Table(&hooks).to_string(),
            "\
hook, its exits  state     hits  module      details
int3             dormant      0  kernel      atomic context, read-only regs, 1 site
cpu_prepare      active       3  kernel      may sleep, read-only cpu, exits may make the function return, 1 site
  1 rust_relay   armed        3  rust_relay  priority first, takes 1 parameter
  2 mine         disarmed     0  mymod       priority unspecified, takes 1 parameter, interrupts off
"
        );
    }

    #[test]
    fn columns_grow() {
        let text = "hook=a module=a_module_with_a_name context=task access=rw params=x,y sites=- active=1 hits=12345678901 exits=1\n  \
                    exit=an_exit_with_a_long_name order=1 priority=only conditions=cpus_stopped params=0 armed=1 hits=2 stops=2 module=-\n";
        let hooks = parse(text).unwrap();
        assert_eq!(
            Table(&hooks).to_string(),
            "\
hook, its exits               state          hits  module                details
a                             active  12345678901  a_module_with_a_name  task context, modifiable x y, sites not counted
  1 an_exit_with_a_long_name  armed             2  kernel                priority only, takes 0 parameters, other CPUs stopped, ended the dispatch 2 times
"
        );
    }

    #[test]
    fn no_hooks() {
        assert_eq!(Table(&[]).to_string(), "no hooks\n");
    }
}
