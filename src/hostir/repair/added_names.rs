//! Slips whose repair adds a name: a result that has the name of another tensor, and a communication between tensors of
//! different elements.

use super::lines::indent_width;
use super::part_change::comma_parts;
use super::slips::{Slip, SlipContext};
use super::statement_slips::{communicated, completed_results, result_list};
use super::usage::word_places;
use crate::diag::{Applicability, Fix, Span, TextEdit, codes};
use std::ops::Range;

/// Errors that a name with two meanings may cause.
const OF_TWO_MEANINGS: &[&str] = &[
    codes::DECLARED_TWICE,
    codes::RANK,
    codes::DTYPE,
    codes::EXTENT,
    codes::FLAGS,
    codes::SHAPES,
    codes::SIZE_CONFLICT,
];

/// The number of names that are tried.
const MOST_NAMES: usize = 9;

/// A type as a text declares it.
struct DeclaredType<'t> {
    element: &'t str,
    axes: Vec<&'t str>,
    /// ` @d`, or nothing.
    mesh: &'t str,
}

impl<'t> DeclaredType<'t> {
    /// The last type of a name that the statements of a text declare.
    fn of_name(text: &'t str, name: &str) -> Option<Self> {
        text.lines().rev().find_map(|line| {
            let code = line.split("//").next().unwrap_or_default();
            let mut places = word_places(code).into_iter();
            let place = places.find(|word| code[word.clone()] == *name && code[word.end..].starts_with(": "))?;
            Self::of_text(&code[place.end + 2..])
        })
    }

    /// The type at the beginning of a text.
    fn of_text(text: &'t str) -> Option<Self> {
        let open = text.find('[')?;
        let close = open + text[open..].find(']')?;
        let element = &text[..open];
        let is_word = element.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let rest = &text[close + 1..];
        let length = rest
            .strip_prefix(" @")
            .map_or(0, |rest| 2 + rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()));
        let axes = comma_parts(text, open + 1..close).into_iter().map(|part| &text[part]).collect();
        is_word.then_some(Self { element, axes, mesh: &rest[..length] })
    }

    /// The type with other elements, without reductions.
    fn with_elements(&self, element: &str) -> String {
        let axes: Vec<&str> = self.axes.iter().copied().filter(|axis| !axis.starts_with("r.")).collect();
        format!("{element}[{}]{}", axes.join(", "), self.mesh)
    }

    /// The index of the rank's own part: `[:, own]`; nothing for a tensor that is whole on each rank.
    fn own_index(&self) -> String {
        let kept = self.axes.iter().filter(|axis| !axis.starts_with("r."));
        let mut index: Vec<&str> = kept.map(|axis| if axis.contains(':') { "own" } else { ":" }).collect();
        let length = index.iter().rposition(|item| *item == "own").map_or(0, |last| last + 1);
        index.truncate(length);
        if index.is_empty() { String::new() } else { format!("[{}]", index.join(", ")) }
    }
}

