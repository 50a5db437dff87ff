// SPDX-License-Identifier: GPL-2.0

//! Functions with values of their own.
#![deny(unsafe_code)]

use super::*;
use crate::raw::targets;
use crate::raw::tracer_set::RawSet;
use crate::TracerSet;

/// Value of a function: the counter for its calls, and the increment.
type Value = (Arc<Notes<2>>, usize);

fn count(_call: &FunctionCall<'_>, (notes, by): &Value) {
    for _ in 0..*by {
        notes.count(0);
    }
}

fn one(function: usize, value: Value) -> Result<KVVec<(usize, Value)>> {
    let mut functions = KVVec::new();
    functions.push((function, value), GFP_KERNEL)?;
    Ok(functions)
}

#[kunit_tests(ferro_ftrace_sets)]
mod suite {
    use super::*;

    #[test]
    fn each_has_its_value() -> Result {
        let notes = Notes::new()?;
        let mut set = TracerSet::new(count)?;
        let mut functions = one(targets::next_address(), (notes.clone(), 1))?;
        functions.push(
            (targets::twice_address(), (notes.clone(), 1000)),
            GFP_KERNEL,
        )?;
        set.attach(functions)?;
        assert_eq!(set.functions(), 2);
        for _ in 0..10 {
            assert_eq!(targets::next(1), 2);
            assert_eq!(targets::twice(1), 2);
        }
        assert_eq!(notes.get(0), 10_010);
        set.detach(&[targets::twice_address()])?;
        // Its value has been dropped: only the other function's value is left, and ours.
        assert_eq!(set.functions(), 1);
        assert_eq!(targets::twice(1), 2);
        assert_eq!(targets::next(1), 2);
        assert_eq!(notes.get(0), 10_011);
        drop(set);
        assert_eq!(targets::next(1), 2);
        assert_eq!(notes.get(0), 10_011);
        Ok(())
    }

    #[test]
    fn all_or_none() -> Result {
        let notes = Notes::new()?;
        let value = || (notes.clone(), 1);
        let mut set = TracerSet::boxed(count)?;
        assert_eq!(set.attach(KVVec::new()), Ok(()));
        for (second, error) in [
            (targets::hidden_address(), TraceError::NotFound),
            (targets::next_address(), TraceError::Duplicate),
            (0, TraceError::NotFound),
        ] {
            let mut functions = one(targets::next_address(), value())?;
            functions.push((second, value()), GFP_KERNEL)?;
            assert_eq!(set.attach(functions), Err(error));
            assert_eq!(set.functions(), 0);
            assert_eq!(targets::next(1), 2);
        }
        set.attach(one(targets::next_address(), value())?)?;
        let again = set.attach(one(targets::next_address(), value())?);
        assert_eq!(again, Err(TraceError::Duplicate));
        let both = [targets::next_address(), targets::twice_address()];
        assert_eq!(set.detach(&both), Err(TraceError::NotFound));
        assert_eq!(targets::next(1), 2);
        assert_eq!(notes.get(0), 1);
        Ok(())
    }

    /// After its handler's module has been removed, a set is in no list: functions attached to it
    /// would never be released.
    #[test]
    fn nothing_is_attached_to_an_ended_set() -> Result {
        let notes = Notes::new()?;
        let mut set = RawSet::new(false, count, count as *const () as usize)?;
        set.attach(one(targets::next_address(), (notes.clone(), 1))?)?;
        assert!(set.end());
        let more = one(targets::twice_address(), (notes.clone(), 1))?;
        assert_eq!(set.attach(more), Err(ESHUTDOWN));
        let attached = [targets::next_address()];
        assert_eq!(set.detach(&attached), Err(ESHUTDOWN));
        assert_eq!((targets::next(1), targets::twice(1)), (2, 2));
        assert_eq!(notes.get(0), 0);
        Ok(())
    }

    /// Values are dropped when their function is detached, and not before.
    #[test]
    fn values_go_once() -> Result {
        struct Counted(Arc<Notes<2>>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.count(1);
            }
        }
        let notes: Arc<Notes<2>> = Notes::new()?;
        let mut set = TracerSet::new(|_call: &FunctionCall<'_>, _value: &Counted| ())?;
        for function in [targets::next_address(), targets::twice_address()] {
            let mut functions = KVVec::new();
            functions.push((function, Counted(notes.clone())), GFP_KERNEL)?;
            set.attach(functions)?;
        }
        assert_eq!(notes.get(1), 0);
        set.detach(&[targets::next_address()])?;
        assert_eq!(notes.get(1), 1);
        drop(set);
        assert_eq!(notes.get(1), 2);
        Ok(())
    }
}
