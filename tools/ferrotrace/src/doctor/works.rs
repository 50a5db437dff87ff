// SPDX-License-Identifier: GPL-2.0

//! The subcommands, and the backend by which each works.

#![deny(unsafe_code)]

use serde::Serialize;

use super::findings::Level;
use super::system::CORE;
use super::system::FILESYSTEM;
use super::system::System;
use crate::lockdown::FERROTRACE;

/// A line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    pub command: &'static str,
    pub level: Level,
    /// The backend, or why there is none.
    pub by: String,
}

/// Returns an error if debugfs cannot be used.
fn debugfs(system: &System) -> Result<(), String> {
    match system.mount("debugfs") {
        _ if system.is_locked() => Err("lockdown closes debugfs".to_owned()),
        Some(_) => Ok(()),
        None => Err("debugfs is not mounted".to_owned()),
    }
}

/// Returns the backend of a module of ours, or why it cannot be used.
fn by_module(system: &System, module: &str) -> Result<String, String> {
    if system.is_confidential() {
        return Err("lockdown closes all of it".to_owned());
    }
    let is_there = match system.module(module) {
        None if system.is_ours && module == CORE => true,
        None if !system.is_ours && system.module(CORE).is_none() => {
            return Err("our modules are not installed".to_owned());
        }
        None => return Err(format!("the module {module} is not installed")),
        Some(is_there) => is_there,
    };
    if let Some(refusal) = system.refusal().filter(|_| !is_there) {
        return Err(format!("our modules would be refused: {refusal}"));
    }
    // Under lockdown the command mounts the filesystem of our modules.
    let has_filesystem = system.mount("ferrotrace").is_some()
        || system.is_locked()
            && (system.exists(FERROTRACE) || system.module_file(FILESYSTEM).is_some());
    if !has_filesystem {
        debugfs(system)?;
    }
    Ok(match system.is_ours {
        true => "our kernel".to_owned(),
        false => format!("our module {module}"),
    })
}

/// Returns the backend by a file of tracefs that an option of the kernel provides.
fn by_tracefs(system: &System, file: &str, option: &str) -> Result<String, String> {
    if system.is_confidential() {
        return Err("lockdown closes tracefs".to_owned());
    }
    let (at, _) = system.mount("tracefs").ok_or("tracefs is not mounted")?;
    // A user other than root does not see the file.
    let may_exist = !system.is_root() && system.option(option) != Some(false);
    match may_exist || system.exists(&format!("{at}/{file}")) {
        true => Ok(format!("{file} of tracefs")),
        false => Err(format!("this kernel has no {file} (CONFIG_{option})")),
    }
}

/// Concludes for each subcommand.
pub fn works(system: &System) -> Vec<Row> {
    let module = |module| by_module(system, module);
    let tracefs = |file, option| by_tracefs(system, file, option);
    let coverage = match system.is_ours && system.option("GCOV_KERNEL") != Some(false) {
        true => debugfs(system).and_then(|()| module("rust_gcov")),
        false => Err("takes a kernel with Ferrotrace and CONFIG_GCOV_KERNEL".to_owned()),
    };
    let fast = module("ferrotrace_fast_relay");
    let has_memory = system.text("proc/cmdline").contains("reserve_mem=");
    // Returns the level and the text for a backend; `other` is the fallback.
    let lesser = |result: Result<String, String>, other: Option<String>| match (result, other) {
        (Err(why), Some(other)) => (Level::Warn, format!("{other}, as {why}")),
        (Err(why), None) => (Level::No, why),
        (Ok(by), _) => (Level::Ok, by),
    };
    let alone = |result| lesser(result, None);
    let channels = (system.option("RELAY") == Some(true) && debugfs(system).is_ok())
        .then(|| "only the kernel's own relay channels".to_owned());
    let memory = "no reserve_mem=SIZE:4096:NAME on the kernel's command line".to_owned();
    let rows = [
        (
            "probe (kernel)",
            lesser(
                module("ferrotrace_kprobe_events"),
                tracefs("kprobe_events", "KPROBE_EVENTS").ok(),
            ),
        ),
        (
            "probe (programs)",
            alone(tracefs("uprobe_events", "UPROBE_EVENTS")),
        ),
        ("trace record", alone(tracefs("events", "EVENT_TRACING"))),
        (
            "trace functions",
            alone(module("ferrotrace_ftrace_functions")),
        ),
        ("dprobes", alone(module("rust_dprobes"))),
        ("hooks", alone(module(CORE))),
        ("klog", alone(module("klog_relay"))),
        (
            "recover",
            match &fast {
                Ok(_) if !has_memory => (Level::Warn, memory),
                _ => alone(fast.clone()),
            },
        ),
        ("relay record, list, stat", lesser(fast, channels)),
        ("cov dump, reset", alone(coverage)),
        (
            "relay merge, export, report",
            (Level::Ok, "files".to_owned()),
        ),
    ];
    let row = |(command, (level, by))| Row { command, level, by };
    rows.map(row).into()
}
