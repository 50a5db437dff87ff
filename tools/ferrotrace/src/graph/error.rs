// SPDX-License-Identifier: GPL-2.0

//! Errors of `ferrotrace graph` and `ferrotrace why`.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use crate::file::IoError;
use crate::lockdown;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of `ferrotrace graph` or `ferrotrace why`.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no tracefs.
    #[error("no tracefs: is it mounted? (mount -t tracefs tracefs /sys/kernel/tracing)")]
    NoTracefs,
    /// The kernel has no such tracer.
    #[error(
        "{}: this kernel has no function graph tracer (CONFIG_FUNCTION_GRAPH_TRACER), but: {has}",
        path.display()
    )]
    NoTracer {
        /// List of tracers.
        path: PathBuf,
        /// Tracers of the kernel.
        has: String,
    },
    /// The kernel records no return values.
    #[error(
        "this kernel records no return values: CONFIG_FUNCTION_GRAPH_RETVAL or CONFIG_FPROBE_EVENTS \
         would"
    )]
    NoValues,
    /// The probe that records return values cannot be added.
    #[error("{}: cannot probe the returns of all functions", path.display())]
    Probe {
        /// File of the probes.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's description of a record cannot be parsed.
    #[error("{}: the description of a record is not understood", .0.display())]
    Format(PathBuf),
    /// The user lacks the permission.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may trace the kernel")
    )]
    Denied(PathBuf),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The list of functions, or a pattern that the user gave.
    #[error(transparent)]
    Functions(#[from] crate::functions::error::Error),
    /// A failed operation on a file.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The instance.
    #[error(transparent)]
    Instance(#[from] crate::probes::error::Error),
    /// The clock, or signals.
    #[error("cannot {0}")]
    System(&'static str, #[source] nix::errno::Errno),
}

/// Returns the error of a failed operation on a file.
pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
    IoError::or_denied(Error::Denied, action, path, source)
}
