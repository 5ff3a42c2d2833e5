//! The lines of a test that are for the runner.

use std::path::Path;

/// A command line of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLine {
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// The command, continuation lines joined, not yet substituted.
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
    /// Whether the file says that it is not a valid program (`// INVALID`) or expects its own commands
    /// to reject it.
    pub invalid: bool,
    /// Whether the file holds several programs separated by `// -----`.
    pub split: bool,
}

/// Reads the directives of a file's text.
///
/// # Errors
/// A line that ends in `\` without a successor of its kind, or a substitution that is defined twice,
/// redefined before it is defined, or is not of the form `%{name} = text`.
pub fn parse(text: &str) -> Result<Directives, String> {
    let mut found = Directives::default();
    let mut script = Script::default();
    for (index, line) in text.lines().enumerate() {
        found.invalid |= index == 0 && line.starts_with("// INVALID");
        found.split |= line.trim_end() == "// -----";
        for word in ["RUN:", "DEFINE:", "REDEFINE:"] {
            if let Some(text) = keyword(line, word) {
                script.add(index + 1, word, text)?;
            }
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
    }
    if let Some((_, word, _)) = script.open {
        return Err(format!("the last {word} line ends in `\\`"));
    }
    found.runs = script.runs;
    found.invalid |= found.runs.iter().any(|run| expects_rejection(&run.command));
    Ok(found)
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
    fn add(&mut self, line: usize, word: &'static str, text: &str) -> Result<(), String> {
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
fn keyword<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let at = line.find(word)?;
    let before = line[..at].chars().next_back();
    let joined = before.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
    (!joined).then(|| line[at + word.len()..].trim())
}

fn expects_rejection(command: &str) -> bool {
    ["not hir-opt", "! hir-opt", "--verify-diagnostics"].iter().any(|text| command.contains(text))
}

/// Replaces `%s`, `%S`, `%t`, `%T`, `%%`, `%dumps` and `%{name}` as lit does.
///
/// # Errors
/// An unknown `%{name}`.
pub fn substitute(command: &str, source: &Path, scratch: &Path) -> Result<String, String> {
    let folder = source.parent().unwrap_or(source).to_string_lossy();
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let temporary = scratch.join(format!("{name}.tmp"));
    let mut out = String::new();
    let mut rest = command;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (text, len) = match rest.as_bytes().get(1) {
            Some(b's') => (source.to_string_lossy().into_owned(), 2),
            Some(b'S') => (folder.to_string(), 2),
            Some(b't') => (temporary.to_string_lossy().into_owned(), 2),
            Some(b'T') => (scratch.to_string_lossy().into_owned(), 2),
            Some(b'%') => ("%".to_owned(), 2),
            Some(b'{') => named(rest)?,
            Some(b'd') if rest.starts_with("%dumps") => (folder_of_dumps()?, 6),
            Some(_) | None => ("%".to_owned(), 1),
        };
        out.push_str(&text);
        rest = &rest[len..];
    }
    out.push_str(rest);
    Ok(out)
}

/// `%{root}`, `%{examples}`, `%{dumps}` and how many bytes of the text that was.
fn named(text: &str) -> Result<(String, usize), String> {
    let end = text.find('}').ok_or("`%{` without `}`")?;
    let root = crate::tree::root();
    let path = match &text[2..end] {
        "root" => root,
        "examples" => root.join("docs/examples"),
        "dumps" => folder_of_dumps()?.into(),
        name => return Err(format!("unknown substitution `%{{{name}}}`")),
    };
    Ok((path.to_string_lossy().into_owned(), end + 1))
}

fn folder_of_dumps() -> Result<String, String> {
    std::env::var("HIR_DUMPS").map_err(|_| "HIR_DUMPS is not set: put `REQUIRES: dumps` into the test".to_owned())
}
