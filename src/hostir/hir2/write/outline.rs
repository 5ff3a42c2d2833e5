//! The lines of programs with separated names, so that programs can be compared up to names and numbers.

use super::names::{FileNames, is_call_word, is_reserved_word};
use super::write_file;
use crate::ir::edit::Edit;
use crate::ir::{Era, Expr, ExprId, Program, RunHints, Value, scalar_names::RUNTIME};
use crate::ops::OpRegistry;
use crate::style::{renumber_program, restyle_program};
use rustc_hash::FxHashSet;

/// A line of the text of programs.
#[derive(Clone, Debug)]
pub struct OutlineLine {
    /// The line in `hir 2`.
    pub text: String,
    /// The line with a placeholder for each name.
    pub skeleton: String,
    /// The names, in order.
    pub names: Vec<OutlineName>,
    /// True for the first line of a kernel or a program, which is a name space of its own.
    pub begins_scope: bool,
}

/// A name in a line.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutlineName {
    /// The name.
    pub text: String,
    /// True for a name of the file: of a mesh, a kernel or a program.
    pub is_of_file: bool,
}

/// The lines of programs without comments, in one style, with numbers in order of appearance; proposals for a run are
/// left out. Changes the programs accordingly.
pub fn outline_programs(programs: &mut [Program]) -> Vec<OutlineLine> {
    for program in programs.iter_mut() {
        let mut edit = Edit::new(program);
        edit.set_comments(Vec::new());
        edit.set_run_hints(RunHints::default());
        restyle_program(&mut edit, Era::E2025_06.style());
        edit.commit();
        renumber_program(program);
    }
    let names = OutlineNames::new(programs);
    let text = write_file(programs);
    let mut streams = &StreamNumbers::default();
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let owner = names.programs.iter().position(|name| line.strip_prefix(name.as_str()).is_some_and(is_parameters));
        streams = owner.and_then(|number| names.streams.get(number)).unwrap_or(streams);
        if !streams.names_caller(line) {
            lines.push(names.outline_line(line, streams));
        }
    }
    lines
}

fn is_parameters(after: &str) -> bool {
    after.starts_with('(')
}

/// The meaning of the numbers of streams in a program.
#[derive(Default, Debug)]
struct StreamNumbers {
    /// The number or name of the caller's stream.
    caller: Option<String>,
    /// True if the program computes no number of a stream, so that other numbers would do as well.
    are_names: bool,
}

impl StreamNumbers {
    fn of_program(program: &Program) -> Self {
        let mut numbers = Self { caller: None, are_names: true };
        let mut is_first = true;
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            for value in op.operands.iter().chain(&op.results) {
                let Value::Stream(stream) = value else { continue };
                let spelling = match program.expr(*stream) {
                    Expr::Int(number) => Some(number.to_string()),
                    Expr::Hex(address) => {
                        program.given_names().streams.get(address).map(|name| program.name(*name).to_owned())
                    }
                    _ => None,
                };
                numbers.are_names &= matches!(program.expr(*stream), Expr::Int(_) | Expr::Hex(_));
                // A stream that is bound before any other stream is named is the caller's.
                if std::mem::take(&mut is_first) && !op.results.is_empty() {
                    numbers.caller = spelling;
                }
            }
        });
        numbers
    }

    /// Returns true if a line only names the caller's stream.
    fn names_caller(&self, line: &str) -> bool {
        let named = line.trim_start().strip_prefix("stream ").and_then(|rest| rest.strip_suffix(" = current"));
        named.is_some() && named == self.caller.as_deref()
    }

    /// The role of a word as the stream of a statement; `None` if it is none.
    fn role(&self, before: &str, word: &str, after: &str) -> Option<StreamRole> {
        let head = before.strip_suffix("stream ").or_else(|| before.strip_suffix("sync "))?;
        let is_statement = head.trim().is_empty() || head.ends_with(": ");
        if !is_statement || !matches!(after, "" | ":" | " = current") {
            return None;
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        match self.caller.as_deref() == Some(word) {
            true => Some(StreamRole::Caller),
            false => (is_number && self.are_names).then_some(StreamRole::Number),
        }
    }
}

/// A stream in a statement.
enum StreamRole {
    /// The caller's.
    Caller,
    /// One that another number would do for.
    Number,
}

/// All names of some programs.
struct OutlineNames {
    /// The names of the programs.
    programs: Vec<String>,
    /// By program.
    streams: Vec<StreamNumbers>,
    of_file: FxHashSet<String>,
    of_program: FxHashSet<String>,
}

