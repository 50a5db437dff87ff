// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace doctor`, on systems that are made up below a directory.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::common::ferrotrace;

const VERSION: &str = "#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1 (2026-11-15)";
const CORE: &str = "lib/modules/7.3.4+deb13-amd64/updates/ferrotrace/ferrotrace_core.ko";
const DEP: &str = "lib/modules/7.3.4+deb13-amd64/modules.dep";
const CONFIG: &str = "boot/config-7.3.4+deb13-amd64";
const LOCKDOWN: &str = "sys/kernel/security/lockdown";
const MOUNTS: &str = "\
securityfs /sys/kernel/security securityfs rw 0 0
debugfs /sys/kernel/debug debugfs rw 0 0
tracefs /sys/kernel/tracing tracefs rw 0 0
";
const OPTIONS: &str = "\
CONFIG_MODULES=y
CONFIG_KPROBES=y
CONFIG_KPROBE_EVENTS=y
CONFIG_UPROBE_EVENTS=y
CONFIG_FUNCTION_TRACER=y
CONFIG_RELAY=y
CONFIG_DEBUG_FS=y
CONFIG_DEBUG_INFO_BTF=y
CONFIG_RUST=y
CONFIG_SECURITY_LOCKDOWN_LSM=y
# CONFIG_GCOV_KERNEL is not set
";
const SECURE_BOOT: &str =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const MOKS: &str = "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23";
const INTEGRITY: (&str, Option<&str>) = (LOCKDOWN, Some("none [integrity] confidentiality\n"));
const CONFIDENTIALITY: (&str, Option<&str>) =
    (LOCKDOWN, Some("none integrity [confidentiality]\n"));

/// Edits a file, or removes it.
type Edit<'a> = (&'a str, Option<&'a str>);

/// A Debian machine where all works, with root's view of it.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        let status = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n";
        let core = format!("kernel:         {VERSION}\n");
        let dep = [
            "ferrotrace_core",
            "ferrotrace_kprobe_events",
            "ferrotrace_ftrace_functions",
            "ferrotrace_fast_relay",
            "rust_dprobes",
            "klog_relay",
        ]
        .map(|name| {
            let file = format!("updates/ferrotrace/{name}.ko");
            machine.edit((
                &format!("lib/modules/7.3.4+deb13-amd64/{file}"),
                Some(&core),
            ));
            format!("{file}:\n")
        })
        .concat();
        let files = [
            ("proc/sys/kernel/osrelease", "7.3.4+deb13-amd64\n"),
            ("proc/sys/kernel/version", VERSION),
            ("proc/sys/kernel/kptr_restrict", "0\n"),
            ("proc/sys/kernel/ftrace_enabled", "1\n"),
            ("proc/self/status", status),
            ("proc/self/mounts", MOUNTS),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            (
                "proc/kallsyms",
                "0000000000000000 A start\nffffffff81000000 T _text\n",
            ),
            ("proc/cmdline", "reserve_mem=2M:4096:trace\n"),
            (CONFIG, OPTIONS),
            (LOCKDOWN, "[none] integrity confidentiality\n"),
            (DEP, &dep),
            ("sys/kernel/debug/kprobes/enabled", "1\n"),
            ("sys/kernel/tracing/kprobe_events", ""),
            ("sys/kernel/tracing/uprobe_events", ""),
            ("sys/kernel/tracing/events/enable", ""),
            ("sys/kernel/btf/vmlinux", ""),
            ("sys/kernel/btf/ext4", ""),
            ("usr/lib/debug/.build-id/x", ""),
            ("usr/lib/debug/boot/vmlinux-7.3.4+deb13-amd64", ""),
            ("usr/sbin/modprobe", ""),
        ];
        for (path, text) in files {
            machine.edit((path, Some(text)));
        }
        // Instead of modinfo, which prints the description of a module: here the file is that.
        fs::create_dir_all(machine.0.path().join("path")).unwrap();
        symlink("/bin/cat", machine.0.path().join("path/modinfo")).unwrap();
        machine
    }

    fn edit(&self, (path, text): Edit<'_>) {
        let path = self.0.path().join(path);
        match text {
            Some(text) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            None if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }

    /// Returns the report and the exit status.
    fn doctor(&self, args: &[&str]) -> (String, i32) {
        let mut command = ferrotrace();
        command
            .args(["doctor", "--root"])
            .arg(self.0.path())
            .args(args);
        command
            .env("PATH", self.0.path().join("path"))
            .env_remove("DEBUGINFOD_URLS");
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(error, "");
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code().unwrap())
    }
}

