// SPDX-License-Identifier: GPL-2.0

use super::*;
use ferro_core::insn::Condition;
use ferro_core::insn::Insn;
use proptest::prelude::*;

const AT: u64 = 0xffff_ffff_8100_0000;
const COLD: u64 = 0xffff_ffff_8200_0000;
const RODATA: u64 = 0xffff_ffff_8300_0000;

/// Two ranges of code with their symbols, and data.
#[derive(Default)]
struct Image {
    code: Vec<u8>,
    /// Starts of symbols in the code.
    symbols: Vec<usize>,
    compiled: Vec<u64>,
    cold: Vec<u8>,
    /// Start of another cold part in that.
    second: Option<usize>,
    rodata: Vec<u64>,
    reserved: Option<(u64, Reserved)>,
    entry: Option<(u64, Entry)>,
    exit: Option<(u64, u64)>,
    thunk: Option<u64>,
    no_tables: bool,
}

impl Surroundings for Image {
    fn piece(&self, address: u64) -> Option<Piece> {
        if let Some(offset) = address.checked_sub(COLD) {
            let len = self.cold.len() as u64;
            let second = self.second.map_or(len, |at| at as u64);
            let (start, end) = match offset < second {
                true => (0, second),
                false => (second, len),
            };
            return (offset < len).then(|| Piece {
                start: COLD + start,
                end: COLD + end,
            });
        }
        let offset = usize::try_from(address.checked_sub(AT)?).ok()?;
        let start = *self.symbols.iter().rfind(|start| **start <= offset)?;
        let end = self.symbols.iter().find(|start| **start > offset);
        let end = *end.unwrap_or(&self.code.len());
        (offset < self.code.len()).then(|| Piece {
            start: AT + start as u64,
            end: AT + end as u64,
        })
    }

    fn code(&self, at: u64, out: &mut [u8]) -> usize {
        let (from, code) = match at >= COLD {
            true => (COLD, &self.cold),
            false => (AT, &self.code),
        };
        let rest = code.get((at - from) as usize..).unwrap_or(&[]);
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        len
    }

    fn rodata(&self, at: u64, out: &mut [u8]) -> bool {
        let Some(offset) = at.checked_sub(RODATA) else {
            return false;
        };
        match self.rodata.get((offset / 8) as usize) {
            Some(word) => out.copy_from_slice(&word.to_le_bytes()),
            None => return false,
        }
        true
    }

    fn is_compiled(&self, start: u64) -> bool {
        self.compiled.contains(&start)
    }

    fn is_part(&self, start: u64) -> bool {
        start >= COLD && !self.is_compiled(start)
    }

    fn is_indirect_thunk(&self, address: u64) -> bool {
        self.thunk == Some(address)
    }

    fn has_jump_tables(&self) -> bool {
        !self.no_tables
    }

    fn reserved(&self, range: Range<u64>) -> Option<Reserved> {
        let (at, what) = self.reserved?;
        range.contains(&at).then_some(what)
    }

    fn enters(&self, range: Range<u64>) -> Option<Entry> {
        let (at, entry) = self.entry?;
        range.contains(&at).then_some(entry)
    }

    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64)) {
        if let Some((_, to)) = self.exit.filter(|(from, _)| range.contains(from)) {
            found(to);
        }
    }
}

fn image(code: &[u8]) -> Image {
    Image {
        code: code.to_vec(),
        symbols: vec![0],
        ..Image::default()
    }
}

fn at(image: &Image, offset: u64) -> Result<Displaced, Reason> {
    displaceable(AT + offset, image)
}

const BRANCH: Reason = Reason::Entered(Entry::Branch);

/// xor %eax,%eax; mov %rdi,%rbx; inc %eax; then 4 bytes of the test's; ret
fn with(tail: &[u8]) -> Image {
    let mut code = vec![0x31, 0xc0, 0x48, 0x89, 0xfb, 0xff, 0xc0];
    code.extend_from_slice(tail);
    code.push(0xc3);
    image(&code)
}

