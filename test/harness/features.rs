//! The features that `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:` may ask for.

use std::collections::BTreeSet;
use std::path::Path;

/// Names that hold here: `dumps` (the folder of nvFuser's dumps is given by `HIR_DUMPS`), `cuda` (a
/// driver is loaded).
pub fn available() -> BTreeSet<String> {
    let mut features = BTreeSet::new();
    if std::env::var_os("HIR_DUMPS").is_some() {
        features.insert("dumps".to_owned());
    }
    if Path::new("/proc/driver/nvidia/version").exists() || hostir_cuda::has_driver() {
        features.insert("cuda".to_owned());
    }
    features
}

/// A condition with what makes it hold, for people.
pub fn described(condition: &str) -> String {
    match condition {
        "dumps" => "nvFuser's dumps: HIR_DUMPS=<folder>".to_owned(),
        "cuda" => "NVIDIA's driver".to_owned(),
        other => format!("`{other}`"),
    }
}

/// Whether a lit condition (`a && (b || !c)`) holds. `*` and `true` always do.
///
/// # Errors
/// What is wrong with the condition's text.
pub fn holds(condition: &str, features: &BTreeSet<String>) -> Result<bool, String> {
    let tokens = tokens(condition);
    let mut parser = Parser { tokens: &tokens, at: 0, features };
    let value = parser.or()?;
    match parser.peek() {
        None => Ok(value),
        Some(token) => Err(format!("unexpected `{token}` in the condition `{condition}`")),
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || "_-.*=+".contains(c) {
            word.push(c);
            continue;
        }
        found.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        if c.is_whitespace() {
            continue;
        }
        let doubled = (c == '&' || c == '|') && chars.next_if_eq(&c).is_some();
        found.push(if doubled { format!("{c}{c}") } else { c.to_string() });
    }
    found.extend((!word.is_empty()).then_some(word));
    found
}

struct Parser<'a> {
    tokens: &'a [String],
    at: usize,
    features: &'a BTreeSet<String>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(String::as_str)
    }
    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }
    fn or(&mut self) -> Result<bool, String> {
        let mut value = self.and()?;
        while self.eat("||") {
            value |= self.and()?;
        }
        Ok(value)
    }
    fn and(&mut self) -> Result<bool, String> {
        let mut value = self.not()?;
        while self.eat("&&") {
            value &= self.not()?;
        }
        Ok(value)
    }
    fn not(&mut self) -> Result<bool, String> {
        if self.eat("!") {
            return Ok(!self.not()?);
        }
        if self.eat("(") {
            let value = self.or()?;
            return if self.eat(")") { Ok(value) } else { Err("missing `)`".to_owned()) };
        }
        let word = self.peek().ok_or("a condition ends too early")?;
        self.at += 1;
        Ok(word == "*" || word == "true" || self.features.contains(word))
    }
}
