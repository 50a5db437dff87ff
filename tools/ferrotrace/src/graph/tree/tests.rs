// SPDX-License-Identifier: GPL-2.0

//! Tests with records as the kernel makes them, and without some of them.

use super::*;

/// A record of the thread 1 on CPU 0.
fn event(time: u64, what: What) -> Event {
    Event {
        time,
        cpu: 0,
        pid: 1,
        in_irq: false,
        what,
    }
}

fn enter(time: u64, func: u64, depth: i64) -> Event {
    let arguments = None;
    event(
        time,
        What::Entry {
            func,
            depth,
            arguments,
        },
    )
}

fn exit(time: u64, func: u64, depth: i64, duration: u64) -> Event {
    exit_with(time, func, depth, duration, None)
}

fn exit_with(time: u64, func: u64, depth: i64, duration: u64, value: Option<u64>) -> Event {
    let what = What::Exit {
        func,
        depth,
        duration,
        value,
    };
    event(time, what)
}

fn returned(time: u64, func: u64, value: u64) -> Event {
    event(time, What::Returned { func, value })
}

fn lost(from: u64, until: u64) -> Event {
    event(until, What::Lost { from })
}

fn on(event: Event, pid: i32, cpu: u32) -> Event {
    Event { pid, cpu, ..event }
}

/// Returns a call in short: its function, its duration or how it ended, its value, the calls in it.
fn short(call: &Call) -> String {
    let end = match (call.duration, call.end) {
        (Some(ns), _) => ns.to_string(),
        (None, End::Lost) => "lost".to_owned(),
        (None, _) => "open".to_owned(),
    };
    let start = if call.entry_lost { "!" } else { "" };
    let gap = if call.has_gap { "~" } else { "" };
    let irq = if call.in_irq { "i" } else { "" };
    let value = call
        .value
        .map_or(String::new(), |value| format!("={value}"));
    let folded = match call.folded {
        0 => String::new(),
        calls => format!("+{calls}*{}", call.folded_ns),
    };
    let inner: Vec<_> = call.children.iter().map(short).collect();
    let inner = if inner.is_empty() {
        String::new()
    } else {
        format!("({})", inner.join(" "))
    };
    format!("{start}{irq}{}:{end}{value}{gap}{folded}{inner}", call.func)
}

fn build_with(select: Select, events: &[Event]) -> (Vec<Entry>, Counts) {
    let mut entries = Vec::new();
    let mut builder = Builder::new(select, |pid| format!("old{pid}"));
    for event in events {
        builder.add(event.clone(), &mut |entry| entries.push(entry));
    }
    builder.finish(&mut |entry| entries.push(entry));
    (entries, builder.counts())
}

/// Returns the trees of all threads, in the order of their ends.
fn build(events: &[Event]) -> Vec<String> {
    let select = Select {
        probed: events
            .iter()
            .any(|event| matches!(event.what, What::Returned { .. })),
        ..Select::default()
    };
    shorts(&build_with(select, events).0)
}

fn shorts(entries: &[Entry]) -> Vec<String> {
    let calls = entries.iter().filter_map(|entry| match &entry.item {
        Item::Call(call) => Some(format!("{} {}", entry.pid, short(call))),
        _ => None,
    });
    calls.collect()
}

#[test]
fn calls_within_calls() {
    let events = [
        enter(10, 100, 0),
        enter(20, 200, 1),
        exit(25, 200, 1, 4),
        enter(30, 200, 1),
        enter(31, 300, 2),
        exit(33, 300, 2, 1),
        exit(40, 200, 1, 9),
        exit(50, 100, 0, 39),
        enter(60, 100, 0),
        exit(61, 100, 0, 1),
    ];
    assert_eq!(build(&events), ["1 100:39(200:4 200:9(300:1))", "1 100:1"]);
    // The functions of a call need not be next to it in depth: other tracers take levels as well.
    let gaps = [
        enter(10, 100, 2),
        enter(20, 200, 7),
        exit(25, 200, 7, 4),
        exit(50, 100, 2, 39),
    ];
    assert_eq!(build(&gaps), ["1 100:39(200:4)"]);
}

#[test]
fn recursion() {
    let events = [
        enter(1, 5, 0),
        enter(2, 5, 1),
        enter(3, 5, 2),
        exit(4, 5, 2, 1),
        exit(6, 5, 1, 4),
        exit(9, 5, 0, 8),
    ];
    assert_eq!(build(&events), ["1 5:8(5:4(5:1))"]);
}