#[test]
fn plain_instructions() {
    let image = with(&[0x90]);
    let displaced = at(&image, 0).unwrap();
    assert_eq!((displaced.len(), displaced.first_len()), (5, 2));
    assert!(displaced.goes_on() && displaced.first_goes_on());
    let mut out = [0; MAX_RELOCATED];
    assert_eq!(displaced.relocate(AT + 0x1000, &mut out), Ok(5));
    assert_eq!(out[..5], image.code[..5]);
    assert_eq!(displaced.relocate_first(AT + 0x1000, &mut out), Ok(2));
    assert_eq!(displaced.relocate_rest(AT + 0x1000, &mut out), Ok(3));
    assert_eq!(out[..3], [0x48, 0x89, 0xfb]);
    // Whole instructions: 3, 2 and 1 bytes.
    assert_eq!(at(&image, 2).unwrap().len(), 5);
    assert_eq!(at(&image, 1), Err(Reason::NotAnInstruction));
    assert_eq!(at(&image, 5), Err(Reason::NoRoom));
    assert_eq!(at(&image, 100), Err(Reason::NoCode));
}

#[test]
fn a_loop_into_the_jump() {
    // jne to offset 2; to offset 5, which is after the jump at 0; to offset 0
    assert_eq!(at(&with(&[0x75, 0xf9]), 0), Err(BRANCH));
    assert!(at(&with(&[0x75, 0xfc]), 0).is_ok());
    assert!(at(&with(&[0x75, 0xf7]), 0).is_ok());
    // The same with 4 bytes, `loop`, and a call.
    assert_eq!(
        at(&with(&[0x0f, 0x85, 0xf5, 0xff, 0xff, 0xff]), 0),
        Err(BRANCH)
    );
    assert_eq!(at(&with(&[0xe2, 0xf9]), 0), Err(BRANCH));
    assert_eq!(at(&with(&[0xe8, 0xf6, 0xff, 0xff, 0xff]), 0), Err(BRANCH));
}

#[test]
fn an_address_inside_is_an_operand() {
    // lea -12(%rip), %rax; push $AT+2 (0x81000002)
    let address = Err(Reason::Entered(Entry::Address));
    assert_eq!(
        at(&with(&[0x48, 0x8d, 0x05, 0xf4, 0xff, 0xff, 0xff]), 0),
        address
    );
    assert_eq!(at(&with(&[0x68, 2, 0, 0, 0x81]), 0), address);
    assert!(at(&with(&[0x68, 0, 0, 0, 0x81]), 0).is_ok());
}

#[test]
fn jump_tables() {
    // jmp *RODATA(,%rax,8)
    let jump = [0xff, 0x24, 0xc5, 0, 0, 0, 0x83];
    let mut switch = with(&jump);
    assert_eq!(at(&switch, 0), Err(Reason::IndirectJump));
    switch.rodata = vec![AT + 5, AT, 0];
    assert!(at(&switch, 0).is_ok());
    switch.rodata = vec![AT + 5, AT + 2, 0];
    assert_eq!(at(&switch, 0), Err(Reason::Entered(Entry::Table)));
    // In an entry after one to the cold part.
    switch.cold = vec![0xc3];
    switch.rodata = vec![AT + 5, COLD, AT + 2, 0];
    assert_eq!(at(&switch, 0), Err(Reason::Entered(Entry::Table)));
    // The target of the table jumps back.
    switch.rodata = vec![AT + 5, COLD, 0];
    assert!(at(&switch, 0).is_ok());
    switch.cold = cold_to(AT + 2);
    assert_eq!(at(&switch, 0), Err(BRANCH));
    // clang leaves entries for impossible values: the end of the function, which is the start of
    // the next one.
    let mut dangling = with(&jump);
    let end = AT + dangling.code.len() as u64;
    dangling.symbols.push(dangling.code.len());
    dangling.code.push(0xc3);
    dangling.compiled = vec![AT, end];
    dangling.rodata = vec![AT + 5, end, AT + 2, 0];
    assert_eq!(at(&dangling, 0), Err(Reason::Entered(Entry::Table)));
    dangling.rodata = vec![AT + 5, end, 0];
    assert!(at(&dangling, 0).is_ok());
    // The table of the cold part leads into the function, too.
    dangling.cold = [&jump[..], &cold_to(AT + 5)[..]].concat();
    dangling.rodata = vec![COLD, end, COLD + 13, AT + 2, 0];
    assert_eq!(at(&dangling, 0), Err(Reason::Entered(Entry::Table)));
    // Or the end of the cold part, which is the start of another function.
    dangling.cold = vec![0x90, 0xc3, 0xc3];
    dangling.second = Some(2);
    dangling.compiled.push(COLD + 2);
    dangling.rodata = vec![AT + 5, COLD + 2, AT + 2, 0];
    assert_eq!(at(&dangling, 0), Err(Reason::Entered(Entry::Table)));
    // Jumps to an address in a register or in a structure.
    assert_eq!(at(&with(&[0xff, 0xe0]), 0), Err(Reason::IndirectJump));
    assert_eq!(at(&with(&[0xff, 0x60, 8]), 0), Err(Reason::IndirectJump));
    let mut thunk = with(&[0xe9, 0, 1, 0, 0]);
    assert!(at(&thunk, 0).is_ok());
    thunk.thunk = Some(AT + 12 + 0x100);
    assert_eq!(at(&thunk, 0), Err(Reason::IndirectJump));
    // Without jump tables, those of compiled functions leave them.
    thunk.no_tables = true;
    assert_eq!(at(&thunk, 0), Err(Reason::IndirectJump));
    thunk.compiled = vec![AT];
    assert!(at(&thunk, 0).is_ok());
}

