//! The nearest valid spelling of a misspelt word.

/// The longest word, in bytes, that is compared with others.
const MAX_WORD: usize = 64;

/// The candidate with the smallest edit distance (with transpositions, without case), if it is near enough to be a
/// misspelling.
pub fn nearest_candidate<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    if word.len() > MAX_WORD {
        return None;
    }
    // Some letter has to be the same.
    let limit = (word.len().max(3) / 3 + 1).min(word.len().saturating_sub(1));
    let word = word.to_ascii_lowercase();
    candidates
        .iter()
        .map(|&other| (strsim::osa_distance(&word, &other.to_ascii_lowercase()), other))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean ...?`, or the list of what is valid.
pub(crate) fn nearest_note(word: &str, candidates: &[&str]) -> String {
    match nearest_candidate(word, candidates) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid values are {}", candidates.join(", ")),
    }
}

/// The start of a text that may be long, for a message.
pub fn shorten_text(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    if line.chars().count() <= 40 && line.len() == text.len() {
        return line.to_owned();
    }
    let start: String = line.chars().take(37).collect();
    format!("{start}...")
}