/// Expects lines of the report after these edits. A line is level, text and command.
fn case(edits: &[Edit<'_>], status: i32, lines: &[&str]) {
    let machine = Machine::new();
    edits.iter().for_each(|edit| machine.edit(*edit));
    let (text, code) = machine.doctor(&[]);
    for line in lines {
        let is_there = |found: &str| {
            let words: Vec<_> = found.split_whitespace().collect();
            words.join(" ").starts_with(line)
        };
        assert!(text.lines().any(is_there), "{line}\nis not in\n{text}");
    }
    assert_eq!(code, status, "{text}");
}

#[test]
fn all_works() {
    let (text, status) = Machine::new().doctor(&[]);
    assert_eq!(status, 0, "{text}");
    let bad: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("  no ") || line.starts_with("  warn "))
        .collect();
    let [cov] = &bad[..] else {
        panic!("{text}");
    };
    assert!(cov.contains("cov dump"), "{text}");
    assert!(
        text.ends_with("All that this kernel can do works\n"),
        "{text}"
    );
    case(
        &[],
        0,
        &[
            "ok Linux 7.3.4+deb13-amd64 (#1 SMP",
            "ok not patched",
            "ok not in a container",
            "ok /boot/config-7.3.4+deb13-amd64 has all that matters",
            "ok lockdown: none",
            "ok our modules are there for this kernel",
            "ok BTF of the kernel and of 1 modules",
            "ok probe (kernel) our module ferrotrace_kprobe_events",
            "ok hooks our module ferrotrace_core",
        ],
    );
}

#[test]
fn json() {
    let machine = Machine::new();
    machine.edit(("proc/self/mounts", Some("")));
    let (text, status) = machine.doctor(&["--json"]);
    assert_eq!(status, 1);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["release"], "7.3.4+deb13-amd64");
    assert_eq!(report["can_be_mended"], true);
    let findings = report["findings"].as_array().unwrap();
    let debugfs = findings
        .iter()
        .find(|one| one["text"] == "debugfs is not mounted");
    let debugfs = debugfs.unwrap();
    assert_eq!(debugfs["group"], "filesystems");
    assert_eq!(debugfs["level"], "no");
    assert_eq!(debugfs["run"], "mount -t debugfs debugfs /sys/kernel/debug");
    let works = report["works"].as_array().unwrap();
    let hooks = works.iter().find(|row| row["command"] == "hooks").unwrap();
    assert_eq!(hooks["by"], "debugfs is not mounted");
}

#[test]
fn the_kernel() {
    let without = OPTIONS.replace(
        "CONFIG_KPROBE_EVENTS=y",
        "# CONFIG_KPROBE_EVENTS is not set",
    );
    case(
        &[(CONFIG, Some(&without))],
        0,
        &["no CONFIG_KPROBE_EVENTS is not set: probes"],
    );
    case(&[(CONFIG, None)], 0, &["warn its configuration is neither"]);
    // gzip -n of "CONFIG_RUST=y\n", which is preferred to the file in /boot.
    let machine = Machine::new();
    let packed = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f, 0x0f, 0x0a,
        0x0d, 0x0e, 0xb1, 0xad, 0xe4, 0x02, 0x00, 0xa9, 0xea, 0x25, 0x24, 0x0e, 0, 0, 0,
    ];
    fs::write(machine.0.path().join("proc/config.gz"), packed).unwrap();
    let (text, _) = machine.doctor(&[]);
    assert!(text.contains("CONFIG_KPROBES is not set"), "{text}");
    assert!(!text.contains("CONFIG_RUST is not set"), "{text}");
}

#[test]
fn a_kernel_of_ours() {
    let config = format!("{OPTIONS}CONFIG_FERROTRACE=y\n").replace("CONFIG_KPROBE_EVENTS=y\n", "");
    let builtin = "lib/modules/7.3.4+deb13-amd64/modules.builtin";
    case(
        &[
            (CONFIG, Some(&config)),
            (DEP, None),
            (builtin, Some("kernel/kernel/ferrotrace/rust_dprobes.ko\n")),
        ],
        0,
        &[
            "ok Ferrotrace is part of this kernel",
            "ok /boot/config",
            "warn not there for this kernel: ferrotrace_kprobe_events,",
            "ok dprobes our kernel",
            "ok hooks our kernel",
            "no klog the module klog_relay is not installed",
        ],
    );
}

