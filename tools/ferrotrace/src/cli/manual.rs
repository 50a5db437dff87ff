// SPDX-License-Identifier: GPL-2.0

//! Man pages and completions, from the command line as clap has it: what `make install-tools` installs.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Command;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::roff::Roff;
use clap_mangen::roff::bold;
use clap_mangen::roff::roman;

use ferrotrace::directory::Directory;

/// The subcommand.
pub const NAME: &str = "manual";

#[derive(Debug, Args)]
pub struct ManualArgs {
    /// A prefix, such as /usr/share, below which the files have their usual places.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Where a shell looks for completions, below a prefix.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "ferrotrace"),
    (Shell::Zsh, "zsh/site-functions", "_ferrotrace"),
    (Shell::Fish, "fish/vendor_completions.d", "ferrotrace.fish"),
];

/// Creates a directory with those above it.
fn create(dir: &Path) -> Result<Directory> {
    let made = Directory::create_all(dir);
    made.with_context(|| format!("{}: cannot be created", dir.display()))
}

fn write(dir: &Directory, name: &str, text: &[u8]) -> Result<()> {
    let written = dir.write(name.as_ref(), text);
    written.with_context(|| format!("{}: cannot be written", dir.path().join(name).display()))
}

/// Writes the sections that clap lacks. `above` is the command with this subcommand.
fn sections(command: &Command, name: &str, above: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let words = name.replace('-', " ");
    let own = command.get_before_long_help().map(ToString::to_string);
    let examples = match own
        .as_deref()
        .and_then(|own| own.strip_prefix("Examples:\n"))
    {
        Some(examples) => examples.to_owned(),
        None => format!("  {words} --help"),
    };
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []).control("SH", ["EXIT STATUS"]);
    for line in super::help::EXIT_STATUS {
        page.control("PP", []).text([roman(line)]);
    }
    page.control("SH", ["FILES"]);
    for (file, what) in super::help::FILES {
        page.control("TP", [])
            .text([bold(file)])
            .text([roman(what)]);
    }
    let others = command.get_subcommands().map(|one| (name.to_owned(), one));
    let parent = name.rsplit_once('-').map_or(name, |(parent, _)| parent);
    let beside = above.get_subcommands().map(|one| (parent.to_owned(), one));
    let related = others.chain(beside).filter(|(_, one)| !one.is_hide_set());
    let mut related: Vec<_> = related
        .map(|(of, one)| format!("{of}-{}(1)", one.get_name()))
        .filter(|page| *page != format!("{name}(1)"))
        .collect();
    related.insert(0, "ferrotrace(1)".to_owned());
    related.retain(|page| name != "ferrotrace" || page != "ferrotrace(1)");
    related.dedup();
    page.control("SH", ["SEE ALSO"])
        .text([roman(related.join(", "))]);
    page.to_writer(text)
}

/// The page of `command`, called `name`, and those of its subcommands.
fn pages(command: &Command, name: &str, above: &Command, dir: &Directory) -> Result<()> {
    let shown = |one: &&Command| !one.is_hide_set();
    for subcommand in command.get_subcommands().filter(shown) {
        let name = format!("{name}-{}", subcommand.get_name());
        pages(subcommand, &name, command, dir)?;
    }
    let named = command.clone().display_name(name.to_owned());
    // The examples have a section of their own.
    let named = named.before_long_help("").before_help("");
    let page = clap_mangen::Man::new(named).title(name.to_owned());
    let mut text = Vec::new();
    page.render(&mut text)?;
    sections(command, name, above, &mut text)?;
    write(dir, &format!("{name}.1"), &text)
}

impl ManualArgs {
    pub fn run(&self) -> Result<()> {
        let man = create(&self.dir.join("man/man1"))?;
        let mut built = super::Cli::command().disable_help_subcommand(true);
        built.build();
        pages(&built, "ferrotrace", &built, &man)?;
        for (shell, dir, file) in SHELLS {
            let dir = create(&self.dir.join(dir))?;
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut super::Cli::command(), "ferrotrace", &mut text);
            write(&dir, file, &text)?;
        }
        Ok(())
    }
}
