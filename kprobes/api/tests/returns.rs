// SPDX-License-Identifier: GPL-2.0

//! Calls followed to their return, and their data.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::Arc;

use super::Notes;
use super::Returned;
use crate::raw::targets;
use crate::Keep;
use crate::ProbeCtx;
use crate::Retprobe;
use crate::RetprobeHandler;

/// Handler that follows calls of a function that returns its argument, if that is a multiple of
/// `step`.
struct Mirror {
    step: usize,
    notes: Arc<Notes<3>>,
}

#[vtable]
impl RetprobeHandler for Mirror {
    type Data = [usize; 2];

    fn entry(&self, ctx: &mut ProbeCtx<'_>, data: &mut [usize; 2]) -> Keep {
        if *data != [0, 0] {
            self.notes.count(2);
        }
        let argument = ctx.argument(0).unwrap_or(usize::MAX);
        *data = [argument, 1];
        match argument.checked_rem(self.step) {
            Some(0) => Keep::Yes,
            _ => Keep::No,
        }
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut [usize; 2]) {
        self.notes.count(0);
        if *data != [ctx.return_value(), 1] {
            self.notes.count(1);
        }
    }
}

#[kunit_tests(ferro_kprobe_returns)]
mod suite {
    use super::*;

    #[test]
    fn calls_have_data_of_their_own() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 1,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .register(handler)?;
        // Twice, to reuse instances.
        assert_eq!(targets::depth(3), 3);
        assert_eq!(targets::depth(3), 3);
        assert_eq!(notes.get(0), 8);
        assert_eq!((notes.get(1), notes.get(2)), (0, 0));
        assert_eq!((probe.missed(), probe.nested()), (0, 0));
        Ok(())
    }

    #[test]
    fn entries_choose_calls() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 2,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .max_active(4);
        let probe = probe.register(handler)?;
        assert_eq!(targets::depth(4), 4);
        assert_eq!((notes.get(0), notes.get(1)), (3, 0));
        assert_eq!(probe.missed(), 0);
        Ok(())
    }

    #[test]
    fn calls_beyond_max_active_are_missed() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 1,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .max_active(1);
        let probe = probe.register(handler)?;
        assert_eq!(targets::depth(3), 3);
        // The outermost call has the only instance until all the others have returned.
        assert_eq!((notes.get(0), notes.get(1)), (1, 0));
        assert_eq!(probe.missed(), 3);
        Ok(())
    }

    #[test]
    fn data_is_zero_without_an_entry_handler() -> Result {
        let notes = Notes::<2>::new()?;
        let seen = notes.clone();
        let handler = Returned(move |_: &mut ProbeCtx<'_>, data: &mut usize| {
            seen.count(0);
            seen.set(1, seen.get(1) + *data);
            *data = 5;
        });
        let probe = Retprobe::builder().symbol(c"kprobe_api_next").max_active(1);
        let _probe = probe.register(handler)?;
        for value in 0..3 {
            assert_eq!(targets::next(value), value + 1);
        }
        assert_eq!((notes.get(0), notes.get(1)), (3, 0));
        Ok(())
    }
}
