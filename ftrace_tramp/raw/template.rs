// SPDX-License-Identifier: GPL-2.0

//! The kernel's own trampolines, as templates for the engine's copies.
//!
//! Contexts: process, sleeps.

use ferro_ftrace_tramp_core::Labels;
use ferro_ftrace_tramp_core::Refusal;
use ferro_ftrace_tramp_core::Template;
use ferro_ftrace_tramp_core::MAX_TEMPLATE;
use ferro_sys::bindings;
use ferro_sys::code::text::read_text;
use ferro_sys::code::text::TextMutex;
use kernel::prelude::*;

/// Template of `ftrace_caller` or `ftrace_regs_caller`.
///
/// # Invariants
///
/// Made of the kernel's code.
pub(crate) struct KernelTemplate(KBox<Template>);

/// Reason why a template could not be made.
pub(crate) enum TemplateError {
    /// The engine does not know this code.
    Refused(Refusal),
    /// -ENOMEM, or -EFAULT if the kernel's code cannot be read.
    Errno(Error),
}

impl KernelTemplate {
    /// Reads `ftrace_regs_caller` if callbacks get all registers, `ftrace_caller` otherwise.
    pub(crate) fn new(saves_regs: bool) -> Result<Self, TemplateError> {
        let mut raw = bindings::ferro_tramp_labels::default();
        // SAFETY: It writes to this function's own structure.
        unsafe { bindings::ferro_tramp_labels(saves_regs, &raw mut raw) };
        let labels = Labels {
            start: raw.start as u64,
            load_ops: raw.load_ops as u64,
            call: raw.call as u64,
            direct: (raw.direct != 0).then_some(raw.direct as u64),
            end: raw.end as u64,
        };
        let mut text = [0; MAX_TEMPLATE];
        let len = raw.end.wrapping_sub(raw.start).min(MAX_TEMPLATE);
        let text = text.get_mut(..len).unwrap_or_default();
        // Exclude ftrace, which has a breakpoint there while it changes the call.
        let whole = TextMutex::new();
        read_text(raw.start, text).map_err(TemplateError::Errno)?;
        drop(whole);
        let mut template = Template::new(text, &labels).map_err(TemplateError::Refused)?;
        template.shorten();
        // INVARIANT: Made of the code that was read above.
        let template = KBox::new(template, GFP_KERNEL);
        template
            .map(Self)
            .map_err(|e| TemplateError::Errno(e.into()))
    }

    /// Returns the template without its invariant.
    pub(crate) fn get(&self) -> &Template {
        &self.0
    }
}

/// Templates without and with all registers.
pub(crate) struct Templates {
    pub(crate) plain: KernelTemplate,
    pub(crate) regs: KernelTemplate,
}

impl Templates {
    pub(crate) fn get(&self, saves_regs: bool) -> &KernelTemplate {
        match saves_regs {
            true => &self.regs,
            false => &self.plain,
        }
    }
}
