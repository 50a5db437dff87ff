// SPDX-License-Identifier: GPL-2.0

//! A session in the background, which other commands ask for its results by a socket.

#![deny(unsafe_code)]

use std::fs;
use std::fs::DirBuilder;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use serde::Deserialize;
use serde::Serialize;

use super::super::error::Error;
use super::super::error::Result;
use super::super::print::Form;
use super::lines::Source;
use super::print;
use super::print::States;
use super::session::Session;
use crate::file::IoError;
use crate::signals::StopSignals;

/// Directory of the socket.
const DIR: &str = "/run/ferrotrace";

/// Socket of the session.
const SOCKET: &str = "/run/ferrotrace/live-coverage";

/// Maximum length of a request.
const REQUEST_MAX: u64 = 4096;

/// Time to wait for a client that does not read or write.
const PATIENCE: Duration = Duration::from_secs(10);

/// Result of a session or of runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Show {
    /// Its form, whose tree has an absolute path.
    pub form: Form,
    /// Lines of source files.
    pub lines: bool,
    /// lcov's tracefile.
    pub lcov: bool,
    /// The file of a run: its bytes as characters.
    pub save: bool,
}

impl Show {
    /// Returns true if it takes the image.
    pub fn takes_image(&self) -> bool {
        self.lines || self.lcov || self.form.source || self.form.style.functions
    }
}

/// Request of another command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Numbers of the module.
    Status,
    /// Forget what was executed, and watch all blocks again.
    Reset,
    /// A report.
    Report(Show),
    /// A report, and the end of the session.
    Stop(Show),
}

/// Returns the text of a report of a session, or its run.
pub fn report(session: &Session<'_>, image: Option<&Source>, show: &Show) -> Result<String> {
    if !show.save {
        return text(&session.states()?, &session.places(), image, show);
    }
    let bytes = session.run()?.bytes();
    let bytes = bytes.map_err(|error| failed("answer by")(error.into()))?;
    Ok(bytes.into_iter().map(char::from).collect())
}

/// Returns the text of a report. `places` has the address of each block's breakpoint.
pub fn text(
    states: &States<'_>,
    places: &[Option<u64>],
    image: Option<&Source>,
    show: &Show,
) -> Result<String> {
    let form = &show.form;
    if !show.takes_image() {
        return Ok(match form.json {
            true => print::json(states, places).to_string() + "\n",
            false => print::text(states, !form.style.executed, form.style.top),
        });
    }
    let coverage = image.ok_or(Error::NoImage)?.coverage(states)?;
    if show.lcov {
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = form.tracefile(&mut bytes, &coverage);
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let text = form.text(&coverage, 1, &[]);
    text.map_err(|error| failed("answer by")(error.into()))
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| {
        Error::Io(IoError {
            action,
            path: SOCKET.into(),
            source,
        })
    }
}

/// Makes the socket. Only root can reach it.
pub fn listen() -> Result<UnixListener> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(DIR);
    made.map_err(failed("make the directory of"))?;
    // Left by a session that was killed: the module has one session at most.
    match fs::remove_file(SOCKET) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove")(error)),
        _ => UnixListener::bind(SOCKET).map_err(failed("make")),
    }
}

/// Answers requests until one ends the session, or a signal arrives.
pub fn serve(
    session: &Session<'_>,
    image: Option<&Source>,
    listener: &UnixListener,
    signals: &StopSignals,
) -> Result<()> {
    while !signals.has_come() {
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        let ready = poll(&mut fds, PollTimeout::NONE);
        ready.map_err(|errno| failed("wait for")(errno.into()))?;
        let [requests, _] = fds;
        if requests.any() != Some(true) {
            continue;
        }
        // An error of a client is that client's.
        let answered = listener
            .accept()
            .and_then(|(stream, _)| answer(session, image, stream));
        if answered.unwrap_or(false) {
            break;
        }
    }
    // There is nowhere left to report it if this fails.
    let _ = fs::remove_file(SOCKET);
    Ok(())
}

/// Answers a request. Returns true after the last one.
fn answer(session: &Session<'_>, image: Option<&Source>, stream: UnixStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_MAX)).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    let result = match &request {
        Request::Status => session.status(),
        Request::Reset => session.reset().map(|()| String::new()),
        Request::Report(show) | Request::Stop(show) => report(session, image, show),
    };
    let is_last = matches!(request, Request::Stop(_)) && result.is_ok();
    let reply = result.map_err(|error| error.to_string());
    (&stream).write_all(&serde_json::to_vec(&reply)?)?;
    Ok(is_last)
}

/// Sends a request to the session in the background, and returns its text.
pub fn ask(request: &Request) -> Result<String> {
    let stream = UnixStream::connect(SOCKET).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NoSession,
        _ => IoError::or_denied(Error::LiveDenied, "open", Path::new(SOCKET), error),
    })?;
    let mut line = serde_json::to_vec(request).map_err(|error| failed("write to")(error.into()))?;
    line.push(b'\n');
    (&stream).write_all(&line).map_err(failed("write to"))?;
    let mut bytes = Vec::new();
    (&stream).read_to_end(&mut bytes).map_err(failed("read"))?;
    let reply: std::result::Result<String, String> =
        serde_json::from_slice(&bytes).map_err(|error| failed("read")(error.into()))?;
    reply.map_err(Error::Session)
}
