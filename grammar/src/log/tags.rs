//! Tags that launchers, services and loggers write in front of each line: `[1,0]<stdout>:`, `[rank0]: `, times.
//!
//! Two lines of one process have the same tag except for times, so tags are compared in a form in which each time is
//! one and the same character.

/// The character that stands for a time.
const TIME: char = '\u{1}';
/// The maximum length of a tag, in characters of its form.
const MAX_TAG: usize = 200;

/// The start of a line in the form in which tags are compared.
#[derive(Default)]
pub(super) struct TagForm {
    pub(super) text: String,
    /// For each byte of `text`, the end of its original in the line.
    ends: Vec<usize>,
}

impl TagForm {
    /// Reads the start of a line, at most `most` bytes of the form.
    pub(super) fn read_tag(&mut self, line: &str, most: usize) {
        self.text.clear();
        self.ends.clear();
        let most = most.min(MAX_TAG);
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() && self.text.len() < most {
            let is_inside_word = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
            let time = if is_inside_word { None } else { padded_time_len(&bytes[at..]) };
            let (c, len) = match time {
                Some(len) => (TIME, len),
                None => line[at..].chars().next().map_or((' ', 1), |c| (c, c.len_utf8())),
            };
            at += len;
            self.text.push(c);
            self.ends.resize(self.text.len(), at);
        }
    }

    /// The end in the line of the first `len` bytes of the form.
    pub(super) fn end_of(&self, len: usize) -> usize {
        len.checked_sub(1).map_or(0, |last| self.ends[last])
    }
}

/// The form of a whole tag, without the blanks at its end.
pub(super) fn tag_form(tag: &str) -> String {
    let mut form = TagForm::default();
    form.read_tag(tag, MAX_TAG);
    form.text.truncate(form.text.trim_end().len());
    form.text
}

/// A tag without its numbers, which is the same for all processes of a run.
pub(super) fn tag_family(form: &str) -> String {
    let mut family = String::new();
    for c in form.chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        if c != '0' || !family.ends_with('0') {
            family.push(c);
        }
    }
    // srun aligns numbers.
    family.trim_start().to_owned()
}

/// The length of a time with the blanks that align it.
fn padded_time_len(bytes: &[u8]) -> Option<usize> {
    let blanks = bytes.iter().take_while(|byte| **byte == b' ').count();
    time_len(&bytes[blanks..]).map(|len| blanks + len)
}

/// The length of a time at the start of a text: a date, a time of day, both, a count of seconds with decimals.
fn time_len(bytes: &[u8]) -> Option<usize> {
    if let Some(date) = date_len(bytes) {
        let after = &bytes[date..];
        let gap = usize::from(matches!(after.first(), Some(b'T' | b't' | b' ' | b'_' | b'-')));
        let clock = clock_len(&after[gap..]).filter(|_| gap > 0);
        return Some(date + clock.map_or(0, |clock| gap + clock));
    }
    clock_len(bytes).or_else(|| seconds_len(bytes))
}

/// `2026-02-12`, `2026/02/12`, `Feb 12`, and glog's `I0212 ` or `I20260212 ` in front of a time of day.
fn date_len(bytes: &[u8]) -> Option<usize> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let digits = count_digits(bytes);
    if digits == 4 && matches!(bytes.get(4), Some(b'-' | b'/' | b'.')) {
        let fits = count_digits(&bytes[5..]) == 2 && bytes.get(7) == bytes.get(4) && count_digits(bytes.get(8..)?) == 2;
        return fits.then_some(10);
    }
    if MONTHS.iter().any(|month| bytes.starts_with(*month)) {
        let blanks = bytes[3..].iter().take_while(|byte| **byte == b' ').count();
        let day = count_digits(&bytes[3 + blanks..]);
        return (blanks > 0 && matches!(day, 1 | 2)).then_some(3 + blanks + day);
    }
    if matches!(bytes.first(), Some(b'I' | b'W' | b'E' | b'F')) {
        let digits = count_digits(&bytes[1..]);
        let is_followed = bytes.get(1 + digits) == Some(&b' ') && clock_len(&bytes[2 + digits..]).is_some();
        return ((3..=8).contains(&digits) && is_followed).then_some(1 + digits);
    }
    None
}

/// `10:11:12`, `10:11:12.123`, `10:11:12,123Z`, `10:11:12+01:00`.
fn clock_len(bytes: &[u8]) -> Option<usize> {
    let hours = count_digits(bytes);
    let fits = matches!(hours, 1 | 2)
        && bytes.get(hours) == Some(&b':')
        && count_digits(bytes.get(hours + 1..)?) == 2
        && bytes.get(hours + 3) == Some(&b':')
        && count_digits(bytes.get(hours + 4..)?) == 2;
    if !fits {
        return None;
    }
    let mut len = hours + 6;
    if matches!(bytes.get(len), Some(b'.' | b',')) {
        let decimals = count_digits(&bytes[len + 1..]);
        len += if decimals > 0 { 1 + decimals } else { 0 };
    }
    match bytes.get(len) {
        Some(b'Z' | b'z') => len += 1,
        Some(b'+' | b'-') => {
            let zone = bytes[len + 1..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b':').count();
            len += if matches!(zone, 2 | 4 | 5) { 1 + zone } else { 0 };
        }
        _ => {}
    }
    Some(len)
}

/// `0.123456`, `1739355072.123`, `12.345s`.
fn seconds_len(bytes: &[u8]) -> Option<usize> {
    let whole = count_digits(bytes);
    if whole == 0 || bytes.get(whole) != Some(&b'.') {
        return None;
    }
    let decimals = count_digits(&bytes[whole + 1..]);
    let len = whole + 1 + decimals;
    let is_second = bytes.get(len) == Some(&b's');
    (decimals >= 3 || decimals > 0 && is_second).then_some(len + usize::from(is_second))
}

fn count_digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}