impl SlipContext<'_> {
    /// The changes of a statement that give one of its tensors another name; those of its operands for the one with the
    /// error only.
    pub(super) fn added_names(&self, line: usize, start: usize, is_primary: bool) -> Vec<Slip> {
        let code = self.code_at(start);
        if indent_width(code) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        if OF_TWO_MEANINGS.contains(&self.code) {
            found.extend(self.renamed_results(code, line, start));
        }
        if !is_primary {
            return found;
        }
        if self.code == codes::DTYPE {
            found.extend(self.converted_communications(code, line, start));
        }
        if self.code == codes::WRONG_RESULTS {
            let name = result_list(code).and_then(|(_, results)| results.first()?.split([':', '[']).next());
            let declared = name.and_then(|name| DeclaredType::of_name(&self.text[..start + code.len()], name));
            let declared = declared.map(|ty| format!("{}[{}]{}", ty.element, ty.axes.join(", "), ty.mesh));
            for change in completed_results(code, declared.as_deref(), |name| self.is_free(name)) {
                let shown = format!("{}{}{}", &code[..change.part.start], change.text, &code[change.part.end..]);
                let span = Span::new(start + change.part.start, start + change.part.end);
                let fix = Fix::replacement(format!("write `{}`", shown.trim()), span, change.text);
                found.push(Slip { fix: as_guess(fix), line, doubt: change.doubt });
            }
        }
        found
    }

    /// Returns true for a collective that gives all ranks the same, whose result has a part for each rank.
    pub(super) fn has_lost_parts(&self, changed: &str, start: usize) -> bool {
        let is_same = ["allreduce(", "allgather(", "broadcast("].iter().any(|name| changed.starts_with(name));
        let call = format!("{changed})");
        let result = communicated(&call).map(|[_, result]| &call[result]).filter(|result| !result.contains('['));
        let declared = result.and_then(|result| DeclaredType::of_name(&self.text[..start], result));
        is_same && declared.is_some_and(|ty| !ty.own_index().is_empty())
    }

    fn code_at(&self, start: usize) -> &str {
        let whole = self.text[start..].lines().next().unwrap_or_default();
        whole.split("//").next().unwrap_or_default().trim_end()
    }

    /// The text of a program from its head to a byte.
    fn program_before(&self, end: usize) -> &str {
        let before = &self.text[..end];
        let starts = before.match_indices('\n').map(|(at, _)| at + 1);
        let mut heads = starts.filter(|at| before[*at..].starts_with(|c: char| c.is_ascii_alphabetic()));
        &before[heads.next_back().unwrap_or(0)..]
    }

    fn is_free(&self, name: &str) -> bool {
        let mut code = self.text.lines().filter_map(|line| line.split("//").next());
        self.table.symbols().iter().all(|symbol| symbol.name != *name)
            && code.all(|line| word_places(line).into_iter().all(|word| line[word] != *name))
    }

    /// `E2` for `E`.
    fn second_name(&self, name: &str) -> Option<String> {
        (2..MOST_NAMES).map(|number| format!("{name}{number}")).find(|name| self.is_free(name))
    }

    /// A result with a name of its own where the text uses it: in all lines after it, or in the next one.
    fn renamed_results(&self, code: &str, line: usize, start: usize) -> Vec<Slip> {
        let Some((whole, results)) = result_list(code) else { return Vec::new() };
        let [result] = results[..] else { return Vec::new() };
        let name = result.split(": ").next().unwrap_or_default();
        let before = self.program_before(start);
        let is_again = word_places(before).into_iter().any(|word| before[word] == *name);
        let Some(other) = self.second_name(name).filter(|_| is_again && !name.contains('[')) else { return Vec::new() };
        let lines = self.later_uses(name, start + code.len());
        let (Some(first), own) = (lines.first(), Span::new(start + whole.start, start + whole.start + name.len()))
        else {
            return Vec::new();
        };
        let doubt = u32::from(self.code != codes::DECLARED_TWICE);
        let statement = format!("{other}{}", &code[whole.start + name.len()..]);
        let renamed = |uses: &[Range<usize>], said: &str, doubt: u32| {
            let places = std::iter::once(own).chain(uses.iter().map(|place| Span::new(place.start, place.end)));
            let edits = places.map(|span| TextEdit { span, text: other.clone() }).collect();
            let message = format!("write `{statement}`, and `{other}` for `{name}` in {said}");
            Slip {
                fix: Fix { message: message.into(), edits, applicability: Applicability::MaybeIncorrect },
                line,
                doubt,
            }
        };
        let mut found = vec![renamed(first, "the line that uses it", doubt)];
        if lines.len() > 1 {
            found.insert(0, renamed(&lines.concat(), "the lines that use it", doubt));
        }
        found
    }

    /// The places of a name after a byte in its program, by line, until it is defined again.
    fn later_uses(&self, name: &str, from: usize) -> Vec<Vec<Range<usize>>> {
        let mut found: Vec<Vec<Range<usize>>> = Vec::new();
        let mut start = from + self.text[from..].find('\n').map_or(self.text.len() - from, |at| at + 1);
        for line in self.text[start..].split_inclusive('\n') {
            let code = line.split("//").next().unwrap_or_default();
            let own = indent_width(code);
            if own == 0 && !code.trim().is_empty() {
                break;
            }
            let places = word_places(code).into_iter().filter(|word| code[word.clone()] == *name);
            let rest = code[own..].strip_prefix(name).unwrap_or_default();
            let is_again = rest.starts_with(" = ") || rest.starts_with(": ");
            let places: Vec<Range<usize>> = places
                .filter(|word| !is_again || word.start != own)
                .map(|word| start + word.start..start + word.end)
                .collect();
            if !places.is_empty() {
                found.push(places);
            }
            if is_again {
                break;
            }
            start += line.len();
        }
        found
    }

    /// A communication whose operand is converted before it, or whose result after it.
    fn converted_communications(&self, code: &str, line: usize, start: usize) -> Vec<Slip> {
        let Some([given, result]) = communicated(code) else { return Vec::new() };
        let Some(free) = self.unused_name() else { return Vec::new() };
        let indent = &code[..indent_width(code)];
        let mut found = Vec::new();
        let (operand, target) = (&code[given.clone()], &code[result.clone()]);
        for element in &self.axes.elements {
            let ty = DeclaredType::of_name(&self.text[..start], base_name(operand)).filter(|_| !operand.contains('['));
            let sharded = ty.filter(|ty| !ty.own_index().is_empty());
            let (lines, last) = match sharded {
                Some(ty) => {
                    let index = ty.own_index();
                    let last = format!("{free}{index} = {element}({operand}{index})");
                    (vec![format!("{free}: {} = alloc", ty.with_elements(element)), last.clone()], last)
                }
                None => (vec![format!("{free} = {element}({operand})")], format!("{free} = {element}({operand})")),
            };
            let message = format!("convert the operand in front of the communication, `{last}`, and give it `{free}`");
            let edits = vec![lines_at(start, indent, &lines), replaced_part(start, &given, &free)];
            let fix = Fix { message: message.into(), edits, applicability: Applicability::MaybeIncorrect };
            found.push(Slip { fix, line, doubt: 1 });
        }
        let ty = DeclaredType::of_name(&self.text[..start], base_name(target)).filter(|_| !target.contains('['));
        let Some(ty) = ty.filter(|_| first_word(code) == Some("wait")) else { return found };
        let after = start + self.text[start..].find('\n').map_or(self.text.len() - start, |at| at + 1);
        for element in self.axes.elements.iter().filter(|element| **element != *ty.element) {
            let index = ty.own_index();
            let last = format!("{target}{index} = {}({free}{index})", ty.element);
            let declared = format!("{free}: {} = alloc", ty.with_elements(element));
            let message = format!("communicate into `{free}`, and convert after it, `{last}`");
            let edits = vec![
                lines_at(start, indent, &[declared]),
                replaced_part(start, &result, &free),
                lines_at(after, indent, &[last]),
            ];
            let fix = Fix { message: message.into(), edits, applicability: Applicability::MaybeIncorrect };
            found.push(Slip { fix, line, doubt: 2 });
        }
        found
    }
}

/// The edit that inserts lines.
fn lines_at(at: usize, indent: &str, lines: &[String]) -> TextEdit {
    TextEdit { span: Span::new(at, at), text: lines.iter().map(|line| format!("{indent}{line}\n")).collect() }
}

/// The edit that puts a name in the place of a part of the line that begins at a byte.
fn replaced_part(start: usize, part: &Range<usize>, name: &str) -> TextEdit {
    TextEdit { span: Span::new(start + part.start, start + part.end), text: name.to_owned() }
}

/// The first word of a statement.
fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

/// The name of a tensor without an index.
fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

fn as_guess(fix: Fix) -> Fix {
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}
