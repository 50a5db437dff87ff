// SPDX-License-Identifier: GPL-2.0

//! BPF programs that do the job of probe programs at the same place, as bpftrace or a client of
//! libbpf would load them, without either. For the benchmark.

use std::ffi::CString;
use std::fs::read_to_string;
use std::io::Error;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::raw::c_long;

use crate::testlib::SYMBOL;

/// Of `linux/bpf.h`.
mod abi {
    pub const MAP_CREATE: i32 = 0;
    pub const MAP_LOOKUP_ELEM: i32 = 1;
    pub const MAP_UPDATE_ELEM: i32 = 2;
    pub const PROG_LOAD: i32 = 5;
    pub const OBJ_GET_INFO_BY_FD: i32 = 15;

    pub const MAP_HASH: u32 = 1;
    pub const MAP_ARRAY: u32 = 2;
    pub const MAP_PERF_EVENT_ARRAY: u32 = 4;
    pub const MAP_RINGBUF: u32 = 27;

    pub const PROG_TYPE_KPROBE: u32 = 2;

    pub const FN_MAP_LOOKUP: u32 = 1;
    pub const FN_MAP_UPDATE: u32 = 2;
    pub const FN_KTIME_GET_NS: u32 = 5;
    pub const FN_GET_CURRENT_PID_TGID: u32 = 14;
    pub const FN_PERF_EVENT_OUTPUT: u32 = 25;
    pub const FN_RINGBUF_OUTPUT: u32 = 130;

    /// Of `linux/perf_event.h`.
    pub const PERF_TYPE_SOFTWARE: u32 = 1;
    pub const PERF_COUNT_SW_BPF_OUTPUT: u64 = 10;
    pub const PERF_SAMPLE_RAW: u64 = 1 << 10;
    pub const PERF_ATTR_BACKWARD: u64 = 1 << 27;
    pub const PERF_IOC_ENABLE: u64 = 0x2400;
    pub const PERF_IOC_SET_BPF: u64 = 0x4004_2408;
}

/// Offsets of two registers in the context of a program, `struct pt_regs`.
const SI: i16 = 104;
const DI: i16 = 112;

/// Keys of the maps.
const ENTRIES: u32 = 256;

/// A register of BPF. The last one points to the end of a program's stack.
#[derive(Clone, Copy)]
enum R {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    Frame = 10,
}

use R::*;

/// An instruction.
const fn insn(code: u8, to: R, from: R, offset: i16, number: u32) -> u64 {
    code as u64
        | (to as u64) << 8
        | (from as u64) << 12
        | (offset as u16 as u64) << 16
        | (number as u64) << 32
}

const fn set(to: R, number: u32) -> u64 {
    insn(0xb7, to, R0, 0, number)
}

const fn copy(to: R, from: R) -> u64 {
    insn(0xbf, to, from, 0, 0)
}

const fn add(to: R, number: i32) -> u64 {
    insn(0x07, to, R0, 0, number as u32)
}

/// Of a word of 64 bits.
const fn load(to: R, from: R, offset: i16) -> u64 {
    insn(0x79, to, from, offset, 0)
}

/// Of a word of 64 bits.
const fn store(to: R, offset: i16, from: R) -> u64 {
    insn(0x7b, to, from, offset, 0)
}

/// Of a word of 32 bits.
const fn store32(to: R, offset: i16, from: R) -> u64 {
    insn(0x63, to, from, offset, 0)
}

const fn call(function: u32) -> u64 {
    insn(0x85, R0, R0, 0, function)
}

const EXIT: u64 = insn(0x95, R0, R0, 0, 0);

/// A map's address.
fn map(to: R, map: &OwnedFd) -> [u64; 2] {
    // The source register of the immediate says that the immediate is a file descriptor.
    [insn(0x18, to, R1, 0, map.as_raw_fd() as u32), 0]
}

/// Job of a program.
#[derive(Clone, Copy)]
pub enum Job {
    /// Nothing.
    Nothing,
    /// Counts by process, in a hash table.
    CountInHash,
    /// Counts in an array, by the last byte of the process's number.
    CountInArray,
    /// Logs two registers to a ring buffer.
    RingBuffer,
    /// Writes to a ring buffer, with the time.
    RingBufferTimed,
    /// Writes to a buffer of perf.
    PerfBuffer,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    insns: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgInfo {
    kind: u32,
    id: u32,
    tag: u64,
    jited_len: u32,
    translated_len: u32,
}

#[repr(C)]
#[derive(Default)]
struct PerfAttr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    _breakpoint: u32,
    config1: u64,
    config2: u64,
}

