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

fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{}: cannot be created", dir.display()))
}

/// The page of `command`, called `name`, and those of its subcommands.
fn pages(command: &Command, name: &str, dir: &Path) -> Result<()> {
    for subcommand in command.get_subcommands() {
        let name = format!("{name}-{}", subcommand.get_name());
        pages(subcommand, &name, dir)?;
    }
    let named = command.clone().display_name(name.to_owned());
    let page = clap_mangen::Man::new(named).title(name.to_owned());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

impl ManualArgs {
    pub fn run(&self) -> Result<()> {
        let man = self.dir.join("man/man1");
        create(&man)?;
        let mut built = super::Cli::command().disable_help_subcommand(true);
        built.build();
        pages(&built, "ferrotrace", &man)?;
        for (shell, dir, file) in SHELLS {
            let dir = self.dir.join(dir);
            create(&dir)?;
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut super::Cli::command(), "ferrotrace", &mut text);
            let path = dir.join(file);
            fs::write(&path, text)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        Ok(())
    }
}
