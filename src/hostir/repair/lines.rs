//! Lines of a text: their numbers, how far they are indented, and the lines that hold them.

/// The number of the line with a byte, from 0.
pub(super) fn line_number(text: &str, at: u32) -> usize {
    text.bytes().take(at as usize).filter(|&byte| byte == b'\n').count()
}

/// The spaces in front of a line.
pub(super) fn indent_width(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns true for letters, digits and underscores alone.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The first bytes of the lines that hold a line, which begins at a byte: loops and branches, the innermost first.
pub(super) fn outer_lines(text: &str, start: usize) -> Vec<usize> {
    let (mut at, mut indent) = (start, indent_width(&text[start..]));
    let mut found = Vec::new();
    while at > 0 && indent > 0 {
        at = text[..at - 1].rfind('\n').map_or(0, |end| end + 1);
        let line = text[at..].lines().next().unwrap_or_default();
        let own = indent_width(line);
        if own < indent && !line.trim().is_empty() && !line.trim_start().starts_with("//") {
            indent = own;
            if own > 0 {
                found.push(at);
            }
        }
    }
    found
}