/// nop; jmp to an address
fn cold_to(target: u64) -> Vec<u8> {
    let way = (target as i64 - COLD as i64 - 6) as i32;
    [&[0x90, 0xe9][..], &way.to_le_bytes()].concat()
}

#[test]
fn cold_parts() {
    // jne to the cold part
    let way = (COLD as i64 - AT as i64 - 13) as i32;
    let jump = [&[0x0f, 0x85][..], &way.to_le_bytes()].concat();
    for (target, wanted) in [(2, Err(BRANCH)), (5, Ok(())), (0, Ok(()))] {
        let mut image = with(&jump);
        image.cold = cold_to(AT + target);
        assert_eq!(at(&image, 0).map(|_| ()), wanted, "{target}");
        // Only a jump label, or a fixup, leads there.
        let mut image = with(&[0x90]);
        image.cold = cold_to(AT + target);
        assert!(at(&image, 0).is_ok());
        image.exit = Some((AT + 7, COLD));
        assert_eq!(at(&image, 0).map(|_| ()), wanted, "{target}");
    }
    // A part may jump to another, and that one back.
    for (target, wanted) in [(2, Err(BRANCH)), (5, Ok(()))] {
        let mut image = with(&jump);
        // jmp over the gap between the parts; ret; nop; jmp back
        image.cold = vec![0xe9, 1, 0, 0, 0, 0xc3];
        let way = (AT as i64 + target - COLD as i64 - 12) as i32;
        image
            .cold
            .extend([&[0x90, 0xe9][..], &way.to_le_bytes()].concat());
        image.second = Some(6);
        assert_eq!(at(&image, 0).map(|_| ()), wanted, "{target}");
    }
    // The function may jump into it anywhere, as it does here.
    let mut image = with(&[&[0x0f, 0x85][..], &(way + 1).to_le_bytes()].concat());
    image.cold = vec![0x90; 8];
    let cold = displaceable(COLD, &image).map(|_| ());
    assert_eq!(cold, Err(Reason::Part));
    // A tail call of a function is not followed.
    let mut image = with(&jump);
    image.cold = vec![0xff, 0xe0];
    assert!(at(&image, 0).is_ok());
    // But a part that jumps back has to be understood.
    image.cold = [cold_to(AT + 5), vec![0xff, 0xe0]].concat();
    assert_eq!(at(&image, 0), Err(Reason::IndirectJump));
    image.compiled = vec![COLD];
    image.code[9..13].copy_from_slice(&way.to_le_bytes());
    assert!(at(&image, 0).is_ok());
}

