//! Counts in sentences: `1 axis`, `2 axes`.

use super::message::{Message, message};

/// A number with its noun, in the plural where the number asks for it: `1 axis`, `0 entries`.
pub fn count_text(number: usize, noun: &str) -> Message {
    match number {
        1 => message!("{} {}", number, noun),
        _ => message!("{} {}", number, plural_of(noun)),
    }
}

/// The plural of a regular noun, and of `axis`.
fn plural_of(noun: &str) -> String {
    if let Some(stem) = noun.strip_suffix("is") {
        return format!("{stem}es");
    }
    match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_numbers() {
        let cases = [
            (1, "axis", "1 axis"),
            (2, "axis", "2 axes"),
            (0, "entry", "0 entries"),
            (3, "process", "3 processes"),
            (2, "P2P batch", "2 P2P batches"),
            (4, "rank", "4 ranks"),
        ];
        for (number, noun, text) in cases {
            assert_eq!(count_text(number, noun), text);
        }
    }
}
