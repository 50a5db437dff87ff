// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use super::*;

/// Returns the new lines as `NAME:NUMBER@COMMIT TEXT`.
fn lines(input: &str) -> Vec<String> {
    let patch = read(input.as_bytes()).unwrap();
    let files = patch.files.iter();
    let all = files.flat_map(|file| {
        let name = file.names.join("|");
        let lines = file.lines.iter();
        lines.map(move |l| format!("{name}:{}@{} {}", l.number, l.commit, l.text))
    });
    all.collect()
}

fn fault(input: &str) -> String {
    read(input.as_bytes()).unwrap_err().to_string()
}

#[test]
fn added_lines() {
    let text = "\
diff --git a/fs/a.c b/fs/a.c
index 1..2 100644
--- a/fs/a.c
+++ b/fs/a.c
@@ -1,3 +1,4 @@ int f(void)
 one
-two
+2
+
 three
@@ -10 +11,2 @@
-ten
+10
+11
\\ No newline at end of file
diff --git a/gone.c b/gone.c
deleted file mode 100644
--- a/gone.c
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/new.c b/new.c
new file mode 100644
--- /dev/null
+++ b/new.c
@@ -0,0 +1,2 @@
+a
+b
";
    let expected = [
        "fs/a.c:2@0 2",
        "fs/a.c:11@0 10",
        "fs/a.c:12@0 11",
        "new.c:1@0 a",
        "new.c:2@0 b",
    ];
    assert_eq!(lines(text), expected);
    assert_eq!(lines(&text.replace('\n', "\r\n")), expected);
    assert!(lines("").is_empty() && lines(" \n\n").is_empty());
    // Only a mode, or a name.
    assert!(lines("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n").is_empty());
}

#[test]
fn what_was_moved_or_spaced_is_not_new() {
    let hunk = "--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,2 @@\n-if (x)\n-\tmoved();\n-gone();\n+if ( x )\n+new();\n";
    assert_eq!(lines(hunk), ["a.c:2@0 new();"]);
    let other = "--- a/b.c\n+++ b/b.c\n@@ -0,0 +1,3 @@\n+  moved();\n+moved();\n+\t\n";
    // One was removed, two were added.
    assert_eq!(
        lines(&format!("{hunk}{other}")),
        ["a.c:2@0 new();", "b.c:2@0 moved();"]
    );
    // The file that lost a line has the first right to it.
    let same = "--- a/z.c\n+++ b/z.c\n@@ -1,1 +1,1 @@\n-w(a,b)\n+w(a, b)\n";
    let first = "--- a/b.c\n+++ b/b.c\n@@ -0,0 +1,1 @@\n+w(a,b)\n";
    assert_eq!(lines(&format!("{first}{same}")), ["b.c:1@0 w(a,b)"]);
}

const SERIES: &str = "\
From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A <a@b.c>
Subject: [PATCH v2 1/2] fs: a subject that
 is folded

Body with
--- a rule and
diff of words.
---
 a.c | 3 +++
diff --git a/a.c b/a.c
--- a/a.c
+++ b/a.c
@@ -1,1 +1,4 @@
 old
+one
+two
+three
--\x20
2.47.3

From 9999999999999999999999999999999999999999 Mon Sep 17 00:00:00 2001
Subject: [PATCH v2 2/2] second

diff --git a/a.c b/b.c
similarity index 50%
rename from a.c
rename to b.c
--- a/a.c
+++ b/b.c
@@ -1,4 +1,6 @@
+zero
 old
 one
-two
+TWO
+2.5
 three
";

