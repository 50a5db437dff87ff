// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay record` and `stat` on simulated channels.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::process::Child;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::common::Channel;
use crate::common::N;
use crate::common::SUBBUF;
use crate::common::exists;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::interrupt;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;
use crate::common::wait;
use nix::sys::signal::Signal;

const NOT_LONG: [&str; 3] = ["--duration", "0.3", "--no-partial"];

/// Returns pseudo-random bytes.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut state = u64::try_from(seed).unwrap() + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn finished_subbuffers_are_taken_without_their_padding() {
    for header in [0, 4, 8] {
        let channel = Channel::new("no-overwrite", header);
        let mut cpu0 = channel.cpu(0, 0);
        // CPU numbers have a gap, and this CPU's counters start at 5, in a slot other than the
        // first.
        let mut cpu6 = channel.cpu(6, 5);
        let pieces = [
            noise(1, cpu0.room()),
            noise(2, 17),
            noise(3, 0),
            noise(4, 4000),
        ];
        for piece in &pieces {
            cpu0.finish(piece);
        }
        cpu6.finish(&noise(5, 1000));
        cpu6.finish(&noise(6, 2001));

        let mut args = NOT_LONG.to_vec();
        let header_arg = header.to_string();
        args.extend(["--header", &header_arg]);
        let output = succeed(&mut channel.record(&args));

        assert_eq!(channel.recorded(0), pieces.concat());
        assert_eq!(
            channel.recorded(6),
            [noise(5, 1000), noise(6, 2001)].concat()
        );
        assert_eq!(channel.consumed(0), 1, "the last delta");
        assert_eq!(channel.consumed(6), 1, "the last delta");
        let text = stdout(&output);
        assert!(text.contains("cpu   6:"), "{text}");
        assert!(text.contains("0 lost"), "{text}");
        let metadata = channel.metadata();
        assert_eq!(metadata["complete"], true);
        assert_eq!(metadata["stop"], "duration");
        assert_eq!(metadata["subbuf_size"], SUBBUF);
        assert_eq!(metadata["n_subbufs"], N);
        assert_eq!(metadata["header"], header);
        assert_eq!(metadata["dropped"], 0);
        assert_eq!(metadata["cpus"][0]["subbufs"], 4);
        assert_eq!(metadata["cpus"][1]["cpu"], 6);
        assert_eq!(metadata["cpus"][1]["bytes"], 3001);
        let format = fs::read(channel.out.join("format")).unwrap();
        assert_eq!(format, crate::common::FORMAT.as_bytes());
    }
}

#[test]
fn what_comes_while_recording_is_taken_until_sigint() {
    let channel = Channel::new("no-overwrite", 0);
    let mut cpu0 = channel.cpu(0, 0);
    let child = start(&mut channel.record(&["--no-partial", "--json"]));

    let mut expected = Vec::new();
    let mut late = None;
    for i in 0..3 * N {
        let piece = noise(i, 100 + i);
        cpu0.finish(&piece);
        expected.extend(piece);
        channel.wait_for(0, expected.len());
        if i == N {
            // A CPU is brought online.
            let mut cpu = channel.cpu(3, 0);
            cpu.finish(&noise(99, 77));
            late = Some(cpu);
        }
    }
    channel.wait_for(3, 77);
    late.unwrap().finish(&noise(98, 55));
    channel.wait_for(3, 77 + 55);
    fs::write(channel.dir.join("dropped"), "12\n").unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();

    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(0), expected);
    assert_eq!(channel.recorded(3), [noise(99, 77), noise(98, 55)].concat());
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["stop"], "signal");
    assert_eq!(summary["dropped"], 7);
    assert_eq!(summary["cpus"][0]["subbufs"], 3 * N);
    assert_eq!(summary, channel.metadata());
    assert_eq!(stderr(&output), "", "no display without a terminal");
}

