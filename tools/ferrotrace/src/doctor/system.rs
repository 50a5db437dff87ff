// SPDX-License-Identifier: GPL-2.0

//! Facts about a system, from its files.

#![deny(unsafe_code)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::dprobes::module_file::NoFile;
use crate::dprobes::module_file::find;
use crate::lockdown;
use crate::lockdown::DEBUGFS;
use crate::lockdown::FERROTRACE;

/// Bytes that are read of a file: more than most have, and enough of `/proc/kallsyms`.
const MOST: u64 = 1 << 20;

/// CAP_SYS_ADMIN and CAP_SYS_MODULE, as bits.
const SYS_ADMIN: u64 = 1 << 21;
const SYS_MODULE: u64 = 1 << 16;

/// The module that kernels other than ours need before all others of ours.
pub const CORE: &str = "ferrotrace_core";

/// The module with the filesystem of our files, which lockdown leaves open.
pub const FILESYSTEM: &str = "ferrotrace_fs";

/// The modules that the command uses, with their directories.
pub const MODULES: [(&str, &str); 5] = [
    ("ferrotrace_kprobe_events", "ferrotrace_kprobe_events"),
    ("ferrotrace_ftrace_functions", "ferrotrace_ftrace_functions"),
    ("ferrotrace_fast_relay", "ferrotrace_flight"),
    ("rust_dprobes", "ferrotrace_dprobes"),
    ("klog_relay", "klog"),
];

/// Keys that the machine's owner has enrolled, as shim shows them.
const MOKS: &str = "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23";

/// Where DKMS and Ubuntu keep the public key that they sign modules with.
const KEYS: [&str; 2] = ["var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der"];

/// Facts that several findings need.
#[derive(Debug, Default)]
pub struct System {
    root: PathBuf,
    pub release: String,
    pub version: String,
    /// The file of the kernel's configuration, and its text.
    pub config: Option<(String, String)>,
    /// "none", "integrity", "confidentiality", or "" if unknown.
    pub lockdown: String,
    pub uid: Option<u32>,
    /// The capabilities of this process, and those that it could get.
    capabilities: (u64, u64),
    /// True if Ferrotrace is part of the kernel.
    pub is_ours: bool,
    /// Description by modinfo of the first of our modules that is installed.
    modinfo: Option<String>,
}

/// Reason why the kernel refuses to load our modules.
#[derive(Debug)]
pub enum Refusal {
    /// kernel.modules_disabled is set.
    Disabled,
    /// Our modules are for another build of the kernel.
    Build,
    /// Our modules have no signature.
    Unsigned,
    /// The machine does not know the key of this file, which signed our modules.
    Key(&'static str),
}

impl System {
    /// Reads the facts from the files below `root`.
    pub fn read(root: PathBuf) -> Self {
        let mut system = Self {
            lockdown: lockdown::mode(&root).unwrap_or_default(),
            root,
            ..Self::default()
        };
        system.release = system.line("proc/sys/kernel/osrelease");
        system.version = system.line("proc/sys/kernel/version");
        system.config = system.find_config();
        let status = system.text("proc/self/status");
        let word = |name, index| {
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
            lines.next()?.split_ascii_whitespace().nth(index)
        };
        let bits = |name| u64::from_str_radix(word(name, 0).unwrap_or_default(), 16).unwrap_or(0);
        system.capabilities = (bits("CapEff:"), bits("CapBnd:"));
        // The second number is the effective one.
        system.uid = word("Uid:", 1).and_then(|uid| uid.parse().ok());
        system.is_ours = system.option("FERROTRACE") == Some(true)
            || system.has_directory("gkhi") && !system.is_loaded(CORE);
        let names = [CORE].into_iter().chain(MODULES.map(|(name, _)| name));
        let mut files = names.filter_map(|name| system.module_file(name));
        system.modinfo = files.next().and_then(|path| modinfo(&path));
        system
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the start of a file, or nothing if it cannot be read.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        let (path, mut bytes) = (self.path(path), Vec::new());
        // A FIFO would make it wait.
        if path.is_file() {
            let file = fs::File::open(path).map(|file| file.take(MOST));
            let _ = file.and_then(|mut file| file.read_to_end(&mut bytes));
        }
        bytes
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.bytes(path)).into_owned()
    }

    pub fn line(&self, path: &str) -> String {
        self.text(path).trim().to_owned()
    }

