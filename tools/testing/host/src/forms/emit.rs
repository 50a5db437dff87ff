// SPDX-License-Identifier: GPL-2.0

//! Forms for the assembler: lines of the macros that `form_table.S` of the kprobes selftests has.

use super::Form;
use super::setting::flags;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use std::fmt::Write as _;

/// The number of RSP.
const RSP: u8 = 4;

/// Bytes as they were, or a place that the assembler fills.
enum Part {
    Bytes(Vec<u8>),
    /// An expression of so many bytes.
    Filled(u8, String),
}

/// All of them.
pub fn file(forms: &[&Form]) -> String {
    let mut text =
        String::from("/* SPDX-License-Identifier: GPL-2.0 */\n/* Made by insn-forms. */\n");
    for form in forms {
        text += &lines(form);
    }
    text
}

/// Returns the lines of one form: `FORM_BEGIN`, its bytes, and `FORM_END` with its setting.
pub fn lines(form: &Form) -> String {
    let mut text = String::from("FORM_BEGIN\n");
    let mut displacement = form.insn.displacement();
    for part in parts(form, &mut displacement) {
        text += &match part {
            Part::Bytes(bytes) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
                format!("\t.byte {}\n", bytes.join(", "))
            }
            Part::Filled(1, value) => format!("\t.byte {value}\n"),
            Part::Filled(_, value) => format!("\t.long {value}\n"),
        };
    }
    let setting = &form.setting;
    let _ = writeln!(
        text,
        "FORM_END {}, {:#x}, {}, {}, {}, {}, {}",
        form.group(),
        setting.flags,
        setting.register,
        setting.base,
        setting.index,
        setting.shift,
        displacement,
    );
    text
}

/// Returns the bytes, with the parts that have to be changed: the target, and the place of the
/// operand.
fn parts(form: &Form, displacement: &mut i64) -> Vec<Part> {
    let insn = &form.insn;
    let fields = [insn.displacement_field(), insn.immediate_field()];
    let mut parts = Vec::new();
    let mut at = 0;
    for (field, filled) in fields
        .into_iter()
        .zip([address(form, displacement), distance(insn)])
    {
        let start = usize::from(field.at);
        if let Some(part) = filled {
            parts.push(Part::Bytes(insn.bytes()[at..start].to_vec()));
            parts.push(part);
            at = start + usize::from(field.len);
        }
    }
    if at < insn.len() {
        parts.push(Part::Bytes(insn.bytes()[at..].to_vec()));
    }
    parts
}

/// Returns the displacement of an operand that the test cannot place by way of a register.
fn address(form: &Form, displacement: &mut i64) -> Option<Part> {
    let (insn, setting) = (&form.insn, &form.setting);
    let field = insn.displacement_field();
    if setting.flags & flags::MEMORY == 0 || field.len == 0 {
        return None;
    }
    if setting.base == RSP {
        // The memory above the stack pointer.
        *displacement &= if field.len == 1 { 0x78 } else { 0xf8 };
        return Some(Part::Filled(field.len, displacement.to_string()));
    }
    let memory = match setting.flags & flags::PERCPU {
        0 => "kst_form_mem + KST_FORM_OPERAND",
        _ => "kst_form_percpu",
    };
    if insn.is_rip_relative() {
        let behind = usize::from(field.at) + usize::from(field.len);
        return Some(Part::Filled(
            4,
            format!("{memory} - . - 4 - {}", insn.len() - behind),
        ));
    }
    let has_register =
        setting.base != super::setting::NONE || setting.index != super::setting::NONE;
    (!has_register).then(|| Part::Filled(4, memory.to_string()))
}

/// Returns the distance of a branch to the other end of the form.
fn distance(insn: &Insn) -> Option<Part> {
    let relative = matches!(
        insn.flow(),
        Flow::Jump(Target::Relative(_))
            | Flow::Call(Target::Relative(_))
            | Flow::JumpIf(..)
            | Flow::Loop(..)
    );
    let len = insn.immediate_field().len;
    relative.then(|| Part::Filled(len, format!("2f - . - {len}")))
}
