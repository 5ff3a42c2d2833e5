//! Texts of inserted statements, in the form of the file.

use super::outline::{Outline, Place, StreamName};
use crate::ir::{ExprId, TensorId, expr_text};
use crate::ops::result_types::stored_domains;

/// A statement to insert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NewStatement {
    /// Its text.
    pub(super) text: String,
    /// The loops whose indices it needs, and the branches whose conditions it has, the outermost first.
    around: Vec<usize>,
    /// A condition of its own: `( i > 0 )`.
    condition: Option<String>,
}

impl NewStatement {
    /// `Synchronize Stream 1`, as it is written at a statement whose names it may use, `from`.
    pub(super) fn synchronize(outline: &Outline<'_>, stream: &str, from: usize) -> Self {
        Self {
            text: worded_call(outline, "Synchronize", " ", stream),
            around: used_loops(outline, stream, from),
            condition: None,
        }
    }

    /// `SetCurrentStream to Stream 0`.
    pub(super) fn set_stream(outline: &Outline<'_>, stream: &str, from: usize) -> Self {
        Self {
            text: worded_call(outline, "SetCurrentStream", " to ", stream),
            around: used_loops(outline, stream, from),
            condition: None,
        }
    }

    /// `Wait Communication 1`.
    pub(super) fn wait(outline: &Outline<'_>, number: u32) -> Self {
        let text = worded_call(outline, "Wait", " ", &format!("Communication {number}"));
        Self { text, around: Vec::new(), condition: None }
    }

    /// `Wait Communication 1 (element=i)`.
    pub(super) fn wait_element(outline: &Outline<'_>, number: u32, element: &str) -> Self {
        let text = match outline.program.style().call_form {
            true => format!("Wait(Communication {number}, element={element})"),
            false => format!("Wait Communication {number} (element={element})"),
        };
        Self { text, around: Vec::new(), condition: None }
    }

    /// The statement in a branch with the condition of another one.
    pub(super) fn inside(mut self, branch: usize) -> Self {
        self.around.push(branch);
        self
    }

    /// The statement under a condition of its own.
    pub(super) fn with_condition(self, condition: String) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// `StartCoalescing`.
    pub(super) fn start_group(outline: &Outline<'_>) -> Self {
        let text = if outline.program.style().call_form { "StartCoalescing()" } else { "StartCoalescing" };
        Self { text: text.to_owned(), around: Vec::new(), condition: None }
    }

    /// `EndCoalescing 3`.
    pub(super) fn end_group(outline: &Outline<'_>, number: u32) -> Self {
        let text = match outline.program.style().call_form {
            true => format!("EndCoalescing {number}()"),
            false => format!("EndCoalescing {number}"),
        };
        Self { text, around: Vec::new(), condition: None }
    }

    /// `T1 = ALLOCATE(..)` of an output; `None` if its size is no text.
    pub(super) fn allocate(outline: &Outline<'_>, tensor: TensorId) -> Option<Self> {
        let program = outline.program;
        let extents: Vec<ExprId> = stored_domains(program, tensor).iter().map(|domain| domain.extent).collect();
        let numbers: Option<Vec<i64>> = extents.iter().map(|&extent| program.exprs().as_int(extent)).collect();
        let size = match numbers {
            Some(numbers) => numbers.iter().product::<i64>().to_string(),
            None => {
                let texts = extents.iter().map(|&extent| expr_text(program, extent));
                texts.reduce(|product, extent| format!("( {product} * {extent} )"))?
            }
        };
        let name = format!("T{}", program.tensor(tensor).number);
        let text = format!(
            "{name} = ALLOCATE(buffer={name}, mem_type=global, size={size}, zero_init=false, resets_to_zero=false)"
        );
        Some(Self { text, around: Vec::new(), condition: None })
    }

    /// `GetCurrentStream into Stream 0`.
    pub(super) fn get_stream(outline: &Outline<'_>, stream: &str) -> Self {
        let text = match outline.program.style().call_form {
            true => format!("{stream} = GetCurrentStream()"),
            false => format!("GetCurrentStream into {stream}"),
        };
        Self { text, around: Vec::new(), condition: None }
    }

    /// Its lines at a place, in loops and branches of its own if the place is outside of those that it needs; `None` if
    /// the headers of those cannot be repeated.
    pub(super) fn lines_at(&self, outline: &Outline<'_>, place: Place) -> Option<String> {
        let mut indentation = outline.place_indentation(place)?.to_owned();
        let around: Vec<usize> = outline.place_ancestors(place).collect();
        let mut lines = String::new();
        for &missing in self.around.iter().filter(|needed| !around.contains(needed)) {
            let header = outline.statement_text(missing).trim_end();
            if !header.ends_with(':') || header.contains("//") {
                return None;
            }
            lines += &format!("{indentation}{header}\n");
            indentation += "  ";
        }
        if let Some(condition) = &self.condition {
            lines += &format!("{indentation}IF Manual {condition}:\n");
            indentation += "  ";
        }
        Some(lines + &format!("{indentation}{}\n", self.text))
    }
}

/// `Synchronize Stream 0` or `Synchronize(Stream 0)`.
fn worded_call(outline: &Outline<'_>, name: &str, link: &str, operand: &str) -> String {
    match outline.program.style().call_form {
        true => format!("{name}({operand})"),
        false => format!("{name}{link}{operand}"),
    }
}

/// The loops around a statement whose indices a text uses, the outermost first.
fn used_loops(outline: &Outline<'_>, text: &str, from: usize) -> Vec<usize> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut loops: Vec<usize> = outline.ancestors(from).filter(|&outer| outline.is_loop(outer)).collect();
    loops.retain(|&outer| outline.loop_index(outer).is_some_and(|index| words.contains(&index.as_str())));
    loops.reverse();
    loops
}

/// The way to name the caller's stream.
#[derive(Clone, Debug)]
pub(super) struct CallerBinding {
    /// `Stream 0`.
    pub(super) stream: String,
    /// True if the program does not bind the name before that place.
    pub(super) is_new: bool,
}

/// The name of the caller's stream at a statement; a new one if the program has none there.
pub(super) fn bind_caller(outline: &Outline<'_>, at: usize) -> CallerBinding {
    match &outline.caller {
        Some(caller) => CallerBinding { stream: caller.stream.clone(), is_new: caller.statement > at },
        None => CallerBinding { stream: format!("Stream {}", free_stream(outline)), is_new: true },
    }
}

/// The smallest number that no text about a stream mentions.
fn free_stream(outline: &Outline<'_>) -> u32 {
    (0..).find(|number| !outline.text.contains(&format!("Stream {number}"))).unwrap_or(0)
}

/// The text of a stream; `None` for the caller's stream, which [`bind_caller`] names.
pub(super) fn plain_stream(stream: &StreamName) -> Option<&str> {
    match stream {
        StreamName::Caller => None,
        StreamName::Text(text) => Some(text),
    }
}