#[test]
fn threads_migrate_and_interleave() {
    let events = [
        on(enter(1, 100, 0), 1, 0),
        on(enter(2, 100, 0), 2, 1),
        // The first one goes to the other CPU within a call.
        on(enter(3, 200, 1), 1, 0),
        on(exit(5, 200, 1, 2), 1, 1),
        on(enter(6, 300, 1), 2, 1),
        on(exit(7, 100, 0, 6), 1, 1),
        on(exit(8, 300, 1, 2), 2, 0),
        on(exit(9, 100, 0, 7), 2, 0),
        // All idle threads have the number 0.
        on(enter(10, 400, 0), 0, 0),
        on(enter(11, 400, 0), 0, 1),
        on(exit(12, 400, 0, 1), 0, 1),
        on(exit(14, 400, 0, 4), 0, 0),
    ];
    assert_eq!(
        build(&events),
        ["1 100:6(200:2)", "2 100:7(300:2)", "0 400:1", "0 400:4"]
    );
}

#[test]
fn interrupts_within_interrupts() {
    let irq = |event: Event| Event {
        in_irq: true,
        ..event
    };
    let events = [
        enter(1, 100, 0),
        irq(enter(2, 900, 1)),
        irq(enter(3, 950, 2)),
        irq(exit(4, 950, 2, 1)),
        irq(exit(5, 900, 1, 3)),
        exit(6, 100, 0, 5),
        irq(enter(7, 900, 0)),
        irq(exit(8, 900, 0, 1)),
    ];
    assert_eq!(build(&events), ["1 100:5(i900:3(i950:1))", "1 i900:1"]);
}

#[test]
fn values_before_or_after_exits() {
    let before = [
        enter(1, 5, 0),
        enter(2, 5, 1),
        returned(3, 5, 77),
        // An interrupt between the two records of the inner return.
        enter(3, 9, 2),
        returned(3, 9, 66),
        exit(3, 9, 2, 0),
        exit(4, 5, 1, 2),
        returned(5, 5, 88),
        exit(5, 5, 0, 4),
    ];
    assert_eq!(build(&before), ["1 5:4=88(5:2=77(9:0=66))"]);
    let after = [
        enter(1, 5, 0),
        enter(2, 5, 1),
        exit(3, 5, 1, 1),
        returned(3, 5, 77),
        exit(5, 5, 0, 4),
        returned(5, 5, 88),
        enter(6, 5, 0),
        exit_with(7, 5, 0, 1, Some(99)),
    ];
    assert_eq!(build(&after), ["1 5:4=88(5:1=77)", "1 5:1=99"]);
    // One of a function that the tracer does not show.
    let unknown = [
        enter(1, 5, 0),
        returned(2, 6, 11),
        returned(3, 5, 22),
        exit(3, 5, 0, 2),
    ];
    assert_eq!(build(&unknown), ["1 5:2=22"]);
}

#[test]
fn lost_returns_have_no_duration() {
    let events = [
        enter(10, 100, 0),
        enter(20, 200, 1),
        enter(30, 300, 2),
        // The returns of 300 and 200 are missing.
        lost(30, 60),
        enter(60, 400, 1),
        exit(61, 400, 1, 1),
        exit(70, 100, 0, 59),
        // The return of 500 is missing, and the next call is in another tree.
        enter(80, 500, 0),
        lost(80, 90),
        enter(90, 600, 0),
        exit(95, 600, 0, 5),
    ];
    let (entries, counts) = build_with(Select::default(), &events);
    assert_eq!(
        shorts(&entries),
        [
            "1 100:59~(200:lost~(300:lost~) 400:1)",
            "1 500:lost~",
            "1 600:5"
        ]
    );
    assert_eq!(counts.cut, 3);
}

#[test]
fn lost_entries() {
    // The entry of 200 is missing; its duration is the kernel's, and the calls within it are known
    // by their times.
    let events = [
        enter(10, 100, 0),
        enter(12, 150, 1),
        exit(13, 150, 1, 1),
        lost(13, 30),
        enter(30, 300, 2),
        exit(35, 300, 2, 5),
        exit(40, 200, 1, 20),
        exit(50, 100, 0, 40),
        // All before is missing.
        lost(50, 70),
        exit(71, 700, 3, 15),
        exit(72, 800, 0, 18),
    ];
    assert_eq!(
        build(&events),
        [
            "1 100:40~(150:1 !200:20~(300:5))",
            "1 !700:15~",
            "1 !800:18~"
        ]
    );
}

