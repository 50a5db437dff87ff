// SPDX-License-Identifier: GPL-2.0

//! Probe programs on the running kernel. The arguments are the starts of the names of cases;
//! without any, all run. Prints KTAP.

mod arm;
mod bench;
mod bpf;
mod control;
mod debugger;
mod files;
mod kernel;
mod loading;
mod lockdown;
mod logging;
mod meanwhile;
mod module;
mod sets;
mod storm;
mod testlib;
mod used_up;
mod user;
mod watch;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A case: it panics if something is wrong.
type Case = (&'static str, fn());

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).collect::<Vec<_>>();
    if let Some(calls) = wanted.first().and_then(|arg| arg.strip_prefix("child=")) {
        user::child(calls.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if let Some(dir) = wanted.first().and_then(|arg| arg.strip_prefix("sets=")) {
        sets::write(dir);
        return ExitCode::SUCCESS;
    }
    if wanted == ["follow"] {
        files::follow();
        return ExitCode::SUCCESS;
    }
    if wanted == ["arms"] {
        control::remove_all();
        arm::arms();
        control::remove_all();
        return ExitCode::SUCCESS;
    }
    if wanted == ["crash"] {
        debugger::crash();
    }
    if wanted == ["bench"] {
        bench::run();
        return ExitCode::SUCCESS;
    }
    let cases = [
        kernel::CASES,
        loading::CASES,
        meanwhile::CASES,
        logging::CASES,
        module::CASES,
        user::CASES,
        files::CASES,
        watch::CASES,
        arm::CASES,
        used_up::CASES,
        storm::CASES,
        debugger::cases(),
        // Lockdown cannot be undone, so these are last.
        lockdown::CASES,
    ]
    .concat();
    let cases = cases
        .into_iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| name.starts_with(w)))
        .collect::<Vec<_>>();
    println!("KTAP version 1\n1..{}", cases.len());
    let mut good = true;
    for (number, (name, run)) in (1..).zip(cases) {
        if name.starts_with("lockdown.") {
            // Nothing can be removed between these.
            good &= lockdown::case(number, name, run);
            continue;
        }
        control::remove_all();
        let result = catch_unwind(run);
        control::remove_all();
        good &= result.is_ok();
        let word = if result.is_ok() { "ok" } else { "not ok" };
        println!("{word} {number} {name}");
    }
    match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
