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

/// What a test asks the runner.
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
/// A `RUN:` line that ends in `\` without a successor.
pub fn parse(text: &str) -> Result<Directives, String> {
    let mut found = Directives::default();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        found.invalid |= index == 0 && line.starts_with("// INVALID");
        found.split |= line.trim_end() == "// -----";
        if let Some(command) = keyword(line, "RUN:") {
            open = add_run(&mut found.runs, index + 1, command, open);
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
    if open {
        return Err("the last RUN line ends in `\\`".to_owned());
    }
    found.invalid |= found.runs.iter().any(|run| expects_rejection(&run.command));
    Ok(found)
}

/// The text after `word` if the line has it as a keyword.
fn keyword<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let at = line.find(word)?;
    let before = line[..at].chars().next_back();
    let joined = before.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
    (!joined).then(|| line[at + word.len()..].trim())
}

/// Adds a RUN line, or continues the last one; returns whether it goes on in the next.
fn add_run(runs: &mut Vec<RunLine>, line: usize, text: &str, continues: bool) -> bool {
    let open = text.ends_with('\\');
    let text = text.strip_suffix('\\').unwrap_or(text).trim();
    match runs.last_mut() {
        Some(last) if continues => {
            last.command.push(' ');
            last.command.push_str(text);
        }
        _ => runs.push(RunLine { line, command: text.to_owned() }),
    }
    open
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
    std::env::var("HIR_DUMPS")
        .map_err(|_| "HIR_DUMPS is not set: put `REQUIRES: dumps` into the test".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_lines_are_joined() {
        let text = "// RUN: hir-opt %s \\\n// RUN:   | FileCheck %s\n// REQUIRES: dumps, cuda\nx // XRUN: no\n";
        let found = parse(text).expect("directives");
        assert_eq!(
            found.runs,
            [RunLine { line: 1, command: "hir-opt %s | FileCheck %s".to_owned() }]
        );
        assert_eq!(found.requires, ["dumps", "cuda"]);
        assert!(!found.invalid);
        assert!(parse("// RUN: a \\").is_err());
    }

    #[test]
    fn rejected_files_are_marked() {
        assert!(parse("// RUN: not hir-opt %s").expect("directives").invalid);
        assert!(parse("// INVALID: no container\n").expect("directives").invalid);
        assert!(parse("// RUN: hir-opt %s\n\n// -----\n").expect("directives").split);
    }

    #[test]
    fn substitutions() {
        let (source, scratch) = (Path::new("/a/b.hir"), Path::new("/tmp/x"));
        let text = substitute("hir-opt %s %S/c %t.out %% x.%r.hir", source, scratch);
        assert_eq!(text.expect("text"), "hir-opt /a/b.hir /a/c /tmp/x/b.hir.tmp.out % x.%r.hir");
        assert!(substitute("%{nothing}", source, scratch).is_err());
    }
}