#[test]
fn a_label_in_assembly_ends_a_symbol() {
    // At 0 a function, at 8 a label in it; from there it jumps back to offset 2.
    let mut code = vec![0x31, 0xc0, 0x48, 0x89, 0xfb, 0xff, 0xc0, 0x90, 0xeb, 0xf8];
    let mut asm = image(&code);
    asm.symbols = vec![0, 8];
    assert_eq!(at(&asm, 0), Err(BRANCH));
    // The label is inside of the jump.
    asm.symbols = vec![0, 2];
    assert_eq!(at(&asm, 0), Err(Reason::NoRoom));
    // A label before the probed code, into which its code falls.
    code.splice(0..0, [0x75, 0x02]);
    let mut asm = image(&code);
    asm.symbols = vec![0, 2];
    assert_eq!(at(&asm, 2), Err(BRANCH));
    // A return between them, but a jump back over it; and another piece between.
    let back = [
        0x31, 0xc0, 0x48, 0x89, 0xfb, 0xc3, 0x90, 0x75, 0x01, 0xc3, 0xeb, 0xf6,
    ];
    let mut asm = image(&back);
    asm.symbols = vec![0, 6];
    assert_eq!(at(&asm, 0), Err(BRANCH));
    asm.symbols = vec![0, 6, 10];
    asm.code[7] = 0x90;
    asm.code[8] = 0x90;
    assert!(at(&asm, 0).is_ok(), "nothing leads from one to the others");
    asm.code[5] = 0x90;
    asm.code[9] = 0x90;
    assert_eq!(at(&asm, 0), Err(BRANCH));
    // Code does not fall into a compiled function.
    asm.compiled = vec![AT + 6];
    assert!(at(&asm, 0).is_ok());
}

#[test]
fn what_else_is_there() {
    for (offset, refused) in [(0, true), (4, true), (5, false)] {
        let mut image = with(&[0x90]);
        image.reserved = Some((AT + offset, Reserved::StaticCall));
        assert_eq!(at(&image, 0).is_err(), refused);
        let mut image = with(&[0x90]);
        image.entry = Some((AT + offset, Entry::Fixup));
        assert_eq!(at(&image, 0).is_err(), refused && offset != 0);
    }
    // Neither traps nor code that must not be probed.
    assert!(matches!(
        at(&image(&[0x90, 0xcc, 0x90, 0x90, 0x90, 0x90]), 0),
        Err(Reason::Unprobeable(_))
    ));
    assert_eq!(
        at(&image(&[0x90, 0x90, 0x90, 0x90, 0x90, 0x06]), 0),
        Err(Reason::Undecodable)
    );
}

#[test]
fn what_follows_a_return_is_not_displaced() {
    // pop %rbx; ret; int3...
    let image = image(&[0x5b, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc]);
    let displaced = at(&image, 0).unwrap();
    assert_eq!((displaced.len(), displaced.goes_on()), (5, false));
    let mut out = [0; MAX_RELOCATED];
    assert_eq!(displaced.relocate(AT + 0x1000, &mut out), Ok(2));
    assert_eq!(out[..2], [0x5b, 0xc3]);
}

#[test]
fn what_follows_the_end_of_the_flow_is_padding() {
    // lea 1(%rdi),%eax; ret; then another function, whose address is in a pointer.
    let before = [0x8d, 0x47, 1];
    let after = |code: &[u8]| at(&image(&[&before[..], code].concat()), 3).map(|d| d.len());
    assert_eq!(
        after(&[0xc3, 0x8d, 0x47, 40, 0x83, 0xc0, 2, 0xc3]),
        Err(Reason::NotPadding)
    );
    // jmp over the code there: the same.
    assert_eq!(
        after(&[0xeb, 3, 0x8d, 0x47, 40, 0xc3]),
        Err(Reason::NotPadding)
    );
    // A function that begins with a landing pad.
    assert_eq!(
        after(&[0xc3, 0x90, 0xf3, 0x0f, 0x1e, 0xfa, 0xc3]),
        Err(Reason::NotPadding)
    );
    // Padding, also by an instruction that reaches further: NOPs, int3.
    assert_eq!(after(&[0xc3, 0x90, 0x66, 0x90, 0x90, 0xc3]), Ok(5));
    assert_eq!(after(&[0xc3, 0x0f, 0x1f, 0x44, 0, 0, 0xc3]), Ok(5));
    assert_eq!(after(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc]), Ok(5));
    // The first instruction after the flow's end is after the 5 bytes.
    assert_eq!(after(&[0xe9, 0, 0, 0, 0, 0x8d, 0x47, 40, 0xc3]), Ok(5));
}

