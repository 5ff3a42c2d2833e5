//! Conditions of `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:`.

/// Words and operators of a condition: reading recurses.
const LONGEST: usize = 200;

/// True if a lit condition (`a && (b || !c)`) holds, where `has` says which features there are. `*` and `true` always
/// do.
///
/// # Errors
/// The fault in the condition's text.
pub fn holds(condition: &str, has: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let tokens = tokenize(condition);
    if tokens.len() > LONGEST {
        return Err(format!("a condition has at most {LONGEST} words and operators"));
    }
    let mut parser = Parser { tokens: &tokens, at: 0, has };
    let value = parser.parse_or()?;
    match parser.peek() {
        None => Ok(value),
        Some(token) => Err(format!("unexpected `{token}` in the condition `{condition}`")),
    }
}

fn tokenize(text: &str) -> Vec<String> {
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
    has: &'a dyn Fn(&str) -> bool,
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
    fn parse_or(&mut self) -> Result<bool, String> {
        let mut value = self.parse_and()?;
        while self.eat("||") {
            value |= self.parse_and()?;
        }
        Ok(value)
    }
    fn parse_and(&mut self) -> Result<bool, String> {
        let mut value = self.parse_not()?;
        while self.eat("&&") {
            value &= self.parse_not()?;
        }
        Ok(value)
    }
    fn parse_not(&mut self) -> Result<bool, String> {
        if self.eat("!") {
            return Ok(!self.parse_not()?);
        }
        if self.eat("(") {
            let value = self.parse_or()?;
            return if self.eat(")") { Ok(value) } else { Err("missing `)`".to_owned()) };
        }
        let word = self.peek().ok_or("a condition ends too early")?;
        self.at += 1;
        Ok(word == "*" || word == "true" || (self.has)(word))
    }
}