#[test]
fn series() {
    let patch = read(SERIES.as_bytes()).unwrap();
    let commits: Vec<_> = patch
        .commits
        .iter()
        .map(|c| (c.id.as_deref().unwrap(), &*c.subject))
        .collect();
    assert_eq!(
        commits,
        [
            (
                "0123456789012345678901234567890123456789",
                "fs: a subject that is folded"
            ),
            ("9999999999999999999999999999999999999999", "second"),
        ]
    );
    let expected = [
        "b.c:1@1 zero",
        "b.c:3@0 one",
        "b.c:4@1 TWO",
        "b.c:5@1 2.5",
        "b.c:6@0 three",
    ];
    assert_eq!(lines(SERIES), expected);
    // A hunk that says less than it has.
    assert!(fault(&SERIES.replace("+1,6", "+1,5")).contains("fewer lines"));
}

/// In the wrong order the numbers would be wrong as well.
#[test]
fn series_in_another_order() {
    let (first, second) = SERIES.split_at(SERIES.find("From 9").unwrap());
    let first = first.replace("a.c", "b.c");
    let error = fault(&format!("{second}{first}"));
    assert!(error.contains("b.c has another text here"), "{error}");
    let renamed = "diff --git a/a.c b/c.c\nsimilarity index 100%\nrename from a.c\nrename to c.c\n";
    let first = SERIES.split_at(SERIES.find("From 9").unwrap()).0;
    let moved = lines(&format!("{first}{renamed}"));
    assert_eq!(moved, ["c.c:2@0 one", "c.c:3@0 two", "c.c:4@0 three"]);
}

#[test]
fn commits_of_git_show() {
    let id = "0123456789012345678901234567890123456789";
    let diff = "--- a/a.c\n+++ b/a.c\n@@ -0,0 +1 @@\n+x\n";
    let head =
        format!("commit {id} (HEAD -> main)\nAuthor: A <a@b.c>\n\n    subject\n\n    body\n\n");
    let patch = read(format!("{head}{diff}").as_bytes()).unwrap();
    let expected = Commit {
        id: Some(id.to_owned()),
        subject: "subject".to_owned(),
    };
    assert_eq!(patch.commits, [expected]);
    let error = fault(&format!("{head}{diff}\n{head}{diff}"));
    assert_eq!(error, format!("line 13: {}", Fault::Log));
    // A backport has both.
    let backport = SERIES.replace("Body with", &format!("commit {id}\n\nBody with"));
    assert_eq!(lines(&backport), lines(SERIES));
    let backport = SERIES.replace("Body with", &format!("commit {id} upstream.\n\nBody with"));
    assert_eq!(lines(&backport), lines(SERIES));
}

#[test]
fn copies() {
    let copy = "diff --git a/a.c b/b.c\ncopy from a.c\ncopy to b.c\n--- a/a.c\n+++ b/b.c\n@@ -1,2 +1,2 @@\n-one();\n+two();\n x\n";
    let other = "--- a/c.c\n+++ b/c.c\n@@ -0,0 +1 @@\n+one();\n";
    assert_eq!(
        lines(&format!("{copy}{other}")),
        ["b.c:1@0 two();", "c.c:1@0 one();"]
    );
}

#[test]
fn names_of_files() {
    let names = |old: &str, new: &str| {
        let text = format!("--- {old}\n+++ {new}\n@@ -0,0 +1 @@\n+x\n");
        lines(&text)[0].split(":1@").next().unwrap().to_owned()
    };
    assert_eq!(names("a/x y.c\t", "b/x y.c\t"), "x y.c");
    assert_eq!(names("i/x.c", "w/x.c"), "x.c");
    assert_eq!(
        names("a/x.c\t2026-11-28 22:00:00", "a/x.c\t2026"),
        "a/x.c|x.c"
    );
    assert_eq!(
        names("linux.orig/fs/x.c", "linux/fs/x.c"),
        "linux/fs/x.c|fs/x.c"
    );
    assert_eq!(names("x.c", "x.c"), "x.c");
    assert_eq!(
        names("/dev/null", "\"b/\\303\\274\\n\\\"\\\\\\t.c\""),
        "\u{fc}\n\"\\\t.c"
    );
    assert_eq!(names("/dev/null", "\"b/x \\377.c\"\t"), "x \u{fffd}.c");
    assert_eq!(names("/dev/null", "b/-x.c"), "-x.c");
    assert!(fault("--- a/a\n+++ \"b/x\n@@ -0,0 +1 @@\n+x\n").starts_with("line 1: the name"));
}

