//! `--processes`: hir-run as its own launcher, with one child for each rank on this machine.
//!
//! Rank 0's standard streams are the parent's. Output of other ranks, and of libraries in them, is copied line by line
//! with their rank in front, as text: the only control characters that pass are those of colours, if this process may
//! use colours too. Children read their place from `HIR_RANK` and its kin, the name of a Unix socket from `HIR_MEETING`
//! and a random token from `HIR_TOKEN`. Rank 0 gets the socket that it listens on as standard input, so that nobody can
//! take it in between. The system kills a child when its parent ends in any way. When the first child fails, the
//! others, which hear of it from each other, have a moment to report what they were doing; then they are killed.
//! Stopped children are killed as soon as no other one is left.

use super::{local, token};
use hostir::diag::message;
use hostir::diag::{Diag, visible};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::os_text;
use hostir_tool_support::process_limits::cannot_start_thread;
use hostir_tool_support::signals::ignored_signals;
use hostir_tool_support::status::ToolStatus;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal, waitid,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at the children.
const PAUSE: Duration = Duration::from_millis(5);
/// The time that the others may take to end after the first failure, or after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// Longer lines are passed on in pieces.
const LINE: u64 = 64 << 10;
/// Signals that are handed on.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// In a child: ends it with its parent.
pub(super) fn end_with_parent(env: super::launcher::EnvLookup<'_>) {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if parent != env("HIR_PARENT") {
        // It was gone before the line above.
        std::process::exit(hostir_tool_support::status::FOLLOWED);
    }
}

/// Starts `world` processes with these arguments and waits for them; returns the exit status.
///
/// # Errors
/// [`errors::START`] if one cannot be started, [`errors::ENDED`] if one was killed.
pub(crate) fn run_children(args: &[OsString], world: u32, io: &mut ToolIo<'_>) -> Result<i32, Diag> {
    let program = io
        .exe
        .clone()
        .ok_or_else(|| cannot_start(0, &std::io::Error::other("the path of the hir-run executable is unknown")))?;
    // Before the first child, so that a signal always finds a parent that forwards it.
    let signal = Arc::new(AtomicUsize::new(0));
    let ignored = ignored_signals();
    for number in SIGNALS.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0) {
        let registered = signal_hook::flag::register_usize(number, signal.clone(), number.unsigned_abs() as usize);
        registered.map_err(|error| cannot_start(0, &error))?;
    }
    // A process that ignores the ends of its children never hears of them; an empty handler does not count as ignoring.
    if ignored >> (SIGCHLD - 1) & 1 == 1 {
        let registered = signal_hook::flag::register(SIGCHLD, Arc::default());
        registered.map_err(|error| cannot_start(0, &error))?;
    }
    let mut family = ChildProcesses { children: Vec::new() };
    let mut readers = Vec::new();
    start_children(
        world,
        io.color,
        |rank: u32| {
            let mut command = Command::new(&program);
            let args = args.iter().skip(1).map(|arg| os_text::unescape_text(&arg.to_string_lossy()));
            command.args(args).current_dir(&io.cwd);
            command.env("HIR_PARENT", std::process::id().to_string());
            command.env("HIR_RANK", rank.to_string()).env("HIR_WORLD", world.to_string());
            command.env("HIR_LOCAL_RANK", rank.to_string());
            command
        },
        &mut family,
        &mut readers,
    )?;
    let end = family.wait_for_all(&signal);
    for reader in readers {
        let _ = reader.join();
    }
    if end.signal > 0 {
        let name = signal_name(i32::try_from(end.signal).unwrap_or(0));
        io.print_message(&format!("hir-run: all ranks were terminated by {name}"));
    }
    exit_status(&end)
}

/// The end of the children.
struct ChildrenEnd {
    /// The first failure: which rank, and how.
    first: Option<(u32, ExitStatus)>,
    /// The first that did not end by itself after that.
    killed: Option<u32>,
    /// A signal that the parent got.
    signal: usize,
}