/// The kernel creates a CPU's files in sequence, so the recorder waits for the control files.
#[test]
fn a_cpu_whose_control_files_come_later() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    let child = start(&mut channel.record(&["--no-partial"]));
    channel.wait_for(0, 0);
    fs::write(channel.dir.join("cpu1"), vec![0; N * SUBBUF]).unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert!(!exists(&channel.out.join("cpu1")));
    channel.cpu(1, 0).finish(b"late");
    channel.wait_for(1, 4);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(1), b"late");
}

#[test]
fn other_signals_end_a_recording_too() {
    // A closed terminal sends SIGHUP.
    for other in [Signal::SIGTERM, Signal::SIGHUP] {
        let channel = Channel::new("no-overwrite", 0);
        channel.cpu(0, 0).finish(b"something");
        let record = channel.record(&["--no-partial"]);
        // The environment of the tests may ignore SIGHUP, as nohup does.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP");
        command.arg(record.get_program()).args(record.get_args());
        let child = start(&mut command);
        channel.wait_for(0, 9);
        signal(&child, other);
        assert!(child.wait_with_output().unwrap().status.success());
        assert_eq!(channel.metadata()["stop"], "signal");
    }
}

/// A second recorder is refused: each would miss the other's data. stat is harmless and allowed.
#[test]
fn one_reads_a_channel() {
    for method in [&[][..], &["--read"]] {
        let channel = Channel::new("no-overwrite", 0);
        channel.cpu(0, 0).finish(b"something");
        let child = start(&mut channel.record(&[method, &["--no-partial"]].concat()));
        channel.wait_for(0, 9);
        let second = channel.out.with_file_name("second");
        let mut record = ferrotrace();
        record.args(["relay", "record", "-d", "0.1"]);
        record.arg(channel.name()).arg("-o").arg(&second);
        let message = fail(record.args(method));
        assert!(message.contains("another process is reading"), "{message}");
        assert!(!exists(&second));
        succeed(ferrotrace().args(["relay", "stat"]).arg(channel.name()));
        interrupt(&child);
        assert!(child.wait_with_output().unwrap().status.success());
        succeed(&mut record);
    }
}

/// The recorder keeps an ignored SIGHUP ignored, as nohup needs.
#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let channel = Channel::new("no-overwrite", 0);
    let mut cpu = channel.cpu(0, 0);
    cpu.finish(b"something");
    let record = channel.record(&["--no-partial"]);
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    nohup.arg(record.get_program()).args(record.get_args());
    let child = start(&mut nohup);
    channel.wait_for(0, 9);
    signal(&child, Signal::SIGHUP);
    cpu.finish(b"more");
    channel.wait_for(0, 13);
    interrupt(&child);
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(channel.recorded(0), b"somethingmore");
}

fn signal(child: &Child, signal: Signal) {
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// Returns true if all threads of a process are stopped.
fn stopped(child: &Child) -> bool {
    let mut tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    tasks.all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().unwrap().starts_with(" T")
    })
}

