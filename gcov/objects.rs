// SPDX-License-Identifier: GPL-2.0

//! List of the objects with one name. Optimized for one object; further ones are allocated
//! separately.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::raw::object::Object;
use crate::raw::owner::ModuleId;

/// Objects in the order of their arrival.
#[derive(Default)]
pub(crate) struct Objects {
    first: Option<Object>,
    /// `None` if there is no first one.
    others: Option<KBox<KVec<Object>>>,
}

impl Objects {
    /// Returns the first object.
    pub(crate) fn first(&self) -> Option<&Object> {
        self.first.as_ref()
    }

    /// Returns all objects except the first.
    pub(crate) fn others(&self) -> &[Object] {
        self.others.as_ref().map_or(&[], |others| others)
    }

    /// Iterates over all objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        Iterator::chain(self.first.iter(), self.others())
    }

    /// Returns the index of a module's first object.
    pub(crate) fn find(&self, module: ModuleId) -> Option<usize> {
        self.iter()
            .position(|object| object.module() == Some(module))
    }

    /// Appends an object. Errors: -ENOMEM.
    pub(crate) fn push(&mut self, object: Object) -> Result {
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

    /// Removes the last object and returns it.
    pub(crate) fn pop(&mut self) -> Option<Object> {
        let last = self.others.as_mut().and_then(|others| others.pop());
        last.or_else(|| self.first.take())
    }

    /// Removes the object with an index.
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
