// SPDX-License-Identifier: GPL-2.0

//! Parser, diagnostics and code of DProbes programs.

use ferro_dprobes_core::*;

use super::super::locate::Locator;
use super::super::set;
use super::super::set::Loadable;
use super::super::set::Located;
use super::diagnostic::render;
use super::parse::File;
use super::parse::parse;
use super::print;
use super::source::Define;
use super::source::Source;

mod properties;
mod seed;

fn read(text: &str, defines: &[&str]) -> (Source, File) {
    let defines: Vec<Define> = defines.iter().map(|one| one.parse().unwrap()).collect();
    let source = Source::of_text("test.dp", text);
    let file = parse(&source, &defines);
    (source, file)
}

/// Returns the programs of a text without errors.
pub fn programs(text: &str, defines: &[&str]) -> Vec<Loadable> {
    let (source, file) = read(text, defines);
    let mut diagnostics = file.diagnostics;
    let mut locator = Locator::default();
    let programs = file.programs.iter();
    let programs = programs
        .map(|program| locator.program(program, &mut diagnostics))
        .collect();
    assert!(
        diagnostics.is_empty(),
        "{}\n{text}",
        render(&source, &diagnostics, false)
    );
    programs
}

/// Returns the commands of a point that has only these.
fn code(text: &str) -> Vec<Insn> {
    let text = format!("name = vmlinux\nvars = 9\noffset = f\n{text}\nexit\n");
    let mut programs = programs(&text, &[]);
    let mut code = programs.pop().unwrap().points.pop().unwrap().code;
    assert_eq!(code.pop(), Some(Insn::width(Op::Exit, 0)));
    code
}

const SEED: &str = "\
name = bzImage
modtype = kernel
major = 1
jmpmax = 32
logmax = 100
dfltexit=1
vars = 2

offset = kill_proc
opcode = 0x55
minor = 1
pass_count = 0
max_hits = 1000
inc lv,0
push d,16
push r, esp
log mrf
exit

offset = do_fork
opcode = 0x55
minor = 2
pass_count = 0
max_hits = 1000
inc lv,1
push d,16
push r, esp
log mrf
exit
";

#[test]
fn the_first_example() {
    let all = programs(SEED, &[]);
    let [program] = &all[..] else { panic!() };
    assert_eq!(program.name, "vmlinux");
    let header = Header {
        major: 1,
        jmpmax: 32,
        logmax: 100,
        locals: 2,
        ..Header::new(ModuleKind::Kernel)
    };
    assert_eq!(program.header, header);
    let point = |minor, symbol: &str| Located {
        point: Point {
            opcode: Some(0x55),
            minor,
            max_hits: 1000,
            ..Point::new(1)
        },
        symbol: symbol.to_owned(),
        code: vec![
            Insn::with(Op::IncLv, minor - 1),
            Insn::push(16),
            Insn::register(Op::PushR, Register::Sp),
            Insn::new(Op::LogMrf),
            Insn::width(Op::Exit, 0),
        ],
    };
    assert_eq!(program.points, [point(1, "kill_proc"), point(2, "do_fork")]);
}

#[test]
fn the_second_example() {
    let exe = std::env::current_exe().unwrap();
    let text = format!(
        "name = \"{}\"
modtype = user
major = 1
dfltexit=0

offset = main
minor = 1
push r,esp                         // push the stack pointer
push d,4
add                                   // TOS -> first parm to malloc (size)
push d,0x20000000         // size 0x20000000
sub                                   // compare
jz take_dump                  // if equal, take core dump
exit                                  // else exit without further ado
take_dump: exit 3
",
        exe.display()
    );
    let all = programs(&text, &[]);
    let point = &all[0].points[0];
    assert_eq!(point.symbol, "");
    assert_ne!(point.point.offset, 0);
    assert_eq!(point.code[3], Insn::push(0x2000_0000));
    assert_eq!(point.code[5], Insn::with(Op::Jz, 7));
    assert_eq!(point.code[7], Insn::width(Op::Exit, 3));
}