    /// Returns the names in a directory.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(name).collect()
    }

    fn find_config(&self) -> Option<(String, String)> {
        let packed = "/proc/config.gz".to_owned();
        if let Some(text) = gunzip(&self.bytes(&packed)) {
            return Some((packed, text));
        }
        let release = &self.release;
        let places = [
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/build/.config"),
        ];
        let path = places.into_iter().find(|path| self.path(path).is_file())?;
        Some((path.clone(), self.text(&path)))
    }

    /// Returns true if an option is set; `None` if the configuration is not known.
    pub fn option(&self, name: &str) -> Option<bool> {
        let (_, text) = self.config.as_ref()?;
        let set = [format!("CONFIG_{name}=y"), format!("CONFIG_{name}=m")];
        Some(text.lines().any(|line| set.iter().any(|set| set == line)))
    }

    /// Returns true for root with its rights.
    pub fn is_root(&self) -> bool {
        self.uid == Some(0) && self.capabilities.0 & SYS_ADMIN != 0
    }

    /// Returns true if root has, or can have, the capabilities for tracing and for modules.
    pub fn can_have_all(&self) -> bool {
        let all = SYS_ADMIN | SYS_MODULE;
        self.uid.is_none() || self.capabilities.1 & all == all
    }

    pub fn is_locked(&self) -> bool {
        self.is_confidential() || self.lockdown == "integrity"
    }

    pub fn is_confidential(&self) -> bool {
        self.lockdown == "confidentiality"
    }

    /// Returns the place of a file system, and true if it is mounted read-only there. debugfs
    /// mounts tracefs in a directory of its own when that is first used.
    pub fn mount(&self, kind: &str) -> Option<(&'static str, bool)> {
        let mounts = self.text("proc/self/mounts");
        let places = match kind {
            "tracefs" => &["/sys/kernel/tracing", "/sys/kernel/debug/tracing"][..],
            "debugfs" => &[DEBUGFS],
            "securityfs" => &["/sys/kernel/security"],
            _ => &[FERROTRACE],
        };
        let mut words = mounts.lines().map(|line| line.split(' ').skip(1));
        let found = words.find_map(|mut words| {
            let at = words.next()?;
            let at = places.iter().find(|place| **place == at)?;
            (words.next()? == kind)
                .then(|| Some((*at, words.next()?.split(',').any(|word| word == "ro"))))?
        });
        let automatic = places
            .last()
            .filter(|at| self.exists(&format!("{at}/events")));
        found.or(automatic.map(|at| (*at, false)))
    }

    pub fn is_loaded(&self, module: &str) -> bool {
        self.exists(&format!("sys/module/{module}"))
    }

    fn has_directory(&self, name: &str) -> bool {
        let mut tops = ["sys/kernel/ferrotrace", "sys/kernel/debug"].into_iter();
        tops.any(|top| self.path(top).join(name).exists())
    }

    /// Returns the file of a module that is installed for a kernel of this release.
    pub fn module_of(&self, release: &str, module: &str) -> Option<PathBuf> {
        match find(&self.path("lib/modules").join(release), module) {
            Ok(path) | Err(NoFile::Compressed(path)) => path.exists().then_some(path),
            Err(_) => None,
        }
    }

    pub fn module_file(&self, module: &str) -> Option<PathBuf> {
        self.module_of(&self.release, module)
    }

    /// Returns true if a module is loaded or part of the image, false if it is installed only, and
    /// `None` if it is absent.
    pub fn module(&self, module: &str) -> Option<bool> {
        let list = self.text(&format!("lib/modules/{}/modules.builtin", self.release));
        let file = format!("/{module}.ko");
        let dir = MODULES.iter().find(|(name, _)| *name == module);
        let is_there = self.is_loaded(module)
            || list.lines().any(|line| line.ends_with(&file))
            || dir.is_some_and(|(_, dir)| self.has_directory(dir));
        is_there
            .then_some(true)
            .or(self.module_file(module).map(|_| false))
    }

    /// Returns true if the kernel accepts signed modules only.
    pub fn wants_signatures(&self) -> bool {
        self.is_locked() || self.line("sys/module/module/parameters/sig_enforce") == "Y"
    }

    /// Returns why the kernel would refuse to load our modules, although they are installed.
    pub fn refusal(&self) -> Option<Refusal> {
        let modinfo = self.modinfo.as_ref()?;
        let field = |name| {
            let mut fields = modinfo.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(key, value)| (key == name).then(|| value.trim()))
        };
        if self.line("proc/sys/kernel/modules_disabled") == "1" {
            return Some(Refusal::Disabled);
        }
        if field("kernel").is_some_and(|kernel| kernel != self.version) {
            return Some(Refusal::Build);
        }
        if !self.wants_signatures() {
            return None;
        }
        if field("sig_id").is_none() {
            return Some(Refusal::Unsigned);
        }
        let known = self.bytes(MOKS);
        let is_unknown = |path: &&str| {
            let key = self.bytes(path);
            !key.is_empty() && !known.windows(key.len()).any(|part| part == key)
        };
        // The modules of a kernel of ours are signed with a key in its image.
        let must_know = !known.is_empty() && !self.is_ours;
        KEYS.into_iter()
            .find(is_unknown)
            .filter(|_| must_know)
            .map(Refusal::Key)
    }
}

/// Unpacks a file of gzip without a name and other extras, as the kernel makes it.
fn gunzip(bytes: &[u8]) -> Option<String> {
    let rest = bytes.strip_prefix(&[0x1f, 0x8b, 8, 0])?.get(6..)?;
    let text = decompress_to_vec_with_limit(rest, usize::try_from(MOST).ok()?).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the description of a module, which may be compressed.
fn modinfo(path: &Path) -> Option<String> {
    // A user's PATH may lack the directory of modinfo.
    let mut programs = ["modinfo", "/sbin/modinfo", "/usr/sbin/modinfo"].into_iter();
    let output = programs.find_map(|program| {
        let mut command = Command::new(program);
        command.arg(path).stdin(Stdio::null()).stderr(Stdio::null());
        command
            .output()
            .ok()
            .filter(|output| output.status.success())
    })?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
