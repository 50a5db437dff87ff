// SPDX-License-Identifier: GPL-2.0

//! Fast channels: `ferrotrace relay record` on simulated buffers.

use std::fs;
use std::fs::File;
use std::thread;
use std::time::Duration;

use crate::common::exists;
use crate::common::fail;
use crate::common::fast::Channel;
use crate::common::fast::LARGE;
use crate::common::fast::SMALL;
use crate::common::fast::check_whole;
use crate::common::fast::number;
use crate::common::fast::numbered;
use crate::common::fast::numbers;
use crate::common::fast::write;
use crate::common::interrupt;
use crate::common::ring::Shape;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;
use crate::common::wait;
use crate::common::with_small_files;
use ferrotrace::fast::record::Header;
use ferrotrace::fast::ring::abi;

/// A second recorder would take part of the data, with mmap or read(2).
#[test]
fn one_records_a_channel() {
    for other in [&[][..], &["--read"]] {
        let channel = Channel::new();
        let mut cpu0 = channel.cpu(0, LARGE);
        write(&mut cpu0, 0..10);
        let child = start(&mut channel.record(&["--watermark", "8"]));
        wait(|| cpu0.consumed() == cpu0.position());
        let second = channel.root.path().join("second");
        let mut record = channel.command("record", &["-d", "0.1", "-o"]);
        record.arg(&second).args(other);
        let message = fail(&mut record);
        assert!(message.contains("another process is reading"), "{message}");
        assert!(!exists(&second));
        interrupt(&child);
        assert!(child.wait_with_output().unwrap().status.success());
        succeed(&mut record);
    }
}

#[test]
fn a_recording_of_several_cpus() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, LARGE);
    let mut cpu5 = channel.cpu(5, SMALL);
    // Earlier losses are not counted in this recording.
    cpu0.set(abi::LOST, 11);
    write(&mut cpu0, 0..100);
    write(&mut cpu5, 0..7);
    assert!(cpu5.write(numbered(1), Header::DISCARDED));
    let child = start(&mut channel.record(&["--json", "--watermark", "128"]));
    wait(|| cpu0.consumed() == cpu0.position() && cpu5.consumed() == cpu5.position());
    assert_eq!(cpu0.get(abi::CONSUMER + abi::WATERMARK), 128);
    // More than the buffer holds; each record is written as soon as there is room.
    for number in 100..2000 {
        while !cpu0.write(numbered(number), 0) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let lost = cpu0.get(abi::LOST);
    // A CPU that starts later lost records before the recorder saw it.
    let mut cpu2 = channel.cpu(2, SMALL);
    cpu2.set(abi::LOST, 3);
    write(&mut cpu2, 0..5);
    wait(|| cpu2.consumed() == cpu2.position());
    write(&mut cpu2, 5..8);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    assert_eq!(channel.recorded(0), numbers(0..2000));
    assert_eq!(channel.recorded(5), numbers(0..7));
    assert_eq!(channel.recorded(2), numbers(0..8));
    let metadata = channel.metadata();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary, metadata);
    assert_eq!(metadata["records"], "fast");
    assert_eq!(metadata["method"], "control-page");
    assert_eq!(metadata["mode"], "no-overwrite");
    assert_eq!(metadata["subbuf_size"], 4096);
    assert_eq!(metadata["stop"], "signal");
    assert_eq!(metadata["complete"], true);
    assert_eq!(metadata["dropped"], lost - 11 + 3);
    assert!(metadata["start_monotonic_ns"].as_u64().unwrap() > 0);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(metadata["boot_id"], boot.trim());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(metadata["host"], host.trim());
    assert_eq!(metadata["cpus"][0]["records"], 2000);
    assert_eq!(metadata["cpus"][0]["lost_records"], lost - 11);
    assert_eq!(metadata["cpus"][1]["lost_records"], 3);
    assert_eq!(metadata["cpus"][1]["cpu"], 2);
    assert_eq!(metadata["cpus"][2]["records"], 7);
}

/// Successive recordings have each record once.
#[test]
fn a_recording_goes_on_where_the_last_one_stopped() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    let mut from = 0;
    for to in [3, 4, 4, 10, 13] {
        write(&mut cpu, from..to);
        let output = succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
        assert_eq!(channel.recorded(0), numbers(from..to));
        let text = stdout(&output);
        assert!(
            text.contains(&format!("{} records, 0 lost", to - from)),
            "{text}"
        );
        from = to;
    }
}

/// The control page has the count of lost records, for read(2) as well. read(2) of the simulated
/// file also returns the pages before the data, so this test writes no records.
#[test]
fn read_counts_what_was_lost() {
    let channel = Channel::new();
    let cpu = channel.cpu(0, SMALL);
    cpu.set(abi::LOST, 3);
    let child = start(&mut channel.record(&["--read"]));
    wait(|| exists(&channel.out().join("cpu0")));
    cpu.set(abi::LOST, 8);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    assert!(text.contains("dropped by the kernel: 5\n"), "{text}");
    assert!(text.contains("0 records, 5 lost"), "{text}");
    let metadata = channel.metadata();
    assert_eq!(metadata["records"], "fast");
    assert_eq!(metadata["method"], "read");
    assert_eq!(metadata["subbuf_size"], 256);
    assert_eq!(metadata["dropped"], 5);
    assert_eq!(metadata["cpus"][0]["lost_records"], 5);
}

