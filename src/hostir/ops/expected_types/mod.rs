//! The types that the results of collectives and ops have to have for their operands, written out with the names of the
//! program, and the declarations that have others.
//!
//! All errors about a result that does not fit its operands use this: they point at its declaration, say the type that
//! it has to have, and replace it by an edit.

mod collectives;
mod reductions;
pub(super) mod team_axis;
mod written_type;

use super::result_types::{DomainList, result_types};
use crate::diag::{Applicability, Diag, Fix, Message, Span, TextEdit, message};
use crate::ir::places::tensor_span;
use crate::ir::{AttrKey, IterDomain, OpId, Program, TensorId, quoted_op, word_of_dtype};
use collectives::collective_types;
use reductions::reduced_type;
use written_type::{ExpectedTypes, WrittenType};

/// A declaration, and the type that it has to have.
struct Redeclared {
    tensor: TensorId,
    name: String,
    wanted: WrittenType,
}

impl Redeclared {
    /// The declaration of a tensor, or of the one of which it is a slice; `None` if it is as wanted.
    fn of_tensor(program: &Program, tensor: TensorId, wanted: WrittenType) -> Option<Self> {
        let name = program.tensor_name(tensor);
        let Some((whole, items)) = name.split_once('[') else {
            let declared = match wanted.has_reduction() {
                true => WrittenType::of_tensor(program, tensor),
                false => WrittenType::of_stored(program, tensor),
            };
            return (declared != wanted).then_some(Self { tensor, name, wanted });
        };
        let owner = find_tensor(program, tensor, whole)?;
        let declared = WrittenType::of_stored(program, owner);
        let items: Vec<&str> = items.trim_end_matches(']').split(", ").collect();
        let mut rest = wanted.axes.into_iter();
        let mut axes: Vec<String> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            axes.push(if *item == ":" { rest.next()? } else { declared.axes.get(at)?.clone() });
        }
        axes.extend(rest);
        let wanted = WrittenType { dtype: wanted.dtype, axes };
        (declared != wanted).then(|| Self { tensor: owner, name: whole.to_owned(), wanted })
    }

    /// ``declare `G: f32[p, m, k]` ``, without the verb.
    fn declaration_text(&self) -> String {
        format!("{}: {}", self.name, self.wanted.type_text())
    }

    /// The edits that write its type; `None` if the text has no type of it.
    fn edits(&self, program: &Program) -> Option<Vec<TextEdit>> {
        let place = program.source().types.get(&self.tensor)?;
        let mut edits = Vec::new();
        if program.tensor(self.tensor).dtype != self.wanted.dtype {
            edits.push(TextEdit { span: place.dtype, text: word_of_dtype(self.wanted.dtype).to_owned() });
        }
        edits.push(TextEdit { span: place.axes?, text: self.wanted.axes.join(", ") });
        Some(edits)
    }
}

/// Returns true for a tensor that the caller of the program passes or gets.
fn is_input_or_output(program: &Program, tensor: TensorId) -> bool {
    program.inputs().iter().chain(program.outputs()).any(|value| value.as_tensor() == Some(tensor))
}

/// The type of a declaration: `f32[x:p, m]`.
pub(crate) fn declared_type_text(program: &Program, tensor: TensorId) -> String {
    WrittenType::of_tensor(program, tensor).type_text()
}

/// The fix that declares an axis of a tensor across devices, or as one that each rank has whole.
pub(crate) fn resharded_fix(program: &Program, tensor: TensorId, axis: usize, is_sharded: bool) -> Option<Fix> {
    let mut wanted = WrittenType::of_stored(program, tensor);
    let word = wanted.axes.get_mut(axis)?;
    *word = match is_sharded {
        true => format!("x:{word}"),
        false => word.split_once(':')?.1.to_owned(),
    };
    if wanted.repeats_device_axis() {
        return None;
    }
    let changed = Redeclared { tensor, name: program.tensor_name(tensor), wanted };
    let edits = changed.edits(program)?;
    let message = format!("declare `{}`", changed.declaration_text()).into();
    let applicability = match is_input_or_output(program, tensor) {
        true => Applicability::MaybeIncorrect,
        false => Applicability::Untried,
    };
    Some(Fix { message, edits, applicability })
}

