// SPDX-License-Identifier: GPL-2.0

//! Callbacks of the engine, forwarded to the channel's state.
//!
//! Contexts: process, except [`ChannelCallbacks::may_enter`], which runs in the writing context.

use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::dentry::Dentry;
use kernel::prelude::*;
use kernel::str::CString;

use crate::control_files::ChannelState;
use crate::mode::Mode;
use crate::padding_header::Headers;
use crate::raw::buf::BufRef;
use crate::raw::channel::ChannelCallbacks;
use crate::raw::channel::SubbufStart;

// SAFETY: `add_controls()` gives the reference to the control files of the buffer, and
// `remove_controls()` removes them, which waits for their running operations; there is no other
// copy of it. `Builder::geometry()` refuses sub-buffers that are not longer than their header.
unsafe impl ChannelCallbacks for ChannelState {
    fn subbuf_start(&self) -> SubbufStart {
        match self.mode() {
            _ if self.headers().is_some() => SubbufStart::WithHeader,
            Mode::NoOverwrite => SubbufStart::IfFree,
            Mode::Overwrite => SubbufStart::Always,
        }
    }

    fn may_enter(&self, buf: &BufRef<'_>, is_full: impl FnOnce() -> bool) -> bool {
        let Some(headers) = self.headers() else {
            return false;
        };
        headers.finished(buf.cpu(), buf.produced());
        if self.mode() == Mode::NoOverwrite && is_full() {
            Headers::full(headers, buf.cpu());
            return false;
        }
        true
    }

    fn is_global(&self) -> bool {
        self.is_global()
    }

    fn permissions(&self) -> u16 {
        self.permissions()
    }

    fn name_now(&self, name: &CStr) -> Result<CString> {
        self.name_now(name)
    }

    fn file_made(&self, dir: &DirRef, name: &CStr, file: Dentry, buf: BufRef<'static>) -> Result {
        self.add_controls(dir, name, file, buf)
    }

    fn file_goes(&self, buf: BufRef<'static>) {
        self.remove_controls(buf);
    }
}
