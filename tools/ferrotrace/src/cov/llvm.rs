// SPDX-License-Identifier: GPL-2.0

//! The programs that read profiles, unmodified: llvm-profdata, and llvm-cov with the image or module.

#![deny(unsafe_code)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use super::coverage::Coverage;
use super::error::Error;
use super::error::Problem;
use super::error::Result;
use super::error::Unfit;
use super::profile::Profile;
use super::report::temporary;
use super::tracefile;
use super::tracefile::TracefileError;

/// The versions that are looked for. Older ones do not read what the kernel writes.
const VERSIONS: std::ops::RangeInclusive<u32> = 19..=40;

/// llvm-profdata and llvm-cov, of one version.
#[derive(Clone, Debug)]
struct Programs {
    profdata: PathBuf,
    cov: PathBuf,
}

fn run(command: &mut Command) -> io::Result<Output> {
    command.env("LC_ALL", "C").stdin(Stdio::null()).output()
}

fn runs(program: &Path) -> bool {
    run(Command::new(program).arg("--version")).is_ok_and(|output| output.status.success())
}

/// The llvm-profdata that belongs to an llvm-cov.
fn beside(cov: &Path) -> Option<PathBuf> {
    let name = cov.file_name()?.to_str()?;
    name.contains("llvm-cov")
        .then(|| cov.with_file_name(name.replace("llvm-cov", "llvm-profdata")))
}

impl Programs {
    /// Those of the newest version, or the llvm-cov that the user names, and what belongs to it.
    fn find(named: Option<&Path>) -> Result<Self> {
        let numbered = VERSIONS.rev().map(|version| format!("llvm-cov-{version}"));
        let named = named.filter(|program| beside(program).is_some());
        let candidates: Vec<PathBuf> = match named {
            Some(program) => vec![program.to_owned()],
            None => numbered
                .chain(["llvm-cov".to_owned()])
                .map(PathBuf::from)
                .collect(),
        };
        let mut pairs = candidates
            .into_iter()
            .filter_map(|cov| Some((beside(&cov)?, cov)));
        let found = pairs.find(|(profdata, cov)| runs(cov) && runs(profdata));
        found
            .map(|(profdata, cov)| Self { profdata, cov })
            .ok_or(Error::NoLlvm)
    }

    /// Has them read a profile, in a directory of its own.
    fn read(&self, profile: &Profile, dir: &Path) -> std::result::Result<Coverage, Unfit> {
        let (raw, merged) = (dir.join("raw"), dir.join("merged"));
        let failed = |program: &Path, reason: String| Unfit::Program {
            program: program.display().to_string(),
            reason,
        };
        fs::write(&raw, &profile.data).map_err(|error| failed(&raw, error.to_string()))?;
        let merge: [OsString; 4] = [
            "merge".into(),
            raw.into(),
            "-o".into(),
            merged.clone().into(),
        ];
        finish(run(Command::new(&self.profdata).args(merge)))
            .map_err(|reason| failed(&self.profdata, reason))?;
        let mut export = Command::new(&self.cov);
        export.args(["export", "-format=lcov", "-instr-profile"]);
        let output = run(export.arg(&merged).arg(&profile.binary));
        let text = finish(output).map_err(|reason| failed(&self.cov, reason))?;
        let mut coverage = Coverage::default();
        match tracefile::read(text.as_bytes(), &mut coverage) {
            Ok(()) | Err(TracefileError::Empty) => Ok(coverage),
            Err(error) => Err(failed(&self.cov, error.to_string())),
        }
    }
}

/// Returns a program's output, or its error. A message of llvm-cov about records missing from the
/// profile means nothing: a crate includes functions of other crates that it does not use.
fn finish(output: io::Result<Output>) -> std::result::Result<String, String> {
    let output = output.map_err(|error| format!("cannot be run: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let message = messages.lines().find(|line| line.contains("error:"));
        let message = message.or(messages.lines().last()).unwrap_or("no message");
        return Err(format!("{} ({message})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Adds what profiles say. Those that cannot be read are returned.
pub fn report(
    profiles: &[Profile],
    program: Option<&Path>,
    coverage: &mut Coverage,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    if profiles.is_empty() {
        return Ok(problems);
    }
    let programs = Programs::find(program)?;
    let dir = temporary()?;
    for profile in profiles {
        match programs.read(profile, dir.path()) {
            Ok(part) => {
                for (name, file) in part.files {
                    coverage.add(name, file);
                }
            }
            Err(what) => problems.push(Problem {
                object: profile.name.clone(),
                what,
            }),
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        for (cov, profdata) in [
            ("llvm-cov-22", Some("llvm-profdata-22")),
            (
                "/usr/lib/llvm-19/bin/llvm-cov",
                Some("/usr/lib/llvm-19/bin/llvm-profdata"),
            ),
            ("gcov-12", None),
        ] {
            assert_eq!(beside(Path::new(cov)), profdata.map(PathBuf::from), "{cov}");
        }
    }
}
