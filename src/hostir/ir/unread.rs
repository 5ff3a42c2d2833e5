//! The statements of a text that could not be read: their definitions, writes, posts and frees are unknown.

use rustc_hash::FxHashSet;

/// The words of statements with errors. Checks that follow names skip these words, so that they report nothing that
/// only follows from such a statement.
#[derive(Clone, Default, Debug)]
pub struct UnreadText {
    words: FxHashSet<Box<str>>,
    /// True if the end of a statement is not known.
    is_lost: bool,
}

impl UnreadText {
    /// Adds the text of a statement.
    pub fn add_text(&mut self, text: &str) {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
            self.add_word(word);
            // `T3` of `T3_g_float`.
            if let Some((head, _)) = word.split_once('_')
                && head.starts_with('T')
            {
                self.add_word(head);
            }
        }
        self.is_lost |= count_bytes(text, b"([{") != count_bytes(text, b")]}");
    }

    fn add_word(&mut self, word: &str) {
        // One word of a statement with an error may be in all those that follow from it.
        if !self.words.contains(word) {
            self.words.insert(word.into());
        }
    }

    /// Records that more than single statements is missing.
    pub fn lose_order(&mut self) {
        self.is_lost = true;
    }

    /// Whether every statement could be read.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns true if the order of the program's statements is unknown.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns true if such a statement contains a name. For a name that a pass would derive, `G.1`, the first part
    /// counts.
    pub fn has_word(&self, name: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        self.words.contains(first)
    }
}

fn count_bytes(text: &str, counted: &[u8]) -> usize {
    text.bytes().filter(|byte| counted.contains(byte)).count()
}