fn checked(result: c_long, what: &str) -> i32 {
    assert!(result >= 0, "{what}: {}", Error::last_os_error());
    result as i32
}

/// Makes the bpf(2) system call. `attr` must be right for the command.
fn bpf<T>(command: i32, attr: &T, what: &str) -> i32 {
    // SAFETY: The kernel reads as many bytes as there are. It writes to memory that `attr` names,
    // which the callers provide.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) };
    checked(result, what)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: A system call has just returned it, so it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn create_map(kind: u32, key: u32, value: u32, entries: u32) -> OwnedFd {
    let attr = MapCreate {
        kind,
        key,
        value,
        entries,
        flags: 0,
    };
    owned(bpf(abi::MAP_CREATE, &attr, "creating a map"))
}

fn perf_event(mut attr: PerfAttr, cpu: i32) -> OwnedFd {
    attr.size = size_of::<PerfAttr>() as u32;
    // SAFETY: The kernel reads as many bytes of the structure as it says that it has.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attr, -1, cpu, -1, 0) };
    owned(checked(fd, "opening a perf event"))
}

/// A program that is attached, until this is dropped.
pub struct Attached {
    // The probe is dropped before the maps and buffers that its program uses.
    _probe: OwnedFd,
    _program: OwnedFd,
    map: Option<OwnedFd>,
    _output: Option<OwnedFd>,
}

impl Attached {
    /// Attaches a program at an offset of the function that the benchmark calls. Panics if the
    /// kernel has not compiled it to machine code.
    pub fn new(job: Job, offset: u64) -> Self {
        let (map, output) = match job {
            Job::Nothing => (None, None),
            Job::CountInHash => (Some(create_map(abi::MAP_HASH, 4, 8, ENTRIES)), None),
            Job::CountInArray => (Some(create_map(abi::MAP_ARRAY, 4, 8, ENTRIES)), None),
            // More than is ever written, so that nothing is lost, which would be quicker.
            Job::RingBuffer | Job::RingBufferTimed => {
                (Some(create_map(abi::MAP_RINGBUF, 0, 0, 1 << 20)), None)
            }
            Job::PerfBuffer => {
                let (map, output) = perf_buffer();
                (Some(map), Some(output))
            }
        };
        let program = load_program(&code(job, map.as_ref()));
        let kind = read_to_string("/sys/bus/event_source/devices/kprobe/type").unwrap();
        let symbol = CString::new(SYMBOL).unwrap();
        let attr = PerfAttr {
            kind: kind.trim().parse().unwrap(),
            config1: symbol.as_ptr().addr() as u64,
            config2: offset,
            ..Default::default()
        };
        let probe = perf_event(attr, 0);
        for (request, argument) in [
            (abi::PERF_IOC_SET_BPF, program.as_raw_fd()),
            (abi::PERF_IOC_ENABLE, 0),
        ] {
            // SAFETY: These take a number.
            let result = unsafe { libc::ioctl(probe.as_raw_fd(), request, argument) };
            checked(result.into(), "attaching a program");
        }
        Self {
            _probe: probe,
            _program: program,
            map,
            _output: output,
        }
    }

    /// Returns the count that a counting program has for this process.
    pub fn counted(&self, key: u32) -> u64 {
        let mut value = 0u64;
        let attr = MapElement {
            map: self.map.as_ref().expect("a map").as_raw_fd() as u32,
            _pad: 0,
            key: (&raw const key).addr() as u64,
            value: (&raw mut value).expose_provenance() as u64,
            flags: 0,
        };
        bpf(abi::MAP_LOOKUP_ELEM, &attr, "looking a key up");
        value
    }
}

/// Creates a map with the perf buffer of the first CPU, which keeps the newest records.
fn perf_buffer() -> (OwnedFd, OwnedFd) {
    let map = create_map(abi::MAP_PERF_EVENT_ARRAY, 4, 4, 64);
    let attr = PerfAttr {
        kind: abi::PERF_TYPE_SOFTWARE,
        config: abi::PERF_COUNT_SW_BPF_OUTPUT,
        period: 1,
        sample: abi::PERF_SAMPLE_RAW,
        flags: abi::PERF_ATTR_BACKWARD,
        // No reader waits.
        wakeup: u32::MAX,
        ..Default::default()
    };
    let output = perf_event(attr, 0);
    // Mapped to be read only, it is overwritten.
    // SAFETY: It is a new mapping, which stays until the process ends, and has no readers.
    let mapping = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096 * 65,
            libc::PROT_READ,
            libc::MAP_SHARED,
            output.as_raw_fd(),
            0,
        )
    };
    assert!(mapping != libc::MAP_FAILED, "{}", Error::last_os_error());
    // SAFETY: It takes a number.
    let enabled = unsafe { libc::ioctl(output.as_raw_fd(), abi::PERF_IOC_ENABLE, 0) };
    checked(enabled.into(), "enabling perf's buffer");
    let (cpu, fd) = (0u32, output.as_raw_fd());
    let attr = MapElement {
        map: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const cpu).addr() as u64,
        value: (&raw const fd).addr() as u64,
        flags: 0,
    };
    bpf(abi::MAP_UPDATE_ELEM, &attr, "storing perf's buffer");
    (map, output)
}

