//! `--debug-only`: what happens inside of the libraries, for people who look for a bug in them.
//!
//! The libraries report events of the crate `tracing`, whose targets are their components. A tool that is this process's
//! program listens for the whole process and writes each event at once, so that the last one before a crash is seen.
//! A tool that is called as a function listens to its own thread, and writes the events when it ends.

use crate::io::ToolIo;
use crate::status::ToolStatus;
use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use hostir::diag::components::COMPONENTS;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{Subscriber, set_global_default, with_default};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::{fmt, registry};

/// A listener to nothing, which always exists. If a process has one listener alone, `tracing` asks that of the thread that
/// comes to an event first whether anybody wants it, and keeps the answer for all threads.
static SECOND_LISTENER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(listener(&[], io::sink)));

const FLAG: &str = "debug-only";
/// The value that lists the components.
const HELP: &str = "help";

/// `--debug-only`.
#[derive(Args)]
pub struct DebugArgument {
    /// Names of components, and `help`.
    #[arg(id = FLAG, long = FLAG, value_name = "COMPONENT,..", value_delimiter = ',',
        value_parser = component_parser(), help = "Print to standard error what happens in a component; help lists them")]
    pub components: Vec<String>,
}

fn component_parser() -> PossibleValuesParser {
    let names = COMPONENTS.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names.chain([HELP]))
}

/// Carries out a tool's work, and shows the events of these components on standard error.
pub fn run_with_events(components: &[String], io: &mut ToolIo<'_>, work: impl FnOnce(&mut ToolIo<'_>) -> i32) -> i32 {
    if components.is_empty() {
        return work(io);
    }
    // It fails if this process listens already.
    if io.is_process() && set_global_default(listener(components, io::stderr)).is_ok() {
        return work(io);
    }
    LazyLock::force(&SECOND_LISTENER);
    let kept = KeptEvents::default();
    let code = with_default(listener(components, kept.clone()), || work(io));
    // If nobody reads standard error, there is nobody to report to.
    let _ = io.stderr.write_all(&take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner)));
    code
}

/// True if a command line asks for the list of components: a tool that needs a file needs none for it.
pub(crate) fn is_list_wanted(args: &[OsString], command: &Command) -> bool {
    let has_flag = command.get_arguments().any(|argument| argument.get_long() == Some(FLAG));
    let long = format!("--{FLAG}");
    let is_list = |pair: &[OsString]| pair[0] == *long && pair[1] == *HELP;
    has_flag && (args.windows(2).any(is_list) || args.iter().any(|arg| *arg == *format!("{long}={HELP}")))
}

/// Lists the components.
pub(crate) fn list_components(io: &mut ToolIo<'_>) -> ToolStatus {
    let width = COMPONENTS.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, about) in COMPONENTS {
        let _ = writeln!(text, "{name:width$}  {about}");
    }
    io.print_output(&text)
}

/// Writes the events of components, a line each: `pass-manager: done changed=true ..`.
fn listener(
    components: &[String],
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    let wanted = Targets::new().with_targets(components.iter().map(|name| (name.clone(), LevelFilter::TRACE)));
    let lines = fmt::layer().with_writer(writer).without_time().with_level(false).with_ansi(false);
    registry().with(lines.with_filter(wanted))
}

/// Events that are written later.
#[derive(Clone, Default)]
struct KeptEvents(Arc<Mutex<Vec<u8>>>);

impl Write for KeptEvents {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for KeptEvents {
    type Writer = Self;
    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}
