// SPDX-License-Identifier: GPL-2.0

//! Counts of probes of tracefs, where our module does not count them.

#![deny(unsafe_code)]

use super::Added;
use super::COMM;
use super::Counted;
use super::Counter;
use super::Key;
use super::Part;
use super::has_only_sum;
use super::without_own;
use crate::probes::error::Error as ProbeError;
use crate::probes::kernel::Kernel;
use crate::probes::model::Probe;
use crate::probes::model::parse_args;
use crate::probes::resolve::Wanted;
use crate::probes::stock::RECORDED_GROUP;
use crate::probes::stock::by_thread;
use crate::probes::stock::filter_of;
use crate::probes::stock::instance::Instance;
use crate::probes::summary::By;
use crate::probes::summary::Style;
use crate::probes::summary::ValueOf;
use crate::probes::watch::Temporary;
use crate::probes::watch::temporary_index;
use crate::signals::StopSignals;
use crate::tracepoints::error::Result;

/// Returns the key for `by` among the arguments of a probe; `None` if the kernel has no such key.
fn key_of_probe(by: &By, probe: &Probe) -> Option<Key> {
    let plain = |name: &str, part| Key {
        name: name.to_owned(),
        part,
    };
    Some(match by {
        By::Place => plain("", Part::Constant(probe.place.shown().to_string())),
        By::Comm => plain(COMM, Part::Comm),
        By::Pid => plain("common_pid", Part::Plain),
        By::Cpu => plain("common_cpu", Part::Plain),
        By::Arg(name) => match probe.args.iter().find(|arg| arg.name == *name) {
            Some(arg) if arg.arg.ty.is_stack() => return None,
            Some(arg) => plain(name, Part::Arg(Box::new(arg.clone()))),
            None => plain("", Part::Constant("-".to_owned())),
        },
    })
}

/// Returns true if events of tracefs show a probe's arguments as they are.
///
/// The kernel does not say if it could not read a number in memory, and a filter then tests what
/// was there before. A text that it could not read is empty.
fn are_plain(wanted: &Wanted, probe: &Probe) -> bool {
    let conditions = wanted.args.split(' ').skip_while(|word| *word != "if");
    let tests_arg = |word: &str| {
        let name = word.split(['=', '!', '<', '>', '&', '~']).next();
        probe.args.iter().any(|arg| Some(arg.name.as_str()) == name)
    };
    let has_condition = wanted.filter.is_some() || conditions.skip(1).any(tests_arg);
    let mut args = probe.args.iter();
    args.all(|arg| match arg.arg.ty.is_text() {
        true => !has_condition,
        false => !arg.arg.fetch.is_in_memory(),
    })
}

impl Counted {
    /// Returns the event of a probe whose hits the kernel can count by these keys.
    fn of_probe(
        (wanted, name): (&Wanted, &str),
        by: &[By],
        value: Option<&ValueOf>,
        instance: &Instance,
    ) -> Option<Self> {
        let probe = probe_of(wanted)?;
        if wanted.at.is_some() || !are_plain(wanted, &probe) {
            return None;
        }
        let value = match value {
            None => None,
            Some(value) => {
                let arg = probe.args.iter().find(|arg| arg.name == value.name)?;
                Some(Added {
                    name: value.name.clone(),
                    is_signed: arg.arg.ty.is_signed(),
                })
            }
        };
        let keys = by.iter().map(|by| key_of_probe(by, &probe));
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let filter = without_own(&filter_of(wanted).ok()?);
        let dir = instance.event(&format!("{RECORDED_GROUP}:{name}"));
        Self::with((dir, filter), probe, keys, value)
    }
}

/// Returns a probe with the arguments of one that is wanted.
fn probe_of(wanted: &Wanted) -> Option<Probe> {
    let args = wanted.args.split(" if ").next().unwrap_or_default();
    let args = if args.starts_with("if ") { "" } else { args };
    Some(Probe {
        id: 0,
        name: wanted.name.clone(),
        kind: wanted.kind,
        place: wanted.place.clone(),
        address: 0,
        hits: 0,
        missed: 0,
        gone: false,
        args: parse_args(args, wanted.kind)?,
        conditions: Vec::new(),
    })
}

/// Temporary probes of tracefs, and the counters of their hits.
#[derive(Debug)]
pub struct ProbeCounter<'a> {
    // Before the probes, which are in use as long as they have counters.
    counter: Counter,
    probes: Temporary<'a>,
    kernel: &'a Kernel,
}