fn exit_status(end: &ChildrenEnd) -> Result<i32, Diag> {
    if end.signal > 0 {
        return Ok(128 + i32::try_from(end.signal).unwrap_or(0));
    }
    let Some((rank, status)) = end.first else { return Ok(0) };
    let followed = status.code() == Some(hostir_tool_support::status::FOLLOWED);
    if let Some(rank) = end.killed.filter(|_| followed) {
        let message = message!("rank {} did not exit after the run had failed, and was killed", rank);
        return Err(Diag::global_error(errors::ENDED, message)
            .with_note("it was stopped, or blocked in a call that waits for another rank"));
    }
    if let Some(signal) = status.signal() {
        let message = message!("rank {} was terminated by {}", rank, signal_name(signal));
        return Err(Diag::global_error(errors::ENDED, message)
            .with_note("the other ranks were terminated, too; the system may send signal 9 when memory runs out"));
    }
    Ok(match status.code() {
        Some(hostir_tool_support::status::FOLLOWED) | None => ToolStatus::Environment.exit_code(),
        Some(code) => code,
    })
}

fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

fn cannot_start(rank: u32, error: &std::io::Error) -> Diag {
    Diag::global_error(errors::START, message!("cannot start rank {}: {}", rank, error))
        .with_note("`--devices N` without `--processes` runs all ranks in this process")
}

/// Starts all children; a thread each copies the output of the others.
fn start_children(
    world: u32,
    color: bool,
    command: impl Fn(u32) -> Command,
    family: &mut ChildProcesses,
    readers: &mut Vec<std::thread::JoinHandle<()>>,
) -> Result<(), Diag> {
    let secret = token::random_text().map_err(|error| cannot_start(0, &error))?;
    let rendezvous = local::socket_name(&token::random_text().map_err(|error| cannot_start(0, &error))?);
    let listener = local::listen_at(&rendezvous).map_err(|error| cannot_start(0, &error))?;
    let mut ear = Some(Stdio::from(OwnedFd::from(listener)));
    for rank in 0..world {
        let mut command = command(rank);
        command.env("HIR_TOKEN", &secret).env("HIR_MEETING", &rendezvous);
        command.env_remove("HIR_TOKEN_FILE");
        command.stdin(ear.take().unwrap_or_else(Stdio::null));
        let from =
            if rank == 0 { None } else { Some(output_pipe(&mut command).map_err(|error| cannot_start(0, &error))?) };
        let child = command.spawn().map_err(|error| cannot_start(rank, &error))?;
        // The command holds the writing end of the pipe.
        drop(command);
        family.children.push((child, None));
        if let Some(from) = from {
            let reader = std::thread::Builder::new().spawn(move || relay_lines(rank, color, from));
            readers.push(reader.map_err(|error| cannot_start_thread("that passes on what a rank prints", &error))?);
        }
    }
    Ok(())
}

fn output_pipe(command: &mut Command) -> std::io::Result<PipeReader> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok(reader)
}

/// Copies lines to standard error, each with its rank in front.
fn relay_lines(rank: u32, color: bool, from: PipeReader) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(from.by_ref().take(LINE).read_until(b'\n', &mut line), Ok(count) if count > 0) {
        let whole = format!("[rank {rank}] {}\n", relayed_line(&line, color));
        line.clear();
        let _ = std::io::stderr().write_all(whole.as_bytes());
    }
}

/// A line, without its end, as it is shown.
fn relayed_line(line: &[u8], color: bool) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    if color { visible::escape_colored(&line) } else { visible::escape_line(&line) }.into_owned()
}

/// The children with their exit statuses. Dropping it kills those that have not ended.
struct ChildProcesses {
    children: Vec<(Child, Option<ExitStatus>)>,
}

