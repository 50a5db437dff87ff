// SPDX-License-Identifier: GPL-2.0

//! One place that the user names, and what it is.

#![deny(unsafe_code)]

use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use ferrotrace::probes::spec::Spec;
use ferrotrace::tracepoints::resolve::Available;
use ferrotrace::tracepoints::spec::EventSpec;
use ferrotrace::tracepoints::spec::parts;

use super::library;

/// Before a relay channel.
const RELAY: &str = "relay:";

/// A place.
#[derive(Debug)]
pub enum What {
    /// In code.
    Probe(Box<Spec>),
    /// A tracepoint, or a system call.
    Event(EventSpec),
    /// A file with a probe program.
    Program(PathBuf),
    /// A relay channel, DIR/NAME.
    Channel(PathBuf),
}

/// The kernel's events, read once one is named.
#[derive(Debug, Default)]
pub struct Events(Option<Available>);

impl Events {
    /// The events. Errors: there is no tracefs, or the user may not look.
    pub fn read(&mut self) -> Result<&Available> {
        if self.0.is_none() {
            self.0 = Some(Available::read()?);
        }
        self.0.as_ref().context("no events")
    }
}

/// Understands what the user has named.
pub fn parse(word: &str, events: &mut Events) -> Result<What> {
    if let Some(channel) = word.strip_prefix(RELAY) {
        if channel.is_empty() {
            bail!("{word}: not of the form relay:DIR/NAME");
        }
        return Ok(What::Channel(channel.into()));
    }
    if word.ends_with(".dp") {
        return Ok(What::Program(word.into()));
    }
    let (words, _) = parts(word);
    let place = words.split_whitespace().next().unwrap_or_default();
    let is_numbered = |behind: &str| behind.bytes().all(|byte| byte.is_ascii_digit());
    let head = match place.split_once(':') {
        Some((head, behind)) if !place.contains('/') && !is_numbered(behind) => head,
        _ => return probe(word),
    };
    if library::is_library(head) && !head.contains('=') {
        let path = library::find(head)
            .with_context(|| format!("{head}: the loader's directories have no such library"))?;
        return probe(&word.replacen(head, &path.to_string_lossy(), 1));
    }
    let is_module = Path::new("/sys/module").join(head).exists();
    let is_event = match events.read() {
        Ok(events) => events.has_system(head),
        // A module's function needs no tracefs.
        Err(error) if !is_module => return Err(error),
        Err(_) => false,
    };
    // A module may have the name of a system of events: then an event of this name is meant, if there is one.
    if is_event {
        let spec: EventSpec = word.parse().with_context(|| word.to_owned())?;
        let exists = !is_module || events.read()?.resolve(&spec).is_ok();
        if exists {
            return Ok(What::Event(spec));
        }
    }
    probe(word)
}

fn probe(word: &str) -> Result<What> {
    let spec: Spec = word.parse().with_context(|| word.to_owned())?;
    Ok(What::Probe(Box::new(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_need_no_kernel() {
        let mut events = Events::default();
        let mut kind = |word: &str| match parse(word, &mut events) {
            Ok(What::Probe(spec)) => format!("probe {}", spec.place),
            Ok(What::Event(spec)) => format!("event {}", spec.name),
            Ok(What::Program(path)) => format!("program {}", path.display()),
            Ok(What::Channel(path)) => format!("channel {}", path.display()),
            Err(error) => format!("{error:#}"),
        };
        for (word, expected) in [
            ("vfs_read", "probe vfs_read"),
            ("vfs_read:12", "probe vfs_read"),
            ("vfs_*%return if $retval<0", "probe vfs_*"),
            ("/bin/bash:readline", "probe /bin/bash:readline"),
            ("./a.out:main:3 n", "probe ./a.out:main"),
            (
                "relay:/sys/kernel/debug/x/cpu",
                "channel /sys/kernel/debug/x/cpu",
            ),
            ("relay:", "relay:: not of the form relay:DIR/NAME"),
            ("a/opens.dp", "program a/opens.dp"),
            (
                "libnowhere.so.7:f",
                "libnowhere.so.7: the loader's directories have no such library",
            ),
        ] {
            assert_eq!(kind(word), expected, "{word}");
        }
        assert!(kind("f if x").starts_with("f if x: x: not of the form LEFT"));
    }
}
