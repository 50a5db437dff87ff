// SPDX-License-Identifier: GPL-2.0

//! Tests with calls as the kernel makes them.

use super::*;
use crate::graph::tree::End;

const NAMES: &str = "\
1 x64_sys_call
2 __x64_sys_openat
3 do_sys_openat2
4 do_filp_open
5 path_openat
6 link_path_walk
7 kfree
8 __x64_sys_write
9 __secure_computing
a __x64_sys_ioctl
b sysvec_apic_timer_interrupt
";

const ENOENT: u64 = u64::MAX - 1;
const ECHILD: u64 = u64::MAX - 9;
/// As an `int`.
const ENOENT32: u64 = 0xffff_fffe;

fn call(func: u64, value: u64, children: Vec<Call>) -> Call {
    Call {
        func,
        value: Some(value),
        duration: Some(1_000),
        end: End::Returned,
        children,
        ..Call::default()
    }
}

fn entry(pid: i32, item: Item) -> Entry {
    Entry {
        pid,
        comm: "cat".to_owned(),
        cpu: 0,
        time: 5,
        item,
    }
}

/// Adds a system call of a thread.
fn system_call(
    to: &mut Explainer,
    pid: i32,
    number: i64,
    path: &str,
    calls: Vec<Call>,
    value: i64,
) {
    let names = Names::of(NAMES);
    let first = if number == 1 { STDERR } else { 5 };
    to.add(entry(pid, Item::SyscallEntry { number, first }), &names);
    if !path.is_empty() {
        to.add(entry(pid, Item::Path(path.to_owned())), &names);
    }
    for call in calls {
        to.add(entry(pid, Item::Call(call)), &names);
    }
    to.add(entry(pid, Item::SyscallExit { value }), &names);
}

/// An openat() that finds nothing, after an attempt without locks.
fn open() -> Vec<Call> {
    let attempt = call(5, ECHILD, vec![call(6, ECHILD, vec![])]);
    let interrupt = Call {
        in_irq: true,
        ..call(11, ENOENT, vec![])
    };
    let walk = call(6, ENOENT32, vec![call(6, 0, vec![])]);
    let again = call(5, ENOENT, vec![walk, interrupt]);
    let open = call(4, ENOENT, vec![attempt, again]);
    let sys = call(
        2,
        ENOENT,
        vec![call(3, ENOENT, vec![open, call(7, 0, vec![])])],
    );
    vec![call(11, 0, vec![]), call(1, ENOENT, vec![sys])]
}

fn chain(failure: &Failure) -> Vec<&str> {
    let steps = failure.chain.iter();
    steps.map(|step| step.function.as_str()).collect()
}

#[test]
fn chain_of_an_error() {
    let mut explainer = Explainer::default();
    system_call(&mut explainer, 1, 257, "/x", open(), -2);
    let failure = explainer.last(&Filter::default()).unwrap();
    assert_eq!(
        chain(failure),
        [
            "__x64_sys_openat",
            "do_sys_openat2",
            "do_filp_open",
            "path_openat",
            "link_path_walk"
        ]
    );
    assert!(!failure.gap);
    let text = failure.text(false);
    assert!(
        text.starts_with("cat 1: openat(\"/x\") = -2 (ENOENT): No such file or directory\n"),
        "{text}"
    );
    assert!(
        text.contains("link_path_walk = -2 (ENOENT)  <== arose here\n"),
        "{text}"
    );
    assert!(
        text.contains("arose in link_path_walk, or in a function that is inlined"),
        "{text}"
    );
    assert!(failure.text(true).contains("1.000 us"));
}

/// A call that got these words as its first arguments.
fn given(func: u64, first: u64, second: u64, value: u64) -> Call {
    Call {
        arguments: Some(Box::new([first, second, 0, 0, 0, 0])),
        ..call(func, value, vec![])
    }
}

#[test]
fn origins_before_an_argument() {
    let origin = |calls| {
        let mut explainer = Explainer::default();
        let open = call(2, ENOENT, vec![call(5, ENOENT, calls)]);
        system_call(&mut explainer, 1, 257, "", vec![open], -2);
        explainer.last(&Filter::default()).unwrap().origin.clone()
    };
    let passed_on = || given(6, ENOENT, 0, ENOENT32);
    let text = |name: &str| Some(name.to_owned());
    // In the code of the caller, or in an earlier call.
    assert_eq!(origin(vec![passed_on()]), text("path_openat"));
    let earlier = call(4, ENOENT, vec![]);
    assert_eq!(origin(vec![earlier, passed_on()]), text("do_filp_open"));
    // An argument that is no error, and a register that is no argument.
    let other = given(6, 7, ENOENT, ENOENT32);
    assert_eq!(origin(vec![other]), text("link_path_walk"));
    // The upper half of a pointer is not left from anything.
    let half = given(6, ENOENT32, 0, ENOENT32);
    assert_eq!(origin(vec![half]), text("link_path_walk"));
}

