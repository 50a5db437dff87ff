// SPDX-License-Identifier: GPL-2.0

//! Flame graphs: the time that functions took themselves, by their callers.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use super::names::Names;
use super::tree::Call;
use crate::report::flame::Flame;
use crate::report::flame::Unit;

/// Sums of times by stack, the outermost function first.
#[derive(Debug, Default)]
pub struct Stacks(BTreeMap<String, u64>);

impl Stacks {
    /// Adds a tree of a thread with this name.
    pub fn add(&mut self, comm: &str, call: &Call, names: &Names) {
        self.add_below(&frame(comm), call, names);
    }

    fn add_below(&mut self, below: &str, call: &Call, names: &Names) {
        let stack = format!("{below};{}", frame(&names.get(call.func).text()));
        let known = call.children.iter().filter_map(|inner| inner.duration);
        let inner: u64 = known.sum();
        // A call without a known end counts with the calls in it.
        let own = call.duration.unwrap_or(inner).saturating_sub(inner);
        for inner in &call.children {
            self.add_below(&stack, inner, names);
        }
        if own != 0 {
            let sum = self.0.entry(stack).or_default();
            *sum = sum.saturating_add(own);
        }
    }

    /// Returns lines `STACK NANOSECONDS`, as tools for flame graphs read them.
    pub fn folded(&self) -> String {
        let lines = self.0.iter().map(|(stack, ns)| format!("{stack} {ns}\n"));
        lines.collect()
    }

    /// Draws the graph.
    pub fn svg(&self, title: &str) -> Vec<u8> {
        let mut flame = Flame::new(Unit::Time);
        for (stack, ns) in &self.0 {
            flame.add(stack, *ns);
        }
        let mut svg = Vec::new();
        // Writing to memory does not fail.
        let _ = flame.write_svg(&mut svg, title);
        svg
    }

    /// Returns true if there is no time to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns a name as a frame: without what separates frames and lines.
fn frame(name: &str) -> String {
    name.replace(';', ":").replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tree::End;

    fn call(func: u64, duration: Option<u64>, children: Vec<Call>) -> Call {
        Call {
            func,
            duration,
            end: End::Returned,
            children,
            ..Call::default()
        }
    }

    #[test]
    fn own_times() {
        let names = Names::of("1 outer\n2 inner\n");
        let mut stacks = Stacks::default();
        assert!(stacks.is_empty());
        let inner = || call(2, Some(30), vec![]);
        stacks.add("a;b", &call(1, Some(100), vec![inner(), inner()]), &names);
        // Without the time of the outer call.
        stacks.add("a;b", &call(1, None, vec![inner()]), &names);
        assert_eq!(stacks.folded(), "a:b;outer 40\na:b;outer;inner 90\n");
        let svg = String::from_utf8(stacks.svg("time")).unwrap();
        assert!(svg.contains("<svg") && svg.contains("outer") && svg.contains("90 ns"));
    }
}