#[test]
fn a_return_is_not_that_of_an_earlier_call() {
    // The first call of 200 returned and a second one was entered while records were lost.
    let events = [
        enter(10, 100, 0),
        enter(20, 200, 1),
        lost(25, 60),
        exit(70, 200, 1, 30),
        exit(80, 100, 0, 70),
    ];
    assert_eq!(build(&events), ["1 100:70~(200:lost~ !200:30~)"]);
    // With a loss in the middle of one call, the duration is right.
    let events = [
        enter(10, 100, 0),
        enter(20, 200, 1),
        lost(25, 60),
        exit(70, 200, 1, 49),
        exit(80, 100, 0, 70),
    ];
    assert_eq!(build(&events), ["1 100:70~(200:49~)"]);
}

#[test]
fn returns_without_entries() {
    assert_eq!(build(&[exit(20, 100, 3, 5)]), ["1 !100:5~"]);
    // Of another function than the open one.
    let events = [
        enter(10, 100, 0),
        enter(11, 200, 1),
        exit(20, 300, 1, 5),
        exit(30, 100, 0, 20),
    ];
    assert_eq!(build(&events), ["1 100:20(200:lost~ !300:5~)"]);
}

#[test]
fn calls_that_do_not_return() {
    let events = [enter(10, 100, 0), enter(20, 200, 1), exit(25, 200, 1, 5)];
    assert_eq!(build(&events), ["1 100:open(200:5)"]);
}

#[test]
fn short_calls_are_folded() {
    let events = [
        enter(10, 100, 0),
        enter(11, 200, 1),
        enter(12, 300, 2),
        exit(13, 300, 2, 1),
        exit(14, 200, 1, 3),
        enter(15, 200, 1),
        exit(16, 200, 1, 1),
        enter(20, 400, 1),
        exit(30, 400, 1, 10),
        exit(40, 100, 0, 30),
        enter(50, 200, 0),
        exit(51, 200, 0, 1),
    ];
    let select = Select {
        min: 5,
        ..Select::default()
    };
    let (entries, counts) = build_with(select, &events);
    assert_eq!(shorts(&entries), ["1 100:30+2*4(400:10)"]);
    assert_eq!(counts.folded, 4);
    // None beyond the levels that are shown.
    let select = Select {
        depth: Some(1),
        min: 5,
        ..Select::default()
    };
    let (entries, counts) = build_with(select, &events);
    assert_eq!(shorts(&entries), ["1 100:30"]);
    assert_eq!(counts.folded, 1);
}

#[test]
fn calls_around_a_large_tree_stay() {
    let mut builder = Builder::new(Select::default(), |_| String::new());
    let mut trees = Vec::new();
    let mut add = |event| builder.add(event, &mut |entry| trees.push(entry));
    add(enter(1, 100, 0));
    add(enter(2, 200, 1));
    for _ in 0..CALLS + 5 {
        add(enter(3, 300, 2));
        add(exit(4, 300, 2, 1));
    }
    add(exit(5, 200, 1, 3));
    add(exit(6, 100, 0, 5));
    let [
        Entry {
            item: Item::Call(call),
            ..
        },
    ] = &trees[..]
    else {
        panic!("{} trees", trees.len());
    };
    assert_eq!(call.children[0].children.len(), CALLS);
    assert_eq!(builder.counts().left_out, 5);
}

#[test]
fn threads_with_the_same_number() {
    // do_exit() of the first one does not return.
    let comm = "new".to_owned();
    let events = [
        on(enter(1, 100, 0), 2, 3),
        event(5, What::Fork { pid: 2, comm }),
        on(enter(6, 200, 0), 2, 1),
        on(exit(7, 200, 0, 1), 2, 1),
    ];
    let (entries, _) = build_with(Select::default(), &events);
    assert_eq!(shorts(&entries), ["2 100:open", "2 200:1"]);
    let at: Vec<_> = entries
        .iter()
        .map(|entry| (entry.cpu, entry.time))
        .collect();
    assert_eq!(at, [(3, 1), (1, 7)]);
    assert_eq!(entries[0].comm, "old2");
}

