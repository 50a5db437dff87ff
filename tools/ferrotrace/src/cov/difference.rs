// SPDX-License-Identifier: GPL-2.0

//! What was executed between two dumps.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsStr;

use super::dump::Object;

/// Remarks on a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Objects that are in the first dump only.
    pub gone: Vec<String>,
    /// Objects that are in the second dump only.
    pub new: Vec<String>,
    /// Objects with a counter that is smaller in the second dump.
    pub reset: Vec<String>,
    /// Objects that have another number of counters in the second dump.
    pub changed: Vec<String>,
}

/// Subtracts the counters of `before` from those of `after`.
///
/// Counters are reset for a whole object. So if one has become smaller, those of its object have counted from 0 again,
/// and are taken as they are. Those that have not become smaller would be wrong, too, if the old ones were subtracted.
pub fn subtract(after: Vec<Object>, before: &[Object]) -> (Vec<Object>, Remarks) {
    let mut remarks = Remarks::default();
    let mut old: HashMap<&OsStr, &[u64]> = HashMap::with_capacity(before.len());
    for object in before {
        old.insert(&object.name, &object.counters);
    }
    let mut difference = after;
    for object in &mut difference {
        let name = || object.name.to_string_lossy().into_owned();
        let Some(counters) = old.remove(object.name.as_os_str()) else {
            remarks.new.push(name());
            continue;
        };
        if counters.len() != object.counters.len() {
            remarks.changed.push(name());
            continue;
        }
        let pairs = object.counters.iter().zip(counters);
        let difference: Option<Vec<u64>> = pairs.map(|(new, old)| new.checked_sub(*old)).collect();
        match difference {
            Some(difference) => object.counters = difference,
            None => remarks.reset.push(name()),
        }
    }
    let gone = before
        .iter()
        .filter(|object| old.contains_key(object.name.as_os_str()));
    let gone = gone.map(|object| object.name.to_string_lossy().into_owned());
    remarks.gone = gone.collect();
    (difference, remarks)
}

impl Remarks {
    /// As lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |names: &[String], text: &str| {
            let Some(first) = names.first() else {
                return;
            };
            let more = match names.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            lines.push(format!("{first}{more}: {text}"));
        };
        add(
            &self.reset,
            "counters became smaller: they were reset between the dumps, and what they counted since then is taken",
        );
        add(
            &self.new,
            "only in the second dump: all that its counters counted is taken",
        );
        add(
            &self.changed,
            "another number of counters in the second dump: all that these counted is taken",
        );
        add(&self.gone, "only in the first dump: left out");
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(name: &str, counters: &[u64]) -> Object {
        Object {
            name: name.into(),
            counters: counters.to_owned(),
        }
    }

    #[test]
    fn each_case() {
        let before = [
            object("a", &[1, 2, 3]),
            object("gone", &[1]),
            object("reset", &[5, 1, 0]),
            object("changed", &[9]),
        ];
        let after = vec![
            object("new", &[4]),
            object("reset", &[4, 3, 0]),
            object("changed", &[9, 1]),
            object("a", &[1, 5, u64::MAX]),
        ];
        let (difference, remarks) = subtract(after, &before);
        let expected = [
            object("new", &[4]),
            object("reset", &[4, 3, 0]),
            object("changed", &[9, 1]),
            object("a", &[0, 3, u64::MAX - 3]),
        ];
        assert_eq!(difference, expected);
        let list = |name: &str| vec![name.to_owned()];
        let expected = Remarks {
            gone: list("gone"),
            new: list("new"),
            reset: list("reset"),
            changed: list("changed"),
        };
        assert_eq!(remarks, expected);
        assert_eq!(remarks.lines().len(), 4);
        assert_eq!(remarks.lines()[3], "gone: only in the first dump: left out");
    }

    #[test]
    fn many() {
        let before: Vec<_> = (0..9)
            .map(|number| object(&number.to_string(), &[]))
            .collect();
        let (_, remarks) = subtract(Vec::new(), &before);
        assert_eq!(
            remarks.lines(),
            ["0 and 8 more: only in the first dump: left out"]
        );
    }

    proptest! {
        /// The counts before and the difference add up to the counts after.
        #[test]
        fn sums(pairs in prop::collection::vec((0u64..1 << 63, 0u64..1 << 63), 0..20)) {
            let before: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
            let since: Vec<_> = pairs.iter().map(|pair| pair.1).collect();
            let sums: Vec<_> = pairs.iter().map(|pair| pair.0 + pair.1).collect();
            let (difference, remarks) = subtract(vec![object("a", &sums)], &[object("a", &before)]);
            prop_assert_eq!(difference, [object("a", &since)]);
            prop_assert_eq!(remarks, Remarks::default());
        }
    }
}
