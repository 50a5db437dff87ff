// SPDX-License-Identifier: GPL-2.0

use super::*;

/// A machine with a page of memory at [`Machine::FROM`], and no memory after it.
struct Machine(Vec<u8>);

impl Machine {
    const FROM: u64 = 0xffff_8880_0000_1000;

    fn new(parts: &[(usize, &[u8])]) -> Self {
        let mut bytes = vec![0xee; 4096];
        for (at, part) in parts {
            bytes[*at..*at + part.len()].copy_from_slice(part);
        }
        Self(bytes)
    }
}

impl Env for Machine {
    fn register(&self, register: Register) -> u64 {
        match register {
            Register::Di => Self::FROM,
            Register::Ax => 0x1122_3344_ffff_fff6,
            Register::Sp => Self::FROM + 8,
            _ => 7,
        }
    }

    fn argument(&self, index: u8) -> Option<u64> {
        (index < 6).then_some(u64::from(index) + 100)
    }

    fn stack(&self, index: u16) -> Option<u64> {
        (index < 4).then_some(u64::from(index) + 200)
    }

    fn returned(&self) -> u64 {
        self.register(Register::Ax)
    }

    fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let Some(at) = at.checked_sub(Self::FROM) else {
            return false;
        };
        let at = usize::try_from(at).unwrap();
        let there = self.0.get(at..at + to.len());
        there.is_some_and(|bytes| {
            to.copy_from_slice(bytes);
            true
        })
    }
}

fn value(arg: &str, machine: &Machine) -> Option<u64> {
    let line = format!("a={arg}");
    let args = Args::parse(&line, true).expect(arg);
    let (_, arg) = args.iter().next().unwrap();
    arg.fetch.number(arg.ty, machine)
}

fn text(arg: &str, machine: &Machine) -> (String, bool) {
    let line = format!("a={arg}");
    let (_, arg) = Args::parse(&line, true).unwrap().iter().next().unwrap();
    let mut got = Vec::new();
    let all = arg
        .fetch
        .text(arg.ty.size(), machine, |piece| got.extend(piece));
    (String::from_utf8(got).unwrap(), all)
}

#[test]
fn values() {
    let far = (Machine::FROM + 256).to_le_bytes();
    let machine = Machine::new(&[
        (16, &far),
        (256, &0x0123_4567_89ab_cdefu64.to_le_bytes()),
        (4092, &(-5i32).to_le_bytes()),
    ]);
    for (arg, is) in [
        ("%di", Some(Machine::FROM)),
        ("%ax:s32", Some((-10i64) as u64)),
        ("%ax:u32", Some(0xffff_fff6)),
        ("%ax:x8", Some(0xf6)),
        ("$retval:s8", Some((-10i64) as u64)),
        ("%ax:b4@4/8", Some(0xf)),
        ("%ax:b3@0/32", Some(6)),
        ("%ax:b64@0/64", Some(0x1122_3344_ffff_fff6)),
        ("$arg1", Some(100)),
        ("$arg6:u8", Some(105)),
        ("$arg7", None),
        ("$stack", Some(Machine::FROM + 8)),
        ("$stack3", Some(203)),
        ("$stack4", None),
        ("+256(%di)", Some(0x0123_4567_89ab_cdef)),
        ("+0x100(%di):u16", Some(0xcdef)),
        ("+u0(+16(%di)):x32", Some(0x89ab_cdef)),
        ("-248(+u16(%di)):x32", Some(0xeeee_eeee)),
        ("+6(+16(%di)):s16", Some(0x0123)),
        ("+4092(%di):s32", Some((-5i64) as u64)),
        ("+4092(%di):s64", None),
        ("+0(+0(%di))", None),
        ("-1(%di):u8", None),
    ] {
        assert_eq!(value(arg, &machine), is, "{arg}");
    }
}