fn code(job: Job, used: Option<&OwnedFd>) -> Vec<u64> {
    let used = || used.expect("a map");
    let mut code = Vec::new();
    match job {
        Job::Nothing => (),
        Job::CountInHash | Job::CountInArray => {
            code.extend([
                call(abi::FN_GET_CURRENT_PID_TGID),
                insn(0x77, R0, R0, 0, 32), // r0 >>= 32: the process
            ]);
            if let Job::CountInArray = job {
                code.push(insn(0x57, R0, R0, 0, ENTRIES - 1)); // r0 &= 255
            }
            code.push(store32(Frame, -4, R0));
            code.extend(map(R1, used()));
            code.extend([
                copy(R2, Frame),
                add(R2, -4),
                call(abi::FN_MAP_LOOKUP),
                insn(0x15, R0, R0, 3, 0), // without a value: to the code after the jump
                set(R1, 1),
                insn(0xdb, R0, R1, 0, 0),  // adds, atomically
                insn(0x05, R0, R0, 10, 0), // to the end
                set(R1, 1),
                store(Frame, -16, R1),
            ]);
            code.extend(map(R1, used()));
            code.extend([
                copy(R2, Frame),
                add(R2, -4),
                copy(R3, Frame),
                add(R3, -16),
                set(R4, 0),
            ]);
            // The jump above has its length: an array has all keys, but a program cannot know.
            code.push(call(abi::FN_MAP_UPDATE));
        }
        Job::RingBuffer | Job::RingBufferTimed | Job::PerfBuffer => {
            let mut len = 16;
            code.extend([
                copy(R6, R1),
                load(R1, R6, DI),
                store(Frame, -16, R1),
                load(R1, R6, SI),
                store(Frame, -8, R1),
            ]);
            if let Job::RingBufferTimed = job {
                len += 8;
                code.extend([call(abi::FN_KTIME_GET_NS), store(Frame, -24, R0)]);
            }
            let data = -(len as i32);
            match job {
                Job::PerfBuffer => {
                    code.push(copy(R1, R6));
                    code.extend(map(R2, used()));
                    code.extend([
                        insn(0xb4, R3, R0, 0, u32::MAX), // of this CPU
                        copy(R4, Frame),
                        add(R4, data),
                        set(R5, len),
                        call(abi::FN_PERF_EVENT_OUTPUT),
                    ]);
                }
                _ => {
                    code.extend(map(R1, used()));
                    code.extend([
                        copy(R2, Frame),
                        add(R2, data),
                        set(R3, len),
                        set(R4, 1), // without a wake-up
                        call(abi::FN_RINGBUF_OUTPUT),
                    ]);
                }
            }
        }
    }
    code.extend([set(R0, 0), EXIT]);
    code
}

fn load_program(code: &[u64]) -> OwnedFd {
    let mut log = vec![0u8; 1 << 16];
    let mut attr = ProgLoad {
        kind: abi::PROG_TYPE_KPROBE,
        insns: code.len() as u32,
        code: code.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log_level: 1,
        log_size: log.len() as u32,
        log: log.as_mut_ptr().expose_provenance() as u64,
    };
    // SAFETY: As in `bpf()`; the log is as long as `attr` says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            abi::PROG_LOAD,
            &raw mut attr,
            size_of_val(&attr),
        )
    };
    assert!(
        fd >= 0,
        "{}: {}",
        Error::last_os_error(),
        String::from_utf8_lossy(&log)
    );
    let program = owned(fd as i32);
    let mut info = ProgInfo::default();
    let attr = InfoByFd {
        fd: program.as_raw_fd() as u32,
        len: size_of_val(&info) as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    bpf(abi::OBJ_GET_INFO_BY_FD, &attr, "asking for a program");
    assert!(info.jited_len > 0, "the program is interpreted");
    program
}
