//! The lines of a test that are for the runner.

/// A command line of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLine {
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// The command, continuation lines joined, definitions replaced, not yet substituted otherwise.
    pub command: String,
}

/// The requests of a test to the runner.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Directives {
    /// `RUN:` lines in order.
    pub runs: Vec<RunLine>,
    /// `REQUIRES:` conditions; all must hold.
    pub requires: Vec<String>,
    /// `UNSUPPORTED:` conditions; none may hold.
    pub unsupported: Vec<String>,
    /// `XFAIL:` conditions; where one holds the test must fail.
    pub xfail: Vec<String>,
    /// `ALLOW_RETRIES:`, how often a failed test runs again.
    pub retries: u32,
    /// `UPDATE:` options, for `hir-lit --update`.
    pub updates: Vec<String>,
}

/// Reads the directives of a file's text, up to a line `END.`
///
/// # Errors
/// A line that ends in `\` without a successor of its kind, a substitution that is defined twice,
/// redefined before it is defined, or not of the form `%{name} = text`, or a number of retries that is none.
pub fn parse_directives(text: &str) -> Result<Directives, String> {
    let mut found = Directives::default();
    let mut script = Script::default();
    for (index, line) in text.lines().enumerate().take_while(|(_, line)| !is_end(line)) {
        for word in ["RUN:", "DEFINE:", "REDEFINE:"] {
            if let Some(text) = keyword(line, word) {
                script.add_line(index + 1, word, text)?;
            }
        }
        if let Some(count) = keyword(line, "ALLOW_RETRIES:") {
            let wrong = |_| format!("line {}: ALLOW_RETRIES needs a number, not `{count}`", index + 1);
            found.retries = count.parse().map_err(wrong)?;
        }
        let lists = [
            ("REQUIRES:", &mut found.requires),
            ("UNSUPPORTED:", &mut found.unsupported),
            ("XFAIL:", &mut found.xfail),
        ];
        for (word, list) in lists {
            if let Some(conditions) = keyword(line, word) {
                list.extend(conditions.split(',').map(|condition| condition.trim().to_owned()));
            }
        }
        found.updates.extend(keyword(line, "UPDATE:").map(str::to_owned));
    }
    if let Some((line, word, _)) = script.open {
        return Err(format!("line {line}: the last {word} line ends in `\\`"));
    }
    found.runs = script.runs;
    Ok(found)
}

/// True if nothing after this line is for the runner.
fn is_end(line: &str) -> bool {
    keyword(line, "END.").is_some_and(str::is_empty)
}

/// RUN, DEFINE and REDEFINE lines as they come.
#[derive(Default)]
struct Script {
    runs: Vec<RunLine>,
    /// Names, braces included, and texts. As in lit the newest is replaced first, so a text may use what
    /// was defined before it.
    definitions: Vec<(String, String)>,
    /// A line that goes on: where it starts, what it is, its text so far.
    open: Option<(usize, &'static str, String)>,
}

impl Script {
    /// Takes a line of kind `word`, with what it continues.
    fn add_line(&mut self, line: usize, word: &'static str, text: &str) -> Result<(), String> {
        let goes_on = text.ends_with('\\');
        let text = text.strip_suffix('\\').unwrap_or(text).trim();
        let (line, whole) = match self.open.take() {
            Some((first, kind, before)) if kind == word => (first, format!("{before} {text}")),
            Some((first, kind, _)) => {
                return Err(format!("line {first}: a {kind} line ends in `\\`, then comes a {word} line"));
            }
            None => (line, text.to_owned()),
        };
        if goes_on {
            self.open = Some((line, word, whole));
            return Ok(());
        }
        if word == "RUN:" {
            let command = self.definitions.iter().rev();
            let command = command.fold(whole, |text, (name, value)| text.replace(name, value));
            self.runs.push(RunLine { line, command });
            return Ok(());
        }
        self.define(word, &whole).map_err(|error| format!("line {line}: {error}"))
    }

    fn define(&mut self, word: &str, text: &str) -> Result<(), String> {
        let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = parts.filter(|(n, _)| n.starts_with("%{") && n.ends_with('}')) else {
            return Err(format!("`{word} {text}` is not of the form `{word} %{{name}} = text`"));
        };
        let known = self.definitions.iter_mut().find(|(other, _)| other == name);
        match (known, word) {
            (None, "DEFINE:") => self.definitions.push((name.to_owned(), value.to_owned())),
            (Some(known), "REDEFINE:") => value.clone_into(&mut known.1),
            (None, _) => return Err(format!("`{name}` is not defined yet")),
            (Some(_), _) => return Err(format!("`{name}` is defined already: write REDEFINE")),
        }
        Ok(())
    }
}

/// The text after `word` if the line has it as a keyword.
pub(crate) fn keyword<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let at = line.find(word)?;
    let before = line[..at].chars().next_back();
    let joined = before.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
    (!joined).then(|| line[at + word.len()..].trim())
}
