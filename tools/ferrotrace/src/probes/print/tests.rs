// SPDX-License-Identifier: GPL-2.0

use super::super::event::tests::event as sample;
use super::super::model::parse_list;
use super::super::model::tests::LIST;
use super::*;

const MINUS_TWO: u64 = u64::MAX - 1;

fn returning(hit: &mut Event) {
    if let Seen::Registers([ax, ..]) = &mut hit.seen {
        *ax = MINUS_TWO;
    }
}

/// `-10`, `/etc`, and the rest of an area of 16 bytes.
fn with_args() -> (Event, Probe) {
    let line = "id=9 name=o kind=return place=f address=0x1 hits=0 missed=0 state=on \
                    args=n=$retval:s32,s=+0($arg2):string5,x=%di:x8,b=%di:b2@1/8,y=%si:symbol if=n<0\n";
    let probe = parse_list(line).unwrap().remove(0);
    let mut hit = sample(12);
    hit.is_return = true;
    hit.duration = Some(5);
    let mut area = (-10i32).to_le_bytes().to_vec();
    area.extend(b"/e\x07c\0\xab\x02\0\0\0\0\0");
    area.extend(5u64.to_le_bytes());
    area.extend([0; 4]);
    hit.seen = Seen::Args(area);
    (hit, probe)
}

#[test]
fn arguments() {
    let (mut hit, probe) = with_args();
    let symbols = Symbols::default();
    let style = Style::default();
    assert_eq!(
        event(&hit, &probe, &symbols, style),
        "[001] 0.000000012 cat-42 f returns, 0.005 us, to 0xffffffff81063c90 n=-10 (ECHILD) s=\"/e?c\" x=0xab b=2 y=0x5\n"
    );
    let style = Style {
        lost: false,
        json: true,
        registers: true,
        wall: Some(1_000_000_000),
    };
    let line = event(&hit, &probe, &symbols, style);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["wall"], "1970-01-01T00:00:01.000000012Z");
    assert_eq!(
        value["args"],
        json!({"n": -10, "s": "/e?c", "x": "0xab", "b": 2, "y": "0x5"})
    );
    assert!(value.get("registers").is_none() && value.get("value").is_none());
    if let Seen::Args(bytes) = &mut hit.seen {
        bytes[24] = 0b111;
    }
    let text = event(&hit, &probe, &symbols, Style::default());
    assert!(
        text.ends_with(" n=(fault) s=\"/e?c\"(fault) x=(fault) b=2 y=0x5\n"),
        "{text}"
    );
    let table = table(&[probe]);
    assert!(table.contains("  state  reads\n"), "{table}");
    assert!(
        table.ends_with(
            "  on     n=$retval:s32 s=+0($arg2):string5 x=%di:x8 b=%di:b2@1/8 y=%si:symbol if n<0\n"
        ),
        "{table}"
    );
}

#[test]
fn stacks() {
    let line = "id=9 name=o kind=probe place=f address=0x1 hits=0 missed=0 state=on \
                    args=stack=$kstack,n=%di:u8,ustack=$ustack\n";
    let probe = parse_list(line).unwrap().remove(0);
    let mut hit = sample(12_000_000_034);
    // No process has this number.
    hit.pid = i32::MAX;
    let mut bytes = vec![7, 0, 0, 0, 0, 0, 0, 0];
    for call in [0xffff_ffff_8100_0204_u64, 0xffff_ffff_8100_0108, 0x1234] {
        bytes.extend(call.to_ne_bytes());
    }
    hit.seen = Seen::Args(bytes);
    let symbols = Symbols::parse("ffffffff81000100 T a\nffffffff81000200 T b\n");
    let style = Style {
        lost: false,
        wall: Some(1_000_000_000),
        ..Style::default()
    };
    assert_eq!(
        event(&hit, &probe, &symbols, style),
        "[001] 1970-01-01T00:00:13.000000034Z cat-2147483647 f n=7\n        b+0x4\n        a+0x8\n        0x1234\n"
    );
    let folded: Vec<_> = super::values(&hit, &probe)
        .map(|(_, value)| value.text(hit.pid, &symbols))
        .collect();
    assert_eq!(folded, ["a;b", "7", "0x1234"]);
    let style = Style {
        lost: false,
        json: true,
        ..Style::default()
    };
    let line = event(&hit, &probe, &symbols, style);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value["args"],
        json!({"stack": ["b+0x4", "a+0x8"], "n": 7, "ustack": ["0x1234"]})
    );
}

