// SPDX-License-Identifier: GPL-2.0

//! The language of version 5: each command, and each field of programs and points.

use super::*;

/// Commands of version 5 and their opcodes. The test pushes three words before each.
const COMMANDS: &[(&str, Op)] = &[
    // Control.
    ("nop", Op::Nop),
    ("x: jmp x", Op::Jmp),
    ("x: jlt x", Op::Jlt),
    ("x: jle x", Op::Jle),
    ("x: jgt x", Op::Jgt),
    ("x: jge x", Op::Jge),
    ("x: jz x", Op::Jz),
    ("x: jnz x", Op::Jnz),
    ("x: loop x", Op::Loop),
    ("x: call x", Op::Call),
    ("ret", Op::Ret),
    ("exit", Op::Exit),
    ("exit_1", Op::Exit),
    ("exit_2", Op::Exit),
    ("exit 3", Op::Exit),
    ("abort", Op::Abort),
    ("rem", Op::Rem),
    ("callk 5", Op::CallK),
    // The log.
    ("setmin 5", Op::SetMin),
    ("setmin", Op::SetMin),
    ("setmaj 5", Op::SetMaj),
    ("log_str", Op::LogStr),
    ("log str", Op::LogStr),
    ("log_mrf", Op::LogMrf),
    ("log mrf", Op::LogMrf),
    ("log_i 2", Op::Log),
    ("log i, 2", Op::Log),
    ("log", Op::Log),
    ("log_lv 1, 2", Op::LogLv),
    ("log lv, 1, 2", Op::LogLv),
    ("log_gv 1, 2", Op::LogGv),
    ("push_lp", Op::PushLp),
    ("push_plp", Op::PushPlp),
    ("pop_lp", Op::PopLp),
    // Variables: by their index, or by one on the stack.
    ("push lv, 1", Op::PushLv),
    ("push lv", Op::PushLv),
    ("pop lv, 1", Op::PopLv),
    ("move lv, 1", Op::MoveLv),
    ("inc lv, 1", Op::IncLv),
    ("inc lv,1", Op::IncLv),
    ("dec lv, 1", Op::DecLv),
    ("push gv, 1", Op::PushGv),
    ("pop gv, 1", Op::PopGv),
    ("pop gv", Op::PopGv),
    ("move gv, 1", Op::MoveGv),
    ("inc gv, 1", Op::IncGv),
    ("inc gv", Op::IncGv),
    ("dec gv, 1", Op::DecGv),
    // Arithmetic and logic.
    ("add", Op::Add),
    ("sub", Op::Sub),
    ("mul", Op::Mul),
    ("div", Op::Div),
    ("idiv", Op::Idiv),
    ("neg", Op::Neg),
    ("and", Op::And),
    ("or", Op::Or),
    ("xor", Op::Xor),
    ("rol 3", Op::Rol),
    ("rol", Op::Rol),
    ("ror 3", Op::Ror),
    ("shl 3", Op::Shl),
    ("shr 3", Op::Shr),
    ("shr", Op::Shr),
    ("pbl 3", Op::Pbl),
    ("pbl", Op::Pbl),
    ("pbr 3", Op::Pbr),
    ("pzl 3", Op::Pzl),
    ("pzr 3", Op::Pzr),
    // The stack.
    ("xchg", Op::Xchg),
    ("dup 1", Op::Dup),
    ("dup", Op::Dup),
    ("ros 1", Op::Ros),
    ("pop", Op::Pop),
    ("push sbp, 1", Op::PushSbp),
    ("push sbp, -1", Op::PushSbp),
    ("pop sbp, 1", Op::PopSbp),
    ("copy sbp, 1", Op::CopySbp),
    ("push tsp, 1", Op::PushTsp),
    ("pop tsp, 1", Op::PopTsp),
    ("copy tsp, 1", Op::CopyTsp),
    ("save", Op::Save),
    ("restore", Op::Restore),
    // Registers, including system registers.
    ("push r, esp", Op::PushR),
    ("push r, cr0", Op::PushR),
    ("pop r, eax", Op::PopR),
    ("push u, eip", Op::PushU),
    ("pop u, eax", Op::PopU),
    // Data.
    ("push 16", Op::Push),
    ("push d, 16", Op::Push),
    ("push w, 16", Op::Push),
    ("push b, 16", Op::Push),
    ("push mem, u8", Op::PushMem),
    ("push u16", Op::PushMem),
    ("push u32", Op::PushMem),
    ("push mem, u64", Op::PushMem),
    ("pop mem, u8", Op::PopMem),
    ("pop u16", Op::PopMem),
    ("pop u32", Op::PopMem),
    ("pop u64", Op::PopMem),
    ("vfy_r", Op::VfyR),
    ("vfy_rw", Op::VfyRw),
    ("push task", Op::PushTask),
    ("push pid", Op::PushPid),
    ("push procid", Op::PushProcId),
    // Exceptions.
    ("x: sx x", Op::Sx),
    ("ux", Op::Ux),
    ("rx 0x8000", Op::Rx),
    ("push_x", Op::PushX),
    ("log_st", Op::LogSt),
    ("purge_st", Op::PurgeSt),
    ("trace lv, 1", Op::TraceLv),
    ("trace_gv 1", Op::TraceGv),
    ("trace_pv", Op::TracePv),
    // The heap.
    ("malloc", Op::Malloc),
    ("free", Op::Free),
    ("pushh u32", Op::PushH),
    ("poph u32", Op::PopH),
    // This processor.
    ("seg2lin", Op::Seg2Lin),
    ("push io, u8", Op::PushIo),
    ("pop io, u16", Op::PopIo),
];

