// SPDX-License-Identifier: GPL-2.0

//! The byte of a place: not hit, hit, or refused with a reason, and if its breakpoint is in the
//! text.

/// Reason why a place has no breakpoint, with the value of `enum ferrotrace_coverage_state`, which
/// describes them.
#[expect(missing_docs, reason = "the header describes them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    NotText = 2,
    Init,
    NoFunction,
    Marked,
    Named,
    Own,
    NotInstruction,
    NotExecutable,
    Ftrace,
    JumpLabel,
    StaticCall,
    Exception,
    LandingPad,
    Bug,
    Kprobe,
    Changed,
    Gone,
}

impl Refusal {
    /// All reasons, in the order of their values.
    pub const ALL: [Self; 17] = [
        Self::NotText,
        Self::Init,
        Self::NoFunction,
        Self::Marked,
        Self::Named,
        Self::Own,
        Self::NotInstruction,
        Self::NotExecutable,
        Self::Ftrace,
        Self::JumpLabel,
        Self::StaticCall,
        Self::Exception,
        Self::LandingPad,
        Self::Bug,
        Self::Kprobe,
        Self::Changed,
        Self::Gone,
    ];

    /// Returns the name of the reason in the file `control`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotText => "not_text",
            Self::Init => "init",
            Self::NoFunction => "no_function",
            Self::Marked => "marked",
            Self::Named => "named",
            Self::Own => "own",
            Self::NotInstruction => "not_instruction",
            Self::NotExecutable => "not_executable",
            Self::Ftrace => "ftrace",
            Self::JumpLabel => "jump_label",
            Self::StaticCall => "static_call",
            Self::Exception => "exception",
            Self::LandingPad => "landing_pad",
            Self::Bug => "bug",
            Self::Kprobe => "kprobe",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// State of a place, as a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// Bit of a hit; other bits of the value mean a refusal.
    pub const HIT: u8 = 1;
    /// Bit of a breakpoint in the text, or one being written or removed.
    pub const ARMED: u8 = 0x80;
    /// State of a new place.
    pub const NEW: Self = Self(0);

    /// Makes the state of a stored byte.
    pub fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// Makes the state of a refused place.
    pub fn refused(refusal: Refusal) -> Self {
        Self(refusal as u8)
    }

    /// Returns the byte to store.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// Returns the byte for readers of the file `blocks`.
    pub fn shown(self) -> u8 {
        self.0 & !Self::ARMED
    }

    /// Returns true if the place has been hit.
    pub fn is_hit(self) -> bool {
        self.shown() == Self::HIT
    }

    /// Returns true if the place is refused.
    pub fn is_refused(self) -> bool {
        self.shown() > Self::HIT
    }

    /// Returns true if the breakpoint is in the text.
    pub fn is_armed(self) -> bool {
        self.0 & Self::ARMED != 0
    }

    /// Returns the reason for a refusal.
    pub fn refusal(self) -> Option<Refusal> {
        let index = usize::from(self.shown()).checked_sub(usize::from(Self::HIT) + 1)?;
        Refusal::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_reasons() {
        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            let state = State::refused(refusal);
            assert_eq!(usize::from(state.byte()), index + 2);
            assert_eq!(state.refusal(), Some(refusal));
            assert!(state.is_refused() && !state.is_hit() && !state.is_armed());
        }
        assert!(!State::NEW.is_refused() && !State::NEW.is_hit());
        assert_eq!(State::NEW.refusal(), None);
        let hit = State::from_byte(State::HIT | State::ARMED);
        assert!(hit.is_hit() && hit.is_armed() && !hit.is_refused());
        assert_eq!(hit.shown(), 1);
        assert_eq!(hit.refusal(), None);
        assert_eq!(State::from_byte(0x7f).refusal(), None);
    }

    /// Compares the values with the header.
    #[test]
    fn header() {
        let header = include_str!("../../include/uapi/linux/ferrotrace_coverage.h");
        let values = header
            .lines()
            .filter_map(|line| line.trim().strip_prefix("FERROTRACE_COVERAGE_"));
        let values: Vec<_> = values
            .filter_map(|name| name.strip_suffix(','))
            .map(str::to_lowercase)
            .collect();
        let ours: Vec<_> = ["not_hit", "hit"]
            .into_iter()
            .chain(Refusal::ALL.map(Refusal::name))
            .collect();
        assert_eq!(values, ours);
    }
}
