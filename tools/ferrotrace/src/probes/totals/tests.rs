// SPDX-License-Identifier: GPL-2.0

use super::super::model::parse_list;
use super::super::screen::Sort;
use super::*;

fn wanted(args: &str, kind: Kind) -> Wanted {
    Wanted::of_place("a", "f", kind, args)
}

#[test]
fn commands() {
    let arg = |name: &str| By::Arg(name.to_owned());
    let of = |args: &str, by: &[By]| {
        let line = command(&[wanted(args, Kind::Probe)], by, Timed::No, None)?;
        let (line, _) = line.split_once(" rows=")?;
        Some(line.to_owned())
    };
    assert_eq!(of("", &[By::Place]).as_deref(), Some("by place"));
    let by = [By::Comm, arg("n")];
    assert_eq!(
        of("n=%di s=+0(%si):string", &by).as_deref(),
        Some("by comm,n")
    );
    let value = ValueOf {
        name: "m".to_owned(),
        has_classes: true,
        has_extremes: false,
        sort: Sort::Hits,
    };
    let valued = |args: &str| {
        let probes = [wanted(args, Kind::Probe)];
        command(&probes, &by, Timed::No, Some(&value))
    };
    let line = valued("n=%di m=%si:u8").unwrap();
    assert!(
        line.starts_with("by comm,n value=m classes=1 rows="),
        "{line}"
    );
    assert!(line.ends_with(" words=5"), "{line}");
    assert_eq!(valued("n=%di"), None);
    assert_eq!(valued("m=+0(%si):string"), None);
    // Too long, or of a process that may exit.
    assert_eq!(of("n=+0(%si):string256", &by), None);
    assert_eq!(of("ustack=$ustack", &[arg("ustack")]), None);
    let probes = [wanted("n=$arg1", Kind::Return)];
    let line = command(&probes, &by, Timed::Calls, None).unwrap();
    assert!(line.starts_with("by comm,n times=1 rows="), "{line}");
    assert!(line.ends_with(" words=4"), "{line}");
    assert_eq!(command(&probes, &by, Timed::Since(0), None), None);
    let in_file = Wanted {
        at: Some(1),
        ..wanted("", Kind::Probe)
    };
    assert_eq!(command(&[in_file], &[By::Place], Timed::No, None), None);
}

fn probes() -> BTreeMap<u32, Probe> {
    let line = "id=7 name=a kind=return place=f address=0x1 hits=0 missed=0 state=on \
                    args=b=%di:u8,n=%si:u32,stack=$kstack\n";
    let all = parse_list(line).unwrap().into_iter();
    all.map(|probe| (probe.id, select(probe, "stack,n").unwrap()))
        .collect()
}

/// A file with one row, and its parts.
fn file() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend([VERSION, 1].map(u32::to_ne_bytes).as_flattened());
    bytes.extend(3_u64.to_ne_bytes());
    bytes.extend(2_u32.to_ne_bytes());
    bytes.extend([6_u16, 2].map(u16::to_ne_bytes).as_flattened());
    bytes.extend([9_u64, 30, 0, 0, 20].map(u64::to_ne_bytes).as_flattened());
    bytes.extend([6_u16, 7].map(u16::to_ne_bytes).as_flattened());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(42_u64.to_ne_bytes());
    bytes.extend(b"a name\0\0\0\0\0\0\0\0\0\0");
    bytes.extend(5_u64.to_ne_bytes());
    bytes.extend(0xffff_ffff_8100_0000_u64.to_ne_bytes());
    bytes.extend([1_u64, 8, 16, 1].map(u64::to_ne_bytes).as_flattened());
    bytes
}

const PARTS: Parts = Parts {
    pid: true,
    comm: true,
    value: None,
};

#[test]
fn rows() {
    let probes = probes();
    let totals = Totals::parse(&file(), &probes, PARTS).unwrap();
    assert_eq!(totals.left_out, 3);
    let [(event, stats)] = &totals.rows[..] else {
        panic!("{totals:?}");
    };
    assert_eq!((event.pid, &*event.comm, event.cpu), (42, "a name", 2));
    let times = &stats.times;
    assert_eq!((times.calls, times.total, times.max), (9, 30, 20));
    assert_eq!(times.p99(), 17);
    let Seen::Args(bytes) = &event.seen else {
        panic!("{event:?}");
    };
    let args = super::super::event::Args::of(bytes, &probes[&7].args);
    assert_eq!((args.area, args.faults), (&5_u32.to_ne_bytes()[..], 1));
    let calls: Vec<_> = args.calls(false).collect();
    assert_eq!(calls, [0xffff_ffff_8100_0000]);
    // A row of another probe is not taken.
    let none = BTreeMap::new();
    let totals = Totals::parse(&file(), &none, PARTS).unwrap();
    assert!(totals.rows.is_empty());
}

/// Rows of a table with values: of each sign, and of hits without a value.
#[test]
fn values() {
    let line = "id=7 name=a kind=probe place=f address=0x1 hits=0 missed=0 state=on \
                    args=n=%di:u8,m=%si:s32\n";
    let probes = parse_list(line).unwrap().into_iter();
    let probes = probes.map(|probe| (probe.id, select(probe, "n").unwrap()));
    let probes = probes.collect();
    let mut bytes = Vec::new();
    bytes.extend([VERSION, 3].map(u32::to_ne_bytes).as_flattened());
    bytes.extend(0_u64.to_ne_bytes());
    for (class, faults, numbers) in [
        (-5_i64, 0_u32, [2_u64, 10, 0, 5, 5]),
        (3, 0, [4, 12, 1, 3, 3]),
        (0, 2, [6, 0, 0, 0, 0]),
    ] {
        bytes.extend(2_u32.to_ne_bytes());
        bytes.extend([3_u16, 0].map(u16::to_ne_bytes).as_flattened());
        bytes.extend(numbers.map(u64::to_ne_bytes).as_flattened());
        bytes.extend([3_u16, 7].map(u16::to_ne_bytes).as_flattened());
        bytes.extend(faults.to_ne_bytes());
        bytes.extend(9_u64.to_ne_bytes());
        bytes.extend(class.to_ne_bytes());
    }
    let parts = Parts {
        pid: false,
        comm: false,
        value: Some(true),
    };
    let totals = Totals::parse(&bytes, &probes, parts).unwrap();
    let mut all = Sums::default();
    for (event, sums) in &totals.rows {
        let Seen::Args(args) = &event.seen else {
            panic!("{event:?}");
        };
        assert_eq!(args[0], 9);
        all.merge(sums);
    }
    let values = &all.values;
    assert_eq!((all.times.calls, values.count, values.unread), (12, 6, 6));
    assert_eq!(values.sum, (1 << 64) + 12 - 10);
    assert_eq!((values.min, values.max), (Some(-5), Some(3)));
    assert_eq!(values.classes, BTreeMap::from([(-5, 2), (3, 4)]));
    let no_key = Totals::parse(&bytes[..bytes.len() - 8], &probes, parts);
    assert!(no_key.is_none());
}

#[test]
fn bad_files() {
    let probes = probes();
    let good = file();
    for len in 0..good.len() {
        assert!(
            Totals::parse(&good[..len], &probes, PARTS).is_none(),
            "{len}"
        );
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        // Any result, but no panic.
        let _ = Totals::parse(&bad, &probes, PARTS);
    }
    let mut other = good;
    other[0] = 2;
    assert!(Totals::parse(&other, &probes, PARTS).is_none());
}