#[test]
fn faults() {
    let head = "--- a/a.c\n+++ b/a.c\n";
    for (text, said) in [
        (
            "not a diff\n".to_owned(),
            "line 1: no unified diff is in it",
        ),
        ("\0\u{1}".to_owned(), "line 1: no unified diff is in it"),
        (
            "@@ -1 +1 @@\n-a\n+b\n".to_owned(),
            "line 1: a hunk (@@) without",
        ),
        (
            "diff --git a/a b/a\n@@ -1 +1 @@\n".to_owned(),
            "line 2: a hunk (@@) without",
        ),
        (
            format!("{head}@@@ -1 -1 +1 @@@\n"),
            "line 3: a combined diff",
        ),
        (format!("{head}@@ -1 +x @@\n"), "line 3: the numbers"),
        (
            format!("{head}@@ -1,4294967295 +1 @@\n"),
            "line 3: the numbers",
        ),
        (
            format!("{head}@@ -1,2 +1,2 @@\n a\n"),
            "line 3: the hunk has fewer",
        ),
        (
            format!("{head}@@ -1 +1 @@\n-a\n-b\n"),
            "line 5: the hunk has fewer",
        ),
        (
            format!("{head}@@ -5 +5 @@\n a\n@@ -4 +6 @@\n a\n"),
            "line 5: the hunk is not behind",
        ),
    ] {
        let error = fault(&text);
        assert!(error.starts_with(said), "{text:?}: {error}");
    }
}

proptest! {
    /// Any text is read or refused.
    #[test]
    fn any_text(parts in prop::collection::vec(
        "(@@ -[0-3](,[0-3])? \\+[0-3](,[0-3])? @@|[-+ \\\\][ab]?|--- a/x\n\\+\\+\\+ b/[xy]|rename (from|to) [xy]|From .*)\n", 0..30
    )) {
        let _ = read(parts.concat().as_bytes());
    }

    /// Positions are those of a file to which the hunks are applied.
    #[test]
    fn positions(old in prop::collection::vec("[ab]", 0..9), patches in prop::collection::vec(
        prop::collection::vec((any::<bool>(), any::<bool>()), 12), 1..4
    )) {
        let mut file: Vec<(String, bool)> = old.into_iter().map(|text| (text, false)).collect();
        let mut text = String::new();
        for (index, choices) in patches.iter().enumerate() {
            let (mut body, mut next) = (String::new(), Vec::new());
            let mut choices = choices.iter();
            for (at, (line, is_new)) in file.iter().enumerate() {
                let (add, remove) = *choices.next().unwrap_or(&(false, false));
                if add {
                    body += &format!("+new {index} {at}\n");
                    next.push((format!("new {index} {at}"), true));
                }
                body += &format!("{}{line}\n", if remove { '-' } else { ' ' });
                if !remove {
                    next.push((line.clone(), *is_new));
                }
            }
            let first = |len: usize| usize::from(len > 0);
            text += &format!(
                "--- a/x.c\n+++ b/x.c\n@@ -{},{} +{},{} @@\n{body}",
                first(file.len()), file.len(), first(next.len()), next.len()
            );
            file = next;
        }
        let expected = (1..).zip(&file).filter(|(_, (_, is_new))| *is_new);
        let expected: Vec<_> = expected.map(|(number, (text, _))| (number, text.clone())).collect();
        let patch = read(text.as_bytes()).unwrap();
        let found = patch.files.iter().flat_map(|file| &file.lines);
        prop_assert_eq!(found.map(|line| (line.number, line.text.clone())).collect::<Vec<_>>(), expected);
    }
}
