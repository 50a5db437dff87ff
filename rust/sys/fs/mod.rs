// SPDX-License-Identifier: GPL-2.0

//! Files: debugfs, file operations, user memory, text for `read()`, and pages for pipes.

pub mod debugfs;
pub mod dentry;
pub mod fops;
pub mod splice;
pub mod text_buffer;
pub mod uaccess;
