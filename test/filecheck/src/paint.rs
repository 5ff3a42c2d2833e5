//! Colours of a terminal.

/// True if messages are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    /// Without colours.
    #[default]
    Plain,
    /// With the escape sequences of terminals.
    Coloured,
}

/// The look of a text: an escape sequence without its first two characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style(&'static str);

impl Style {
    pub(crate) const BOLD: Style = Style("1m");
    pub(crate) const BLACK: Style = Style("0;1;30m");
    pub(crate) const RED: Style = Style("0;1;31m");
    pub(crate) const GREEN: Style = Style("0;1;32m");
    pub(crate) const BLUE: Style = Style("0;1;34m");
    pub(crate) const MAGENTA: Style = Style("0;1;35m");
    pub(crate) const CYAN: Style = Style("0;1;36m");
    /// Text on a coloured ground.
    pub(crate) const ON_CYAN: Style = Style("0;1;46m");
}

impl Paint {
    /// Coloured if `on`.
    pub(crate) fn from_choice(on: bool) -> Paint {
        if on { Paint::Coloured } else { Paint::Plain }
    }

    /// A text in a style.
    pub(crate) fn text(self, style: Style, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Coloured => format!("\x1b[{}{text}\x1b[0m", style.0),
        }
    }
}
