// SPDX-License-Identifier: GPL-2.0

//! Checks the places in a function: decodes it once, in order, from its start.

use ferro_core::insn::Insn;
use ferro_core::insn::MAX_LEN;

use crate::Executable;
use crate::Refusal;
use crate::Sites;

/// Length of the jump of an optimised kprobe, in bytes.
pub const JUMP_LEN: usize = 5;

/// Rules for the places in a function.
pub struct Rules<'a, R> {
    /// Entries of the kernel's tables.
    pub sites: Sites<'a>,
    /// Distance of the function from the start of the text, in bytes.
    pub text_offset: usize,
    /// Distance of the function's ftrace site from its start.
    pub ftrace_site: Option<usize>,
    /// Restores the code at a distance from the function's start, if a kprobe has changed it there.
    /// Returns false if no kprobe has.
    pub restore: R,
}

/// Checks places in a function, which are given as distances from its start in ascending order.
///
/// `code` is the function's code at the address `start`. Calls `judge` for each place in order,
/// with the first byte of its instruction, or with the reason against a breakpoint.
pub fn check_function<R>(
    code: &[u8],
    start: u64,
    places: impl Iterator<Item = usize>,
    mut rules: Rules<'_, R>,
    mut judge: impl FnMut(Result<u8, Refusal>),
) where
    R: FnMut(usize, &mut [u8; MAX_LEN]) -> bool,
{
    let mut at = 0_usize;
    // End of the code that a kprobe may have changed.
    let mut probed_until = 0;
    // The instruction at `at`, once it is decoded.
    let mut current = None;
    for place in places {
        let verdict = loop {
            if at > place {
                break Err(Refusal::NotInstruction);
            }
            let (insn, is_probed) = match current {
                Some(current) => current,
                None => match decode(code, at, &mut probed_until, &mut rules.restore) {
                    Some(decoded) => decoded,
                    None => break Err(Refusal::NotInstruction),
                },
            };
            if at == place {
                current = Some((insn, is_probed));
                if is_type_check(code.get(at..).unwrap_or_default()) {
                    break Err(Refusal::Bug);
                }
                break rules.check(&insn, start, at, is_probed);
            }
            current = None;
            at = at.saturating_add(insn.len());
        };
        judge(verdict);
    }
}

/// Decodes an instruction. Also returns true if a kprobe has changed it.
fn decode(
    code: &[u8],
    at: usize,
    probed_until: &mut usize,
    restore: &mut impl FnMut(usize, &mut [u8; MAX_LEN]) -> bool,
) -> Option<(Insn, bool)> {
    let rest = code.get(at..)?;
    // `int3` and `jmp`, with which kprobes replace code.
    if at < *probed_until || matches!(rest.first(), Some(0xcc | 0xe9)) {
        let mut bytes = [0; MAX_LEN];
        if restore(at, &mut bytes) {
            *probed_until = (*probed_until).max(at.saturating_add(JUMP_LEN));
            return Some((Insn::decode(&bytes).ok()?, true));
        }
    }
    Some((Insn::decode(rest).ok()?, false))
}

/// Returns true for `mov $type,%r10d` before `add -4(%reg),%r10d`: the check of an indirect call.
/// The kernel finds it by its bytes when it reports a failure.
fn is_type_check(code: &[u8]) -> bool {
    matches!(code, [0x41, 0xba, _, _, _, _, 0x44 | 0x45, 0x03, ..])
}

