// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov live`.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::Args;
use clap::Subcommand;
use nix::unistd::daemon;

use ferrotrace::cov::error::Error;
use ferrotrace::cov::live::control::DIR;
use ferrotrace::cov::live::ftrace;
use ferrotrace::cov::live::functions::Found;
use ferrotrace::cov::live::functions::Selection;
use ferrotrace::cov::live::functions::find;
use ferrotrace::cov::live::lines::Source;
use ferrotrace::cov::live::print as print_live;
use ferrotrace::cov::live::server;
use ferrotrace::cov::live::server::Request;
use ferrotrace::cov::live::server::Show;
use ferrotrace::cov::live::session::Session;
use ferrotrace::cov::live::text::Image;
use ferrotrace::cov::live::text::Text;
use ferrotrace::file::create;
use ferrotrace::functions::glob::Glob;
use ferrotrace::kallsyms::Kallsyms;
use ferrotrace::kallsyms::Modules;
use ferrotrace::relay::record::take_signals;

use super::super::print;
use super::super::units::CommandArgs;
use super::super::units::parse_duration;
use super::super::warn;
use super::FormArgs;
use super::write;

/// Time that a wait lasts without --duration.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LiveArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    save: SaveArgs,
    /// Find only which functions are executed, by ftrace. This needs no module.
    #[arg(long, conflicts_with_all = ["lines", "functions", "lcov", "source", "paths", "save"])]
    functions_only: bool,
    /// Stop after this time; otherwise at the end of the command, or on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    run: CommandArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch in the background.
    Start(WatchArgs),
    /// Show how much is watched and executed.
    Status,
    /// Forget what was executed.
    Reset,
    /// Show what was executed since the start.
    Report(ResultArgs),
    /// Show what was executed, and end.
    Stop(ResultArgs),
}

/// Blocks to watch.
#[derive(Debug, Args)]
struct WatchArgs {
    /// Watch these functions; * stands for any text, ? for any character, [a-z] for one of several.
    #[arg(value_name = "FUNCTION", required_unless_present_any = ["all", "modules", "paths"])]
    names: Vec<Glob>,
    /// Watch the functions of this module, or those FUNCTION selects of them; it can be repeated.
    #[arg(short, long = "module", value_name = "MODULE")]
    modules: Vec<String>,
    /// Watch the functions of this source file, or of all below this directory, such as fs/ext4; it
    /// can be repeated. This takes --vmlinux.
    #[arg(
        long = "path",
        value_name = "PATH",
        conflicts_with = "modules",
        requires = "vmlinux"
    )]
    paths: Vec<String>,
    /// Watch all functions of the kernel's image; modules take -m or patterns.
    #[arg(long, conflicts_with_all = ["names", "modules", "paths"])]
    all: bool,
    /// The image that the running kernel was booted from, with its debugging information.
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// The directory of the module ferrotrace_coverage.
    #[arg(long, value_name = "DIR", default_value = DIR, hide = true)]
    live_dir: PathBuf,
}

/// Form of a report.
#[derive(Debug, Default, Args)]
pub(super) struct ShowArgs {
    /// Show what was not executed.
    #[arg(long, conflicts_with = "json")]
    missed: bool,
    /// Show the lines of each source file. This takes --vmlinux.
    #[arg(short, long, conflicts_with = "source")]
    lines: bool,
    /// Write lcov's tracefile to this file, instead of a table. This takes --vmlinux.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["missed", "lines", "functions", "source", "json"]
    )]
    lcov: Option<PathBuf>,
    /// The source tree, if the kernel was compiled in another directory.
    #[arg(long, value_name = "DIR")]
    srcdir: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
}

/// File of a run.
#[derive(Debug, Args)]
struct SaveArgs {
    /// Save what was executed on this host to this file, for ferrotrace cov merge.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["missed", "top", "lines", "functions", "lcov", "source", "json"]
    )]
    save: Option<PathBuf>,
}

/// A file that a run is saved to. Dropping it removes the file if it is still empty.
struct Saved {
    path: PathBuf,
    file: File,
}

