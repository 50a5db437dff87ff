// SPDX-License-Identifier: GPL-2.0

//! Scenarios that are explored.

use super::machine::Machine;
use super::machine::Setup;
use super::writer::rec;
use super::writer::Rec;
use super::*;

fn run(name: &str, budget: usize, setup: Setup, records: &[Rec]) {
    let begin = std::time::Instant::now();
    let runs = explore(budget, |choices| {
        Machine::new(choices, setup).run_task(records);
    });
    eprintln!("{name}: {runs} runs, {:?}", begin.elapsed());
}

const OPEN: &[Rec] = &[Rec {
    inner: &[rec(16), rec(24)],
    ..rec(24)
}];
const DISCARDED: Rec = Rec {
    discarded: true,
    ..rec(16)
};

/// Nested interruptions at any point, up to four deep, without a reader.
#[test]
fn nesting() {
    for n_subbufs in [2, 4] {
        for overwrite in [false, true] {
            for walks in [false, true] {
                let setup = Setup {
                    n_subbufs,
                    overwrite,
                    walks,
                    interrupts: const { &[rec(40), DISCARDED, rec(64)] },
                    ..Setup::default()
                };
                run("nesting", 3, setup, &[rec(32), rec(48)]);
                run("nesting, open", 3, setup, OPEN);
            }
        }
    }
}

/// A reader at any point in a buffer that fills up.
#[test]
fn reading() {
    for (overwrite, walks) in [(false, false), (false, true), (true, true)] {
        let setup = Setup {
            n_subbufs: 2,
            overwrite,
            walks,
            watermarks: &[8],
            interrupts: const { &[rec(64)] },
            reader: true,
            ..Setup::default()
        };
        run("reading", 2, setup, &[rec(40), rec(64)]);
    }
}

/// A reader that sleeps is woken.
#[test]
fn waking() {
    for overwrite in [false, true] {
        for (awake, watermarks) in [
            (false, &[0][..]),
            (false, &[64, 8]),
            (true, &[8]),
            (true, &[0]),
        ] {
            let setup = Setup {
                n_subbufs: 2,
                overwrite,
                awake,
                watermarks,
                interrupts: const { &[rec(64)] },
                reader: true,
                ..Setup::default()
            };
            let records = [rec(24), rec(32), rec(16)];
            run("waking", 2, setup, &records[..if awake { 1 } else { 3 }]);
        }
    }
}

/// Words of the reader that change to arbitrary values at any time.
#[test]
fn hostile() {
    for n_subbufs in [2, 4] {
        for overwrite in [false, true] {
            let setup = Setup {
                n_subbufs,
                overwrite,
                hostile: true,
                interrupts: const { &[rec(48), rec(24)] },
                ..Setup::default()
            };
            run("hostile", 2, setup, &[rec(40), rec(32), rec(64)]);
        }
    }
}