#[test]
fn branches_are_aimed_where_they_went() {
    let to = AT + 0x2000;
    let relocated = |code: &[u8], len: usize| {
        let displaced = at(&image(code), 0).unwrap();
        let mut out = [0xaa; MAX_RELOCATED];
        assert_eq!(displaced.relocate(to, &mut out), Ok(len), "{code:02x?}");
        (displaced, out)
    };
    // je +5 (offset 7); 3 NOPs
    let (_, out) = relocated(&[0x74, 5, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3], 9);
    let insn = Insn::decode(&out).unwrap();
    assert_eq!(insn.branch_target(to), Some(AT + 7));
    // jrcxz +5: over a jump
    let (_, out) = relocated(&[0xe3, 5, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3], 12);
    assert_eq!(out[..4], [0xe3, 2, 0xeb, 5]);
    let insn = Insn::decode(&out[4..]).unwrap();
    assert_eq!(insn.branch_target(to + 4), Some(AT + 7));
    // A call returns to the code.
    let (displaced, out) = relocated(&[0xe8, 0x10, 0, 0, 0, 0xc3], 10);
    assert!(!displaced.goes_on() && !displaced.first_goes_on());
    assert_eq!(out[..5], [0x68, 5, 0, 0, 0x81]);
    let insn = Insn::decode(&out[5..]).unwrap();
    assert_eq!(insn.branch_target(to + 5), Some(AT + 0x15));
    // nop; nop; nop; call *%rax; mov, then call *8(%rbx)
    let (_, out) = relocated(&[0x90, 0x90, 0x90, 0xff, 0xd0, 0xc3], 10);
    assert_eq!(out[3..10], [0x68, 5, 0, 0, 0x81, 0xff, 0xe0]);
    let (_, out) = relocated(&[0x89, 0xc1, 0xff, 0x53, 8, 0xc3], 10);
    assert_eq!(out[2..10], [0x68, 5, 0, 0, 0x81, 0xff, 0x63, 8]);
    // jmp at the end
    let (displaced, _) = relocated(&[0xe9, 0x10, 0, 0, 0, 0xc3], 5);
    assert!(!displaced.goes_on());
    // A call that would return into the jump; one through the stack pointer; a jump out of reach
    assert_eq!(
        at(&image(&[0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3]), 0),
        Err(Reason::Call)
    );
    let stack = [0x90, 0x90, 0xff, 0x54, 0x24, 8, 0xc3];
    assert_eq!(at(&image(&stack), 0), Err(Reason::Immovable));
    let far = at(&image(&[0xe9, 0x10, 0, 0, 0, 0xc3]), 0).unwrap();
    let mut out = [0; MAX_RELOCATED];
    assert_eq!(far.relocate(1 << 40, &mut out), Err(Reason::OutOfReach));
    assert_eq!(far.relocate(to, &mut out[..4]), Err(Reason::OutOfReach));
}

