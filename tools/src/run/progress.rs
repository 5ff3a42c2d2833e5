//! A line on the terminal that says how far a long run is.
//!
//! It is drawn by a thread of its own, is written over again and again, and is gone when the run ends. Only a
//! person who looks on sees it: not a pipe, not a log.

use super::cli::Options;
use super::completion::{CompleteOnDrop, Completion};

use hostir::backend::cpu::Steps;
use hostir_tool_support::io::Io;
use hostir_tool_support::render::Format;
use hostir_tool_support::terminal::WIPE_LINE;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shorter runs say nothing.
const START: Duration = Duration::from_secs(2);

/// Whether somebody looks on.
pub(super) fn is_wanted(options: &Options, io: &Io<'_>) -> bool {
    // The streams of a tool that is called as a function are somebody else's.
    io.terminal && io.exe.is_some() && !options.quiet && options.format == Format::Human
}

/// Does long work, and says meanwhile how long it has taken and what `state` says.
pub(super) fn show_progress<T>(
    wanted: bool,
    state: impl Fn() -> Option<String> + Sync,
    work: impl FnOnce(&Line) -> T,
) -> T {
    let line = Line::on(Box::new(std::io::stderr()));
    if !wanted {
        return work(&line);
    }
    during(&line, START, state, work)
}

fn during<T>(
    line: &Line,
    start: Duration,
    state: impl Fn() -> Option<String> + Sync,
    work: impl FnOnce(&Line) -> T,
) -> T {
    let (began, over) = (Instant::now(), Completion::default());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            over.poll_until(|_: &mut Option<Instant>| -> Option<()> {
                let elapsed = began.elapsed();
                if elapsed >= start {
                    let state = state().map_or_else(String::new, |state| format!(", {state}"));
                    line.draw(&format!("hir-run: {} s{state}", elapsed.as_secs()));
                }
                None
            })
        });
        let _over = CompleteOnDrop(&over);
        work(line)
    });
    line.clear();
    result
}

/// `34% of the instructions done`.
pub(super) fn percent(steps: &Steps) -> Option<String> {
    steps.percent().map(|percent| format!("{percent}% of the instructions done"))
}

/// The number of rounds of a benchmark that have begun.
#[derive(Default)]
pub(super) struct Rounds(AtomicU64);

impl Rounds {
    /// Another one begins.
    pub(super) fn next(&self, rounds: u32) {
        self.0.fetch_add(u64::from(rounds), Ordering::Relaxed);
    }
    /// `round 3 of 55`.
    pub(super) fn text(&self, all: u32) -> Option<String> {
        let round = self.0.load(Ordering::Relaxed);
        (round > 0).then(|| format!("round {round} of {all}"))
    }
}

/// The line.
pub(super) struct Line(Mutex<Screen>);

struct Screen {
    out: Box<dyn Write + Send>,
    /// The text that is drawn now.
    text: String,
}

impl Line {
    fn on(out: Box<dyn Write + Send>) -> Self {
        Self(Mutex::new(Screen { out, text: String::new() }))
    }
    /// Wipes it, so that something else can be written; it comes back by itself.
    pub(super) fn clear(&self) {
        self.draw("");
    }
    /// A terminal that cannot be written to has nobody to be told.
    fn draw(&self, text: &str) {
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

    /// The line is there while the work goes on, is written over, and leaves nothing.
    #[test]
    fn the_line_comes_and_goes() {
        let out = Shared::default();
        let line = Line::on(Box::new(out.clone()));
        let rounds = Rounds::default();
        let until = |text: &str| {
            while !out.text().ends_with(text) {
                std::thread::yield_now();
            }
        };
        let result = during(
            &line,
            Duration::ZERO,
            || rounds.text(9),
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

    /// Work that ends before the line's time writes nothing at all.
    #[test]
    fn short_work_says_nothing() {
        let out = Shared::default();
        let line = Line::on(Box::new(out.clone()));
        during(&line, Duration::from_secs(3600), || None, |_| ());
        assert_eq!(out.text(), "");
    }
}