#[test]
fn texts() {
    let machine = Machine::new(&[
        (0, b"/etc/passwd\0"),
        (100, &[b'x'; 300]),
        (400, b"\0"),
        (4090, b"abcdef"),
        (4000, b"near the end\0"),
    ]);
    let is = |arg: &str, want: &str| assert_eq!(text(arg, &machine), (want.into(), true), "{arg}");
    is("+0(%di):string", "/etc/passwd");
    is("+0(%di):ustring", "/etc/passwd");
    is("+5(%di):string5", "pass");
    is("+4000(%di):string", "near the end");
    is("+100(%di):string", &"x".repeat(127));
    is("+200(%di):string256", &"x".repeat(200));
    // The text continues in unmapped memory.
    assert_eq!(
        text("+4090(%di):string", &machine),
        ("abcdef".into(), false)
    );
    assert_eq!(text("+8192(%di):string", &machine), (String::new(), false));
}

#[test]
fn places_in_the_record() {
    let line = "a=%di:u8 s=+0(%di):string5 b=$arg2 c=%ax:s16 d=%bx:x32";
    let args = Args::parse(line, false).unwrap();
    let places: Vec<_> = args.iter().map(|(name, arg)| (name, arg.offset)).collect();
    assert_eq!(places, [("a", 0), ("s", 1), ("b", 8), ("c", 16), ("d", 20)]);
    assert_eq!(args.size(), 24);
    assert_eq!(args.text(), line);
    assert_eq!(Args::parse("", false).unwrap().size(), 0);
    // Stacks follow all other arguments, in any order of the text.
    let args = Args::parse("k=$kstack a=%di:u8 u=$ustack b=%si:u16", true).unwrap();
    let places: Vec<_> = args
        .iter()
        .map(|(_, arg)| (arg.ty.is_stack(), arg.end()))
        .collect();
    assert_eq!(places, [(true, 0), (false, 1), (true, 1), (false, 4)]);
    assert_eq!(args.size(), 4);
    let users = args
        .iter()
        .filter(|(_, arg)| arg.ty == Type::Stack { user: true });
    assert_eq!(users.map(|(name, _)| name).collect::<Vec<_>>(), ["u"]);
}

#[test]
fn what_is_not_understood() {
    let is = |line: &str, returns| Args::parse(line, returns).is_some();
    for line in [
        "a",
        "a=",
        "=%di",
        "1=%di",
        "a b=%di",
        "a=di",
        "a=%zz",
        "a=%di:",
        "a=%di:u7",
        "a=%di:q8",
        "a=%di:string",
        "a=+0(%di):string1",
        "a=+0(%di):string257",
        "a=+0(%di):stringx",
        "a=$arg0",
        "a=$arg33",
        "a=$arg",
        "a=$comm",
        "a=+(%di)",
        "a=+-1(%di)",
        "a=+1%di)",
        "a=+1(%di",
        "a=+1(%di))",
        "a=+4294967296(%di)",
        "a=+1(+1(+1(+1(+1(+1(+1(%di)))))))",
        "a=%di a=%si",
        "a=%di:b0@0/8",
        "a=%di:b5@4/8",
        "a=%di:b1@0/7",
        "a=%di:b1@0",
        "\u{e9}=%di",
        "a=%\u{e9}:\u{e9}",
        "a=$stack1024",
        "a=$kstack:x64",
        "a=+0($kstack)",
        "a=$kstack if a==0",
        "a=$ustack3",
    ] {
        assert!(!is(line, true), "{line}");
    }
    let many = |n: usize| (0..n).map(|n| format!("a{n}=%di ")).collect::<String>();
    assert!(is(&many(ARGS_MAX), false) && !is(&many(ARGS_MAX + 1), false));
    let large = |n: usize| {
        (0..n)
            .map(|n| format!("a{n}=+0(%di):string256 "))
            .collect::<String>()
    };
    assert!(is(&large(2), false) && !is(&large(3), false));
    assert!(is(&format!("{}=%di", "n".repeat(NAME_MAX)), false));
    assert!(!is(&format!("{}=%di", "n".repeat(NAME_MAX + 1)), false));
    // Sources that only a return has.
    for line in ["a=$retval", "if duration>1", "a=+0($retval) if cpu==1"] {
        assert!(is(line, true) && !is(line, false), "{line}");
    }
    for line in [
        "if",
        "if ",
        "if cpu",
        "if cpu==",
        "if cpu=1",
        "if cpu==x",
        "if cpu~1",
        "if comm<a",
        "if comm&a",
        "if b==1",
        "if a==1",
        "a=%di if a~1",
        "if cpu==1 b",
        "if cpu==--1",
        "if \u{e9}==1",
    ] {
        assert!(!is(line, false), "{line}");
    }
    let tests = |n: usize| format!("if {}", "cpu==1 ".repeat(n));
    assert!(is(&tests(CONDITIONS_MAX), false) && !is(&tests(CONDITIONS_MAX + 1), false));
    let name = |n: usize| format!("if comm=={}", "x".repeat(n));
    assert!(is(&name(TEXT_MAX), false) && !is(&name(TEXT_MAX + 1), false));
}

