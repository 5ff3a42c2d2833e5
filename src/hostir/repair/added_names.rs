//! Slips whose repair adds a name: a result that has the name of another tensor, and a communication between tensors of
//! different elements.

use super::lines::indent_width;
use super::slips::{Slip, SlipContext, comma_parts};
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
    /// The first declared type of a name.
    fn of_name(text: &'t str, name: &str) -> Option<Self> {
        let place = word_places(text).into_iter().find(|word| {
            let rest = &text[word.end..];
            text[word.clone()] == *name && rest.starts_with(": ") && rest.split('\n').next().unwrap_or("").contains('[')
        })?;
        Self::of_text(&text[place.end + 2..])
    }

    /// The type at the beginning of a text.
    fn of_text(text: &'t str) -> Option<Self> {
        let open = text.find('[')?;
        let close = open + text[open..].find(']')?;
        let element = &text[..open];
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let rest = &text[close + 1..];
        let length = rest
            .strip_prefix(" @")
            .map_or(0, |rest| 2 + rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()));
        let axes = comma_parts(text, open + 1..close).into_iter().map(|part| &text[part]).collect();
        is_word(element).then_some(Self { element, axes, mesh: &rest[..length] })
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
    /// The changes of a statement with an error that give one of its tensors another name.
    pub(super) fn added_names(&self, line: usize, start: usize) -> Vec<Slip> {
        let code = self.code_at(start);
        if indent_width(code) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        if OF_TWO_MEANINGS.contains(&self.code) {
            found.extend(self.renamed_results(code, line, start));
        }
        if self.code == codes::DTYPE {
            found.extend(self.converted_communications(code, line, start));
        }
        if self.code == codes::WRONG_RESULTS {
            let name = result_list(code).and_then(|(_, results)| results.first()?.split([':', '[']).next());
            let declared = name.and_then(|name| DeclaredType::of_name(self.text, name));
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

    fn code_at(&self, start: usize) -> &str {
        let whole = self.text[start..].lines().next().unwrap_or_default();
        whole.split("//").next().unwrap_or_default().trim_end()
    }

    fn is_free(&self, name: &str) -> bool {
        self.table.symbols().iter().all(|symbol| symbol.name != *name)
            && word_places(self.text).into_iter().all(|word| self.text[word] != *name)
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
        let is_again = word_places(&self.text[..start]).into_iter().any(|word| self.text[word] == *name);
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
        let inserted = |at: usize, lines: &[String]| TextEdit {
            span: Span::new(at, at),
            text: lines.iter().map(|line| format!("{indent}{line}\n")).collect(),
        };
        let replaced = |part: &Range<usize>| TextEdit {
            span: Span::new(start + part.start, start + part.end),
            text: free.clone(),
        };
        let mut found = Vec::new();
        let (operand, target) = (&code[given.clone()], &code[result.clone()]);
        let base = |name: &str| name.split('[').next().unwrap_or_default().to_owned();
        for element in &self.axes.elements {
            let ty = DeclaredType::of_name(self.text, &base(operand)).filter(|_| !operand.contains('['));
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
            let edits = vec![inserted(start, &lines), replaced(&given)];
            let fix = Fix { message: message.into(), edits, applicability: Applicability::MaybeIncorrect };
            found.push(Slip { fix, line, doubt: 1 });
        }
        let ty = DeclaredType::of_name(self.text, &base(target)).filter(|_| !target.contains('['));
        let Some(ty) = ty.filter(|_| code.trim_start().starts_with("wait ")) else { return found };
        let after = start + self.text[start..].find('\n').map_or(self.text.len() - start, |at| at + 1);
        for element in self.axes.elements.iter().filter(|element| **element != *ty.element) {
            let index = ty.own_index();
            let last = format!("{target}{index} = {}({free}{index})", ty.element);
            let declared = format!("{free}: {} = alloc", ty.with_elements(element));
            let message = format!("communicate into `{free}`, and convert after it, `{last}`");
            let edits = vec![inserted(start, &[declared]), replaced(&result), inserted(after, &[last])];
            let fix = Fix { message: message.into(), edits, applicability: Applicability::MaybeIncorrect };
            found.push(Slip { fix, line, doubt: 2 });
        }
        found
    }
}

fn as_guess(fix: Fix) -> Fix {
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}