/// The writer overtakes the recorder during a copy: saved sub-buffers are undamaged, and every
/// other sub-buffer is counted as lost.
#[test]
fn a_flight_recorder_is_never_torn() {
    for header in [0, 8] {
        let channel = Channel::new("overwrite", header);
        let mut cpu = channel.cpu(0, 0);
        let room = cpu.room();
        let piece = move |number: usize| {
            let len = room / 8 - number % 3;
            u64::try_from(number).unwrap().to_ne_bytes().repeat(len)
        };
        cpu.finish(&piece(0));
        let header_arg = header.to_string();
        let child = start(&mut channel.record(&["--no-partial", "--header", &header_arg]));
        channel.wait_for(0, piece(0).len());

        let stop = Arc::new(AtomicBool::new(false));
        let writer = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Bursts longer than the buffer, with pauses to let the recorder catch up.
                    for _ in 0..200 {
                        cpu.finish(&piece(cpu.number));
                    }
                    thread::sleep(Duration::from_millis(3));
                }
                cpu
            })
        };
        thread::sleep(Duration::from_millis(800));
        // On a busy machine, wait until the recorder has run for some time.
        channel.wait_for(0, 2 * N * room);
        stop.store(true, Ordering::Relaxed);
        let mut cpu = writer.join().unwrap();
        // The writer overtakes the stopped recorder.
        signal(&child, Signal::SIGSTOP);
        wait(|| stopped(&child));
        for _ in 0..2 * N {
            cpu.finish(&piece(cpu.number));
        }
        signal(&child, Signal::SIGCONT);
        let produced = cpu.number;
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));

        let bytes = channel.recorded(0);
        let mut at = 0;
        let mut last = None;
        let mut saved = 0u64;
        while at < bytes.len() {
            let number = usize::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            assert!(last < Some(number), "{last:?} {number}");
            let whole = piece(number);
            assert!(bytes[at..].starts_with(&whole), "sub-buffer {number}");
            at += whole.len();
            last = Some(number);
            saved += 1;
        }
        let metadata = channel.metadata();
        let of = |key: &str| metadata["cpus"][0][key].as_u64().unwrap();
        assert_eq!(of("subbufs"), saved);
        assert_eq!(saved + of("lost_subbufs"), u64::try_from(produced).unwrap());
        assert!(saved > 1, "nothing was saved while the writer ran");
        assert!(of("lost_subbufs") > 0, "nothing was counted as lost");
    }
}

#[test]
fn read_takes_the_stream_and_needs_no_control_files() {
    let channel = Channel::new("no-overwrite", 0);
    let bytes = noise(1, 1_000_003);
    for file in ["subbuf_size", "n_subbufs", "mode", "dropped", "format"] {
        fs::remove_file(channel.dir.join(file)).unwrap();
    }
    fs::write(channel.dir.join("cpu1"), &bytes).unwrap();
    let child = start(&mut channel.record(&["--read"]));
    channel.wait_for(1, bytes.len());
    // The end moves: a read of 0 bytes does not mean end of file.
    let mut file = File::options()
        .append(true)
        .open(channel.dir.join("cpu1"))
        .unwrap();
    file.write_all(b"more").unwrap();
    channel.wait_for(1, bytes.len() + 4);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(1), [bytes, b"more".to_vec()].concat());
    let metadata = channel.metadata();
    assert_eq!(metadata["method"], "read");
    assert_eq!(metadata["subbuf_size"], serde_json::Value::Null);
    assert_eq!(metadata["dropped"], serde_json::Value::Null);
    assert!(!exists(&channel.out.join("format")));
}

#[test]
fn read_removes_headers() {
    let channel = Channel::new("no-overwrite", 4);
    // read(2) of a channel returns headers and data, without padding. The stream has three finished
    // sub-buffers and an unfinished one, whose header is not valid yet.
    let mut stream = Vec::new();
    let pieces = [noise(1, 4092), noise(2, 100), noise(3, 0), noise(4, 50)];
    for (i, piece) in pieces.iter().enumerate() {
        let padding = u32::try_from(SUBBUF - 4 - piece.len()).unwrap();
        stream.extend(if i < 3 { padding } else { 12345 }.to_ne_bytes());
        stream.extend(piece);
    }
    drop(channel.cpu(0, 0));
    fs::write(channel.dir.join("cpu0"), stream).unwrap();
    fs::write(channel.dir.join("cpu0.produced"), 3usize.to_ne_bytes()).unwrap();
    succeed(&mut channel.record(&["--read", "--header", "4", "--duration", "0.3"]));
    assert_eq!(channel.recorded(0), pieces.concat());
    assert_eq!(channel.metadata()["cpus"][0]["partial_bytes"], 50);
}

#[test]
fn a_closed_channel_ends_the_recording() {
    let channel = Channel::new("no-overwrite", 0);
    let path = channel.dir.join("cpu0");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Keeps the FIFO from breaking between the command's lookup and its open for reading.
    use std::os::unix::fs::OpenOptionsExt;
    let nonblock = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let _reader = File::options()
        .read(true)
        .custom_flags(nonblock)
        .open(&path)
        .unwrap();
    let child = start(&mut channel.record(&["--read"]));
    let mut writer = File::options().write(true).open(&path).unwrap();
    writer.write_all(&noise(1, 3000)).unwrap();
    channel.wait_for(0, 3000);
    writer.write_all(&noise(2, 60_000)).unwrap();
    drop(writer);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        channel.recorded(0),
        [noise(1, 3000), noise(2, 60_000)].concat()
    );
    assert_eq!(channel.metadata()["stop"], "closed");
}