proptest! {
    #[test]
    fn whatever_the_bytes(
        code in proptest::collection::vec(any::<u8>(), 1..120),
        cut in 0usize..120,
        to in any::<u64>(),
    ) {
        let mut image = image(&code);
        image.symbols = vec![0, cut.min(code.len() - 1)];
        image.symbols.dedup();
        for offset in 0..code.len() {
            let Ok(displaced) = at(&image, offset as u64) else { continue };
            prop_assert!((JUMP_LEN..=MAX_DISPLACED).contains(&displaced.len()));
            let piece = image.piece(AT + offset as u64).unwrap();
            prop_assert!(displaced.end() <= piece.end);
            let mut out = [0; MAX_RELOCATED];
            if let Ok(len) = displaced.relocate(to, &mut out) {
                let first = displaced.relocate_first(to, &mut out).unwrap();
                let mut rest = [0; MAX_RELOCATED];
                let behind = to.wrapping_add(first as u64);
                let rest = displaced.relocate_rest(behind, &mut rest).unwrap();
                prop_assert_eq!(first + rest, len);
            }
            prop_assert!(displaced.relocate(AT + 0x1_0000, &mut out).is_ok());
        }
    }
}

/// Offsets of the registers in a detour buffer's frame.
const FRAME: Frame = Frame {
    registers: [
        80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0,
    ],
    flags: 144,
    stack: 216,
    smap: false,
};

/// Returns the code for the first instruction at `AT`.
fn within(code: &[u8]) -> Result<Vec<u8>, Reason> {
    within_frame(code, &FRAME)
}

fn within_frame(code: &[u8], frame: &Frame) -> Result<Vec<u8>, Reason> {
    let mut code = code.to_vec();
    code.extend([0x0f, 0x1f, 0x44, 0, 0, 0xc3]);
    let displaced = at(&image(&code), 0)?;
    let mut out = [0; MAX_WITHIN];
    let written = displaced.first_within(frame, AT + 0x1000, &mut out)?;
    Ok(out[..written.len].to_vec())
}

fn stack_moves(code: &[u8]) -> i8 {
    let code = [code, &[0x0f, 0x1f, 0x44, 0, 0, 0xc3]].concat();
    let displaced = at(&image(&code), 0).unwrap();
    let mut out = [0; MAX_WITHIN];
    let written = displaced.first_within(&FRAME, AT + 0x1000, &mut out);
    written.unwrap().stack_moves
}

#[test]
fn registers_are_pushed_and_popped() {
    let sp = FRAME.registers[4];
    let stack = FRAME.stack as u8;
    // push %rcx: below the saved stack pointer.
    let code = [
        &[0x48, 0x8b, 0x4c, 0x24, 88, 0x48, 0x89, 0x8c, 0x24][..],
        &[stack - 8, 0, 0, 0],
        &[0x48, 0x83, 0x84, 0x24, sp, 0, 0, 0, 0xf8],
    ];
    assert_eq!(within(&[0x51]), Ok(code.concat()));
    assert_eq!(stack_moves(&[0x51]), -8);
    // pop %r9
    let code = [
        &[0x4c, 0x8b, 0x8c, 0x24, stack, 0, 0, 0][..],
        &[0x4c, 0x89, 0x4c, 0x24, 64],
        &[0x48, 0x83, 0x84, 0x24, sp, 0, 0, 0, 8],
    ];
    assert_eq!(within(&[0x41, 0x59]), Ok(code.concat()));
    assert_eq!(stack_moves(&[0x41, 0x59]), 8);
    // push $-2
    let code = [
        &[0x48, 0xc7, 0x84, 0x24, stack - 8, 0, 0, 0][..],
        &[0xfe, 0xff, 0xff, 0xff],
        &[0x48, 0x83, 0x84, 0x24, sp, 0, 0, 0, 0xf8],
    ];
    assert_eq!(within(&[0x6a, 0xfe]), Ok(code.concat()));
    // add $1, %rsi
    assert_eq!(stack_moves(&[0x48, 0x83, 0xc6, 1]), 0);
}

