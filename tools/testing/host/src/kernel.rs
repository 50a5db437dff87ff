// SPDX-License-Identifier: GPL-2.0

//! The kernel's own decoder, `arch/x86/lib/insn.c`, compiled from a kernel tree and run as a
//! filter.

use ferro_core::insn::DecodeError;
use ferro_core::insn::Encoding;
use ferro_core::insn::Insn;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// Number of instructions in a request: the block of `kernel-insn.c`.
const BLOCK: usize = 1024;

/// Number of filters started, so that tests that run in parallel have directories of their own.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Answer of the kernel's decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The length, 0 when it was refused.
    pub len: u8,
    /// True if there is a RIP-relative operand.
    pub rip_relative: bool,
    /// Offset of the opcode's last byte.
    pub opcode_at: u8,
    /// Offset of the displacement.
    pub displacement_at: u8,
    /// Size of the displacement in bytes.
    pub displacement_len: u8,
    /// Size of the immediates in bytes.
    pub immediate_len: u8,
    /// Size of the prefix of forced emulation in bytes.
    pub forced_emulation: u8,
    /// True if the instruction was refused because bytes were missing.
    pub no_data: bool,
}

impl From<[u8; 8]> for Answer {
    fn from(bytes: [u8; 8]) -> Self {
        let [
            len,
            rip_relative,
            opcode_at,
            displacement_at,
            displacement_len,
            immediate_len,
            forced_emulation,
            no_data,
        ] = bytes;
        Self {
            len,
            rip_relative: rip_relative != 0,
            opcode_at,
            displacement_at,
            displacement_len,
            immediate_len,
            forced_emulation,
            no_data: no_data != 0,
        }
    }
}

/// The running filter.
#[derive(Debug)]
pub struct Kernel {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Kernel {
    /// Compiles the decoder of the tree that `INSN_KSRC` names, and starts it.
    ///
    /// # Panics
    ///
    /// Panics if that is not possible: there is nothing to test then.
    pub fn start() -> Self {
        let tree = env::var("INSN_KSRC").expect("INSN_KSRC is a kernel's source tree");
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("kernel-insn-{}-{number}", std::process::id()));
        let program = compile(Path::new(&tree), &dir).expect("the kernel's decoder compiles");
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the kernel's decoder runs");
        // The process runs on without its file.
        fs::remove_dir_all(dir).expect("the directory is ours");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Self {
            child,
            input,
            output,
        }
    }

    /// Decodes the first instruction of each text; the kernel sees at most 15 bytes of each.
    pub fn decode(&mut self, texts: &[&[u8]]) -> io::Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(texts.len());
        for texts in texts.chunks(BLOCK) {
            // A block is filled up, since the filter waits for a whole one.
            let mut records = vec![[1, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]; BLOCK];
            for (record, text) in records.iter_mut().zip(texts) {
                let text = &text[..text.len().min(15)];
                record[0] = u8::try_from(text.len()).expect("it is short");
                record[1..=text.len()].copy_from_slice(text);
            }
            self.input.write_all(records.as_flattened())?;
            let mut block = vec![[0; 8]; BLOCK];
            self.output.read_exact(block.as_flattened_mut())?;
            answers.extend(block.into_iter().take(texts.len()).map(Answer::from));
        }
        Ok(answers)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // The state of the child does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles `kernel-insn.c` with the sources in `tree`; the program, which is in `dir`.
fn compile(tree: &Path, dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let tools = tree.join("tools");
    let program = dir.join("kernel-insn");
    let done = tables(&tools, dir).and_then(|()| {
        succeed(
            Command::new("cc")
                .args(["-O2", "-Wall", "-Wno-unused-function", "-o"])
                .arg(&program)
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/kernel-insn.c"))
                .args(include(dir))
                .args(include(&tools.join("arch/x86/lib")))
                .args(include(&tools.join("arch/x86/include")))
                .args(include(&tools.join("include"))),
        )
    });
    done.map(|()| program)
}

fn include(dir: &Path) -> [&OsStr; 2] {
    [OsStr::new("-I"), dir.as_os_str()]
}

/// The decoder's tables, which the kernel's build makes of its map of opcodes.
fn tables(tools: &Path, dir: &Path) -> io::Result<()> {
    succeed(
        Command::new("awk")
            .arg("-f")
            .arg(tools.join("arch/x86/tools/gen-insn-attr-x86.awk"))
            .arg(tools.join("arch/x86/lib/x86-opcode-map.txt"))
            .stdout(File::create(dir.join("inat-tables.c"))?),
    )
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{command:?}: {status}"))),
    }
}

