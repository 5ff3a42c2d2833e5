//! The terminal: colours, width, and text that fits.

use std::ffi::OsString;

/// Columns of a text that no terminal shows.
pub const PLAIN_WIDTH: usize = 80;
/// The maximum width of lines: longer ones are hard to read, however wide the terminal is.
const MOST_COLUMNS: usize = 100;
/// Below this, text that is broken between words is no easier to read than text that the terminal breaks.
const FEWEST_COLUMNS: usize = 40;

/// A look at the environment.
pub type EnvReader = fn(&str) -> Option<OsString>;

/// When output is coloured: `--color`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ColorMode {
    /// As the environment and the terminal say.
    #[default]
    Auto,
    /// Wherever it goes.
    Always,
    /// Nowhere.
    Never,
}

impl ColorMode {
    /// True if a stream is coloured. The flag wins over `NO_COLOR`, that over `CLICOLOR_FORCE`, and the kind of the
    /// stream decides last: a terminal with colours.
    pub fn is_colored(self, is_terminal: bool, env: EnvReader) -> bool {
        match self {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto if set_variable(env, "NO_COLOR").is_some() => false,
            ColorMode::Auto if set_variable(env, "CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorMode::Auto => is_terminal && knows_colors(env),
        }
    }
}

/// The value of a variable that is set and not empty.
fn set_variable(env: EnvReader, name: &str) -> Option<std::ffi::OsString> {
    env(name).filter(|value| !value.is_empty())
}

/// True if the terminal has more abilities than writing one line below the other.
pub fn knows_colors(env: EnvReader) -> bool {
    env("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Columns for help and lists: `COLUMNS`, else the terminal's, else 80; never more than are easy to read.
pub fn help_width(env: EnvReader, columns: Option<usize>) -> usize {
    let given = env("COLUMNS").and_then(|text| text.to_str()?.trim().parse().ok());
    let given = given.filter(|columns: &usize| *columns > 0).or(columns);
    given.unwrap_or(PLAIN_WIDTH).clamp(FEWEST_COLUMNS, MOST_COLUMNS)
}

/// Breaks a text between words, so that no line but one of a single long word is wider than `width`. The
/// first line starts at column `at`, the others are indented by `indent` blanks.
pub fn wrap_text(text: &str, at: usize, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = at;
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Moves to the start of a terminal's line and wipes it.
pub const WIPE_LINE: &str = "\r\x1b[K";

#[cfg(test)]
mod tests {
    use super::*;

    /// Each setting decides only if none with more weight is present.
    #[test]
    fn colors_in_the_order_of_their_weight() {
        let nothing: EnvReader = |_| None;
        let named: EnvReader = |name| (name == "TERM").then(|| "xterm".into());
        let dumb: EnvReader = |name| (name == "TERM").then(|| "dumb".into());
        let forced: EnvReader = |name| (name == "CLICOLOR_FORCE").then(|| "1".into());
        let zero: EnvReader = |name| (name == "CLICOLOR_FORCE").then(|| "0".into());
        let none: EnvReader = |name| (name == "NO_COLOR" || name == "TERM").then(|| "1".into());
        let empty: EnvReader = |name| match name {
            "NO_COLOR" => Some("".into()),
            "TERM" => Some("xterm".into()),
            _ => None,
        };
        let both: EnvReader = |name| (name == "CLICOLOR_FORCE" || name == "NO_COLOR").then(|| "1".into());
        let cases: [(EnvReader, bool, bool); 12] = [
            (named, true, true),
            (named, false, false),
            (nothing, true, false),
            (dumb, true, false),
            (forced, false, true),
            (forced, true, true),
            (zero, false, false),
            (none, true, false),
            (empty, true, true),
            (empty, false, false),
            (both, true, false),
            (both, false, false),
        ];
        for (index, (env, is_terminal, expected)) in cases.into_iter().enumerate() {
            assert_eq!(ColorMode::Auto.is_colored(is_terminal, env), expected, "case {index}");
            assert!(ColorMode::Always.is_colored(is_terminal, env), "case {index}");
            assert!(!ColorMode::Never.is_colored(is_terminal, env), "case {index}");
        }
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap_text("one two three", 0, 2, 7), "one two\n  three");
        assert_eq!(wrap_text("one two three", 4, 2, 7), "one\n  two\n  three");
        assert_eq!(wrap_text("incomprehensible", 0, 2, 7), "incomprehensible");
        assert_eq!(wrap_text("a  b\n c", 0, 0, 80), "a b c");
        assert_eq!(wrap_text("", 0, 0, 80), "");
    }
}
