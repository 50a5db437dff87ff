// SPDX-License-Identifier: GPL-2.0

//! Commands of the file `control`.

/// A command: a line of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `arm`: writes the breakpoints of all places that have not been hit.
    Arm,
    /// `disarm`: removes all breakpoints.
    Disarm,
    /// `reset`: forgets the hits; if breakpoints are armed, arms those of all places again.
    Reset,
}

impl Command {
    /// Parses the commands of a write; `None` for a line that is not a command. Empty lines are
    /// skipped.
    pub fn parse(text: &[u8]) -> impl Iterator<Item = Option<Self>> + '_ {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines
            .filter(|line| !line.is_empty())
            .map(|line| match line {
                b"arm" => Some(Self::Arm),
                b"disarm" => Some(Self::Disarm),
                b"reset" => Some(Self::Reset),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Command::*;
    use super::*;

    #[test]
    fn lines() {
        let parsed = |text: &str| Command::parse(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(parsed("arm"), [Some(Arm)]);
        assert_eq!(parsed("disarm\n\n reset\n"), [Some(Disarm), Some(Reset)]);
        assert_eq!(parsed("arm now"), [None]);
        assert_eq!(parsed("armarm\narm"), [None, Some(Arm)]);
        assert_eq!(parsed(""), []);
    }
}