/// A recording ends if read(2) returns anything but records.
#[test]
fn read_gives_records_or_an_error() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    write(&mut cpu, 0..3);
    let message = fail(&mut channel.record(&["--read", "--duration", "30"]));
    assert!(message.contains("that are no records"), "{message}");
}

#[test]
fn a_closed_channel_ends_the_recording() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, SMALL);
    let mut cpu1 = channel.cpu(1, SMALL);
    write(&mut cpu0, 0..3);
    let child = start(&mut channel.record(&[]));
    wait(|| cpu0.consumed() == cpu0.position() && exists(&channel.out().join("cpu1")));
    write(&mut cpu0, 3..5);
    write(&mut cpu1, 0..2);
    // The files are removed, too.
    fs::remove_dir_all(channel.root.path().join("relay")).unwrap();
    cpu0.close();
    cpu1.close();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(0), numbers(0..5));
    assert_eq!(channel.recorded(1), numbers(0..2));
    assert_eq!(channel.metadata()["stop"], "closed");
}

/// The end of a recording waits for an open record, but only for a limited time.
#[test]
fn a_writer_that_never_commits() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    write(&mut cpu, 0..2);
    let slot = cpu.reserve(numbered(2)).unwrap();
    let inner = cpu.reserve(numbered(3)).unwrap();
    cpu.fill(&inner, 0);
    cpu.commit();
    succeed(&mut channel.record(&["--duration", "0.05"]));
    assert_eq!(channel.recorded(0), numbers(0..2));
    cpu.fill(&slot, 0);
    cpu.commit();
    succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
    assert_eq!(channel.recorded(0), numbers(2..4));
}

/// The disk of one CPU is full: other CPUs' data is kept, and unsaved data is not consumed.
#[test]
fn a_full_disk() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, SMALL);
    let mut cpu1 = channel.cpu(1, LARGE);
    write(&mut cpu0, 0..5);
    (0..).take_while(|&i| cpu1.write(numbered(i), 0)).count();
    let mut record = with_small_files(&channel.record(&["--buffered", "--duration", "30"]));
    let message = fail(&mut record);
    assert!(
        message.contains("cannot write") && message.contains("cpu1"),
        "{message}"
    );
    assert_eq!(channel.recorded(0), numbers(0..5));
    assert_eq!(cpu0.consumed(), cpu0.position());
    assert_eq!(cpu1.consumed(), 0);
    assert_eq!(channel.metadata()["stop"], "error");
}

/// A file with a size limit ends with a whole record, and the next recording continues after it.
#[test]
fn a_disk_that_fills_up() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, LARGE);
    let written = (0..).take_while(|&i| cpu.write(numbered(i), 0)).count();
    let written = u64::try_from(written).unwrap();
    let record = channel.record(&["--duration", "30"]);
    let message = fail(&mut with_small_files(&record));
    assert!(message.contains("cannot write to"), "{message}");
    let first = channel.recorded(0);
    let len = fs::metadata(channel.out().join("cpu0")).unwrap().len();
    assert_eq!(cpu.consumed() == 0, len == 0);

    succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
    let both = [first, channel.recorded(0)].concat();
    assert_eq!(both, numbers(0..written));
}

#[test]
fn a_flight_recorder_is_never_torn() {
    let channel = Channel::new();
    let shape = Shape {
        overwrite: true,
        ..LARGE
    };
    let mut cpu = channel.cpu(0, shape);
    for number in 0..3000 {
        assert!(cpu.write(numbered(number), 0));
    }
    let child = start(&mut channel.record(&[]));
    // The recorder has blocked the signals when the file exists.
    wait(|| exists(&channel.out().join("cpu0")));
    for number in 3000..60_000 {
        assert!(cpu.write(numbered(number), 0));
        if number % 5000 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let records = channel.recorded(0);
    check_whole(&records);
    assert_eq!(number(records.last().unwrap()), 59_999);
    let metadata = channel.metadata();
    assert_eq!(metadata["mode"], "overwrite");
    assert!(metadata["cpus"][0]["overwritten_bytes"].as_u64().unwrap() > 0);
    assert!(stdout(&output).contains("bytes overwritten"));
}

#[test]
fn control_pages_that_cannot_be() {
    let check = |offset: usize, value: u64, expected: &str| {
        let channel = Channel::new();
        let cpu = channel.cpu(0, SMALL);
        cpu.set(offset, value);
        let message = fail(&mut channel.record(&["--duration", "0.05"]));
        assert!(message.contains(expected), "{message}");
    };
    let magic = u64::from(abi::MAGIC);
    check(abi::MAGIC_VERSION, magic | 2 << 32, "version 2");
    check(abi::N_SUBBUFS, 3, "no buffer has 3 sub-buffers");
    check(abi::SUBBUF_SIZE, 0, "no buffer has 4 sub-buffers of 0");
    check(abi::MASK, 4095, "no buffer has");
    check(abi::CONSUMER, 8, "consumed position of 8");
    check(abi::RESERVE, 4096 << 2, "4096 unread bytes of 1024");
}

#[test]
fn options_that_make_no_sense() {
    let channel = Channel::new();
    let cpu = channel.cpu(0, SMALL);
    let message = fail(&mut channel.record(&["--header", "4"]));
    assert!(message.contains("fast channel"), "{message}");
    assert!(!exists(&channel.out()));
    drop(cpu);
    // The file is too short for the sizes in its header.
    let file = File::options().write(true).open(channel.file(0)).unwrap();
    file.set_len(8192).unwrap();
    let message = fail(&mut channel.record(&[]));
    assert!(message.contains("shorter than"), "{message}");
}
