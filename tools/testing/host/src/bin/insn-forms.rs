// SPDX-License-Identifier: GPL-2.0

//! Chooses instruction forms of a kernel's text and writes them down for the kprobes selftests.
//!
//! ```text
//! insn-forms COUNT VMLINUX >forms.inc
//! ```

use ferro_host::forms::Forms;
use ferro_host::forms::emit;
use ferro_host::images;
use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (Some(count), Some(image)) = (
        args.first().and_then(|count| count.parse().ok()),
        args.get(1),
    ) else {
        eprintln!("usage: insn-forms COUNT VMLINUX");
        return ExitCode::from(2);
    };
    let mut forms = Forms::new();
    match images::sections(Path::new(image)) {
        Ok(texts) => texts.iter().for_each(|text| forms.add(&text.bytes)),
        Err(error) => {
            eprintln!("insn-forms: {image}: {error}");
            return ExitCode::FAILURE;
        }
    }
    let chosen = forms.choose(count);
    eprintln!(
        "insn-forms: {} of {} forms in {image}",
        chosen.len(),
        forms.len()
    );
    print!("{}", emit::file(&chosen));
    ExitCode::SUCCESS
}
