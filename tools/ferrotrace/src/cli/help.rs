// SPDX-License-Identifier: GPL-2.0

//! Examples, files and related pages of each command: the start of its `--help`, and sections of
//! its man page.

#![deny(unsafe_code)]

/// Of `ferrotrace` itself.
pub const ALL: &str = "\
Examples:
  ferrotrace watch 'do_sys_openat2 filename' -- cat /etc/hostname
  ferrotrace count sched:sched_switch --by next_comm -d 5s
  ferrotrace time syscall:openat -- ls -R /usr

The cookbook has a line for each of forty jobs: Documentation/cookbook.rst";

pub const WATCH: &str = "\
Examples:
  ferrotrace watch 'do_sys_openat2 filename how->flags:x'
  ferrotrace watch 'syscall:openat if ret<0' -n 10
  ferrotrace watch libc.so.6:malloc%return sched:sched_process_exec -d 2s";

pub const COUNT: &str = "\
Examples:
  ferrotrace count 'vfs_*' -- ls -R /usr
  ferrotrace count sched:sched_switch --by next_comm -d 5s
  ferrotrace count vfs_read --by comm --hist count -d 5s";

pub const TIME: &str = "\
Examples:
  ferrotrace time vfs_read -- cat /etc/hostname
  ferrotrace time syscall:openat --by comm -d 5s
  ferrotrace time --since blk_mq_start_request blk_mq_end_request";

pub const STACK: &str = "\
Examples:
  ferrotrace stack vfs_fsync -- sync
  ferrotrace stack kfree_skb_reason --folded -d 5s >stacks
  ferrotrace stack sched:sched_switch --of user -p 1234";

pub const RECORD: &str = "\
Examples:
  ferrotrace record 'sched:*' -o rec -d 2s
  ferrotrace record 'vfs_read count' -o rec -- ls -R /usr
  ferrotrace record --keep -o kept 'do_sys_openat2 filename'
  ferrotrace record relay:/sys/kernel/debug/ferrotrace_blktrace/cpu -o rec";

pub const SHOW: &str = "\
Examples:
  ferrotrace show rec
  ferrotrace show rec -n 20 --wall
  ferrotrace show rec --json --cpu 0-1 | jq .";

pub const EXPORT: &str = "\
Examples:
  ferrotrace export rec --format perfetto -o trace.pftrace
  ferrotrace export rec --format ctf -o ctf
  ferrotrace export rec --format parquet -o table.parquet";

pub const REPORT: &str = "\
Examples:
  ferrotrace report rec
  ferrotrace report rec -t 5
  ferrotrace report rec --html -o page.html";

pub const RECOVER: &str = "\
Examples:
  ferrotrace recover flight -o rec
  ferrotrace recover flight -o rec --sealed --drop
  ferrotrace recover ferrotrace --described kept -o rec
  ferrotrace recover --image memory.copy -o rec";

pub const COV: &str = "\
Examples:
  ferrotrace cov reset
  ferrotrace cov report
  ferrotrace cov report --lcov coverage.info
  ferrotrace cov report one.run two.run --vmlinux vmlinux
  ferrotrace cov live 'ext4_*' -- ./test
  ferrotrace cov merge runs/* --vmlinux vmlinux";

pub const COV_MERGE: &str = "\
Examples:
  ferrotrace cov live --all --save run -- ./test
  ferrotrace cov merge runs/* --vmlinux vmlinux --lines
  ferrotrace cov merge runs/* --vmlinux vmlinux --parquet tables";

pub const COV_EXPOSED: &str = "\
Examples:
  git log --format='%h %s' --grep CVE v7.3.4..v7.3.9 >fixes
  ferrotrace cov exposed --fixes fixes runs/* --vmlinux vmlinux";

pub const COV_PATCH: &str = "\
Examples:
  ferrotrace cov patch origin/master..
  git diff | ferrotrace cov patch - test.run --vmlinux vmlinux
  ferrotrace cov patch v7.3.. after.dump --markdown --fail-under 80";

pub const DOCTOR: &str = "\
Examples:
  ferrotrace doctor
  sudo ferrotrace doctor
  ferrotrace doctor --json | jq .";

pub const KERNEL: &str = "\
Examples:
  ferrotrace kernel probes list
  ferrotrace kernel relay list
  ferrotrace kernel dprobes query";

/// Exit statuses, of all commands.
pub const EXIT_STATUS: [&str; 4] = [
    "0: all was done. Hits that are lost are told, and change nothing here.",
    "1: something could not be done; a message says what and why. Of doctor: there is something to be mended.",
    "2: the command line is not understood.",
    "With -- COMMAND the status is that of COMMAND, 128 and the number of the signal that ended it, or 126 or 127 if it cannot be run.",
];

/// Files that commands use.
pub const FILES: [(&str, &str); 4] = [
    (
        "/sys/kernel/tracing",
        "tracefs: tracepoints, system calls, and probes without the modules.",
    ),
    (
        "/sys/kernel/debug",
        "debugfs: the directories of the modules, and relay channels.",
    ),
    ("/proc/kallsyms", "The kernel's functions."),
    ("REC/metadata.json", "The description of a recording."),
];
