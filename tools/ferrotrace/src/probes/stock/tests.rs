// SPDX-License-Identifier: GPL-2.0

//! Tests with files like those of tracefs.

use super::*;

#[test]
fn lines_of_the_kernel() {
    let line = "r128:ferrotrace/open_ret do_sys_openat2+0 __comm=$comm:string __ret=$retval:x64 f=+0($arg2):string n=$retval:s32";
    let probe = parse_line(line).unwrap();
    assert_eq!(
        (probe.name.as_str(), probe.kind),
        ("open_ret", Kind::Return)
    );
    assert_eq!(probe.place.to_string(), "do_sys_openat2");
    let args: Vec<_> = probe.args.iter().map(|arg| arg.text.as_str()).collect();
    assert_eq!(args, ["f=+0($arg2):string", "n=$retval:s32"]);
    for other in [
        "p:other/open f",
        "p:ferrotrace/open__entry f",
        "",
        "x",
        "t:ferrotrace/a b",
    ] {
        assert!(parse_line(other).is_none(), "{other}");
    }
    assert_eq!(counts("  a_b   12   3\n  a   4  5\n")["a"], (4, 5));
    assert!(counts("").is_empty());
    assert_eq!(counts("  /bin/x  a   12\n")["a"], (12, 0));
    let line = "p:ferrotrace/x /bin/x:0x00001234 __comm=$comm:string __k_stack=%sp:x8 n=%di:u8 __u_us=%sp:x8";
    let probe = parse_line(line).unwrap();
    let args: Vec<_> = probe.args.iter().map(|arg| arg.text.as_str()).collect();
    assert_eq!(args, ["stack=$kstack", "n=%di:u8", "us=$ustack"]);
    assert_eq!(probe.place.in_file(), Some(("/bin/x", "0x00001234")));
}

#[test]
fn words_for_the_kernel() {
    assert_eq!(event_name("watch.12.0"), "watch_12_0");
    assert_eq!(event_name("0-a"), "_0_a");
    assert_eq!(
        fetches(
            "f=+0(%si):string32 n=%di:u8 g=+0(%di):ustring s=$kstack",
            false
        ),
        "f=+0(%si):string n=%di:u8 g=+0(%di):ustring __k_s=%sp:x8"
    );
    assert_eq!(
        fetches(
            "f=+0($arg2):string32 n=$arg6:u8 g=$arg8:x16 h=$retval",
            true
        ),
        "f=+0(%si):string n=%r9:u8 g=$stack2:x16 h=$retval"
    );
    let told = |line: &str| {
        filter(Args::parse(line, true).unwrap(), None).map_err(|error| error.to_string())
    };
    assert_eq!(
        told("f=+0(%si):string n=%di:s8 if f~/e* n>=-1 cpu<2 comm==\"cat\"").unwrap(),
        "f ~ \"/e*\" && n >= -1 && CPU < 2 && comm == \"cat\""
    );
    assert_eq!(
        told("if pid==999999999").unwrap(),
        "(common_pid == 999999999)"
    );
    assert_eq!(told("pid=%di:u32 if pid==7").unwrap(), "pid == 7");
    assert!(
        told("if duration>1")
            .unwrap_err()
            .contains("ferrotrace_kprobe_events")
    );
    let own = std::process::id();
    // All threads of the process.
    let thread = nix::unistd::gettid();
    let both = told(&format!("if pid!={own}")).unwrap();
    assert!(both.contains(&format!("common_pid != {own}")), "{both}");
    assert!(both.contains(&format!("common_pid != {thread}")), "{both}");
}

#[test]
fn a_directory_like_that_of_tracefs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kprobe_events");
    fs::write(&file, "p:other/x f\n").unwrap();
    let stock = Stock::new(dir.path().into());
    let wanted = |kind, name: &str, place: &str, at, args: &str| Wanted {
        at,
        ..Wanted::of_place(name, place, kind, args)
    };
    let add = |one: Wanted| {
        let (names, result) = stock.add(&[one]);
        result.map(|()| names)
    };
    let plain = wanted(Kind::Probe, "a.b", "f", None, "n=%di:u8");
    assert_eq!(add(plain.clone()).unwrap(), ["a_b"]);
    assert_eq!(stock.list().unwrap()[0].name, "a_b");
    assert!(matches!(add(plain.clone()), Err(Error::Exists(_))));
    // Probes before a refused one remain registered.
    let on_return = wanted(Kind::Return, "r", "f", None, "");
    let (names, result) = stock.add(&[on_return.clone(), on_return, plain]);
    assert_eq!(names, ["r"]);
    assert!(matches!(result, Err(Error::Exists(_))));
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(
        text,
        "p:other/x f\n\
        p:ferrotrace/a_b f __comm=$comm:string n=%di:u8\n\
        r:ferrotrace/r f __comm=$comm:string __ret=$retval:x64\n\
        p:ferrotrace/r__entry f\n"
    );
    assert_eq!(stock.list().unwrap().len(), 2);
    let uprobes = dir.path().join("uprobe_events");
    fs::write(&uprobes, "").unwrap();
    add(wanted(Kind::Return, "u", "/etc/passwd:f", Some(0x12), "")).unwrap();
    let text = fs::read_to_string(&uprobes).unwrap();
    assert_eq!(
        text,
        "r:ferrotrace/u /etc/passwd:0x12 __comm=$comm:string __ret=$retval:x64\n\
        p:ferrotrace/u__entry /etc/passwd:0x12\n"
    );
    // Without symbols a place stays a file offset.
    assert_eq!(
        stock.list().unwrap()[2].place.to_string(),
        "/etc/passwd:0x12"
    );
    fs::remove_file(&uprobes).unwrap();
    stock.remove("a.b").unwrap();
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .ends_with("-:ferrotrace/a_b\n")
    );
}
