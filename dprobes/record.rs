// SPDX-License-Identifier: GPL-2.0

//! Records of runs: built in the channel, or from pieces for the channel or klog.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core::End;
use ferro_dprobes_core::Entries;
use ferro_dprobes_core::Field;
use ferro_dprobes_core::Form;
use ferro_dprobes_core::Outcome;
use ferro_dprobes_core::Plain;
use ferro_dprobes_core::RecordHeader;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::Room;
use ferro_dprobes_core::Target;
use ferro_dprobes_core::World;
use ferro_dprobes_core::FIELDS;
use ferro_dprobes_core::RECORD_LEN;
use ferro_fast_relay::Placed;
use ferro_sys::trace::tracepoint::TaskInfo;

use crate::hit_context::HitContext;
use crate::klog_text;
use crate::raw::current;
use crate::registers::Registers;
use crate::runtime::KIND;

/// Record of a run, still in pieces.
pub(crate) struct RunRecord<'a, R> {
    outcome: &'a Outcome,
    ctx: &'a HitContext<'a, R>,
    data: [&'a [u8]; 2],
}

/// Returns the header of the record of a run.
#[inline(always)]
pub(crate) fn header<R: Registers>(outcome: &Outcome, ctx: &HitContext<'_, R>) -> RecordHeader {
    RecordHeader {
        major: outcome.major,
        minor: outcome.minor,
        fields: ctx.env.output.fields,
        exception: match outcome.end {
            End::Fault(fault) => fault.exception.bit(),
            _ => 0,
        },
        cpu: ctx.cpu(),
    }
}

impl<'a, R: Registers> RunRecord<'a, R> {
    #[inline(always)]
    pub(crate) fn new(
        outcome: &'a Outcome,
        ctx: &'a HitContext<'a, R>,
        data: [&'a [u8]; 2],
    ) -> Self {
        Self { outcome, ctx, data }
    }

    /// Passes the bytes of the record to `put`, a piece at a time.
    #[inline(always)]
    fn pieces(&self, mut put: impl FnMut(&[u8])) {
        put(&header(self.outcome, self.ctx).to_bytes());
        if self.ctx.env.output.fields != 0 {
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
        let chosen = |field: &&Field| self.ctx.env.output.fields & field.bit() != 0;
        for field in FIELDS.iter().filter(chosen) {
            let bytes = self.field(*field);
            put(bytes.get(..field.len()).unwrap_or_default());
        }
    }

    fn field(&self, field: Field) -> [u8; 16] {
        let ctx = self.ctx;
        let register = |register| ctx.register(register).unwrap_or(0);
        let two = |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        match field {
            Field::ProcName => TaskInfo::current().comm,
            Field::Pid => {
                let (process, thread) = current::ids();
                two(u64::from(thread) << 32 | u64::from(process), 0)
            }
            Field::Uid => two(current::uid().into(), 0),
            Field::SsEsp => two(register(Register::Ss), register(Register::Sp)),
            Field::CsEip => two(register(Register::Cs), register(Register::Ip)),
            Field::Psw => two(register(Register::Flags), 0),
            Field::Upsw => two(ctx.user_register(Register::Flags).unwrap_or(0), 0),
            Field::Tsc => two(current::tsc(), 0),
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
        let chosen = |field: &&Field| self.ctx.env.output.fields & field.bit() != 0;
        let fields: usize = FIELDS.iter().filter(chosen).map(|field| field.len()).sum();
        let data: usize = self.data.iter().map(|data| data.len()).sum();
        RECORD_LEN.saturating_add(fields).saturating_add(data)
    }

    /// Writes the record to the channel or to klog.
    pub(crate) fn write(&self) {
        match self.ctx.env.output.target {
            Target::Relay => {
                // The channel counts records that do not fit.
                let channel = &self.ctx.env.runtime.channel;
                let _ = channel.reserve_timed(KIND, self.len(), |record| {
                    self.pieces(|piece| {
                        record.put(piece);
                    });
                    ferro_fast_relay::Outcome::Commit
                });
            }
            Target::Klog => {
                klog_text::print(header(self.outcome, self.ctx), self.data.map(Entries::new));
            }
        }
    }
}

/// Record under construction in the channel.
struct ChannelRecord<'a, 'b>(&'a mut Placed<'b>);

impl Room for ChannelRecord<'_, '_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0.put(at, bytes);
    }
}

/// Builds the record of a program that only logs in the channel. Returns false if the program has
/// to be run; it then leaves at most a discarded record, which readers skip.
#[inline(always)]
pub(crate) fn write_plain<F: Form, R: Registers>(plain: &Plain, ctx: &HitContext<'_, R>) -> bool {
    use ferro_fast_relay::Outcome;

    let channel = &ctx.env.runtime.channel;
    let outcome = channel.place_timed(KIND, F::len(plain), |record| {
        match F::write(plain, ctx, &mut ChannelRecord(record)) {
            true => Outcome::Commit,
            false => Outcome::Discard,
        }
    });
    // The channel counts records that do not fit.
    outcome != Ok(Outcome::Discard)
}
