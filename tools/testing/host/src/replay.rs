// SPDX-License-Identifier: GPL-2.0

//! Fuzz targets without a fuzzer.

/// Gives `check` the files that the command line names, such as those that a fuzzer has left.
pub fn replay(check: impl Fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        check(&std::fs::read(path)?);
    }
    Ok(())
}
