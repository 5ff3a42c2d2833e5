//! Words that look like directives and are none: `CHECK-LABLE:`, `CHECK-next:`, `CHEKC:`, `CHECK-NEXT :`. LLVM takes them for
//! text without a word; here they are warnings, which change no verdict.

use crate::directive::{SUFFIXES, is_word_byte};
use crate::options::Options;
use memchr::memmem;
use std::collections::BTreeSet;

/// A word that is likely meant as a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NearMiss {
    /// The place of the word.
    pub(crate) at: usize,
    /// The message: the text that was found, and its likely meaning.
    pub(crate) message: String,
}

/// The words of a check file that are likely meant as directives.
pub(crate) fn find_near_misses(text: &[u8], options: &Options) -> Vec<NearMiss> {
    let prefixes = options.check_prefixes();
    let comments = options.comment_prefixes();
    let mut misses = Vec::new();
    let mut start = 0;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some((at, word)) = first_candidate(line, &comments)
            && let Some(meant) = meant_directive(word, &prefixes)
            && !is_other_prefix(text, word)
        {
            let message = format!("'{word}:' is not a directive; did you mean '{meant}:'?");
            misses.push(NearMiss { at: start + at, message });
        }
        start += line.len() + 1;
    }
    misses
}

/// The first word of a line that is followed by a colon, blanks between them included, unless the line is a comment.
fn first_candidate<'a>(line: &'a [u8], comments: &[&str]) -> Option<(usize, &'a str)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let before = crate::source::trim_blanks(&line[..colon]);
    let start = before.iter().rposition(|&byte| !is_word_byte(byte)).map_or(0, |last| last + 1);
    let word = std::str::from_utf8(&line[start..colon]).ok()?;
    let is_comment = comments.contains(&word);
    (!is_comment && start < before.len()).then_some((start, word))
}

/// The directive that a word is meant to be, if it is none.
fn meant_directive(word: &str, prefixes: &[&str]) -> Option<String> {
    let name = word.trim_end();
    let has_blank = name.len() < word.len();
    prefixes.iter().find_map(|prefix| {
        let given = name.get(..prefix.len())?;
        let suffix = &name[prefix.len()..];
        let is_swapped = given != *prefix && prefix.len() >= 4 && is_swap(given, prefix);
        if given != *prefix && !is_swapped {
            return None;
        }
        let meant = meant_suffix(suffix)?;
        let is_right = meant == suffix && !is_swapped && !has_blank;
        (!is_right).then(|| format!("{prefix}{meant}"))
    })
}

/// The suffix that a text is meant to be: itself if it is one.
fn meant_suffix(suffix: &str) -> Option<String> {
    if suffix.is_empty() {
        return Some(String::new());
    }
    let name = suffix.strip_prefix(['-', '_'])?;
    let upper = name.to_ascii_uppercase();
    if let Some(count) = upper.strip_prefix("COUNT") {
        let digits = count.trim_start_matches(['-', '_', '=']);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then(|| format!("-COUNT-{digits}"));
    }
    let nearest = SUFFIXES.iter().map(|(known, _)| *known).min_by_key(|known| strsim::osa_distance(known, &upper))?;
    // `CHECK-V-NEXT` is the directive of another prefix, `CHECK-NOTE` likely one, too.
    let is_other = upper.contains(['-', '_']) || upper.len() < 3 || nearest.len() == 3 && upper.len() > 3;
    let allowed = if nearest.len() > 3 { 2 } else { 1 };
    let is_near = !is_other && strsim::osa_distance(nearest, &upper) <= allowed;
    is_near.then(|| format!("-{nearest}"))
}

/// True if two letters that follow each other are swapped.
fn is_swap(given: &str, prefix: &str) -> bool {
    let letters = |text: &str| text.bytes().collect::<BTreeSet<u8>>();
    strsim::osa_distance(given, prefix) == 1 && letters(given) == letters(prefix)
}

/// True if the word is a prefix of another run of this file, as in `--check-prefixes=CHECK,CHECK-NEXTS`.
fn is_other_prefix(text: &[u8], word: &str) -> bool {
    memmem::find_iter(text, word.as_bytes()).any(|at| {
        let (before, after) = (&text[..at], text.get(at + word.len()));
        let is_named =
            [&b"="[..], b",", b"check-prefix ", b"check-prefixes "].iter().any(|sign| before.ends_with(sign));
        is_named && !after.is_some_and(|&byte| is_word_byte(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        find_near_misses(text.as_bytes(), &Options::default()).into_iter().map(|miss| miss.message).collect()
    }

    #[test]
    fn misspelled_directives_are_found() {
        for (text, meant) in [
            ("// CHECK-LABLE: x", "CHECK-LABEL"),
            ("; CHECK-NXET: x", "CHECK-NEXT"),
            ("CHECK-next: x", "CHECK-NEXT"),
            ("CHECK-DGA: x", "CHECK-DAG"),
            ("CHECK-NEXT : x", "CHECK-NEXT"),
            ("CHECK : x", "CHECK"),
            ("CHEKC: x", "CHECK"),
            ("CHEKC-NEXT: x", "CHECK-NEXT"),
            ("CHECK-COUNT2: x", "CHECK-COUNT-2"),
            ("CHECK_LABLE: x", "CHECK-LABEL"),
        ] {
            let found = messages(text);
            assert!(found.len() == 1 && found[0].ends_with(&format!("did you mean '{meant}:'?")), "{text}: {found:?}");
        }
    }

    #[test]
    fn other_words_are_not() {
        for text in [
            "CHECK: a",
            "CHECK-NEXT: a",
            "CHECK-COUNT-3: a",
            "CHECK1: a",
            "CHECK-X86: a",
            "CHECK-ON: a",
            "CHECK-V-NEXT: a",
            "CHECK-NOTE: a",
            "-check-prefix CHECK-NAME\nCHECK-NAME: a",
            "check: a",
            "RUN: CHECK-LABLE: a",
            "a: b",
            "--check-prefix=CHECK-LABELS\nCHECK-LABELS: b",
            "CHECK{LITERAL}: a",
        ] {
            assert_eq!(messages(text), Vec::<String>::new(), "{text}");
        }
    }
}