#[test]
fn how_commands_are_written() {
    let one = |text: &str| code(text)[0];
    for (text, insn) in [
        ("PUSH R, EAX", Insn::register(Op::PushR, Register::Ax)),
        ("push u, rsp", Insn::register(Op::PushU, Register::Sp)),
        ("push 5", Insn::push(5)),
        ("push q, -1", Insn::push(u64::MAX)),
        ("push -1", Insn::push(u64::MAX)),
        ("push b, -1", Insn::push(u64::MAX)),
        ("push d, -8", Insn::push(8u64.wrapping_neg())),
        ("push w, 0xffff", Insn::push(0xffff)),
        ("push (1 << 4) | 1", Insn::push(17)),
        ("push gv, 3", Insn::with(Op::PushGv, 3)),
        ("push task", Insn::new(Op::PushTask)),
        ("push_pid", Insn::new(Op::PushPid)),
        ("inc_lv, 2", Insn::with(Op::IncLv, 2)),
        ("log lv, 2", Insn::variables(Op::LogLv, 2, 1)),
        ("log lv, 2, 7", Insn::variables(Op::LogLv, 2, 7)),
        ("purge_st", Insn::new(Op::PurgeSt)),
        ("ros -1", Insn::at(Op::Ros, -1)),
        ("setmin 7", Insn::with(Op::SetMin, 7)),
        ("exit_3", Insn::width(Op::Exit, 3)),
        ("x: sx x", Insn::with(Op::Sx, 0)),
    ] {
        assert_eq!(one(text), insn, "{text}");
    }
    let last = |text: &str| code(&format!("push 8\npush 9\n{text}"))[2];
    for (text, insn) in [
        ("push mem, u32", Insn::width(Op::PushMem, 4)),
        ("push u16", Insn::width(Op::PushMem, 2)),
        ("push mem, 8", Insn::width(Op::PushMem, 8)),
        ("pop mem, b", Insn::width(Op::PopMem, 1)),
        ("pop u64", Insn::width(Op::PopMem, 8)),
        ("pop", Insn::new(Op::Pop)),
        ("push io, u8", Insn::width(Op::PushIo, 1)),
        ("rol", Insn::from_stack(Op::Rol)),
        ("rol 3", Insn::with(Op::Rol, 3)),
        ("push lv", Insn::from_stack(Op::PushLv)),
        ("log 2", Insn::with(Op::Log, 2)),
        ("log", Insn::from_stack(Op::Log)),
        ("log_str", Insn::new(Op::LogStr)),
        ("vfy rw", Insn::new(Op::VfyRw)),
        ("dup 1", Insn::with(Op::Dup, 1)),
    ] {
        assert_eq!(last(text), insn, "{text}");
    }
}

#[test]
fn fields_of_points() {
    let text = "\
name = ext4
id = 7
autostacktrace = yes
align = no
gvars = 3
heapmax = 0x1000

offset = ext4_sync_file + 4 * 2
group = 3
type = 4
logonfault = y
ex_mask = 0x3fff
heap_size = 64
nop
exit
address = 0xffffffff81000000
major = 9
watch = rw
length = 4
abort
name = /bin/true
modtype = user
address = 0x404040
probe = watchpoint
rem
";
    let (_, file) = read(text, &[]);
    assert_eq!(file.diagnostics, []);
    let [module, user] = &file.programs[..] else {
        panic!()
    };
    assert_eq!(module.header.kind, ModuleKind::Module);
    assert_eq!(module.header.globals, 3);
    assert!(module.header.auto_stack_trace);
    let [first, second] = &module.points[..] else {
        panic!()
    };
    assert_eq!(first.place.number, 8);
    assert_eq!(first.point.kind_number, 4);
    assert!(first.point.log_on_fault);
    assert_eq!((second.point.major, second.point.watch_len), (9, 4));
    assert_eq!(second.point.kind, PointKind::WatchAccess);
    assert!(second.point.is_absolute);
    assert_eq!(user.header.kind, ModuleKind::User);
    assert_eq!(user.points[0].point.kind, PointKind::WatchWrite);
}

#[test]
fn definitions() {
    let text = "name = NAME\nvars = N\noffset = F + 1\nl: push N\nexit";
    let all = programs(text, &["NAME=vmlinux", "N=M*2", "M=4", "F=here + 1"]);
    assert_eq!(all[0].points[0].symbol, "here");
    assert_eq!(all[0].points[0].point.offset, 2);
    assert_eq!(all[0].header.locals, 8);
}

#[test]
fn global_variables_are_counted() {
    let globals = |text: &str| {
        let text = format!("name = vmlinux\noffset = f\n{text}\nexit");
        programs(&text, &[])[0].header.globals
    };
    assert_eq!(globals("nop"), 0);
    assert_eq!(globals("inc gv, 4\ninc gv, 2"), 5);
    assert_eq!(globals("log gv, 3, 4"), 7);
    assert_eq!(globals("push 1\npush gv"), 256);
}

