// SPDX-License-Identifier: GPL-2.0

//! Description of the records in the format of tracefs, for decoders of a recording.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_kprobe_events_core::probe_args::Arg;
use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_args::Show;
use ferro_kprobe_events_core::probe_args::Type;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use crate::fetch::faults_at;
use crate::fetch::stacks_at;
use crate::record::ARGS_AT;
use crate::record::HEAD_FORMAT;
use crate::record::REGISTERS_FORMAT;
use crate::record::WITH_REGISTERS;

/// Field names that records have of their own. An argument of such a name gets the prefix `arg_`.
const TAKEN: [&str; 10] = [
    "time", "cpu", "pid", "comm", "probe", "kind", "ip", "duration", "faults", "stack",
];

/// Describes the records with registers.
pub(crate) fn write_plain(text: &mut TextBuffer) -> fmt::Result {
    text.write_fmt(fmt!(
        "name: probe\nID: {WITH_REGISTERS}\nformat:\n{HEAD_FORMAT}{REGISTERS_FORMAT}"
    ))
}

/// Describes the records of the probe with this name and number, if it has arguments.
pub(crate) fn write(
    name: &CStr,
    number: u16,
    args: Args<'_>,
    text: &mut TextBuffer,
) -> fmt::Result {
    if args.text().is_empty() {
        return Ok(());
    }
    text.write_fmt(fmt!("\nname: {name}\nID: {number}\nformat:\n{HEAD_FORMAT}"))?;
    let has_stack = args.iter().any(|(_, arg)| arg.ty.is_stack());
    for (name, arg) in args.iter().filter(|(_, arg)| !arg.ty.is_stack()) {
        write_field(name, &arg, text)?;
    }
    let at = ARGS_AT.saturating_add(faults_at(args.size()));
    text.write_fmt(fmt!(
        "\tfield:u32 faults;\toffset:{at};\tsize:4;\tsigned:0;\n"
    ))?;
    if has_stack {
        // The rest of a record: both stacks, if there are two.
        let at = ARGS_AT.saturating_add(stacks_at(faults_at(args.size())));
        text.write_fmt(fmt!(
            "\tfield:u64 stack[];\toffset:{at};\tsize:0;\tsigned:0;\n"
        ))?;
    }
    Ok(())
}

fn write_field(name: &str, arg: &Arg, text: &mut TextBuffer) -> fmt::Result {
    let size = arg.ty.size();
    let prefix = match TAKEN.contains(&name) {
        true => "arg_",
        false => "",
    };
    text.write_str("\tfield:")?;
    match arg.ty {
        Type::Text { len } => text.write_fmt(fmt!("char {prefix}{name}[{len}]"))?,
        // Decoders show a pointer in hexadecimal, and any other number in decimal.
        Type::Number {
            show: Show::Hex | Show::Symbol,
            ..
        } => text.write_fmt(fmt!("void * {prefix}{name}"))?,
        Type::Number { .. } if arg.ty.is_signed() => {
            text.write_fmt(fmt!("s{} {prefix}{name}", size.saturating_mul(8)))?;
        }
        _ => text.write_fmt(fmt!("u{} {prefix}{name}", size.saturating_mul(8)))?,
    }
    let at = ARGS_AT.saturating_add(arg.offset);
    let signed = u8::from(arg.ty.is_signed());
    text.write_fmt(fmt!(";\toffset:{at};\tsize:{size};\tsigned:{signed};\n"))
}