impl Drop for Saved {
    fn drop(&mut self) {
        let is_empty = |about: Metadata| about.is_file() && about.len() == 0;
        if self.file.metadata().is_ok_and(is_empty) {
            // The error that led here is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Form of a result.
#[derive(Debug, Args)]
struct ResultArgs {
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    save: SaveArgs,
}

impl ResultArgs {
    /// Asks the session in the background.
    fn ask(&self, request: fn(Show) -> Request) -> Result<()> {
        let ask = |show: &Show| server::ask(&request(show.clone()));
        self.save.finish(self.save.create()?, &self.show, ask)
    }
}

impl SaveArgs {
    /// Makes the file, before something is watched for it.
    fn create(&self) -> Result<Option<Saved>> {
        let Some(path) = self.save.clone() else {
            return Ok(None);
        };
        let file = create(&path, false)?;
        Ok(Some(Saved { path, file }))
    }

    /// Shows a result, or writes it to the file.
    fn finish(
        &self,
        file: Option<Saved>,
        show: &ShowArgs,
        result: impl FnOnce(&Show) -> Result<String, Error>,
    ) -> Result<()> {
        let save = file.is_some();
        let text = result(&Show {
            save,
            ..show.show()?
        })?;
        let Some(mut saved) = file else {
            return show.put(&text);
        };
        let bytes: Vec<u8> = text.chars().filter_map(|one| one.try_into().ok()).collect();
        let written = saved.file.write_all(&bytes);
        written.with_context(|| format!("{}: cannot be written", saved.path.display()))
    }
}

impl ShowArgs {
    pub(super) fn show(&self) -> Result<Show> {
        Ok(Show {
            form: self.form.form(!self.missed, self.srcdir.as_deref())?,
            lines: self.lines,
            lcov: self.lcov.is_some(),
            save: false,
        })
    }

    /// Prints a report, or writes it to the file.
    pub(super) fn put(&self, text: &str) -> Result<()> {
        match &self.lcov {
            Some(path) => write(Some(path), false, |to| to.write_all(text.as_bytes()))?,
            None => print(text)?,
        };
        Ok(())
    }
}

impl WatchArgs {
    fn selection(&self) -> Selection {
        Selection {
            names: self.names.clone(),
            modules: self.modules.clone(),
        }
    }

    /// Finds the blocks.
    fn find(&self) -> Result<(Found, Option<Source>)> {
        let kallsyms = Kallsyms::running(&Modules::running());
        let kallsyms = kallsyms.context("/proc/kallsyms: cannot be read")?;
        if kallsyms.code().next().is_none() {
            bail!("/proc/kallsyms has no addresses: only root may see them");
        }
        let image = self.vmlinux.as_deref();
        let image = image.map(|path| Image::open(path, &kallsyms));
        let image = image.transpose()?;
        let lines = image.as_ref().zip(self.vmlinux.clone());
        let lines = lines.map(|(image, path)| Source {
            path,
            shift: image.shift(),
        });
        let text = match (Text::running(), image) {
            (Err(Error::NoCode), Some(image)) => Text::image(image),
            (text, _) => text?,
        };
        let mut found = find(&kallsyms, &text, &self.selection())?;
        if let Some(lines) = lines.as_ref().filter(|_| !self.paths.is_empty()) {
            lines.keep(&mut found.functions, &self.paths)?;
            found.is_whole = false;
        }
        if !found.undecoded.is_empty() {
            let count = found.undecoded.len();
            let some = found.undecoded.iter().step_by(count.div_ceil(3));
            let some: Vec<_> = some.map(String::as_str).collect();
            warn(&format!(
                "{count} functions are left out, since their code cannot be read, such as {}",
                some.join(", ")
            ));
        }
        Ok((found, lines))
    }

    /// Watches in the background.
    fn start(&self) -> Result<()> {
        let signals = take_signals()?;
        let (found, lines) = self.find()?;
        let session = Session::arm(&self.live_dir, &found)?;
        let listener = server::listen()?;
        let count = found.functions.len();
        // There is nowhere left to report it if this fails.
        let _ = writeln!(
            io::stderr(),
            "ferrotrace: watching {count} functions in the background; ferrotrace cov live stop ends"
        );
        daemon(false, false).context("cannot run in the background")?;
        Ok(server::serve(
            &session,
            lines.as_ref(),
            &listener,
            &signals,
        )?)
    }
}

impl LiveArgs {
    pub fn run(self) -> Result<u8> {
        match &self.command {
            None => return self.watch(),
            Some(Command::Start(args)) => args.start()?,
            Some(Command::Status) => _ = print(&server::ask(&Request::Status)?)?,
            Some(Command::Reset) => _ = server::ask(&Request::Reset)?,
            Some(Command::Report(args)) => args.ask(Request::Report)?,
            Some(Command::Stop(args)) if args.save.save.is_some() => {
                // The session ends after its run is in the file.
                args.ask(Request::Report)?;
                server::ask(&Request::Stop(ShowArgs::default().show()?))?;
            }
            Some(Command::Stop(args)) => args.ask(Request::Stop)?,
        }
        Ok(0)
    }

    /// Watches until a command or the time ends, or until a signal.
    fn watch(&self) -> Result<u8> {
        let show = self.show.show()?;
        if show.takes_image() && self.watch.vmlinux.is_none() {
            bail!(Error::NoImage);
        }
        let signals = take_signals()?;
        let until = || Instant::now() + self.duration.unwrap_or(FOREVER);
        if self.functions_only {
            let mut session = ftrace::Session::start(&self.watch.selection())?;
            let doing = format!("watching {} functions", session.len());
            self.run.start(&signals, None, &doing)?;
            session.run(&signals, until())?;
            if session.lost() > 0 {
                let lost = session.lost();
                warn(&format!(
                    "{lost} records found no room, so that functions may be missing"
                ));
            }
            let states = session.states();
            self.show.put(&match show.form.json {
                true => print_live::json(&states, &[]).to_string() + "\n",
                false => print_live::names(&states, self.show.missed, show.form.style.top),
            })?;
            return Ok(signals.finish()?);
        }
        let file = self.save.create()?;
        let (found, lines) = self.watch.find()?;
        let session = Session::arm(&self.watch.live_dir, &found)?;
        let doing = format!("watching {} functions", found.functions.len());
        self.run.start(&signals, None, &doing)?;
        let until = until();
        while Instant::now() < until && !signals.wait(until)? {}
        let report = |show: &Show| server::report(&session, lines.as_ref(), show);
        self.save.finish(file, &self.show, report)?;
        Ok(signals.finish()?)
    }
}
