// SPDX-License-Identifier: GPL-2.0

//! Checks the places of a record.
//!
//! Contexts: process, sleeps. Locks: those of [`TextGuard`], for a function at a time.

use core::sync::atomic::AtomicU8;

use ferro_core::blacklist_names;
use ferro_coverage_core::check_function;
use ferro_coverage_core::path;
use ferro_coverage_core::Record;
use ferro_coverage_core::Refusal;
use ferro_coverage_core::Rules;
use ferro_coverage_core::Sites;
use ferro_coverage_core::State;
use ferro_sys::cpu::task::cond_resched;
use kernel::prelude::*;

use super::segment::Segment;
use super::text::Function;
use super::text::Ready;
use super::text::Text;
use super::text::TextGuard;

/// Length of the longest function to check, in bytes.
const FUNCTION_MAX: usize = 1 << 20;

/// Result of the checks of the places, as far as they have been made.
struct Verdicts {
    originals: KVVec<u8>,
    states: KVVec<AtomicU8>,
}

impl Verdicts {
    fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self {
            originals: KVVec::with_capacity(count, GFP_KERNEL)?,
            states: KVVec::with_capacity(count, GFP_KERNEL)?,
        })
    }

    fn push(&mut self, verdict: Result<u8, Refusal>) -> Result {
        let (original, state) = match verdict {
            Ok(original) => (original, State::NEW),
            Err(refusal) => (0, State::refused(refusal)),
        };
        self.originals.push(original, GFP_KERNEL)?;
        self.states.push(AtomicU8::new(state.byte()), GFP_KERNEL)?;
        Ok(())
    }
}

/// Checks the places of a record, and makes a segment of them.
///
/// Errors: -ENOENT if the first place is in no code, -ENOMEM.
pub(crate) fn check(ready: Ready, record: &Record<'_>) -> Result<Segment> {
    let base = record.base();
    let mut offsets = KVVec::with_capacity(record.count(), GFP_KERNEL)?;
    for offset in record.offsets() {
        offsets.push(offset, GFP_KERNEL)?;
    }
    let address = |offset: &u32| base.wrapping_add(*offset as usize);
    let text = Text::of(ready, offsets.first().map_or(0, address))?;
    let sites = text.sites()?;
    let mut verdicts = Verdicts::with_capacity(record.count())?;
    let mut code = KVVec::new();
    let mut left: &[u32] = &offsets;
    while let Some(first) = left.first().map(address) {
        let function = Function::of(ready, first).filter(|_| text.contains(first));
        let Some(function) = function else {
            verdicts.push(Err(match (text.contains(first), text.is_init(first)) {
                (true, _) => Refusal::NoFunction,
                (false, true) => Refusal::Init,
                (false, false) => Refusal::NotText,
            }))?;
            left = left.get(1..).unwrap_or_default();
            continue;
        };
        let end = function.start.saturating_add(function.size);
        let count = left.partition_point(|offset| address(offset) < end).max(1);
        let (of_function, rest) = left.split_at_checked(count).unwrap_or((left, &[]));
        let places = of_function
            .iter()
            .map(|offset| address(offset).wrapping_sub(function.start));
        match refusal(&function, &text) {
            Some(refusal) => {
                for _ in of_function {
                    verdicts.push(Err(refusal))?;
                }
            }
            None => check_code(
                ready,
                &text,
                &function,
                &sites,
                &mut code,
                places,
                &mut verdicts,
            )?,
        }
        left = rest;
        cond_resched();
    }
    let Verdicts { originals, states } = verdicts;
    let module = text.module();
    // SAFETY: There is a verdict for each place, by `check_function()`, and by the loop above.
    // The verdict with an original byte was made with the code of its function, from its start, and
    // of an instruction that can be executed and is in no table. The module's notifier calls
    // `forget()`; until the caller has added the segment, `text` keeps the module.
    Ok(unsafe { Segment::new(base, offsets, originals, states, module) }?)
}

/// Returns the reason against all places of a function.
fn refusal(function: &Function, text: &Text) -> Option<Refusal> {
    let name = function.name().to_bytes();
    if !text.contains(function.start) || function.size > FUNCTION_MAX {
        return Some(Refusal::NoFunction);
    }
    if path::has(name) {
        return Some(Refusal::Own);
    }
    if let Some(reason) = blacklist_names::refuses(name) {
        return Some(match reason {
            blacklist_names::Reason::Own | blacklist_names::Reason::Sanitizer => Refusal::Own,
            _ => Refusal::Named,
        });
    }
    function.is_marked().then_some(Refusal::Marked)
}

/// Checks places in the code of a function.
fn check_code(
    ready: Ready,
    text: &Text,
    function: &Function,
    sites: &[u64],
    code: &mut KVVec<u8>,
    places: impl Iterator<Item = usize>,
    verdicts: &mut Verdicts,
) -> Result {
    code.resize(function.size, 0, GFP_KERNEL)?;
    let site = function.ftrace_site();
    let mut result = Ok(());
    let lock = TextGuard::new(ready);
    // The last symbol of a text may have a size that goes on after it.
    if text.read(&lock, function.start, code).is_err() {
        code.truncate(0);
    }
    let rules = Rules {
        sites: Sites::new(sites),
        text_offset: function.start.wrapping_sub(text.start()),
        ftrace_site: site.map(|site| site.wrapping_sub(function.start)),
        restore: |at: usize, bytes: &mut _| lock.restore(function.start.wrapping_add(at), bytes),
    };
    check_function(code, function.start as u64, places, rules, |verdict| {
        if result.is_ok() {
            result = verdicts.push(verdict);
        }
    });
    result
}