#[test]
fn conditions() {
    let machine = Machine::new(&[(0, b"/etc/passwd\0")]);
    let hit = Hit {
        thread: 43,
        process: 42,
        comm: b"cat\0\0\0",
        cpu: 3,
    };
    let holds = |conditions: &str| {
        let args = "n=$retval:s32 u=$retval:u32 f=+0(%di):string gone=+0(%bx) t=+0(%bx):string";
        let line = format!("{args} if {conditions}");
        let args = Args::parse(&line, true).expect(conditions);
        let mut all = args.conditions();
        all.all(|condition| condition.holds(&hit, 1000, &machine))
    };
    for (condition, is) in [
        ("pid==42", true),
        ("pid==43", true),
        ("pid==44", false),
        ("pid!=42", false),
        ("pid!=44", true),
        ("cpu<3", false),
        ("cpu<=3", true),
        ("cpu>=0x4", false),
        ("cpu&2", true),
        ("cpu&4", false),
        ("comm==cat", true),
        ("comm==\"cat\"", true),
        ("comm!=cat", false),
        ("comm~c?t*", true),
        ("comm~*d", false),
        ("duration>999", true),
        ("duration>1000", false),
        ("n==-10", true),
        ("n<0", true),
        ("n>=-10", true),
        ("u<0", false),
        ("u==4294967286", true),
        ("f==/etc/passwd", true),
        ("f~/etc/*", true),
        ("f~*/x*", false),
        ("f!=/etc/passwd", false),
        ("gone==0", false),
        ("gone!=0", false),
        ("t~*", false),
        ("cpu==3 comm==cat n<0", true),
        ("cpu==3 comm==cat n>0", false),
    ] {
        assert_eq!(holds(condition), is, "{condition}");
    }
}

#[test]
fn when_conditions_are_judged() {
    let line = "a=$arg1 r=$retval d=%di if a==1 r==1 d==1 duration>1 pid==1";
    let args = Args::parse(line, true).unwrap();
    let entry: Vec<_> = args.conditions().map(|c| c.is_of_entry()).collect();
    assert_eq!(entry, [true, false, false, false, true]);
    let left: Vec<_> = args.conditions().map(|c| c.is_of_return()).collect();
    assert_eq!(left, [false, true, false, true, false]);
    assert_eq!(args.conditions_text(), "a==1 r==1 d==1 duration>1 pid==1");
    // The name of an argument takes precedence.
    let args = Args::parse("cpu=$retval:s8 if cpu==-10", true).unwrap();
    assert!(args.conditions().all(|c| c.is_of_return()));
}

#[test]
fn patterns() {
    let is = |text: &str, pattern: &str| {
        let line = format!("if comm~{pattern}");
        let args = Args::parse(&line, false).unwrap();
        let hit = Hit {
            thread: 1,
            process: 1,
            comm: text.as_bytes(),
            cpu: 0,
        };
        let mut all = args.conditions();
        all.all(|c| c.holds(&hit, 0, &Machine::new(&[])))
    };
    for (text, pattern) in [
        ("", "*"),
        ("abc", "abc"),
        ("abc", "a*"),
        ("abc", "*c"),
        ("aabab", "*ab"),
        ("abc", "***"),
        ("abc", "?b?"),
        ("mississippi", "m*iss*p?"),
    ] {
        assert!(is(text, pattern), "{text} {pattern}");
    }
    for (text, pattern) in [
        ("", "?"),
        ("abc", "ab"),
        ("abc", "*b"),
        ("abc", "a?"),
        ("ab", "a*b*c"),
    ] {
        assert!(!is(text, pattern), "{text} {pattern}");
    }
}
