// SPDX-License-Identifier: GPL-2.0

//! The objects that have one name: as a rule one, so that more take memory of their own.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::raw::object::Loaded;
use crate::raw::owner::ModuleId;

/// Objects in the order in which they came.
#[derive(Default)]
pub(crate) struct Objects {
    first: Option<Loaded>,
    /// None if there is no first one.
    others: Option<KBox<KVec<Loaded>>>,
}

impl Objects {
    /// The first.
    pub(crate) fn first(&self) -> Option<&Loaded> {
        self.first.as_ref()
    }

    /// All but the first.
    pub(crate) fn others(&self) -> &[Loaded] {
        self.others.as_ref().map_or(&[], |others| others)
    }

    /// All.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Loaded> {
        Iterator::chain(self.first.iter(), self.others())
    }

    /// The index of the first of a module.
    pub(crate) fn find(&self, module: ModuleId) -> Option<usize> {
        self.iter()
            .position(|object| object.module() == Some(module))
    }

    /// Adds one after the others. Errors: -ENOMEM.
    pub(crate) fn push(&mut self, object: Loaded) -> Result {
        if self.first.is_none() {
            self.first = Some(object);
            return Ok(());
        }
        let others = match &mut self.others {
            Some(others) => others,
            none => none.insert(KBox::new(KVec::new(), GFP_KERNEL)?),
        };
        Ok(others.push(object, GFP_KERNEL)?)
    }

    /// Takes the last out.
    pub(crate) fn pop(&mut self) -> Option<Loaded> {
        let last = self.others.as_mut().and_then(|others| others.pop());
        last.or_else(|| self.first.take())
    }

    /// Takes out that with an index.
    pub(crate) fn remove(&mut self, index: usize) {
        let Some(others) = self.others.as_mut().filter(|others| !others.is_empty()) else {
            if index == 0 {
                self.first = None;
            }
            return;
        };
        match index.checked_sub(1) {
            Some(index) => drop(others.remove(index)),
            None => self.first = others.remove(0).ok(),
        }
    }
}
