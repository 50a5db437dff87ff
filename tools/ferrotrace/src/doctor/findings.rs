// SPDX-License-Identifier: GPL-2.0

//! Findings about a system, in the order in which a reader needs them.

#![deny(unsafe_code)]

use std::fmt;
use std::fs::File;

use object::Object;
use object::ReadCache;
use serde::Serialize;

use super::system::CORE;
use super::system::MODULES;
use super::system::Refusal;
use super::system::System;
use crate::dprobes::module_file::running_build_id;
use crate::lockdown::DEBUGFS;
use crate::lockdown::FERROTRACE;

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Works.
    Ok,
    /// Works in part, or is not known.
    Warn,
    /// Does not work.
    No,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its heading.
    pub group: &'static str,
    pub level: Level,
    pub text: String,
    /// The command that mends it.
    pub run: Option<String>,
}

/// Options of the kernel, and the loss without them.
const OPTIONS: [(&str, &str); 9] = [
    ("MODULES", "our modules cannot be loaded"),
    ("KPROBES", "no probes in the kernel"),
    ("KPROBE_EVENTS", "probes in the kernel take our modules"),
    ("UPROBE_EVENTS", "no probes in programs"),
    ("FUNCTION_TRACER", "no \"trace functions\""),
    ("RELAY", "no relay channels but fast ones"),
    ("DEBUG_FS", "no files of our modules in debugfs"),
    ("DEBUG_INFO_BTF", "no arguments by name"),
    ("RUST", "our modules cannot be built"),
];

/// Options that a patched kernel replaces.
const REPLACED: [&str; 2] = ["KPROBE_EVENTS", "RELAY"];

/// The firmware's variable.
const SECURE_BOOT: &str =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// The oldest kernel that our modules are for.
const OLDEST: (u32, u32) = (7, 2);

/// Adds the findings of a group.
type Judge = fn(&System, &mut Findings);

/// Findings up to now.
struct Findings {
    group: &'static str,
    all: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, level: Level, text: impl Into<String>) {
        let (group, text, run) = (self.group, text.into(), None);
        let finding = Finding {
            group,
            level,
            text,
            run,
        };
        self.all.push(finding);
    }

    fn ok(&mut self, text: impl Into<String>) {
        self.add(Level::Ok, text);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.add(Level::Warn, text);
    }

    fn no(&mut self, text: impl Into<String>) {
        self.add(Level::No, text);
    }

    /// Adds the command that mends the last finding.
    fn run(&mut self, command: impl Into<String>) {
        if let Some(last) = self.all.last_mut() {
            last.run = Some(command.into());
        }
    }

    /// Adds a command that mounts a file system.
    fn mount(&mut self, kind: &str, at: &str) {
        self.run(format!("mount -t {kind} {kind} {at}"));
    }
}

/// Judges a system.
pub fn findings(system: &System) -> Vec<Finding> {
    let (group, all) = ("", Vec::new());
    let mut to = Findings { group, all };
    let groups: [(&str, Judge); 6] = [
        ("kernel", kernel),
        ("privileges", privileges),
        ("filesystems", filesystems),
        ("modules", modules),
        ("symbols and types", symbols),
        ("user space", user_space),
    ];
    for (group, judge) in groups {
        to.group = group;
        judge(system, &mut to);
    }
    to.all
}

fn kernel(system: &System, to: &mut Findings) {
    for (kind, at, file) in [
        ("proc", "/proc", "proc/self/status"),
        ("sysfs", "/sys", "sys/kernel"),
    ] {
        if !system.exists(file) {
            to.no(format!("{at} is not mounted, so that most is not known"));
            to.mount(kind, at);
        }
    }
    to.ok(format!("Linux {} ({})", system.release, system.version));
    to.ok(match system.is_ours {
        true => "Ferrotrace is part of this kernel",
        false => "not patched: our modules use this kernel's own engines",
    });
    match container(system) {
        None => to.ok("not in a container"),
        Some(kind) => to.warn(format!(
            "in a container ({kind}): tracing takes the host's root"
        )),
    }
    let is_missing = |(option, _): &&(&str, _)| {
        let is_replaced = system.is_ours && REPLACED.contains(option);
        system.option(option) == Some(false) && !is_replaced
    };
    let missing: Vec<_> = OPTIONS.iter().filter(is_missing).collect();
    for (option, loss) in &missing {
        to.no(format!("CONFIG_{option} is not set: {loss}"));
    }
    match &system.config {
        None => to.warn("its configuration is neither in /proc/config.gz nor in /boot"),
        Some((file, _)) if missing.is_empty() => to.ok(format!("{file} has all that matters")),
        Some(_) => (),
    }
    match system.bytes(SECURE_BOOT).last() {
        Some(1) => to.warn("Secure Boot is on"),
        Some(_) => to.ok("Secure Boot is off"),
        None => to.ok("no Secure Boot: no EFI, or the firmware does not tell"),
    }
    let is_absent = system.option("SECURITY_LOCKDOWN_LSM") == Some(false)
        || !system.exists("/sys/kernel/security");
    match &*system.lockdown {
        "none" => to.ok("lockdown: none"),
        "integrity" => to
            .warn("lockdown: integrity; modules need signatures, debugfs is closed, tracefs works"),
        "" if is_absent || system.mount("securityfs").is_some() => {
            to.ok("lockdown: not in this kernel");
        }
        "" => {
            to.warn("lockdown: not known without securityfs");
            to.mount("securityfs", "/sys/kernel/security");
        }
        mode => to.no(format!(
            "lockdown: {mode}; neither kprobes nor tracefs, for root too"
        )),
    }
}