#[test]
fn lockdown() {
    let refused = "no our modules would be refused: they are not signed; \
                   run: apt purge 'ferrotrace-modules-7.3.4+deb13-amd64'; \
                   apt install ./ferrotrace-dkms_*.deb ./linux-rust-dev-7.3.4+deb13-amd64_*.deb";
    case(
        &[INTEGRITY],
        1,
        &[
            "warn lockdown: integrity",
            "warn debugfs: closed by lockdown",
            refused,
            "warn probe (kernel) kprobe_events of tracefs, as our modules would be refused",
            "ok probe (programs) uprobe_events",
            "no relay record, list, stat our modules would be refused",
        ],
    );
    case(
        &[INTEGRITY, ("usr/src/ferrotrace-0.2.0/dkms.conf", Some(""))],
        1,
        &["no our modules would be refused: they are not signed; \
             run: dkms build --force ferrotrace/0.2.0 -k 7.3.4+deb13-amd64 && \
             dkms install --force ferrotrace/0.2.0 -k 7.3.4+deb13-amd64"],
    );
    let signed = format!("kernel:         {VERSION}\nsig_id:         PKCS#7\n");
    case(
        &[INTEGRITY, (CORE, Some(&signed))],
        0,
        &[
            "warn no /sys/kernel/ferrotrace",
            "no dprobes lockdown closes debugfs",
        ],
    );
    let own = "sys/kernel/ferrotrace/empty";
    case(
        &[INTEGRITY, (CORE, Some(&signed)), (own, Some(""))],
        0,
        &[
            "warn /sys/kernel/ferrotrace is not mounted; the command does it when it needs it; \
             run: mount -t ferrotrace ferrotrace /sys/kernel/ferrotrace",
            "ok dprobes our module rust_dprobes",
        ],
    );
    let filesystem = "updates/ferrotrace/ferrotrace_fs.ko";
    let dep = format!("updates/ferrotrace/ferrotrace_core.ko:\n{filesystem}:\n");
    let filesystem = format!("lib/modules/7.3.4+deb13-amd64/{filesystem}");
    case(
        &[
            INTEGRITY,
            (CORE, Some(&signed)),
            (DEP, Some(&dep)),
            (&filesystem, Some("")),
        ],
        0,
        &[
            "ok hooks our module",
            "no klog the module klog_relay is not installed",
        ],
    );
    let mounts = format!("{MOUNTS}ferrotrace /sys/kernel/ferrotrace ferrotrace rw 0 0\n");
    let mounted = ("proc/self/mounts", Some(&*mounts));
    let edits = [INTEGRITY, (CORE, Some(&signed)), mounted];
    case(
        &edits,
        0,
        &[
            "ok our modules' files at /sys/kernel/ferrotrace",
            "ok dprobes our module rust_dprobes",
        ],
    );
    // Signatures would not help.
    case(&[CONFIDENTIALITY], 0, &["no dprobes lockdown closes all"]);
    case(
        &[CONFIDENTIALITY, (CORE, Some(&signed)), mounted],
        0,
        &[
            "no lockdown: confidentiality",
            "warn tracefs: closed by lockdown",
            "no probe (kernel) lockdown",
            "no trace record lockdown closes tracefs",
        ],
    );
    case(
        &[(LOCKDOWN, None), ("proc/self/mounts", Some(""))],
        1,
        &["warn lockdown: not known without securityfs; run: mount -t securityfs"],
    );
    case(&[(LOCKDOWN, None)], 0, &["ok lockdown: not in this kernel"]);
}

#[test]
fn secure_boot_and_keys() {
    let (on, off) = ("\u{6}\0\0\0\u{1}", "\u{6}\0\0\0\0");
    case(&[(SECURE_BOOT, Some(on))], 0, &["warn Secure Boot is on"]);
    case(&[(SECURE_BOOT, Some(off))], 0, &["ok Secure Boot is off"]);
    let signed = format!("kernel:         {VERSION}\nsig_id:         PKCS#7\n");
    let enforced = ("sys/module/module/parameters/sig_enforce", Some("Y\n"));
    let mut edits = vec![
        enforced,
        (CORE, Some(&*signed)),
        ("var/lib/dkms/mok.pub", Some("the key")),
        (MOKS, Some("list: another key")),
    ];
    case(
        &edits,
        1,
        &[
            "no our modules would be refused: the machine does not know the key \
              that they are signed with; \
           run: mokutil --import /var/lib/dkms/mok.pub",
        ],
    );
    edits[3] = (MOKS, Some("list: the key"));
    case(&edits, 0, &["ok dprobes our module"]);
}