impl ChildProcesses {
    /// Waits for all children. After the first failure or a signal they have a moment.
    fn wait_for_all(&mut self, signal: &AtomicUsize) -> ChildrenEnd {
        let mut end = ChildrenEnd { first: None, killed: None, signal: 0 };
        let mut deadline: Option<Instant> = None;
        loop {
            let ended = self.poll_failure();
            if end.killed.is_none() {
                end.first = root_failure(end.first, ended);
            }
            let number = signal.swap(0, Ordering::AcqRel);
            if number > 0 {
                end.signal = number;
                self.forward_signal(number);
            }
            if self.children.iter().all(|(_, status)| status.is_some()) {
                return end;
            }
            if end.first.is_some() || end.signal > 0 {
                let until = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
                if Instant::now() > until || self.all_are_stopped() {
                    let left = self.children.iter().position(|(_, ended)| ended.is_none());
                    end.killed = end.killed.or(left.map(|rank| rank as u32));
                    self.kill_all();
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The worst new failure.
    fn poll_failure(&mut self) -> Option<(u32, ExitStatus)> {
        let mut found = None;
        for (rank, (child, ended)) in self.children.iter_mut().enumerate() {
            if ended.is_none()
                && let Ok(Some(status)) = child.try_wait()
            {
                *ended = Some(status);
                let failure = (!status.success()).then_some((rank as u32, status));
                found = root_failure(found, failure);
            }
        }
        found
    }

    fn forward_signal(&self, number: usize) {
        let signal = i32::try_from(number).ok().and_then(Signal::from_named_raw);
        for (child, ended) in &self.children {
            let pid = Pid::from_raw(child.id().cast_signed());
            if let (None, Some(pid), Some(signal)) = (ended, pid, signal) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// True if all remaining children are stopped (SIGSTOP): none of them will report or do anything.
    fn all_are_stopped(&self) -> bool {
        self.children.iter().all(|(child, ended): &(Child, Option<ExitStatus>)| {
            let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            ended.is_some() || matches!(waitid(WaitId::Pid(pid), options), Ok(Some(status)) if status.stopped())
        })
    }

    fn kill_all(&mut self) {
        for (child, ended) in &mut self.children {
            if ended.is_none() {
                let _ = child.kill();
            }
        }
    }
}

/// The cause among two failures: the earlier one, unless it only followed another.
fn root_failure(first: Option<(u32, ExitStatus)>, second: Option<(u32, ExitStatus)>) -> Option<(u32, ExitStatus)> {
    match (first, second) {
        (Some(first), Some(second)) if is_followed(first.1) && !is_followed(second.1) => Some(second),
        (first, second) => first.or(second),
    }
}

fn is_followed(status: ExitStatus) -> bool {
    status.code() == Some(hostir_tool_support::status::FOLLOWED)
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        self.kill_all();
        for (child, _) in &mut self.children {
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(first: Option<(u32, i32)>, killed: Option<u32>) -> Result<i32, (&'static str, String)> {
        let first = first.map(|(rank, raw)| (rank, ExitStatus::from_raw(raw)));
        exit_status(&ChildrenEnd { first, killed, signal: 0 }).map_err(|diag| (diag.code, diag.message.to_string()))
    }

    /// Raw statuses are those of wait(2): the exit status in the second byte, a signal in the first.
    #[test]
    fn statuses_of_ranks() {
        assert_eq!(end(None, None), Ok(0));
        assert_eq!(end(Some((1, 5 << 8)), None), Ok(5));
        assert_eq!(end(Some((1, hostir_tool_support::status::FOLLOWED << 8)), None), Ok(3));
        let (code, message) = end(Some((2, 9)), None).unwrap_err();
        assert_eq!((code, message.as_str()), ("H0645", "rank 2 was terminated by signal 9 (SIGKILL)"));
        let (_, message) = end(Some((2, hostir_tool_support::status::FOLLOWED << 8)), Some(3)).unwrap_err();
        assert_eq!(message, "rank 3 did not exit after the run had failed, and was killed");
        assert_eq!(exit_status(&ChildrenEnd { first: None, killed: None, signal: 2 }).unwrap(), 130);
    }

    #[test]
    fn the_cause_comes_before_what_followed() {
        let own = Some((2, ExitStatus::from_raw(3 << 8)));
        let followed = Some((1, ExitStatus::from_raw(hostir_tool_support::status::FOLLOWED << 8)));
        assert_eq!(root_failure(followed, own), own);
        assert_eq!(root_failure(own, followed), own);
        assert_eq!(root_failure(None, followed), followed);
        assert_eq!(root_failure(own, None), own);
    }

    /// Output of a rank's libraries is text, with colours if there are any.
    #[test]
    fn lines_are_passed_on_as_text() {
        let line = b"NCCL \x1b[31mWARN\x1b[0m \x1b]0;x\x07\xc2\x9b2J\xff\tend\r\n";
        let plain = "NCCL \\u{1b}[31mWARN\\u{1b}[0m \\u{1b}]0;x\\u{7}\\u{9b}2J\u{fffd}\tend";
        assert_eq!(relayed_line(line, false), plain);
        let colored = "NCCL \u{1b}[31mWARN\u{1b}[0m \\u{1b}]0;x\\u{7}\\u{9b}2J\u{fffd}\tend\u{1b}[0m";
        assert_eq!(relayed_line(line, true), colored);
    }

    #[test]
    fn children_that_cannot_start() {
        assert_eq!(cannot_start(1, &std::io::Error::other("x")).code, "H0649");
    }
}