/// Commands that version 5 lacks.
const OURS: &[Op] = &[Op::PushTid, Op::PushTime, Op::Arm, Op::Disarm];

#[test]
fn all_commands() {
    for (text, op) in COMMANDS {
        let code = code(&format!("push 8\npush 8\npush 8\n{text}"));
        assert_eq!(code[3].op, *op, "{text}");
    }
    for op in OPS.iter().filter(|op| !OURS.contains(op)) {
        let is_there = COMMANDS.iter().any(|(_, there)| there == op);
        assert!(is_there, "{}", op.name());
    }
}

/// Returns the header and the point of a program with the given lines as debug text.
fn shown(header: &str, point: &str) -> String {
    let text = format!("name = vmlinux\n{header}\noffset = f\n{point}\nexit\n");
    let programs = programs(&text, &[]);
    format!("{:?} {:?}", programs[0].header, programs[0].points[0].point)
}

#[test]
fn all_fields_of_programs() {
    for (line, shows) in [
        ("modtype = kernel", "kind: Kernel"),
        ("modtype = kmod", "kind: Module"),
        ("modtype = KMOD", "kind: Module"),
        ("major = 9", "major: 9"),
        ("id = 9", "id: 9"),
        ("jmpmax = 65535", "jmpmax: 65535"),
        ("logmax = 1024", "logmax: 1024"),
        ("ex_logmax = 1000", "ex_logmax: 1000"),
        ("vars = 256", "locals: 256"),
        ("lvars = 256", "locals: 256"),
        ("gvars = 256", "globals: 256"),
        ("heapmax = 16384", "heapmax: 16384"),
        ("autostacktrace = yes", "auto_stack_trace: true"),
        ("align = no", ""),
        ("dfltexit = 1", ""),
    ] {
        let shown = shown(line, "");
        assert!(shown.contains(shows), "{line}: {shown}");
    }
    // The name of a user-space program implies its kind.
    for line in ["modtype = user", ""] {
        let text =
            format!("name = /bin/true\n{line}\naddress = 0x1000\nprobe = watchpoint\nexit\n");
        assert_eq!(programs(&text, &[])[0].header.kind, ModuleKind::User);
    }
}

#[test]
fn all_fields_of_points() {
    for (lines, shows) in [
        ("opcode = 0x55", "opcode: Some(85)"),
        ("major = 7", "major: 7"),
        ("minor = 7", "minor: 7"),
        ("group = 7", "group: 7"),
        ("type = 7", "kind_number: 7"),
        ("probe = breakpoint", "kind: Breakpoint"),
        ("probe = watchpoint", "kind: WatchWrite"),
        ("watch = x", "kind: WatchExecute"),
        ("watch = w\nlength = 4", "watch_len: 4"),
        ("watch = rw\nlength = 2", "kind: WatchAccess"),
        ("maxhits = 0x7fffffff", "max_hits: 2147483647"),
        ("max_hits = 1000", "max_hits: 1000"),
        ("passcount = 5", "pass_count: 5"),
        ("pass_count = 5", "pass_count: 5"),
        ("logonfault = yes", "log_on_fault: true"),
        ("ex_mask = 0x0fff", "ex_mask: 4095"),
        ("heap_size = 64", "heap_size: 64"),
    ] {
        let shown = shown("heapmax = 64", lines);
        assert!(shown.contains(shows), "{lines}: {shown}");
    }
    let address = programs("name = vmlinux\naddress = 0xffffffff81000000\nexit\n", &[]);
    assert!(address[0].points[0].point.is_absolute);
}