impl<'a> ProbeCounter<'a> {
    /// Adds probes to a kernel of [`Kernel::for_counts`], with counters of their hits in these
    /// processes, or in all. Returns `None` if it cannot count by these keys, or has no such
    /// figures.
    pub fn create(
        kernel: &'a Kernel,
        wanted: &[Wanted],
        style: &Style,
        pids: &[i32],
        signals: &StopSignals,
    ) -> Result<Option<Self>> {
        let (by, value) = (&style.by, style.value.as_ref());
        let tracing = Instance::tracing()?.ok_or(ProbeError::NoTracefs)?;
        let instance = Instance::create(&tracing)?;
        let counted = |name: &str, one| Counted::of_probe((one, name), by, value, &instance);
        let is_possible =
            has_only_sum(value) && wanted.iter().all(|one| counted("", one).is_some());
        if !is_possible {
            return Ok(None);
        }
        let probes = Temporary::add(kernel, wanted, signals)?;
        let mut events = Vec::new();
        for name in probes.names() {
            let one = temporary_index(name).and_then(|index| wanted.get(index));
            events.extend(one.and_then(|one| counted(name, one)));
        }
        // With one process, the probes have the condition.
        if let [_, _, ..] = pids {
            let tests: Vec<_> = pids
                .iter()
                .map(|pid| by_thread("==", &pid.to_string()))
                .collect();
            let tests = tests.join(" || ");
            for event in &mut events {
                event.filter = format!("({tests}) && {}", event.filter);
            }
        }
        // The kernel may lack histograms, or have none for a name.
        let counter = Counter::with(instance, events);
        Ok(counter.ok().map(|counter| Self {
            counter,
            probes,
            kernel,
        }))
    }

    /// Returns the counters.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Returns why functions of patterns have no probes.
    pub fn refused(&self) -> &[ProbeError] {
        &self.probes.refused
    }

    /// Returns the number of hits that called no handler.
    pub fn missed(&self) -> Result<u64> {
        let own = self.kernel.list()?.into_iter();
        let own = own.filter(|probe| self.probes.names().contains(&probe.name));
        Ok(own.map(|probe| probe.missed).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::by;
    use super::super::tests::row;
    use super::super::tests::sum_of;
    use super::*;
    use crate::probes::model::Kind;
    use crate::probes::symbols::Symbols;

    fn wanted(args: &str, kind: Kind) -> Wanted {
        Wanted::of_place("x", "vfs_read", kind, args)
    }

    #[test]
    fn probes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(dir.path()).unwrap();
        let symbols = Symbols::default();
        let of = |args: &str, kind, keys: &[By], value: Option<&ValueOf>| {
            let wanted = wanted(args, kind);
            Counted::of_probe((&wanted, "watch_1_0"), keys, value, &instance)
        };
        let keys = [by("n"), by("comm"), by("place"), by("file")];
        let args = "n=%dx:s32 file=+0(%si):string8";
        let read = of(args, Kind::Probe, &keys, Some(&sum_of("n"))).unwrap();
        assert!(read.dir.ends_with("events/ferrotrace/watch_1_0"));
        let trigger = read.trigger("pause");
        let start = "hist:keys=n,common_comm,file:vals=n:size=32768:pause if common_pid != ";
        assert!(trigger.starts_with(start), "{trigger}");
        let line = "n: 18446744073709551615, common_comm: dd    , file: /a/b\n, n: 1/c  } \
                    hitcount: 2  n: 18446744073709551614\n";
        let (key, sums) = read.row(line, &symbols).unwrap();
        assert_eq!(key, ["-1", "dd", "vfs_read", "\"/a/b?, \""]);
        assert_eq!(sums.values.sum, -2);
        let filtered = of("n=%dx:x64 if n==1", Kind::Probe, &[by("n")], None).unwrap();
        assert!(
            filtered
                .trigger("pause")
                .contains(" if (n == 1) && common_pid")
        );
        assert_eq!(row(&filtered, "n:   255 } hitcount:  1").0, ["0xff"]);
        let returned = of("errno=$retval", Kind::Return, &[by("errno"), by("m")], None).unwrap();
        assert_eq!(
            row(&returned, "errno: 18446744073709551614 } hitcount:  1").0,
            ["ENOENT", "-"]
        );
        // Not for the kernel: memory that may not be readable, and stacks.
        for (args, keys) in [
            ("n=+8(%di):u32", "n"),
            ("m=+8(%di):u32", "place"),
            ("file=+0(%si):string if file==x", "file"),
            ("stack=$kstack", "stack"),
        ] {
            assert!(of(args, Kind::Probe, &[by(keys)], None).is_none(), "{args}");
        }
        assert!(of("n=%dx", Kind::Probe, &[by("n")], Some(&sum_of("m"))).is_none());
    }
}