/// The tensor of a name in the program or kernel of another one.
fn find_tensor(program: &Program, beside: TensorId, name: &str) -> Option<TensorId> {
    let unit = program.tensor(beside).unit;
    let mut all = program.tensors().iter();
    all.find(|(id, tensor)| tensor.unit == unit && program.tensor_name(*id) == name).map(|(id, _)| id)
}

/// The types that the operand and the result of an op have to have; `None` if nothing is known, or they have them.
pub(crate) fn expected_types(program: &Program, id: OpId) -> Option<ExpectedTypes> {
    if !program.is_hir2() {
        return None;
    }
    if let Some(types) = collective_types(program, id) {
        return Some(types);
    }
    let op = program.op(id);
    let result = op.output_tensors().next()?;
    let wanted = match reduced_type(program, op) {
        Some(wanted) => wanted,
        None => {
            let ty = result_types(program, op)?.into_iter().next()?;
            let domains = stored_order(&ty.domains, ty.axes.as_deref());
            WrittenType::of_domains(program, ty.dtype, &domains).without_reductions()
        }
    };
    // Element types have errors of their own.
    let wanted = WrittenType { dtype: program.tensor(result).dtype, ..wanted };
    Some(ExpectedTypes::of_result(result, wanted))
}

/// Domains in the order of their axes.
fn stored_order(domains: &DomainList, axes: Option<&[u32]>) -> Vec<IterDomain> {
    match axes {
        Some(axes) => axes.iter().filter_map(|&at| domains.get(at as usize).copied()).collect(),
        None => domains.to_vec(),
    }
}

/// The advice for an op whose result does not fit its operands.
pub(crate) struct ResultAdvice {
    notes: Vec<Message>,
    fixes: Vec<Fix>,
    /// The declarations that are to be changed, with the text of a label.
    declared: Vec<(Span, String)>,
    /// The name of the declared result, its type, and the one that it has to have; `None` if only the operand changes.
    result: Option<(String, [String; 2])>,
    /// True for a collective.
    pub(crate) is_of_collective: bool,
    /// True if it is to write another collective.
    pub(crate) is_other_call: bool,
}

impl ResultAdvice {
    /// The name of the declared result, its type, and the one that it has to have.
    pub(crate) fn result_types(&self) -> Option<(String, [String; 2])> {
        self.result.clone()
    }

    /// The advice with its labels and fixes alone.
    pub(crate) fn without_note(self) -> Self {
        Self { notes: Vec::new(), ..self }
    }

    /// Adds the advice to a diagnostic: its labels, notes and fixes.
    pub(crate) fn add_to(self, mut diag: Diag) -> Diag {
        for (span, text) in self.declared {
            let is_shown = diag.labels.iter().any(|label| label.span == span)
                || diag
                    .primary
                    .as_ref()
                    .is_some_and(|label| label.span.start <= span.start && span.end <= label.span.end);
            if !is_shown {
                diag = diag.with_label(span, text);
            }
        }
        diag.notes.extend(self.notes);
        diag.fixes.extend(self.fixes);
        diag
    }
}

