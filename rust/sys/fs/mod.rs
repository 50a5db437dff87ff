// SPDX-License-Identifier: GPL-2.0

//! Files: debugfs, the operations of a file, text for `read()`, and pages for pipes.

pub mod debugfs;
pub mod dentry;
pub mod fops;
pub mod splice;
pub mod text_buffer;