/// Returns the kind of container that keeps root from the kernel, if this process is in one.
fn container(system: &System) -> Option<String> {
    let map = system.text("proc/self/uid_map");
    let map: Vec<_> = map.split_ascii_whitespace().collect();
    if !map.is_empty() && map != ["0", "0", "4294967295"] {
        return Some("a user namespace".to_owned());
    }
    let kind = match system.line("run/systemd/container") {
        _ if system.can_have_all() => return None,
        _ if system.exists(".dockerenv") => "docker".to_owned(),
        _ if system.exists("run/.containerenv") => "podman".to_owned(),
        kind if kind.is_empty() => "without all capabilities".to_owned(),
        kind => kind,
    };
    Some(kind)
}

fn privileges(system: &System, to: &mut Findings) {
    match system.uid {
        Some(0) if system.is_root() => to.ok("root, with CAP_SYS_ADMIN"),
        Some(0) => to.no("root without CAP_SYS_ADMIN, as in a container"),
        None => to.warn("not known without /proc"),
        Some(_) => {
            to.no("not root: tracing takes it, and this report did not see debugfs and tracefs");
            to.run("sudo ferrotrace doctor");
        }
    }
}

fn filesystems(system: &System, to: &mut Findings) {
    let tracefs = ("tracefs", "/sys/kernel/tracing", system.is_confidential());
    for (kind, at, is_closed) in [("debugfs", DEBUGFS, system.is_locked()), tracefs] {
        match system.mount(kind) {
            _ if is_closed => to.warn(format!("{kind}: closed by lockdown")),
            Some((at, true)) => to.no(format!("{kind} is mounted read-only at {at}")),
            Some((at, false)) => to.ok(format!("{kind} at {at}")),
            None if !system.exists(at) => to.no(format!("{kind} is not in this kernel")),
            None => {
                to.no(format!("{kind} is not mounted"));
                to.mount(kind, at);
            }
        }
    }
    let own = FERROTRACE;
    if system.mount("ferrotrace").is_some() {
        to.ok(format!("our modules' files at {own}"));
    } else if system.is_locked() && system.exists(own) {
        to.warn(format!(
            "{own} is not mounted; the command does it when it needs it"
        ));
        to.mount("ferrotrace", own);
    } else if system.is_locked() {
        to.warn(format!("no {own}: our modules are not loaded, or older"));
    }
    if system.line("proc/sys/kernel/ftrace_enabled") == "0" {
        to.no("ftrace is switched off");
        to.run("sysctl kernel.ftrace_enabled=1");
    }
    if system.line("sys/kernel/debug/kprobes/enabled") == "0" {
        to.no("kprobes are switched off");
        to.run("echo 1 >/sys/kernel/debug/kprobes/enabled");
    }
}

/// Returns the command that installs our modules for this kernel, if there can be any.
fn installation(system: &System) -> Option<String> {
    let release = &system.release;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let number = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    if number < OLDEST || system.option("RUST") == Some(false) {
        return None;
    }
    let mut sources = system.names("usr/src");
    sources.sort();
    let mut versions = sources
        .iter()
        .filter_map(|name| name.strip_prefix("ferrotrace-"));
    if let Some(version) = versions.next_back() {
        return Some(format!("dkms install ferrotrace/{version} -k {release}"));
    }
    Some(match release.contains("+deb") {
        true => format!("apt install ./ferrotrace-modules-{release}_*.deb"),
        false => "make stock stock-install".to_owned(),
    })
}