/// The advice for an op whose result does not fit its operands: the declarations to write. `None` if the declarations are
/// those that the op needs, as far as is known.
pub(crate) fn result_advice(program: &Program, id: OpId) -> Option<ResultAdvice> {
    let expected = expected_types(program, id)?;
    let is_of_collective = program.op(id).attr(AttrKey::Type).is_some();
    let (result, wanted) = expected.result;
    let operand = expected.operand.and_then(|(tensor, wanted)| Redeclared::of_tensor(program, tensor, wanted));
    let result = Redeclared::of_tensor(program, result, wanted);
    let types = result.as_ref().map(|one| {
        let declared = WrittenType::of_tensor(program, one.tensor);
        (one.name.clone(), [declared.type_text(), one.wanted.type_text()])
    });
    let changed: Vec<Redeclared> = operand.into_iter().chain(result).collect();
    if changed.is_empty() || changed.iter().any(|one| one.wanted.repeats_device_axis()) {
        return None;
    }
    let declared =
        changed.iter().map(|one| (tensor_span(program, one.tensor), format!("`{}` is declared here", one.name)));
    let declared: Vec<(Span, String)> = declared.collect();
    let call = expected
        .other_call
        .as_ref()
        .map(|call| message!("or write `{}`, whose result has the declared type", call.clone()));
    if expected.needs_other_call {
        let call = expected
            .other_call
            .map(|call| message!("its result has the type of a sum over the ranks: write `{}`", call));
        let notes = call.into_iter().collect();
        return Some(ResultAdvice {
            notes,
            fixes: Vec::new(),
            declared,
            result: types,
            is_of_collective,
            is_other_call: true,
        });
    }
    if let Some(note) = changed.last().filter(|_| is_of_collective).and_then(|one| beside_note(program, id, one)) {
        let (notes, fixes) = (vec![note], Vec::new());
        return Some(ResultAdvice { notes, fixes, declared, result: types, is_of_collective, is_other_call: true });
    }
    let texts: Vec<String> = changed.iter().map(|one| format!("`{}`", one.declaration_text())).collect();
    let texts = texts.join(" and ");
    let note = match expected.reason {
        Some(reason) => message!("{}: declare {}", reason, texts),
        None => message!("`{}` makes this type of its operands: declare {}", quoted_op(program, id), texts),
    };
    let joined = changed.last().filter(|_| is_of_collective).and_then(|one| joined_axes_note(program, one));
    let edits: Option<Vec<Vec<TextEdit>>> = changed.iter().map(|one| one.edits(program)).collect();
    // Inputs and outputs are the callers' to change.
    let is_interface = changed.iter().any(|one| is_input_or_output(program, one.tensor));
    let applicability = if is_interface { Applicability::MaybeIncorrect } else { Applicability::Untried };
    let fixes = edits.map(|edits| {
        let mut edits = edits.concat();
        edits.sort_by_key(|edit| edit.span.start);
        Fix { message: format!("declare {texts}").into(), edits, applicability }
    });
    Some(ResultAdvice {
        notes: std::iter::once(note).chain(call).chain(joined).collect(),
        fixes: fixes.into_iter().collect(),
        declared,
        result: types,
        is_of_collective,
        is_other_call: false,
    })
}

/// The note for a gather whose declared result has the parts of the ranks beside each other along an inner axis, such as
/// columns: the statements that put them there.
fn beside_note(program: &Program, id: OpId, one: &Redeclared) -> Option<Message> {
    let (declared, wanted) = (WrittenType::of_stored(program, one.tensor), &one.wanted);
    let (count, parts) = wanted.axes.split_first()?;
    let at = (1..parts.len()).find(|&at| {
        let joined = [format!("{count} * {}", parts[at]), format!("{} * {count}", parts[at])];
        let mut axes = declared.axes.iter().zip(parts).enumerate();
        declared.axes.len() == parts.len()
            && axes.all(|(axis, (found, part))| if axis == at { joined.contains(found) } else { found == part })
    })?;
    let operand = program.tensor_name(program.op(id).input_tensors().next()?);
    let call = quoted_op(program, id);
    let gathered = program.unused_tensor_name();
    let ordered =
        (2..).map(|number| format!("{gathered}{number}")).find(|name| program.names().find_symbol(name).is_none())?;
    let perm: Vec<String> = (1..=at).chain([0]).chain(at + 1..=parts.len()).map(|axis| axis.to_string()).collect();
    Some(message!(
        "the result has the {} parts of `{}` one after another along its first axis; to put them beside each other along axis {}, write `{}: {} = alloc`, `wait {}({} -> {})`, `{} = Set.Permute({}, perm=[{}])` and `{}: {} = view({})`",
        count.clone(),
        operand.clone(),
        at,
        gathered.clone(),
        wanted.type_text(),
        call,
        operand,
        gathered.clone(),
        ordered.clone(),
        gathered,
        perm.join(", "),
        one.name.clone(),
        declared.type_text(),
        ordered
    ))
}

/// The note for a declaration that joins the first two axes of what a collective gives: other axes of the same memory.
fn joined_axes_note(program: &Program, one: &Redeclared) -> Option<Message> {
    let (declared, wanted) = (WrittenType::of_stored(program, one.tensor), &one.wanted);
    let [first, second, rest @ ..] = wanted.axes.as_slice() else { return None };
    let is_joined = declared.axes.len() + 1 == wanted.axes.len() && declared.axes[1..] == *rest;
    if !is_joined || declared.axes[0] == *second || declared.axes[0] == *first {
        return None;
    }
    Some(message!(
        "`{}: {} = alloc(share={})` then gives its memory the declared axes, without a copy",
        program.unused_tensor_name(),
        declared.type_text(),
        one.name.clone()
    ))
}