#[test]
fn types_tell_errors_from_leftovers() {
    let names = Names::of(NAMES);
    names.know(5, Type::Pointer, &[Type::Pointer, Type::Signed(4)]);
    names.know(7, Type::Nothing, &[Type::Pointer]);
    let found = |calls: &[Call], errno| handed_up(calls, errno, &names).map(|call| call.func);
    // kfree() returns nothing, and the types of link_path_walk() are not known here.
    let open = || call(5, ENOENT, vec![]);
    let left = || [call(7, ENOENT, vec![]), call(6, ENOENT, vec![])];
    assert_eq!(found(&[vec![open()], left().to_vec()].concat(), 2), Some(5));
    assert_eq!(found(&left(), 2), Some(6));
    // An int argument.
    assert_eq!(found(&[given(5, 0, ENOENT32, ENOENT)], 2), None);
    // -1 is no error there.
    let minus_one = u64::MAX;
    assert_eq!(found(&[given(5, 0, minus_one, minus_one)], 1), Some(5));
    assert_eq!(found(&[given(5, minus_one, 0, minus_one)], 1), None);
    // No parameter.
    let mut third = given(5, 0, 0, ENOENT);
    third.arguments = Some(Box::new([0, 0, ENOENT, 0, 0, 0]));
    assert_eq!(found(&[third], 2), Some(5));
}

#[test]
fn calls_without_functions() {
    let mut explainer = Explainer::default();
    let seccomp = vec![call(9, u64::MAX, vec![])];
    system_call(&mut explainer, 1, 321, "", seccomp, -1);
    let text = explainer.last(&Filter::default()).unwrap().text(false);
    assert!(text.contains("system call 321() = -1 (EPERM)"), "{text}");
    assert!(
        text.contains("__secure_computing = -1 (EPERM)  <== arose here"),
        "{text}"
    );
    assert!(text.contains("seccomp or a debugger"), "{text}");
    // All of it was lost.
    system_call(&mut explainer, 1, 257, "", vec![], -13);
    let text = explainer.last(&Filter::default()).unwrap().text(false);
    assert!(
        text.contains("No traced function") && text.contains("were lost"),
        "{text}"
    );
    // Values that are no errors.
    let before = explainer.all(&Filter::default()).len();
    for value in [0, 7, -5_000, i64::MIN] {
        system_call(&mut explainer, 1, 257, "", vec![], value);
    }
    assert_eq!(explainer.all(&Filter::default()).len(), before);
}

#[test]
fn losses_are_told() {
    let mut explainer = Explainer::default();
    let walk = Call {
        has_gap: true,
        ..call(5, ENOENT, vec![])
    };
    let sys = call(2, ENOENT, vec![walk]);
    system_call(&mut explainer, 1, 257, "", vec![sys], -2);
    assert!(explainer.last(&Filter::default()).unwrap().gap);
}

#[test]
fn the_one_that_counts() {
    let mut explainer = Explainer::default();
    system_call(&mut explainer, 1, 257, "/early", open(), -2);
    let terminal = || vec![call(10, u64::MAX - 24, vec![])];
    system_call(&mut explainer, 1, 16, "", terminal(), -25);
    let path = |explainer: &Explainer, filter: &Filter| {
        let failure = explainer.last(filter).unwrap();
        (failure.syscall.clone().unwrap(), failure.paths.join(" "))
    };
    let any = Filter::default();
    let opened = |path: &str| ("openat".to_owned(), path.to_owned());
    assert_eq!(path(&explainer, &any), opened("/early"));
    system_call(&mut explainer, 1, 257, "/told", open(), -2);
    // The language of the message.
    system_call(&mut explainer, 1, 257, "/share/coreutils.mo", open(), -2);
    system_call(&mut explainer, 2, 257, "/other", open(), -2);
    system_call(&mut explainer, 1, 1, "", vec![call(8, 20, vec![])], 20);
    system_call(&mut explainer, 1, 257, "/late", open(), -2);
    assert_eq!(path(&explainer, &any), opened("/told"));
    let filter = |errno: Option<i32>, syscall: Option<&str>| Filter {
        errno,
        syscall: syscall.map(str::to_owned),
    };
    assert_eq!(path(&explainer, &filter(Some(25), None)).0, "ioctl");
    assert_eq!(path(&explainer, &filter(None, Some("ioctl"))).0, "ioctl");
    assert_eq!(explainer.all(&filter(Some(2), Some("openat"))).len(), 5);
    assert!(explainer.last(&filter(Some(2), Some("ioctl"))).is_none());
}
