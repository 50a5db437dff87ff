// SPDX-License-Identifier: GPL-2.0

//! Records of runs, written to the channel or to klog.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;
use ferro_core::rpn::Entries;
use ferro_core::rpn::Field;
use ferro_core::rpn::Form;
use ferro_core::rpn::Outcome;
use ferro_core::rpn::Plain;
use ferro_core::rpn::RecordHeader;
use ferro_core::rpn::Register;
use ferro_core::rpn::Room;
use ferro_core::rpn::Target;
use ferro_core::rpn::World;
use ferro_core::rpn::FIELDS;
use ferro_core::rpn::RECORD_LEN;
use ferro_fast_relay::Channel;
use ferro_fast_relay::Placed;
use ferro_sys::trace::tracepoint::TaskInfo;

use crate::hit_context::HitContext;
use crate::klog_text;
use crate::raw::cpu_regs as this_cpu;
use crate::raw::task;
use crate::registers::Registers;

/// Type of records in the channel.
pub(crate) const KIND: u16 = 1;

/// Format of the fields that `ferrotrace relay merge` shows without further knowledge.
pub(crate) const FORMAT: &str = "name: dprobe
ID: 1
format:
\tfield:u32 major;\toffset:0;\tsize:4;\tsigned:0;
\tfield:u32 minor;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u16 fields;\toffset:8;\tsize:2;\tsigned:0;
\tfield:u16 exception;\toffset:10;\tsize:2;\tsigned:0;
\tfield:u32 cpu;\toffset:12;\tsize:4;\tsigned:0;
";

/// Record of a run, still in pieces.
pub(crate) struct Record<'a, R> {
    outcome: &'a Outcome,
    here: &'a HitContext<'a, R>,
    data: [&'a [u8]; 2],
}

/// Returns the header of the record of a run.
#[inline(always)]
pub(crate) fn header<R: Registers>(outcome: &Outcome, here: &HitContext<'_, R>) -> RecordHeader {
    RecordHeader {
        major: outcome.major,
        minor: outcome.minor,
        fields: here.point.output.fields,
        exception: match outcome.end {
            End::Fault(fault) => fault.exception.bit(),
            _ => 0,
        },
        cpu: here.cpu(),
    }
}

impl<'a, R: Registers> Record<'a, R> {
    #[inline(always)]
    pub(crate) fn new(
        outcome: &'a Outcome,
        here: &'a HitContext<'a, R>,
        data: [&'a [u8]; 2],
    ) -> Self {
        Self {
            outcome,
            here,
            data,
        }
    }

    /// Passes the bytes of the record to `put`, a piece at a time.
    #[inline(always)]
    fn pieces(&self, mut put: impl FnMut(&[u8])) {
        put(&header(self.outcome, self.here).to_bytes());
        if self.here.point.output.fields != 0 {
            self.fields(&mut put);
        }
        let [log, trace] = self.data;
        put(log);
        if !trace.is_empty() {
            put(trace);
        }
    }

    #[inline(never)]
    fn fields(&self, put: &mut impl FnMut(&[u8])) {
        let chosen = |field: &&Field| self.here.point.output.fields & field.bit() != 0;
        for field in FIELDS.iter().filter(chosen) {
            let bytes = self.field(*field);
            put(bytes.get(..field.len()).unwrap_or_default());
        }
    }

    fn field(&self, field: Field) -> [u8; 16] {
        let here = self.here;
        let register = |register| here.register(register).unwrap_or(0);
        let two = |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        match field {
            Field::ProcName => TaskInfo::current().comm,
            Field::Pid => {
                let (process, thread) = task::ids();
                two(u64::from(thread) << 32 | u64::from(process), 0)
            }
            Field::Uid => two(task::uid().into(), 0),
            Field::SsEsp => two(register(Register::Ss), register(Register::Sp)),
            Field::CsEip => two(register(Register::Cs), register(Register::Ip)),
            Field::Psw => two(register(Register::Flags), 0),
            Field::Upsw => two(here.user_register(Register::Flags).unwrap_or(0), 0),
            Field::Tsc => two(this_cpu::tsc(), 0),
        }
    }

    /// Writes the record to `room`, which has its length.
    #[inline(always)]
    pub(crate) fn fill(&self, mut room: &mut [u8]) {
        self.pieces(|piece| {
            let split = core::mem::take(&mut room).split_at_mut_checked(piece.len());
            if let Some((place, rest)) = split {
                place.copy_from_slice(piece);
                room = rest;
            }
        });
    }

    /// Returns the length of the record in bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        let chosen = |field: &&Field| self.here.point.output.fields & field.bit() != 0;
        let fields: usize = FIELDS.iter().filter(chosen).map(|field| field.len()).sum();
        let data: usize = self.data.iter().map(|data| data.len()).sum();
        RECORD_LEN.saturating_add(fields).saturating_add(data)
    }

    /// Writes the record to the channel or to klog.
    pub(crate) fn write(&self, channel: &Channel, target: Target) {
        match target {
            Target::Relay => {
                // The channel counts records that do not fit.
                let _ = channel.reserve_timed(KIND, self.len(), |record| {
                    self.pieces(|piece| {
                        record.put(piece);
                    });
                    ferro_fast_relay::Outcome::Commit
                });
            }
            Target::Klog => {
                klog_text::print(header(self.outcome, self.here), self.data.map(Entries::new));
            }
        }
    }
}

/// Record in the channel.
struct InChannel<'a, 'b>(&'a mut Placed<'b>);

impl Room for InChannel<'_, '_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0.put(at, bytes);
    }
}

/// Builds the record of a plain program in the channel. Returns false if the program has to be run;
/// then at most padding, which readers skip, is left in the channel.
#[inline(always)]
pub(crate) fn place<F: Form, R: Registers>(
    plain: &Plain,
    here: &HitContext<'_, R>,
    channel: &Channel,
) -> bool {
    use ferro_fast_relay::Outcome;

    let outcome = channel.place_timed(KIND, F::len(plain), |record| {
        match F::write(plain, here, &mut InChannel(record)) {
            true => Outcome::Commit,
            false => Outcome::Discard,
        }
    });
    // The channel counts records that do not fit.
    outcome != Ok(Outcome::Discard)
}

/// Length of the most frequent records: with an entry of 16 bytes of memory, or of two words.
const USUAL: usize = RECORD_LEN + 3 + 16;

/// Writes a contiguous record.
#[inline(always)]
pub(crate) fn write(record: &[u8], channel: &Channel, target: Target) {
    // The channel counts records that do not fit.
    match target {
        // The length is a constant, so that the compiler inlines the copy.
        Target::Relay => match <&[u8; USUAL]>::try_from(record) {
            Ok(record) => drop(channel.write_timed(KIND, record)),
            Err(_) => write_long(record, channel),
        },
        Target::Klog => klog_text::print_bytes(record),
    }
}

/// Writes a record of any length to the channel.
#[inline(never)]
fn write_long(record: &[u8], channel: &Channel) {
    let _ = channel.write_timed(KIND, record);
}