#[test]
fn values() {
    let probes = parse_list(LIST).unwrap();
    let text = |value: u64| Returned::of(&probes[1], value).to_string();
    assert_eq!(text(0), "0");
    assert_eq!(text(9), "9");
    assert_eq!(text(35), "35 (0x23)");
    assert_eq!(text(MINUS_TWO), "-2 (ENOENT)");
    assert_eq!(text(0xffff_fffe), "-2 (ENOENT)");
    assert_eq!(text(u64::MAX - 4094), "-4095");
    assert_eq!(text(u64::MAX - 4095), "0xfffffffffffff000");
    assert_eq!(text(0xffff_8880_1234_5678), "0xffff888012345678");
    assert_eq!(text(0x1_0000_0000), "0x100000000");
    assert_eq!(Returned::of(&probes[1], 0xffff_fffe).number(), -2);
    // A function of a program means something else by it.
    let mut of_file = probes[1].clone();
    of_file.place = "/bin/prog:f".parse().unwrap();
    assert_eq!(Returned::of(&of_file, 0xffff_ffff).to_string(), "-1");
    assert_eq!(Returned::of(&of_file, u64::MAX).errno(), None);
}

/// A small negative number is an error only where something says so.
#[test]
fn errors_and_numbers() {
    let text = |args: &str, place: &str| {
        let line = format!(
            "id=9 name=o kind=return place={place} address=0x1 hits=0 missed=0 state=on args={args}\n"
        );
        let probe = parse_list(&line).unwrap().remove(0);
        let mut hit = sample(12);
        let mut area = (-2i32).to_le_bytes().to_vec();
        area.extend([0; 4]);
        hit.seen = Seen::Args(area);
        let (_, value) = super::values(&hit, &probe).next().unwrap();
        value.text(1, &Symbols::default())
    };
    for args in [
        "x=$retval:s32",
        "ret=%di:s32",
        "io_error=%di:s32",
        "err=%di:s32",
    ] {
        assert_eq!(text(args, "f"), "-2 (ENOENT)", "{args}");
    }
    for args in ["x=%di:s32", "offset=%di:s32", "terror=%di:s32"] {
        assert_eq!(text(args, "f"), "-2", "{args}");
    }
    assert_eq!(text("ret=$retval:s32", "/bin/prog:f"), "-2");
    assert_eq!(text("errno=%di:s32", "/bin/prog:f"), "-2 (ENOENT)");
}

#[test]
fn lines() {
    let probes = parse_list(LIST).unwrap();
    let symbols = Symbols::default();
    let mut hit = sample(12_000_000_034);
    let style = Style::default();
    assert_eq!(
        event(&hit, &probes[0], &symbols, style),
        "[001] 12.000000034 cat-42 kernel_clone\n"
    );
    let registers = Style {
        registers: true,
        ..Style::default()
    };
    let text = event(&hit, &probes[2], &symbols, registers);
    assert!(text.starts_with("[001] 12.000000034 cat-42 kernel_clone+0x10\n   ax 00000000000000a0    bx 00000000000000a1 "));
    assert!(text.ends_with("flags 00000000000000b0\n"));
    hit.is_return = true;
    hit.duration = Some(12_345);
    returning(&mut hit);
    hit.ip = 5;
    assert_eq!(
        event(&hit, &probes[1], &symbols, style),
        "[001] 12.000000034 cat-42 do_sys_openat2 = -2 (ENOENT), 12.345 us, to 0x5\n"
    );
}

#[test]
fn json() {
    let probes = parse_list(LIST).unwrap();
    let mut hit = sample(12);
    hit.is_return = true;
    returning(&mut hit);
    let style = Style {
        lost: false,
        json: true,
        registers: true,
        wall: None,
    };
    let line = event(&hit, &probes[1], &Symbols::default(), style);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["value"], -2);
    assert_eq!(value["errno"], "ENOENT");
    assert_eq!(value["kind"], "return");
    assert_eq!(value["probe"], "open.ret");
    assert_eq!(value["registers"]["bx"], "0xa1");
    let list = serde_json::to_value(&probes).unwrap();
    assert_eq!(list[0]["address"], "0xffffffff81063c90");
    assert_eq!(list[2]["place"], "kernel_clone+0x10");
}

#[test]
fn tables() {
    assert_eq!(table(&[]), "no probes\n");
    let probes = parse_list(LIST).unwrap();
    assert_eq!(
        table(&probes),
        "\
name      kind    place              hits  missed  state
forks     probe   kernel_clone         12       0  on
open.ret  return  do_sys_openat2        3       1  gone
a         probe   kernel_clone+0x10     0       0  on
"
    );
}