/// Justified differences between the kernel's decoder and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Difference {
    /// A REX prefix with another prefix after it. The CPU ignores the REX prefix; the kernel takes
    /// the next byte for the opcode. The kernel is wrong.
    PrefixBehindRex,
    /// The kernel takes the fifth different legacy prefix for the opcode. It is wrong.
    FifthPrefix,
    /// The kernel leaves out the operands, or the immediate, of an opcode after 0f that it does not
    /// list, such as reserved `nop`s (0f 19, 0f 1d), `ud0`, `extrq` and `insertq`. The same for an
    /// opcode that it lists with a mandatory prefix and does not recognise, since another prefix is
    /// after that one (66 64 0f 38 17) or it has a prefix without a meaning. Where the opcode
    /// exists the kernel is wrong.
    LeavesOutOperands,
    /// Moves of control and debug registers have no memory operand, for any mode. The kernel is
    /// wrong.
    ModeOfControlRegister,
    /// The kernel refuses VEX, EVEX and XOP instructions that it does not list, such as FMA4, and
    /// opcodes that it lists for these encodings only. Ours knows the operand bytes of a whole map.
    NotListed,
    /// The opcode is unused; the kernel reports that by leaving out the operands that the others of
    /// the map have.
    ReservedInMap,
    /// Ours refuses bytes that are no instruction in 64-bit mode, and prefixes that exclude each
    /// other. The kernel gives these a length, without any operands.
    Undefined,
}

/// Compares the answers of the kernel's decoder and of ours about the start of `text`. The error
/// says how they differ when there is no [`Difference`] that explains it.
pub fn compare(text: &[u8], kernel: Answer) -> Result<Option<Difference>, String> {
    let ours = Insn::decode(text);
    if agree(&ours, kernel) {
        return Ok(None);
    }
    difference(text, &ours, kernel)
        .map(Some)
        .ok_or_else(|| format!("{text:02x?}: ours {ours:x?}, kernel {kernel:x?}"))
}

fn agree(ours: &Result<Insn, DecodeError>, kernel: Answer) -> bool {
    let Ok(insn) = ours else {
        return kernel.len == 0;
    };
    let displacement = insn.displacement_field();
    // The kernel's offsets do not count the prefix of forced emulation.
    let forced = kernel.forced_emulation;
    usize::from(kernel.len) == insn.len()
        && kernel.rip_relative == insn.is_rip_relative()
        && (forced != 0) == insn.is_forced_emulation()
        && kernel.opcode_at + forced == insn.opcode_field().at
        && kernel.displacement_len == displacement.len
        && (displacement.len == 0 || kernel.displacement_at + forced == displacement.at)
        && kernel.immediate_len == insn.immediate_field().len
}

fn difference(text: &[u8], ours: &Result<Insn, DecodeError>, kernel: Answer) -> Option<Difference> {
    let legacy = |byte: &u8| {
        matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
        )
    };
    let rex = |byte: &u8| matches!(byte, 0x40..=0x4f);
    let count = text
        .iter()
        .take_while(|byte| legacy(byte) || rex(byte))
        .count();
    if text[..count].iter().rev().skip(1).any(rex) {
        return Some(Difference::PrefixBehindRex);
    }
    let mut different: Vec<u8> = text[..count].iter().copied().filter(legacy).collect();
    different.sort_unstable();
    different.dedup();
    if different.len() > 4 {
        return Some(Difference::FifthPrefix);
    }
    let insn = match ours {
        Ok(insn) => insn,
        Err(DecodeError::Undefined) => return Some(Difference::Undefined),
        // With its operands, it has more bytes than there can be.
        Err(_) => return Some(Difference::LeavesOutOperands),
    };
    let old = matches!(insn.encoding(), Encoding::Legacy | Encoding::Rex2);
    let stops = kernel.len == insn.opcode_field().at + 1 || kernel.len == insn.immediate_field().at;
    match (insn.map(), insn.opcode()) {
        _ if kernel.len == 0 && !kernel.no_data && (!old || insn.map() > 0) => {
            Some(Difference::NotListed)
        }
        (1, 0x20..=0x23) if old => Some(Difference::ModeOfControlRegister),
        (1..=3, _) if old && stops => Some(Difference::LeavesOutOperands),
        _ if !old && stops => Some(Difference::ReservedInMap),
        _ => None,
    }
}
