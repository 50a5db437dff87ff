// SPDX-License-Identifier: GPL-2.0

//! Man pages and completions, from the command line as clap has it: what `make install-tools` installs.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Command;
use clap::CommandFactory;
use clap_complete::Shell;

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
    let made = fs::create_dir_all(dir).and_then(|()| Directory::open(dir));
    made.with_context(|| format!("{}: cannot be created", dir.display()))
}

fn write(dir: &Directory, name: &str, text: &[u8]) -> Result<()> {
    let written = dir.write(name.as_ref(), text);
    written.with_context(|| format!("{}: cannot be written", dir.path().join(name).display()))
}

/// The page of `command`, called `name`, and those of its subcommands.
fn pages(command: &Command, name: &str, dir: &Directory) -> Result<()> {
    for subcommand in command.get_subcommands() {
        let name = format!("{name}-{}", subcommand.get_name());
        pages(subcommand, &name, dir)?;
    }
    let named = command.clone().display_name(name.to_owned());
    let page = clap_mangen::Man::new(named).title(name.to_owned());
    let mut text = Vec::new();
    page.render(&mut text)?;
    write(dir, &format!("{name}.1"), &text)
}

impl ManualArgs {
    pub fn run(&self) -> Result<()> {
        let man = create(&self.dir.join("man/man1"))?;
        let mut built = super::Cli::command().disable_help_subcommand(true);
        built.build();
        pages(&built, "ferrotrace", &man)?;
        for (shell, dir, file) in SHELLS {
            let dir = create(&self.dir.join(dir))?;
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut super::Cli::command(), "ferrotrace", &mut text);
            write(&dir, file, &text)?;
        }
        Ok(())
    }
}
