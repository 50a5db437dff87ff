// SPDX-License-Identifier: GPL-2.0

//! Order in which the exits of a hook are called.

/// Priority of an exit in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// The only exit of its hook.
    Only,
    /// After exits without a priority that were registered earlier.
    Unspecified,
    /// Before exits without a priority that were registered earlier.
    UnspecifiedLifo,
}

/// Reason why an exit has no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The hook has an exit, and one of the two has to be the only one.
    Hook,
    /// The hook has a first exit.
    First,
    /// The hook has a last exit.
    Last,
}

/// Returns the position of a new exit among the existing ones, in their order. An `exclusive` hook
/// has only one exit.
pub fn position(
    there: impl Iterator<Item = Priority> + Clone,
    new: Priority,
    exclusive: bool,
) -> Result<usize, Taken> {
    let count = there.clone().count();
    let mut lonely = there.clone().any(|p| p == Priority::Only);
    lonely |= exclusive || new == Priority::Only;
    if lonely && count > 0 {
        return Err(Taken::Hook);
    }
    let has_first = there.clone().any(|p| p == Priority::First);
    let has_last = there.clone().any(|p| p == Priority::Last);
    let after_first = usize::from(has_first);
    let before_last = count - usize::from(has_last);
    match new {
        Priority::First if has_first => Err(Taken::First),
        Priority::Last if has_last => Err(Taken::Last),
        Priority::First => Ok(0),
        Priority::Last | Priority::Only => Ok(count),
        Priority::Unspecified => Ok(before_last),
        Priority::UnspecifiedLifo => Ok(after_first),
    }
}