impl OutlineNames {
    fn new(programs: &[Program]) -> Self {
        let file = FileNames::new(programs);
        let mut of_file: FxHashSet<String> = file.programs.iter().cloned().collect();
        of_file.extend(file.meshes.into_iter().map(|mesh| mesh.name));
        of_file.extend(file.units.into_iter().flatten());
        let streams = programs.iter().map(StreamNumbers::of_program).collect();
        let mut names = Self { programs: file.programs, streams, of_file, of_program: FxHashSet::default() };
        programs.iter().for_each(|program| names.add_program(program));
        let ops = programs.first().map_or(OpRegistry::OURS, OpRegistry::of_program);
        names.of_program.retain(|name| !is_call_word(ops, name) && !is_reserved_word(name));
        names
    }

    fn add_program(&mut self, program: &Program) {
        let given = program.given_names();
        let tensors = program.tensors().iter().filter_map(|(_, tensor)| tensor.name);
        let symbols = tensors.chain(given.handles.values().copied()).chain(given.streams.values().copied());
        self.of_program.extend(symbols.map(|symbol| program.name(symbol).to_owned()));
        for at in 0..program.exprs().len() {
            if let Expr::Name(name) = program.expr(ExprId(at as u32)) {
                let name = program.name(*name);
                if !RUNTIME.contains(&name) {
                    self.of_program.insert(name.to_owned());
                }
            }
        }
    }

    /// Returns true if a word is the name of an unnamed tensor or communication, `T7` or `h7`, or a given name.
    fn is_of_program(&self, word: &str) -> bool {
        let number = word.strip_prefix(['T', 'h']).unwrap_or_default();
        let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        numbered || self.of_program.contains(word)
    }

    fn outline_line(&self, line: &str, streams: &StreamNumbers) -> OutlineLine {
        let begins_scope = line.contains('(') && !line.starts_with(' ');
        let mut outline =
            OutlineLine { text: line.to_owned(), skeleton: String::new(), names: Vec::new(), begins_scope };
        let mut at = 0;
        while let Some(first) = line[at..].chars().next() {
            let before = &line[..at];
            let length = word_length(&line[at..]).max(first.len_utf8());
            // A loop along an axis: `G.0` is axis 0 of `G`, unless a pass made a tensor of that name.
            let stem = line[at..at + length].rfind('.').filter(|_| before.ends_with(" in "));
            let stem = stem.filter(|_| !self.is_of_program(&line[at..at + length]));
            let (word, after) = line[at..].split_at(stem.unwrap_or(length));
            at += word.len();
            match streams.role(before, word, after) {
                Some(StreamRole::Caller) => {
                    outline.skeleton.push_str("the caller's");
                    continue;
                }
                Some(StreamRole::Number) => {
                    outline.names.push(OutlineName { text: format!("stream {word}"), is_of_file: false });
                    outline.skeleton.push('\u{fffd}');
                    continue;
                }
                None => {}
            }
            let is_of_file = self.of_file.contains(word);
            if (is_of_file || self.is_of_program(word)) && !is_notation(before, word, after) {
                outline.names.push(OutlineName { text: word.to_owned(), is_of_file });
                outline.skeleton.push('\u{fffd}');
            } else {
                outline.skeleton.push_str(word);
            }
        }
        outline
    }
}

/// Returns true if a word that is also a name is a word of the notation at its place: the sort of an axis (`x:4`,
/// `r.k`), a coordinate (`d.x`), memory (`f32.l`), the key of an argument (`to=p`).
fn is_notation(before: &str, word: &str, after: &str) -> bool {
    let mut next = after.chars();
    let (sign, continues) = (next.next(), next.next().is_some_and(|second| !second.is_whitespace()));
    let is_sort = continues && (sign == Some(':') || (sign == Some('.') && matches!(word, "r" | "b")));
    let is_key = continues && sign == Some('=');
    is_sort || is_key || before.strip_suffix('.').is_some_and(is_qualifier)
}

/// Returns true if the word at the end of a text, before a dot, qualifies the next word: not in `1..n` and `r.k`.
fn is_qualifier(text: &str) -> bool {
    let word = text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    !matches!(word, "" | "r" | "b")
}

/// The length of the word or number at the start of a text, 0 if there is none. A pass's name `G.1` is one word.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = bytes.iter().take_while(|byte| is_word_byte(**byte)).count();
    while length > 0 && bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length += 1 + bytes[length + 1..].iter().take_while(|byte| is_word_byte(**byte)).count();
    }
    length
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