#[test]
fn only_what_an_instruction_uses_is_moved() {
    // mov %rcx,%rax: loads rcx from the frame, and saves rax there.
    let code = [
        0x48, 0x8b, 0x4c, 0x24, 88, 0x48, 0x89, 0xc8, 0x48, 0x89, 0x44, 0x24, 80,
    ];
    assert_eq!(within(&[0x48, 0x89, 0xc8]).as_deref(), Ok(&code[..]));
    // mov %cx,%ax keeps the rest of rax, which is loaded from the frame as well.
    let code = within(&[0x66, 0x89, 0xc8]).unwrap();
    assert_eq!(code[..5], [0x48, 0x8b, 0x44, 0x24, 80]);
    // nop
    assert_eq!(within(&[0x66, 0x90]).as_deref(), Ok(&[0x66, 0x90][..]));
    // mov 8(%rsp),%rax: reads the stack above the frame.
    let code = [
        0x48, 0x8b, 0x84, 0x24, 224, 0, 0, 0, 0x48, 0x89, 0x44, 0x24, 80,
    ];
    assert_eq!(
        within(&[0x48, 0x8b, 0x44, 0x24, 8]).as_deref(),
        Ok(&code[..])
    );
    // movw $0x1234,(%rsp), the same with an immediate.
    let code = [0x66, 0xc7, 0x84, 0x24, 216, 0, 0, 0, 0x34, 0x12];
    assert_eq!(
        within(&[0x66, 0xc7, 0x04, 0x24, 0x34, 0x12]).as_deref(),
        Ok(&code[..])
    );
}

#[test]
fn a_condition_is_that_of_the_saved_flags() {
    for condition in 0..16 {
        let mut out = [0; MAX_WITHIN];
        let (len, now) = Displaced::put_condition(condition, &FRAME, &mut out).unwrap();
        let expected = |flags| Condition::of_opcode(condition).holds(flags);
        if out[0] != 0xf6 {
            // popf
            assert_eq!((out[len - 1], now), (0x9d, condition));
            continue;
        }
        // testb, of one of the bytes
        let offset = u32::from_le_bytes(out[3..7].try_into().unwrap());
        assert_eq!((&out[1..3], len), (&[0x84, 0x24][..], 8));
        for flags in 0..1 << 12 {
            let byte = flags >> (8 * (offset - FRAME.flags));
            let zero = u64::from(byte & u64::from(out[7]) == 0) << 6;
            assert_eq!(
                Condition::of_opcode(now).holds(zero),
                expected(flags),
                "{condition} {flags:#x}"
            );
        }
    }
}

#[test]
fn branches_name_their_targets() {
    let first = |code: &[u8]| {
        let mut code = code.to_vec();
        code.extend([0x0f, 0x1f, 0x44, 0, 0, 0xc3]);
        at(&image(&code), 0).unwrap().first_branch()
    };
    let to = |condition, target| Some(Branch { condition, target });
    // je, jge, jmp
    assert_eq!(first(&[0x74, 5]), to(Some(4), AT + 7));
    assert_eq!(first(&[0x0f, 0x8d, 0, 0, 0, 0]), to(Some(0xd), AT + 6));
    assert_eq!(first(&[0xeb, 5]), to(None, AT + 7));
    // loop, nop
    assert_eq!(first(&[0xe2, 5]), None);
    assert_eq!(first(&[0x90]), None);
}

#[test]
fn what_uses_the_stack_does_not_run_on_another() {
    let codes: [&[u8]; 20] = [
        &[0x66, 0x6a, 5],                      // pushw $5
        &[0x54],                               // push %rsp
        &[0x66, 0x51],                         // push %cx
        &[0x5c],                               // pop %rsp
        &[0x48, 0x89, 0xe5],                   // mov %rsp,%rbp
        &[0x48, 0x83, 0xec, 8],                // sub $8,%rsp
        &[0x40, 0x88, 0xe0],                   // mov %spl,%al
        &[0xff, 0x30],                         // push (%rax)
        &[0xc9],                               // leave
        &[0x9c],                               // pushf
        &[0x94],                               // xchg %rax,%rsp
        &[0xf0, 0x50],                         // lock push %rax
        &[0x65, 0x48, 0x8b, 0x00],             // mov %gs:(%rax),%rax
        &[0x65, 0xad],                         // lods %gs:(%rsi),%eax
        &[0x64, 0xa4],                         // movsb %fs:(%rsi),(%rdi)
        &[0x65, 0xd7],                         // xlat %gs:(%rbx)
        &[0x64, 0x6e],                         // outsb %fs:(%rsi),(%dx)
        &[0x65, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0], // movabs %gs:0,%eax
        &[0xf7, 0xf1],                         // div %ecx
        &[0x48, 0x0f, 0xb1, 0x20],             // cmpxchg %rsp,(%rax)
    ];
    for code in codes {
        assert_eq!(within(code), Err(Reason::Immovable), "{code:02x?}");
    }
    // mov %cl,%ah: not the stack pointer's byte.
    assert!(within(&[0x88, 0xcc]).is_ok());
    // Without a segment they run.
    assert!(within(&[0xad]).is_ok() && within(&[0xa1, 0, 0, 0, 0, 0, 0, 0, 0]).is_ok());
}

