//! Command lines: the part of lit's internal shell that tests use.
//!
//! Words with single and double quotes and `\`, pipes, `&&`, `||`, `;`, the redirections `<`, `>`,
//! `>>`, `2>`, `2>>`, `2>&1`, `&>`. No variables, globs or subshells.

/// The place that a stream of a command goes to or comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// `< file`
    Input(String),
    /// `> file`, `>> file` (append)
    Output(String, bool),
    /// `2> file`, `2>> file` (append)
    Errors(String, bool),
    /// `2>&1`
    Merge,
}

/// One program with its arguments.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
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
    Word(String),
    Operator(&'static str),
}

const OPERATORS: &[&str] = &["2>&1", "2>>", "2>", "&>", "&&", "||", ">>", ">", "<", "|", ";"];

/// Parses one command line.
///
/// # Errors
/// An open quote, an operator without what it needs.
pub fn parse(line: &str) -> Result<Vec<(Join, Pipeline)>, String> {
    let mut tokens = tokenize(line)?.into_iter().peekable();
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
        let file = |token: Option<Token>| match token {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Operator(_)) | None => Err(format!("`{operator}` needs a file")),
        };
        match operator {
            "2>&1" => command.redirects.push(Redirect::Merge),
            "<" => command.redirects.push(Redirect::Input(file(tokens.next())?)),
            ">" => command.redirects.push(Redirect::Output(file(tokens.next())?, false)),
            ">>" => command.redirects.push(Redirect::Output(file(tokens.next())?, true)),
            "2>" => command.redirects.push(Redirect::Errors(file(tokens.next())?, false)),
            "2>>" => command.redirects.push(Redirect::Errors(file(tokens.next())?, true)),
            _ => {
                command.redirects.push(Redirect::Output(file(tokens.next())?, false));
                command.redirects.push(Redirect::Merge);
            }
        }
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

fn tokenize(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            tokens.push(Token::Operator(operator));
            rest = rest[operator.len()..].trim_start();
            continue;
        }
        let (word, after) = word(rest)?;
        tokens.push(Token::Word(word));
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// One word at the start of `text`, unquoted, and what follows it.
fn word(text: &str) -> Result<(String, &str), String> {
    let mut out = String::new();
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
            (None, c) if c.is_whitespace() || "|;<>".contains(c) => return Ok((out, &text[at..])),
            (None, '&') if text[at..].starts_with("&&") => return Ok((out, &text[at..])),
            (None | Some(_), c) => out.push(c),
        }
    }
    match quote {
        Some(open) => Err(format!("the quote {open} is never closed")),
        None => Ok((out, "")),
    }
}