#[test]
fn containers_and_users() {
    let status = |uid: u32, effective: &str, bounding: &str| {
        format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{effective}\nCapBnd:\t{bounding}\n")
    };
    let all = "000001ffffffffff";
    let docker = status(0, "00000000a80425fb", "00000000a80425fb");
    case(
        &[
            ("proc/self/status", Some(&docker)),
            (".dockerenv", Some("")),
        ],
        0,
        &[
            "warn in a container (docker)",
            "no root without CAP_SYS_ADMIN",
        ],
    );
    // An image that was made for a container can be booted.
    case(&[(".dockerenv", Some(""))], 0, &["ok not in a container"]);
    case(
        &[("proc/self/uid_map", Some("0 1000 1\n"))],
        0,
        &["warn in a container (a user namespace)"],
    );
    let user = status(1000, "0000000000000000", all);
    let hidden = (
        "proc/kallsyms",
        Some("0000000000000000 A start\n0000000000000000 T _text\n"),
    );
    case(
        &[
            ("proc/self/status", Some(&user)),
            hidden,
            ("sys/kernel/tracing/kprobe_events", None),
        ],
        1,
        &[
            "no not root: ",
            "warn /proc/kallsyms hides addresses from users without CAP_SYSLOG",
            "ok probe (kernel) our module",
        ],
    );
    case(
        &[hidden, ("proc/sys/kernel/kptr_restrict", Some("2\n"))],
        1,
        &[
            "no /proc/kallsyms hides addresses from all users (kernel.kptr_restrict); \
             run: sysctl kernel.kptr_restrict=1",
        ],
    );
}

#[test]
fn filesystems() {
    let tracing = "tracefs /sys/kernel/tracing tracefs ro 0 0\ndebugfs /mnt debugfs rw 0 0\n";
    case(
        &[("proc/self/mounts", Some(tracing))],
        1,
        &[
            "no debugfs is not mounted",
            "no tracefs is mounted read-only",
        ],
    );
    case(
        &[("proc/self/mounts", Some(""))],
        1,
        &[
            "no debugfs is not mounted; run: mount -t debugfs debugfs /sys/kernel/debug",
            "no tracefs is not mounted; run: mount -t tracefs tracefs /sys/kernel/tracing",
            "no probe (programs) tracefs is not mounted",
        ],
    );
    // debugfs mounts tracefs when it is looked at.
    let debugfs = "debugfs /sys/kernel/debug debugfs rw 0 0\n";
    case(
        &[
            ("proc/self/mounts", Some(debugfs)),
            ("sys/kernel/debug/tracing/events/enable", Some("")),
            ("sys/kernel/debug/tracing/uprobe_events", Some("")),
        ],
        0,
        &[
            "ok tracefs at /sys/kernel/debug/tracing",
            "ok probe (programs)",
        ],
    );
    case(
        &[
            ("proc/sys/kernel/ftrace_enabled", Some("0\n")),
            ("sys/kernel/debug/kprobes/enabled", Some("0\n")),
        ],
        1,
        &[
            "no ftrace is switched off; run: sysctl kernel.ftrace_enabled=1",
            "no kprobes are switched off; run: echo 1 >/sys/kernel/debug/kprobes/enabled",
        ],
    );
}