impl<R> Rules<'_, R> {
    /// Checks an instruction of the function at `start`.
    fn check(&self, insn: &Insn, start: u64, at: usize, is_probed: bool) -> Result<u8, Refusal> {
        if self.ftrace_site == Some(at) {
            return Err(Refusal::Ftrace);
        }
        if is_probed {
            return Err(Refusal::Kprobe);
        }
        let executable = Executable::of(insn, start.wrapping_add(at as u64));
        // The kernel replaces an `endbr` that no branch needs by a NOP, and recognises it later.
        if at == 0 && insn.len() == 4 && matches!(executable, Ok(Executable::Branch(_))) {
            return Err(Refusal::LandingPad);
        }
        executable?;
        if let Some(refusal) = self.sites.refusal(self.text_offset.saturating_add(at)) {
            return Err(refusal);
        }
        insn.bytes().first().copied().ok_or(Refusal::NotInstruction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;
    use proptest::prelude::*;

    const START: u64 = 0xffff_ffff_8100_0000;

    fn check(
        code: &[u8],
        places: &[usize],
        packed: &[u64],
        site: Option<usize>,
    ) -> Vec<Result<u8, Refusal>> {
        let rules = Rules {
            sites: Sites::new(packed),
            text_offset: 0x100,
            ftrace_site: site,
            restore: |_: usize, _: &mut [u8; MAX_LEN]| false,
        };
        let mut verdicts = Vec::new();
        check_function(code, START, places.iter().copied(), rules, |v| {
            verdicts.push(v)
        });
        verdicts
    }

    /// endbr64; nopl 0(%rax,%rax,1); push %rbp; mov (%rdi),%rax; test %eax,%eax; je; xor; pop; ret
    const CODE: &[u8] = &[
        0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x48, 0x8b, 0x07, 0x85, 0xc0, 0x74,
        2, 0x31, 0xc0, 0x5d, 0xc3,
    ];

    #[test]
    fn verdicts() {
        use Refusal::*;
        let places = [0, 4, 5, 9, 10, 13, 14, 15, 17, 19, 20, 21, 30];
        let expected = [
            Err(LandingPad),
            Err(Ftrace),
            Err(NotInstruction),
            Ok(0x55),
            Err(NotExecutable),
            Ok(0x85),
            Err(NotInstruction),
            Err(JumpLabel),
            Ok(0x31),
            Ok(0x5d),
            Ok(0xc3),
            Err(NotInstruction),
            Err(NotInstruction),
        ];
        let packed = [Site::JumpLabel.packed(0x100 + 15)];
        assert_eq!(check(CODE, &places, &packed, Some(4)), expected);
        // The same place twice, as a caller with an error would ask.
        assert_eq!(check(CODE, &[9, 9], &[], None), [Ok(0x55), Ok(0x55)]);
        assert_eq!(check(&[], &[0], &[], None), [Err(NotInstruction)]);
        // A poisoned landing pad.
        assert_eq!(
            check(&[0x0f, 0x1f, 0x40, 0xd6, 0xc3], &[0, 4], &[], None),
            [Err(LandingPad), Ok(0xc3)]
        );
    }

    #[test]
    fn type_checks() {
        // mov $1,%r10d; add -4(%r11),%r10d; je; mov $1,%r10d; ret
        let code = [
            0x41, 0xba, 1, 0, 0, 0, 0x45, 0x03, 0x53, 0xfc, 0x74, 2, 0x41, 0xba, 1, 0, 0, 0, 0xc3,
        ];
        let expected = [Err(Refusal::Bug), Ok(0x74), Ok(0x41)];
        assert_eq!(check(&code, &[0, 10, 12], &[], None), expected);
    }

    #[test]
    fn kprobes() {
        use Refusal::*;
        // A breakpoint at 9, and a jump over the instructions from 13 to 18.
        let mut code = CODE.to_vec();
        code[9] = 0xcc;
        code[13..18].copy_from_slice(&[0xe9, 1, 2, 3, 4]);
        let rules = Rules {
            sites: Sites::new(&[]),
            text_offset: 0,
            ftrace_site: Some(4),
            restore: |at: usize, bytes: &mut [u8; MAX_LEN]| {
                let len = (CODE.len() - at).min(MAX_LEN);
                bytes[..len].copy_from_slice(&CODE[at..at + len]);
                at == 9 || (13..18).contains(&at)
            },
        };
        let mut verdicts = Vec::new();
        let places = [9, 10, 13, 15, 17, 19];
        check_function(&code, START, places.into_iter(), rules, |v| {
            verdicts.push(v)
        });
        let expected = [
            Err(Kprobe),
            Err(NotExecutable),
            Err(Kprobe),
            Err(Kprobe),
            Err(Kprobe),
            Ok(0x5d),
        ];
        assert_eq!(verdicts, expected);
    }

    proptest! {
        /// Each place gets one verdict, for any bytes, and an accepted one starts an instruction.
        #[test]
        fn any_bytes(
            code in proptest::collection::vec(any::<u8>(), 0..200),
            places in proptest::collection::btree_set(0usize..220, 0..60),
        ) {
            let places: Vec<usize> = places.into_iter().collect();
            let verdicts = check(&code, &places, &[], None);
            prop_assert_eq!(verdicts.len(), places.len());
            let mut starts = Vec::new();
            let mut at = 0;
            while let Ok(insn) = Insn::decode(code.get(at..).unwrap_or_default()) {
                starts.push(at);
                at += insn.len();
            }
            for (place, verdict) in places.iter().zip(verdicts) {
                prop_assert_eq!(verdict == Err(Refusal::NotInstruction), !starts.contains(place));
                if let Ok(byte) = verdict {
                    prop_assert_eq!(byte, code[*place]);
                }
            }
        }
    }
}
