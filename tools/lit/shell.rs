//! Command lines: the part of lit's internal shell that tests use.
//!
//! Words with single and double quotes and `\`, patterns of file names (`*`, `?`, `[ab]`), pipes, `&&`, `||`, `;`, the
//! redirections `<`, `>`, `>>`, `2>`, `2>>`, `2>&1`, `>&2`, `&>`, `&>>`. No variables or subshells.

/// A stream that a command writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// The place that a stream of a command goes to or comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// `< file`
    Input(String),
    /// `> file`, `2> file`; `>> file`, `2>> file` (append)
    File {
        /// The stream that goes into the file.
        stream: Stream,
        /// The file's path.
        path: String,
        /// True if the file keeps what it holds.
        append: bool,
    },
    /// `2>&1` (standard error goes where standard output goes now) or `>&2`.
    Copy {
        /// The stream that is redirected.
        stream: Stream,
        /// The stream whose place it gets.
        target: Stream,
    },
}

/// One word of a command.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ShellWord {
    /// The text without quotes.
    pub text: String,
    /// True if it has `*`, `?` or `[` outside of quotes: a pattern of file names.
    pub pattern: bool,
}

/// One program with its arguments.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<ShellWord>,
    /// Redirections in written order.
    pub redirects: Vec<Redirect>,
}

/// Commands joined by `|`.
pub type Pipeline = Vec<Command>;

/// The relation of a pipeline to the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// First of the line, or after `;`.
    Always,
    /// After `&&`.
    IfOk,
    /// After `||`.
    IfFailed,
}

#[derive(PartialEq, Debug)]
enum Token {
    Word(ShellWord),
    Operator(&'static str),
}

/// Longer ones before those that they start with.
const OPERATORS: &[&str] = &[
    "2>&1", "1>&2", "2>>", "1>>", "2>", "1>", "&>>", "&>", ">&2", ">&", "&&", "||", "|&", ">>", ">", "<<", "<", "|",
    ";", "&",
];

/// Parses one command line.
///
/// # Errors
/// An open quote, an operator without what it needs.
pub fn parse_line(line: &str) -> Result<Vec<(Join, Pipeline)>, String> {
    let mut tokens = tokenize(line)?.into_iter();
    let mut lists = Vec::new();
    let mut join = Join::Always;
    let mut pipeline = Pipeline::new();
    let mut command = Command::default();
    while let Some(token) = tokens.next() {
        let operator = match token {
            Token::Word(word) => {
                command.words.push(word);
                continue;
            }
            Token::Operator(operator) => operator,
        };
        if let Some(next) = separator(operator) {
            end_command(&mut pipeline, &mut command, operator)?;
            if let Some(next) = next {
                lists.push((join, std::mem::take(&mut pipeline)));
                join = next;
            }
            continue;
        }
        add_redirect(operator, &mut command.redirects, &mut tokens)?;
    }
    if !(command.words.is_empty() && pipeline.is_empty() && !lists.is_empty()) {
        end_command(&mut pipeline, &mut command, "the end of the line")?;
        lists.push((join, pipeline));
    }
    Ok(lists)
}

/// For an operator between commands: the join of what follows, or `None` within it for a pipe.
fn separator(operator: &str) -> Option<Option<Join>> {
    match operator {
        "|" => Some(None),
        "&&" => Some(Some(Join::IfOk)),
        "||" => Some(Some(Join::IfFailed)),
        ";" => Some(Some(Join::Always)),
        _ => None,
    }
}

fn end_command(pipeline: &mut Pipeline, command: &mut Command, before: &str) -> Result<(), String> {
    if command.words.is_empty() {
        return Err(format!("a command is missing in front of {before}"));
    }
    pipeline.push(std::mem::take(command));
    Ok(())
}

/// Adds the redirection of an operator, with the file that the next token names.
fn add_redirect(
    operator: &str,
    redirects: &mut Vec<Redirect>,
    tokens: &mut impl Iterator<Item = Token>,
) -> Result<(), String> {
    let errors_to_output = Redirect::Copy { stream: Stream::Errors, target: Stream::Output };
    match operator {
        "2>&1" => redirects.push(errors_to_output),
        "1>&2" | ">&2" => redirects.push(Redirect::Copy { stream: Stream::Output, target: Stream::Errors }),
        "|&" => return Err("`|&` is not supported: write `2>&1 |`".to_owned()),
        "&" => return Err("`&` is not supported: commands run one after the other".to_owned()),
        "<<" => return Err("`<<` is not supported: put the text into a file".to_owned()),
        _ => {
            let Some(Token::Word(ShellWord { text: path, .. })) = tokens.next() else {
                return Err(format!("`{operator}` needs a file"));
            };
            let stream = if operator.starts_with('2') { Stream::Errors } else { Stream::Output };
            if operator == "<" {
                redirects.push(Redirect::Input(path));
                return Ok(());
            }
            redirects.push(Redirect::File { stream, path, append: operator.ends_with(">>") });
            if operator.contains('&') {
                redirects.push(errors_to_output);
            }
        }
    }
    Ok(())
}

fn tokenize(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            tokens.push(Token::Operator(operator));
            rest = rest[operator.len()..].trim_start();
            continue;
        }
        let (word, after) = take_word(rest)?;
        tokens.push(Token::Word(word));
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// One word at the start of `text`, unquoted, and what follows it.
fn take_word(text: &str) -> Result<(ShellWord, &str), String> {
    let mut word = ShellWord::default();
    let out = &mut word.text;
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '\\') => out.extend(chars.next().map(|(_, c)| c)),
            (Some('"'), '\\') => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => out.push(escaped),
                Some((_, other)) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            (None, c) if c.is_whitespace() || "|;<>&".contains(c) => return Ok((word, &text[at..])),
            (None | Some(_), c) => {
                word.pattern |= quote.is_none() && "*?[".contains(c);
                out.push(c);
            }
        }
    }
    match quote {
        Some(open) => Err(format!("the quote {open} is never closed")),
        None => Ok((word, "")),
    }
}