#[test]
fn modules() {
    let others = "lib/modules/7.3.2+deb13-amd64/modules.dep";
    let none = (DEP, Some("kernel/fs/ext4/ext4.ko.xz:\n"));
    let files = ("lib/modules/7.3.4+deb13-amd64/updates", None);
    let installation = "run: apt install ./ferrotrace-modules-7.3.4+deb13-amd64_*.deb";
    case(
        &[none, files],
        1,
        &[
            &format!("no our modules are not installed; {installation}"),
            "warn probe (kernel) kprobe_events of tracefs, as our modules are not installed",
            "warn relay record, list, stat only the kernel's own relay channels",
        ],
    );
    case(
        &[
            none,
            files,
            (others, Some("updates/ferrotrace/ferrotrace_core.ko:\n")),
            (
                &others.replace("modules.dep", "updates/ferrotrace/ferrotrace_core.ko"),
                Some(""),
            ),
        ],
        1,
        &[&format!(
            "no our modules are for 7.3.2+deb13-amd64 only; {installation}"
        )],
    );
    case(
        &[
            none,
            files,
            ("usr/src/ferrotrace-0.2.0/dkms.conf", Some("")),
        ],
        1,
        &["no our modules are not installed; \
             run: dkms install ferrotrace/0.2.0 -k 7.3.4+deb13-amd64"],
    );
    case(
        &[none],
        1,
        &["no our modules are installed, but depmod has not listed them; run: depmod 7.3.4"],
    );
    case(
        &[
            none,
            files,
            ("proc/sys/kernel/osrelease", Some("7.1.0-arch1\n")),
        ],
        0,
        &["no our modules are for Linux 7.2"],
    );
    let another = "kernel:         #2 SMP\n";
    case(
        &[(CORE, Some(another))],
        1,
        &[&format!(
            "no our modules would be refused: they are for another build of this kernel; \
             {installation}"
        )],
    );
    case(
        &[("proc/sys/kernel/modules_disabled", Some("1\n"))],
        0,
        &["no our modules would be refused: kernel.modules_disabled"],
    );
    case(
        &[
            ("sys/module/rust_dprobes/refcnt", Some("0\n")),
            ("usr/sbin/modprobe", None),
        ],
        0,
        &["ok loaded: rust_dprobes", "no there is no modprobe"],
    );
}

#[test]
fn symbols_and_types() {
    let vmlinux = "usr/lib/debug/boot/vmlinux-7.3.4+deb13-amd64";
    let btf = ("sys/kernel/btf", None);
    case(&[btf], 0, &["no no BTF"]);
    case(&[btf, (vmlinux, None)], 0, &["no no BTF"]);
    case(
        &[(vmlinux, None)],
        0,
        &[
            "warn no debugging information of the kernel: no probes at lines; \
             run: apt install linux-image-",
        ],
    );
    // A note with a build ID, which the file lacks.
    let note = "\u{4}\0\0\0\u{4}\0\0\0\u{3}\0\0\0GNU\0abcd";
    case(
        &[("sys/kernel/notes", Some(note))],
        0,
        &["warn /usr/lib/debug/boot/vmlinux-7.3.4+deb13-amd64 is not of this build"],
    );
    case(
        &[("usr/lib/debug/.build-id", None)],
        0,
        &["warn no debugging information of programs"],
    );
    case(
        &[("proc/cmdline", Some("quiet\n"))],
        0,
        &["warn recover no reserve_mem="],
    );
}

#[test]
fn an_odd_system() {
    // Nothing there, and nonsense in each file that is read.
    let empty = Machine(TempDir::new().unwrap());
    let (text, _) = empty.doctor(&[]);
    assert!(text.contains("ok    relay merge, export, report"), "{text}");
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys")] {
        let line = format!(
            "no    {at} is not mounted, so that most is not known; run: mount -t {kind} {kind} {at}"
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert!(
        text.contains("no    tracefs is not in this kernel"),
        "{text}"
    );
    let paths = [
        "proc/sys/kernel/osrelease",
        "proc/sys/kernel/version",
        "proc/sys/kernel/kptr_restrict",
        "proc/self/status",
        "proc/self/mounts",
        "proc/self/uid_map",
        "proc/kallsyms",
        "proc/config.gz",
        CONFIG,
        LOCKDOWN,
        SECURE_BOOT,
        MOKS,
        DEP,
        CORE,
        "sys/kernel/notes",
        "usr/lib/debug/boot/vmlinux-7.3.4+deb13-amd64",
    ];
    let nonsense: [&[u8]; 4] = [
        b"",
        b"\xff\xfe\0",
        b"[ : =\n:\n[]\n\n ",
        &[0x1f, 0x8b, 8, 0, 9],
    ];
    for bytes in nonsense {
        for path in paths {
            let machine = Machine::new();
            machine.edit((path, Some("")));
            fs::write(machine.0.path().join(path), bytes).unwrap();
            let (text, _) = machine.doctor(&[]);
            assert!(text.contains("commands, for root"), "{path}: {text}");
        }
    }
}
