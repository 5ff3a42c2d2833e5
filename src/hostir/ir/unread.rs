//! The statements of a text that could not be read: what they define, write, post or free is not known.

use rustc_hash::FxHashSet;

/// The words of statements with errors. A check that follows names leaves these out, so that it reports nothing that only follows from
/// such a statement.
#[derive(Clone, Default, Debug)]
pub struct UnreadText {
    words: FxHashSet<Box<str>>,
    /// True if nobody knows where a statement ends.
    is_lost: bool,
}

impl UnreadText {
    /// Adds the text of a statement.
    pub fn add_text(&mut self, text: &str) {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
            self.words.insert(word.into());
            // `T3` of `T3_g_float`.
            if let Some((head, _)) = word.split_once('_')
                && head.starts_with('T')
            {
                self.words.insert(head.into());
            }
        }
        self.is_lost |= text.matches(['(', '[', '{']).count() != text.matches([')', ']', '}']).count();
    }

    /// Notes that more than single statements is missing.
    pub fn lose_order(&mut self) {
        self.is_lost = true;
    }

    /// Whether every statement could be read.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether nobody knows what the program does where.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether a name stands in such a statement. Of one that a pass would derive, `G.1`, the first part counts.
    pub fn has_word(&self, name: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        self.words.contains(first)
    }
}