#[test]
fn a_rex_that_a_prefix_follows() {
    // rex cs mov, rex cs movzbl: it depends on the CPU whether the operand is ch or bpl.
    assert_eq!(within(&[0x40, 0x2e, 0x88, 0xe8]), Err(Reason::Immovable));
    assert_eq!(
        within(&[0x40, 0x2e, 0x0f, 0xb6, 0xc5]),
        Err(Reason::Immovable)
    );
    // The usual order: cs rex mov %bpl,%al; cs rex movzbl %bpl,%eax.
    let rbp = [0x48, 0x8b, 0x6c, 0x24, 32];
    for code in [
        &[0x2e, 0x40, 0x88, 0xe8][..],
        &[0x2e, 0x40, 0x0f, 0xb6, 0xc5],
    ] {
        let code = within(code).unwrap();
        assert!(code.windows(5).any(|part| part == rbp), "{code:02x?}");
    }
}

#[test]
fn user_memory_is_accessed_as_the_probed_code_may() {
    let smap = Frame {
        smap: true,
        ..FRAME
    };
    let within = |code: &[u8]| within_frame(code, &smap).unwrap();
    let mask = |code: &[u8]| u32::from_le_bytes(code[10..14].try_into().unwrap());
    // testb $4,146(%rsp); jz 1f; stac; 1: mov 80(%rsp),%rax; mov (%rax),%ecx; clac
    let code = within(&[0x8b, 0x08]);
    let first = [0xf6, 0x84, 0x24, 146, 0, 0, 0, 4, 0x74, 3, 0x0f, 0x01, 0xcb];
    assert_eq!(code[..13], first);
    assert_eq!(code[18..23], [0x8b, 0x08, 0x0f, 0x01, 0xca]);
    const IF: u32 = 1 << 9;
    // adc (%rax),%ecx; stosb: with all flags but IF, and clac after it.
    for code in [within(&[0x13, 0x08]), within(&[0xaa])] {
        assert_eq!(mask(&code), !IF);
        assert!(code.windows(3).any(|part| part == CLAC), "{code:02x?}");
    }
    // adc %eax,%ecx: no memory, AC stays clear.
    let code = within(&[0x11, 0xc1]);
    assert_eq!(mask(&code), !(IF | 1 << 18));
    assert!(!code.windows(3).any(|part| part == CLAC), "{code:02x?}");
    // lea (%rax),%rcx; mov %eax,%ecx: no changes.
    for code in [&[0x48, 0x8d, 0x08][..], &[0x89, 0xc1]] {
        assert_eq!(within_frame(code, &smap), within_frame(code, &FRAME));
    }
}

/// clac
const CLAC: [u8; 3] = [0x0f, 0x01, 0xca];

#[test]
fn monitors_and_the_direction() {
    // monitor
    assert_eq!(
        at(&with(&[0x0f, 0x01, 0xc8, 0x90]), 7),
        Err(Reason::Immovable)
    );
    // umwait %ecx
    assert_eq!(
        at(&with(&[0xf2, 0x0f, 0xae, 0xf1]), 7),
        Err(Reason::Immovable)
    );
    // sfence is not a monitor.
    assert!(at(&with(&[0x0f, 0xae, 0xf8, 0x90, 0x90]), 7).is_ok());
    // std, anywhere
    assert_eq!(
        at(&with(&[0x90, 0x90, 0xfd, 0xfc]), 2),
        Err(Reason::Direction)
    );
}