/// Watchpoints with `address = later`: a program sets their address when it arms them.
#[test]
fn addresses_that_come_later() {
    let text = "\
name = vmlinux
offset = f
  push r, rdi
  arm 2
  exit
offset = g
  disarm 2
  push 1
  push 2
  arm
  exit
address = later
minor = 2
watch = w
length = 8
  push gv, 1
  arm 2
  exit
offset = later
  exit
";
    let all = programs(text, &[]);
    let [arms, both, watch, symbol] = &all[0].points[..] else {
        panic!()
    };
    assert_eq!(arms.code[1], Insn::with(Op::Arm, 2));
    assert_eq!(
        both.code,
        [
            Insn::with(Op::Disarm, 2),
            Insn::push(1),
            Insn::push(2),
            Insn::from_stack(Op::Arm),
            Insn::new(Op::Exit)
        ]
    );
    assert!(watch.point.is_later && !watch.point.is_absolute);
    assert_eq!((watch.point.offset, watch.symbol.as_str()), (0, ""));
    assert_eq!(symbol.symbol, "later");
    let first = |text: &str| {
        let (_, file) = read(text, &[]);
        let one = &file.diagnostics[0];
        (one.span.line + 1, one.span.start + 1, one.message.clone())
    };
    let exit = "name = vmlinux\naddress = later\nminor = 2";
    for (text, line, column, message) in [
        (
            "name = vmlinux\noffset = f\npush 1\narm 3\nexit".to_owned(),
            4,
            1,
            "the program has no watchpoint 3 whose address comes later",
        ),
        (
            format!("{exit}\nexit"),
            2,
            11,
            "only a watchpoint's address comes later, and it has no other place",
        ),
        (
            format!("{exit}\nwatch = w\nexit\naddress = later\nminor = 2\nwatch = w\nexit"),
            2,
            11,
            "two points whose address comes later have the minor number 2",
        ),
        (
            "name = vmlinux\naddress = later + 8\nwatch = w\nexit".to_owned(),
            2,
            17,
            "this is too much",
        ),
    ] {
        assert_eq!(first(&text), (line, column, message.to_owned()), "{text}");
    }
}

/// One run reports all errors, with line and column.
#[test]
fn several_errors() {
    let text = "\
nam = bzImage
modtype = kernl
jmpmax = 70000
vars = 2
offset = do_fork
  inc lv,2
  psh 1
  push r, exp
  push 0x10000000000000000
  jz ednd
  log x
  minor = 3
  add 1
end: exit 64
vars = 3
offset = g
offset = h
x:
";
    let (_, file) = read(text, &[]);
    let mut found: Vec<_> = file
        .diagnostics
        .iter()
        .map(|one| (one.span.line + 1, one.span.start + 1, &*one.message))
        .collect();
    found.sort();
    let expected = [
        (1, 1, "there is no field nam"),
        (2, 11, "kernl is not a type of module: kernel, kmod, user"),
        (2, 1, "this program has no name"),
        (3, 10, "jmpmax has to be from 0 to 65535, and this is 70000"),
        (6, 10, "there is no local variable 2"),
        (7, 3, "there is no command psh"),
        (8, 11, "there is no register exp"),
        (9, 8, "0x10000000000000000 has more than 64 bits"),
        (10, 6, "there is no label ednd in this point"),
        (11, 7, "log needs one of: str, mrf, lv, gv, st"),
        (12, 3, "minor comes after the first command of the point"),
        (13, 7, "add takes no operand"),
        (
            14,
            11,
            "exit takes 0, 1 (debugger), 2 (crash dump), 3 (core dump) or a module's number, 4 to 63",
        ),
        (15, 1, "vars belongs to the program"),
        (16, 10, "this point has no commands"),
        (17, 10, "this point has no commands"),
    ];
    for one in &expected {
        assert!(found.contains(one), "{one:?} is not in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    let help = |line: usize| {
        let mut all = file.diagnostics.iter();
        all.find(|one| one.span.line + 1 == line && one.help.is_some())
            .and_then(|one| one.help.clone())
            .unwrap()
    };
    assert_eq!(help(1), "did you mean name?");
    assert_eq!(help(7), "did you mean push?");
    assert!(
        help(8).contains("rsp") || help(8).contains("rbp"),
        "{}",
        help(8)
    );
    assert_eq!(help(10), "did you mean end?");
}

/// Errors that only the kernel's own check finds.
#[test]
fn what_the_kernel_would_refuse() {
    for (commands, line, message) in [
        (
            "add\nexit",
            3,
            "it takes more words from the stack than are on it",
        ),
        (
            "push 1\nnop",
            4,
            "the program runs past its last instruction",
        ),
        (
            "x: push 1\nlog 2\nexit",
            4,
            "it takes more words from the stack than are on it",
        ),
    ] {
        let (_, file) = read(&format!("name = vmlinux\noffset = f\n{commands}\n"), &[]);
        let [one] = &file.diagnostics[..] else {
            panic!("{commands}: {:?}", file.diagnostics)
        };
        assert_eq!((one.span.line + 1, &*one.message), (line, message));
    }
}

#[test]
fn no_program() {
    for text in ["", "// nothing\n"] {
        assert_eq!(read(text, &[]).1.diagnostics.len(), 1);
    }
    // A command outside a point.
    assert_eq!(read("name = vmlinux\nexit", &[]).1.diagnostics.len(), 2);
}
