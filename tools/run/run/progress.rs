//! A line on the terminal with the progress of a long run.
//!
//! A thread draws it, overwrites it again and again, and removes it when the run ends. It appears only on a terminal,
//! not in a pipe or a log.

use super::cli::Options;
use super::completion::{CompleteOnDrop, Completion};

use hostir::backend::cpu::StepCounter;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::terminal::WIPE_LINE;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shorter runs say nothing.
const START: Duration = Duration::from_secs(2);

/// Whether somebody looks on.
pub(super) fn is_wanted(options: &Options, io: &ToolIo<'_>) -> bool {
    // The streams of a tool that is called as a function belong to the caller.
    io.terminal && io.exe.is_some() && !options.quiet && options.format == DiagFormat::Human
}

/// Does long work, and shows meanwhile its duration and the text of `state`.
pub(super) fn show_progress<T>(
    wanted: bool,
    state: impl Fn() -> Option<String> + Sync,
    work: impl FnOnce(&ProgressLine) -> T,
) -> T {
    let line = ProgressLine::on_writer(Box::new(std::io::stderr()));
    if !wanted {
        return work(&line);
    }
    draw_while_working(&line, START, state, work)
}

fn draw_while_working<T>(
    line: &ProgressLine,
    start: Duration,
    state: impl Fn() -> Option<String> + Sync,
    work: impl FnOnce(&ProgressLine) -> T,
) -> T {
    let (began, over) = (Instant::now(), Completion::default());
    let result = std::thread::scope(|scope| {
        let draw = || {
            over.poll_until(|_| -> Option<()> {
                let elapsed = began.elapsed();
                if elapsed >= start {
                    let state = state().map_or_else(String::new, |state| format!(", {state}"));
                    line.draw_text(&format!("hir-run: {} s{state}", elapsed.as_secs()));
                }
                None
            })
        };
        // Without a thread for it there is no line.
        let _ = std::thread::Builder::new().spawn_scoped(scope, draw);
        let _over = CompleteOnDrop(&over);
        work(line)
    });
    line.clear();
    result
}

/// `34% of the instructions done`.
pub(super) fn percent_done(steps: &StepCounter) -> Option<String> {
    steps.percent_done().map(|percent| format!("{percent}% of the instructions done"))
}

/// The number of rounds of a benchmark that have begun.
#[derive(Default)]
pub(super) struct RoundCounter(AtomicU64);

impl RoundCounter {
    /// Another one begins.
    pub(super) fn next(&self, rounds: u32) {
        self.0.fetch_add(u64::from(rounds), Ordering::Relaxed);
    }
    /// `round 3 of 55`.
    pub(super) fn progress_text(&self, all: u32) -> Option<String> {
        let round = self.0.load(Ordering::Relaxed);
        (round > 0).then(|| format!("round {round} of {all}"))
    }
}

/// The line.
pub(super) struct ProgressLine(Mutex<LineScreen>);

struct LineScreen {
    out: Box<dyn Write + Send>,
    /// The text that is drawn now.
    text: String,
}

impl ProgressLine {
    fn on_writer(out: Box<dyn Write + Send>) -> Self {
        Self(Mutex::new(LineScreen { out, text: String::new() }))
    }
    /// Wipes it, so that something else can be written; it comes back by itself.
    pub(super) fn clear(&self) {
        self.draw_text("");
    }
    /// Ignores write errors of the terminal.
    fn draw_text(&self, text: &str) {
        let mut screen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if screen.text == text {
            return;
        }
        let _ = write!(screen.out, "{WIPE_LINE}{text}");
        let _ = screen.out.flush();
        text.clone_into(&mut screen.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Bytes that two threads may look at.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The line is there during the work, is overwritten, and leaves nothing.
    #[test]
    fn the_line_comes_and_goes() {
        let out = Shared::default();
        let line = ProgressLine::on_writer(Box::new(out.clone()));
        let rounds = RoundCounter::default();
        let until = |text: &str| {
            while !out.text().ends_with(text) {
                std::thread::yield_now();
            }
        };
        let result = draw_while_working(
            &line,
            Duration::ZERO,
            || rounds.progress_text(9),
            |line| {
                until("hir-run: 0 s");
                line.clear();
                until("hir-run: 0 s");
                rounds.next(2);
                until("\r\x1b[Khir-run: 0 s, round 2 of 9");
                7
            },
        );
        assert_eq!(result, 7);
        assert!(out.text().ends_with("round 2 of 9\r\x1b[K"), "{:?}", out.text());
    }

    /// Work that ends before the line's time writes nothing.
    #[test]
    fn short_work_says_nothing() {
        let out = Shared::default();
        let line = ProgressLine::on_writer(Box::new(out.clone()));
        draw_while_working(&line, Duration::from_secs(3600), || None, |_| ());
        assert_eq!(out.text(), "");
    }
}