#[test]
fn chosen_functions_and_levels() {
    let events = [
        enter(1, 100, 0),
        enter(2, 200, 1),
        enter(3, 300, 2),
        enter(4, 200, 3),
        exit(5, 200, 3, 1),
        exit(6, 300, 2, 3),
        exit(7, 200, 1, 5),
        enter(8, 300, 1),
        exit(9, 300, 1, 1),
        exit(10, 100, 0, 9),
    ];
    let chosen = |depth| Select {
        roots: Some(BTreeSet::from([200])),
        depth,
        ..Select::default()
    };
    let trees = |select| shorts(&build_with(select, &events).0);
    assert_eq!(trees(chosen(None)), ["1 200:5(300:3(200:1))"]);
    assert_eq!(trees(chosen(Some(2))), ["1 200:5(300:3)"]);
    assert_eq!(trees(chosen(Some(1))), ["1 200:5"]);
    let select = Select {
        depth: Some(2),
        ..Select::default()
    };
    assert_eq!(trees(select), ["1 100:9(200:5 300:1)"]);
}

#[test]
fn names_of_threads() {
    let fork = What::Fork {
        pid: 2,
        comm: "shell".to_owned(),
    };
    let events = [
        enter(1, 100, 0),
        event(2, fork),
        exit(3, 100, 0, 2),
        on(enter(4, 100, 0), 2, 1),
        on(exit(5, 100, 0, 1), 2, 1),
        on(event(6, What::Name("ls".to_owned())), 2, 1),
        on(enter(7, 100, 0), 2, 1),
        on(exit(8, 100, 0, 1), 2, 1),
    ];
    let (entries, _) = build_with(Select::default(), &events);
    let names: Vec<_> = entries.iter().map(|entry| entry.comm.as_str()).collect();
    assert_eq!(names, ["old1", "shell", "ls", "ls"]);
    assert_eq!(entries[2].item, Item::Name);
}

#[test]
fn system_calls_are_in_order_with_calls() {
    let events = [
        event(
            1,
            What::SyscallEntry {
                number: 2,
                first: 7,
            },
        ),
        enter(2, 100, 0),
        event(3, What::Path("/x".to_owned())),
        exit(4, 100, 0, 2),
        event(5, What::SyscallExit { value: -2 }),
    ];
    let (entries, _) = build_with(Select::default(), &events);
    let kinds: Vec<_> = entries
        .iter()
        .map(|entry| match &entry.item {
            Item::Call(call) => short(call),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "SyscallEntry { number: 2, first: 7 }",
            "Path(\"/x\")",
            "100:2",
            "SyscallExit { value: -2 }"
        ]
    );
}

proptest::proptest! {
    /// Any records, of which any may be missing: each call that is shown with a duration has that
    /// of its record, and nothing is shown twice.
    #[test]
    fn nothing_is_invented(
        seed in proptest::collection::vec((0u8..4, 1u64..4, proptest::bool::weighted(0.8)), 1..200)
    ) {
        let mut events = Vec::new();
        let mut open: Vec<(u64, u64)> = Vec::new();
        let mut durations = Vec::new();
        let mut time = 0;
        let mut last = 0;
        let mut gap = false;
        let mut keep = |event: Event, kept: bool| {
            if kept {
                if gap {
                    events.push(lost(last, event.time));
                }
                gap = false;
                last = event.time;
                events.push(event);
            } else {
                gap = true;
            }
        };
        for (step, func, kept) in seed {
            time += 10;
            let depth = i64::try_from(open.len()).unwrap();
            if step < 2 && open.len() < 20 {
                keep(enter(time, func, depth), kept);
                open.push((func, time));
            } else if let Some((func, begin)) = open.pop() {
                // Each duration exists once: the time of the entry is in it.
                let duration = time - begin;
                if kept {
                    durations.push((func, duration));
                }
                keep(exit(time, func, depth - 1, duration), kept);
            }
        }
        let (entries, _) = build_with(Select::default(), &events);
        let mut seen = Vec::new();
        fn walk(call: &Call, seen: &mut Vec<(u64, u64)>) {
            assert_eq!(call.duration.is_some(), call.end == End::Returned);
            seen.extend(call.duration.map(|ns| (call.func, ns)));
            for inner in &call.children {
                walk(inner, seen);
            }
        }
        for entry in &entries {
            if let Item::Call(call) = &entry.item {
                walk(call, &mut seen);
            }
        }
        seen.sort_unstable();
        durations.sort_unstable();
        proptest::prop_assert_eq!(seen, durations);
    }
}
