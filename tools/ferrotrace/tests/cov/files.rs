// SPDX-License-Identifier: GPL-2.0

//! Search paths of input files, and paths of output files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::below;
use super::cov;
use super::has;
use super::report;
use super::tracefile;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::coverage::counters;
use crate::common::coverage::dump;
use crate::common::exists;
use crate::common::fail;
use crate::common::stdout;
use crate::common::succeed;

#[test]
fn a_build_that_was_moved() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let before = tracefile(&[&path]);
    let moved = build.dir.join("moved");
    fs::create_dir_all(moved.join("sub")).unwrap();
    for file in ["main.gcno", "sub/work.gcno"] {
        fs::rename(build.dir.join(file), moved.join(file)).unwrap();
    }
    has(
        &fail(cov(&["report"]).arg(&path)),
        &["2 of 2 objects", "2 without a .gcno file"],
    );
    let mut command = cov(&["report", "--lcov", "-", "--objdir"]);
    assert_eq!(stdout(&succeed(command.arg(&moved).arg(&path))), before);
    let mut command = cov(&["report", "--gcno", "/nowhere"]);
    has(&fail(command.arg(&path)), &["/nowhere/", "looked for"]);
}

#[test]
fn odd_names() {
    for name in [&b"a b; $(c)\n'\""[..], b"caf\xe9 \xff", b"-x"] {
        let build = Build::below(&Compiler::system(), OsStr::from_bytes(name));
        build.run(&["1", "8"]);
        let path = build.save_dump("saved.dump");
        let out = build.dir.join("out");
        succeed(cov(&["dump", "--from"]).arg(&path).arg("--gcda").arg(&out));
        for object in &build.objects {
            let (own, ours) = (
                fs::read(object).unwrap(),
                fs::read(below(&out, object)).unwrap(),
            );
            assert_eq!(counters(&own), counters(&ours));
        }
        let document = report(&[], &[&path]);
        assert_eq!(document["files"].as_array().unwrap().len(), 3);
        assert!(
            document["lines"]["hit"].as_u64().unwrap() > 10,
            "{document}"
        );
        assert_eq!(tracefile(&[&path]).matches("end_of_record").count(), 3);
    }
}

/// Modules that are built outside the tree can have such names.
#[test]
fn names_that_lead_elsewhere() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let object = build.dir.join("sub/../main.gcda");
    let all = counters(&fs::read(&build.objects[0]).unwrap()).concat();
    let path = build.dir.join("dump");
    let out = build.dir.join("out/out");
    // The second name is relative: the command resolves it from its own directory.
    let above =
        Path::new("../../../../../../../../../../..").join(object.strip_prefix("/").unwrap());
    for name in [object, above] {
        fs::write(&path, dump(&name, &all)).unwrap();
        let mut export = cov(&["dump", "--only", "main.c", "--from"]);
        export
            .current_dir("/tmp")
            .arg(&path)
            .arg("--force")
            .arg("--gcda")
            .arg(&out);
        succeed(&mut export);
        assert!(exists(&below(&out, &build.objects[0])));
        fs::remove_dir_all(&out).unwrap();
    }
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn an_output_that_is_taken() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let out = build.dir.join("out");
    let export = |force: bool| {
        let mut export = cov(&["dump", "--from"]);
        export.arg(&path).arg("--gcda").arg(&out);
        export.args(force.then_some("--force"));
        export
    };
    succeed(&mut export(false));
    has(&fail(&mut export(false)), &["not empty", "--force"]);
    succeed(&mut export(true));
    has(
        &fail(cov(&["dump", "-o", "/nowhere/x", "--from"]).arg(&path)),
        &["/nowhere/x: cannot be created"],
    );
    has(
        &fail(cov(&["report", "--lcov", "/dev/full"]).arg(&path)),
        &["/dev/full: cannot be written"],
    );
}
