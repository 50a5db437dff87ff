// SPDX-License-Identifier: GPL-2.0

use super::*;

const COMMON: &str = "\
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

";

/// Makes a directory like that of tracefs.
pub(in crate::tracepoints) fn tracefs() -> (tempfile::TempDir, Available) {
    let dir = tempfile::tempdir().unwrap();
    let events = [
        (
            "sched:sched_switch",
            "name: sched_switch\nID: 310\n",
            "\tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:long prev_state;\toffset:24;\tsize:8;\tsigned:1;\n\n\
             print fmt: \"%s\", __print_flags(REC->prev_state, \"|\", { 0x1, \"S\" }, { 0x2, \"D\" })\n",
        ),
        (
            "syscalls:sys_enter_openat",
            "name: sys_enter_openat\nID: 761\n",
            "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n\
             \tfield:int flags;\toffset:24;\tsize:8;\tsigned:0;\n\
             \tfield:__data_loc char[] __filename_val;\toffset:32;\tsize:4;\tsigned:0;\n\n\
             print fmt: \"\"\n",
        ),
        (
            "syscalls:sys_exit_openat",
            "name: sys_exit_openat\nID: 760\n",
            "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n\nprint fmt: \"\"\n",
        ),
    ];
    let mut all = String::new();
    for (event, head, fields) in events {
        let path = dir.path().join("events").join(event.replace(':', "/"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("format"), format!("{head}{COMMON}{fields}")).unwrap();
        all.push_str(&format!("{event}\n"));
    }
    fs::write(dir.path().join("available_events"), all).unwrap();
    let available = Available::of(dir.path().to_owned()).unwrap();
    (dir, available)
}

fn one(available: &Available, text: &str) -> Result<Tracepoint> {
    let found = available.resolve(&text.parse()?)?;
    Ok(found.into_iter().next().unwrap())
}

#[test]
fn tracepoints_and_their_filters() {
    let (_dir, available) = tracefs();
    let filter = |text: &str| one(&available, text).unwrap().filter;
    assert_eq!(filter("sched:*"), "");
    assert_eq!(
        filter("sched:sched_switch if prev_state!=0 || next_comm~\"a b*\""),
        "prev_state != 0 || next_comm ~ \"a b*\""
    );
    assert_eq!(
        filter("sched:sched_switch if prev_state==D && cpu==1 && comm==cat"),
        "prev_state == 2 && CPU == 1 && comm == \"cat\""
    );
    assert_eq!(
        filter("sched:sched_switch if pid==999999999"),
        "(common_pid == 999999999)"
    );
    let error = |text: &str| one(&available, text).unwrap_err().to_string();
    for (text, message) in [
        ("sched:sched_swich", "similar: sched:sched_switch"),
        (
            "syscall:opena",
            "no system call matches opena; similar: openat",
        ),
        (
            "sched:sched_switch nothing",
            "has no field nothing; it has next_comm, prev_state",
        ),
        ("sched:sched_switch if nothing==1", "has no field nothing"),
        (
            "sched:sched_switch if prev_state==Q",
            "neither a number nor a name",
        ),
        ("sched:sched_switch if prev_state~1", "~ compares text"),
        ("sched:sched_switch if next_comm>1", "text is compared by"),
        ("sched:sched_switch if next_comm", "not of the form LEFT"),
        (
            "syscall:openat if ret<0 || flags==0",
            "can be joined by && only",
        ),
    ] {
        let found = error(text);
        assert!(found.contains(message), "{text}: {found}");
    }
}

#[test]
fn system_calls_have_returns() {
    let (_dir, available) = tracefs();
    let call = one(
        &available,
        "syscall:open* filename if ret<0 && filename~\"/etc/*\"",
    )
    .unwrap();
    assert_eq!(call.place.symbol, "syscall:openat");
    assert_eq!(call.filter, "__filename_val ~ \"/etc/*\"");
    let exit = call.exit.as_ref().unwrap();
    assert_eq!(
        (&*exit.event, &*exit.filter),
        ("syscalls:sys_exit_openat", "ret < 0")
    );
    assert!(call.is_entry_tested() && call.has_arg("ret") && !call.has_arg("x"));
    assert_eq!(call.shown().len(), 1);
    // As an event like others.
    let enter = one(&available, "syscalls:sys_enter_openat").unwrap();
    assert!(enter.exit.is_none());
    assert_eq!(enter.place.symbol, "syscalls:sys_enter_openat");
}