#[test]
fn a_reset_is_noticed() {
    let channel = Channel::new("no-overwrite", 0);
    let mut cpu = channel.cpu(0, 7);
    cpu.finish(b"before");
    let child = start(&mut channel.record(&["--no-partial"]));
    channel.wait_for(0, 6);
    // The recorder updates this count after it has written.
    wait(|| channel.consumed(0) == 1);
    fs::write(channel.dir.join("cpu0.consumed"), 0usize.to_ne_bytes()).unwrap();
    cpu.number = 0;
    cpu.finish(b"after");
    channel.wait_for(0, 11);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(0), b"beforeafter");
    assert!(stderr(&output).contains("reset"), "{}", stderr(&output));
}

/// Files that poll always reports as ready must not keep a processor busy.
#[test]
fn waiting_costs_nothing() {
    let channel = Channel::new("no-overwrite", 0);
    for cpu in 0..4 {
        channel.cpu(cpu, 0).finish(b"x");
    }
    let child = start(&mut channel.record(&["--no-partial"]));
    channel.wait_for(3, 1);
    thread::sleep(Duration::from_secs(2));
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
    interrupt(&child);
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(ticks < 30, "{ticks} hundredths of a second in two");
}

#[test]
fn stat_ends_as_all_others() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    for other in [Signal::SIGINT, Signal::SIGTERM] {
        let mut stat = ferrotrace();
        stat.args(["relay", "stat", "-i", "1h"]).arg(channel.name());
        let mut child = start(&mut stat);
        // The command has printed a line and waits.
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0; 10])
            .unwrap();
        signal(&child, other);
        assert!(child.wait_with_output().unwrap().status.success());
    }
}

#[test]
fn stat_shows_the_counters() {
    let channel = Channel::new("overwrite", 0);
    let mut cpu = channel.cpu(0, 3);
    cpu.finish(b"a");
    cpu.finish(b"b");
    fs::write(channel.dir.join("cpu9"), b"only a relay file").unwrap();

    let mut command = ferrotrace();
    command
        .args(["relay", "stat", "--json"])
        .arg(channel.name());
    let stat: serde_json::Value = serde_json::from_slice(&succeed(&mut command).stdout).unwrap();
    assert_eq!(stat["records"], "plain");
    assert_eq!(stat["unit"], "sub-buffers");
    assert_eq!(stat["subbuf_size"], SUBBUF);
    assert_eq!(stat["mode"], "overwrite");
    assert_eq!(stat["dropped"], 5);
    assert_eq!(stat["cpus"][0]["produced"], 5);
    assert_eq!(stat["cpus"][0]["committed"], serde_json::Value::Null);
    assert_eq!(stat["cpus"][0]["consumed"], 3);
    assert_eq!(stat["cpus"][0]["unread"], 2);
    assert_eq!(stat["cpus"][0]["percent"], 50.0);
    assert_eq!(stat["cpus"][1]["cpu"], 9);
    assert_eq!(stat["cpus"][1]["produced"], serde_json::Value::Null);
    assert_eq!(stat["cpus"][1]["bytes"], 17);

    let mut command = ferrotrace();
    command.args(["relay", "stat"]).arg(channel.name());
    let text = stdout(&succeed(&mut command));
    assert!(
        text.contains("compatible, overwrite, 4 sub-buffers of 4096 bytes, dropped: 5"),
        "{text}"
    );
    let row: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row, ["0", "5", "-", "3", "2", "50", "-", "-", "16384", "-"]);
    let row: Vec<_> = text.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(row, ["9", "-", "-", "-", "-", "-", "-", "-", "17", "-"]);
}
