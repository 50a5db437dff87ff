// SPDX-License-Identifier: GPL-2.0

//! Suggestions for unknown names of functions, events, commands and registers.

#![deny(unsafe_code)]

use std::fmt;

/// Names for a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 20;
        if self.0.is_empty() {
            return f.write_str("none at all");
        }
        let first = self.0.get(..MOST).unwrap_or(&self.0);
        f.write_str(&first.join(", "))?;
        match self.0.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Names that are offered in place of one.
const OFFERED: usize = 3;

/// Returns the known names that are most like `name`.
///
/// A compiler's variant of a function (`f.isra.0`) is first. Next are names that differ by a few
/// letters: those with the fewest. Last are names that contain it, or are a part of it, the nearest
/// in length first.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let most = match name.len() {
        0..=2 => 1,
        3..=6 => 2,
        _ => 3,
    };
    let lower = name.to_ascii_lowercase();
    let rank = |known: &str| {
        if known
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
        {
            return Some(0);
        }
        let longer = known.len().abs_diff(name.len());
        if longer <= most {
            let edits = strsim::damerau_levenshtein(&lower, &known.to_ascii_lowercase());
            if edits <= most {
                return Some(edits);
            }
        }
        let contained = name.len() >= 4 && known.contains(name);
        let extended = known.len() >= 6 && name.contains(known);
        (contained || extended).then_some(most + 1 + longer)
    };
    let ranked = known
        .into_iter()
        .filter_map(|known| Some((rank(known)?, known)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    ranked.dedup();
    let best = ranked.first().map_or(0, |(rank, _)| *rank);
    ranked.retain(|(rank, _)| *rank == best || best > most);
    ranked.truncate(OFFERED);
    ranked
        .into_iter()
        .map(|(_, known)| known.to_owned())
        .collect()
}

/// Returns the question "did you mean a or b?", or `None` without names.
pub fn did_you_mean(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(near("jpm", ["jmp", "jz", "nop"]), ["jmp"]);
        assert_eq!(near("LOGMAXX", ["logmax", "jmpmax"]), ["logmax"]);
        assert!(near("what", ["push", "pop"]).is_empty());
        assert!(near("x", ["kernel_clone", "exit"]).is_empty());
        let clones = ["copy_process.isra.0", "copy_process_x", "copy_processes"];
        assert_eq!(near("copy_process", clones), ["copy_process.isra.0"]);
        let opens = [
            "do_sys_openat2",
            "__x64_sys_openat2",
            "openat",
            "do_sys_openat2",
        ];
        assert_eq!(near("sys_openat2", opens), ["do_sys_openat2"]);
        let longer = ["do_sys_openat2", "__x64_sys_openat2", "vfs_read"];
        assert_eq!(
            near("openat2", longer),
            ["do_sys_openat2", "__x64_sys_openat2"]
        );
        assert_eq!(near("__se_sys_do_sys_openat2", longer), ["do_sys_openat2"]);
    }

    #[test]
    fn at_most_three_names_are_offered() {
        let known = ["probe_a", "probe_b", "probe_c", "probe_d"];
        assert_eq!(near("probe_x", known), ["probe_a", "probe_b", "probe_c"]);
    }

    #[test]
    fn questions() {
        let [a, b] = ["a", "b"].map(str::to_owned);
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(
            did_you_mean(std::slice::from_ref(&a)).as_deref(),
            Some("did you mean a?")
        );
        assert_eq!(
            did_you_mean(&[a, b]).as_deref(),
            Some("did you mean a or b?")
        );
    }
}