fn modules(system: &System, to: &mut Findings) {
    let release = &system.release;
    let names = || MODULES.into_iter().map(|(name, _)| name);
    let absent: Vec<_> = names()
        .filter(|name| system.module(name).is_none())
        .collect();
    let is_unlisted = || {
        let mut places = ["ferrotrace", "dkms"].into_iter();
        let dir = |place| system.names(&format!("lib/modules/{release}/updates/{place}"));
        places.any(|place| dir(place).iter().any(|name| name.starts_with(CORE)))
    };
    let install = installation(system);
    if absent.is_empty() {
        to.ok("our modules are there for this kernel");
    } else if system.is_ours || system.module(CORE).is_some() {
        to.warn(format!("not there for this kernel: {}", absent.join(", ")));
    } else if is_unlisted() {
        to.no("our modules are installed, but depmod has not listed them");
        to.run(format!("depmod {release}"));
    } else if let Some(install) = &install {
        let mut others = system.names("lib/modules");
        others.retain(|release| system.module_of(release, CORE).is_some());
        match others.is_empty() {
            true => to.no("our modules are not installed"),
            false => to.no(format!("our modules are for {} only", others.join(", "))),
        }
        to.run(install);
    } else {
        to.no("our modules are for Linux 7.2 or later with CONFIG_RUST");
    }
    let loaded: Vec<_> = names().filter(|name| system.is_loaded(name)).collect();
    if !loaded.is_empty() {
        to.ok(format!("loaded: {}", loaded.join(", ")));
    }
    // Confidentiality leaves no use for signed modules either.
    let Some(refusal) = system.refusal().filter(|_| !system.is_confidential()) else {
        return;
    };
    to.no(format!("our modules would be refused: {refusal}"));
    match (refusal, install) {
        (Refusal::Disabled, _) | (Refusal::Build, None) => (),
        (Refusal::Build, Some(install)) => to.run(install),
        (Refusal::Key(key), _) => to.run(format!("mokutil --import /{key} # and reboot")),
        // DKMS signs modules while it builds them.
        (Refusal::Unsigned, Some(install)) if install.starts_with("dkms") => {
            let forced = |verb| install.replacen("install", verb, 1);
            let (build, install) = (forced("build --force"), forced("install --force"));
            to.run(format!("{build} && {install}"));
        }
        // DKMS builds nothing where built modules are installed.
        (Refusal::Unsigned, _) => to.run(format!(
            "apt purge 'ferrotrace-modules-{0}'; apt install ./ferrotrace-dkms_*.deb ./linux-rust-dev-{0}_*.deb",
            system.release
        )),
    }
}

fn symbols(system: &System, to: &mut Findings) {
    let symbols = system.text("proc/kallsyms");
    let mut addresses = symbols.lines().filter_map(|line| line.split(' ').next());
    let kptr = system.line("proc/sys/kernel/kptr_restrict");
    let paranoid = system.line("proc/sys/kernel/perf_event_paranoid");
    if addresses.any(|address| address.contains(|digit| digit != '0')) {
        to.ok("/proc/kallsyms has addresses");
    } else if symbols.is_empty() {
        to.no("/proc/kallsyms cannot be read, or is empty");
    } else if kptr == "2" {
        to.no("/proc/kallsyms hides addresses from all users (kernel.kptr_restrict)");
        to.run("sysctl kernel.kptr_restrict=1");
    } else {
        let why = format!("kptr_restrict {kptr}, perf_event_paranoid {paranoid}");
        to.warn(format!(
            "/proc/kallsyms hides addresses from users without CAP_SYSLOG ({why})"
        ));
    }
    match system.names("sys/kernel/btf").len() {
        0 => to.no("no BTF: arguments by name take debugging information"),
        count => to.ok(format!("BTF of the kernel and of {} modules", count - 1)),
    }
    let release = &system.release;
    let id = running_build_id(&system.path(""), None);
    let places = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/lib/modules/{release}/build/vmlinux"),
    ];
    let Some(path) = places.into_iter().find(|path| system.exists(path)) else {
        to.warn("no debugging information of the kernel: no probes at lines");
        if std::env::var_os("DEBUGINFOD_URLS").is_some() {
            // For --vmlinux.
            let digits = id
                .unwrap_or_default()
                .into_iter()
                .map(|byte| format!("{byte:02x}"));
            to.run(format!(
                "debuginfod-find debuginfo {}",
                digits.collect::<String>()
            ));
        } else if release.contains("+deb") {
            to.run(format!("apt install linux-image-{release}-dbg"));
        }
        return;
    };
    let own = File::open(system.path(&path)).ok().and_then(|file| {
        let cache = ReadCache::new(file);
        let file = object::File::parse(&cache).ok()?;
        file.build_id().ok()?.map(<[u8]>::to_vec)
    });
    match id.is_none() || own == id {
        true => to.ok(format!("debugging information: {path}")),
        false => to.warn(format!("{path} is not of this build of the kernel")),
    }
}

fn user_space(system: &System, to: &mut Findings) {
    let mut places = ["sbin", "usr/sbin", "usr/bin"].into_iter();
    match places.any(|place| system.exists(&format!("{place}/modprobe"))) {
        true => to.ok("modprobe is there: the command loads our modules when it needs them"),
        false => to.no("there is no modprobe to load modules (package kmod)"),
    }
    match system.exists("usr/lib/debug/.build-id") {
        true => to.ok("debugging information of programs: /usr/lib/debug/.build-id"),
        false => to.warn("no debugging information of programs: stripped functions have no names"),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Disabled => "kernel.modules_disabled is set, until the next boot",
            Refusal::Build => "they are for another build of this kernel",
            Refusal::Unsigned => "they are not signed",
            Refusal::Key(_) => "the machine does not know the key that they are signed with",
        })
    }
}
