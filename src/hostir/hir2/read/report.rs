//! Errors of the reader.

use super::foreign::{allocation_of, method_of, new_names_of, transpose_of, typed_allocation_of};
use crate::axes::{list_axes, logical_axes};
use crate::diag::{
    Applicability, Diag, DiagLabel, Diags, Fix, Message, PartKind, TextEdit, codes, count_text, message,
    nearest_function,
};
use crate::hir2::defaults::{COMMUNICATION_WORDS, DTYPE_WORDS, is_callable};
use crate::ir::functions::function_names;
use crate::ir::{DeviceMesh, Program, RESERVED_WORDS, TensorId, UnitId};
use crate::ops::OpRegistry;
use crate::ops::expected_types::resharded_fix;
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{FileSyntax, MeshItem, NameSyntax, ProgramItem};
use hostir_grammar::hir2::division::CommentedDivisor;
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) fn push(
    diags: &mut Diags,
    code: &'static str,
    span: Span,
    message: impl Into<Message>,
    note: impl Into<Message>,
) {
    let note: Message = note.into();
    let diag = Diag::error(code, span, message);
    diags.push(if note.is_empty() { diag } else { diag.with_note(note) });
}

/// The nearest of several names. A name of one letter is near to all others of one letter, which means nothing.
pub(super) fn nearest_name<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = crate::diag::nearest_candidate(text, known.into_iter().filter(|name| *name != text))?;
    (text.chars().nth(1).is_some() || near.eq_ignore_ascii_case(text)).then_some(near)
}

/// Reports an unknown argument of an op, a communication or `alloc`.
pub(super) fn report_argument_word(owner: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(
        codes::UNKNOWN_WORD,
        span,
        message!("`{}` has no argument `{}`", PartKind::Op.quote(owner), PartKind::Word.quote(found)),
    );
    // A word may be a part of another one, as `op` of `op_type`.
    let whole = known.iter().copied().find(|word| word.split('_').any(|part| part == found));
    diags.push(match nearest_name(found, known.iter().copied()).or(whole) {
        Some(near) => diag.with_near_word(span, found, near),
        None if known.is_empty() => diag,
        None => diag.with_note(message!("its arguments are {}", list_words(known))),
    });
}

/// Reports an unknown word, with the nearest known one as a fix.
pub(super) fn report_word(what: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    report_unknown_word(message!("unknown {} `{}`", what, PartKind::Word.quote(found)), found, known, span, diags);
}

/// Reports the value of an argument that takes other words.
pub(super) fn report_argument_choice(argument: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    report_unknown_word(
        message!("`{}=` does not take `{}`", PartKind::Word.quote(argument), PartKind::Word.quote(found)),
        found,
        known,
        span,
        diags,
    );
}

fn report_unknown_word(message: Message, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_WORD, span, message);
    // Words such as `f32` are letters and a number, of which only the order may be wrong.
    let turned = known.iter().copied().find(|word| sorted_letters(word) == sorted_letters(found));
    let diag = match nearest_name(found, known.iter().copied()).or(turned) {
        Some(near) => diag.with_near_word(span, found, near),
        None => diag.with_note(message!("the known ones are {}", list_words(known))),
    };
    diags.push(diag);
}

/// Reports `op=mean`.
pub(super) fn report_mean(argument: &str, found: &str, span: Span, diags: &mut Diags) {
    let note = "a mean is a sum, `op=add`, which a statement below divides by the number of elements";
    push(diags, codes::UNKNOWN_WORD, span, format!("`{argument}=` does not take `{found}`"), note);
}

/// Reports a word of another language as the value of an argument: `meant` is its name here.
pub(super) fn report_foreign_choice(argument: &str, found: &str, meant: &str, span: Span, diags: &mut Diags) {
    let diag = Diag::error(
        codes::UNKNOWN_WORD,
        span,
        message!("`{}=` does not take `{}`", PartKind::Word.quote(argument), PartKind::Word.quote(found)),
    );
    diags.push(diag.with_meant_word(span, meant));
}

/// Reports a word of another language: `meant` is its name here.
pub(super) fn report_foreign_word(what: &str, found: &str, meant: &str, span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_WORD, span, message!("unknown {} `{}`", what, PartKind::Word.quote(found)));
    diags.push(diag.with_meant_word(span, meant));
}

fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Reports a word that names no mesh. Names of meshes are short: one with another number is no misspelling.
pub(super) fn report_mesh(found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let near: Vec<&str> = known.iter().copied().filter(|word| without_number(word) != without_number(found)).collect();
    let diag = Diag::error(codes::UNKNOWN_WORD, span, message!("unknown mesh `{}`", PartKind::Mesh.quote(found)));
    let declare =
        message!("declare it above the programs: `mesh {} = 0..4`, or `[[0, 1], [2, 3]]`", PartKind::Word.quote(found));
    diags.push(match nearest_name(found, near) {
        Some(near) => diag.with_near_name(span, near),
        None if known.is_empty() => diag.with_note(declare),
        None => diag.with_note(message!("the known ones are {}", list_words(known))).with_note(declare),
    });
}

fn sorted_letters(word: &str) -> Vec<u8> {
    let mut letters = word.as_bytes().to_vec();
    letters.sort_unstable();
    letters
}

pub(super) fn list_words(words: &[&str]) -> Message {
    let quoted: Vec<Message> = words.iter().map(|word| PartKind::Word.quote(*word).in_backquotes().into()).collect();
    Message::join(&quoted, ", ")
}

pub(super) fn report_lone_kernel(file: &FileSyntax, kernel: &ProgramItem, diags: &mut Diags) {
    let text = file.symbol_text(kernel.name.name);
    let message = message!("kernel `{}` belongs to no program", PartKind::Op.quote(text));
    push(diags, codes::LONE_KERNEL, kernel.name.span, message, "kernels stand in front of the program that calls them");
}

pub(super) fn report_style(file: &FileSyntax, style: NameSyntax, diags: &mut Diags) {
    let eras: Vec<&str> = crate::ir::Era::ALL.iter().map(|(_, name)| *name).collect();
    report_word("style", file.symbol_text(style.name), &eras, style.span, diags);
}

/// Checks that a mesh names each device once.
pub(super) fn check_mesh_devices(item: &MeshItem, diags: &mut Diags) -> bool {
    let mut seen = FxHashSet::default();
    let twice = item.devices.iter().find(|device| !seen.insert(**device));
    if let Some(device) = twice {
        let message = message!("device {} is in this mesh twice", device);
        push(diags, codes::MESH_DEVICE, item.span, message, "a mesh names each device once");
    }
    twice.is_none()
}

pub(super) fn report_order(rank: usize, span: Span, diags: &mut Diags) {
    let message = message!("`order(..)` does not list each of the {} axes once", rank);
    push(diags, codes::AXES_ORDER, span, message, "it says which axis each printed position shows, from 0");
}

/// Reports that a tensor is needed; `slice` is the right spelling of a tensor that is called, `G(i)`.
pub(super) fn report_needed_tensor(slice: Option<String>, span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::WRONG_KIND, span, "a tensor is needed here");
    diags.push(match slice {
        Some(slice) => with_slice(diag, slice, span),
        None => diag,
    });
}

/// Reports a tensor that is called in the place of a value.
pub(super) fn report_called_tensor(text: &str, slice: String, span: Span, diags: &mut Diags) {
    let message = message!("`{}` is a tensor, and no function", PartKind::Tensor.quote(text));
    diags.push(with_slice(Diag::error(codes::WRONG_KIND, span, message), slice, span));
}

/// A diagnostic about a tensor that is called, with its slice.
fn with_slice(diag: Diag, slice: String, span: Span) -> Diag {
    let fix = Fix::replacement(message!("write `{}`", &slice), span, slice);
    diag.with_fix(Fix { applicability: Applicability::Untried, ..fix })
}

/// Reports a list in the place of a tensor, `[A, B]`.
pub(super) fn report_operand_list(list: &str, span: Span, diags: &mut Diags) {
    let inner = list.trim_matches(['[', ']', '(', ')']);
    let note = format!("operands are arguments of their own, without brackets: `{inner}`");
    push(diags, codes::WRONG_KIND, span, "a tensor is needed here".to_owned(), note);
}

/// `keep=true` of `alloc`.
pub(super) fn report_argument_value(word: &str, is_false: bool, span: Span, diags: &mut Diags) {
    let note = match (word, is_false) {
        ("keep", true) => "write `alloc(fresh)`".into(),
        ("fresh", true) => "write `alloc(keep)`".into(),
        (_, true) => "write `alloc`".into(),
        (_, false) => message!("write `alloc({})`", PartKind::Word.quote(word)),
    };
    push(
        diags,
        codes::UNKNOWN_WORD,
        span,
        message!("`{}` of `alloc` takes no value", PartKind::Word.quote(word)),
        note,
    );
}

pub(super) fn report_kind(needed: &str, span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, message!("{} is needed here", needed), "");
}

pub(super) fn report_own(span: Span, diags: &mut Diags) {
    let note = "`A[own]` is the rank's own part of an axis over devices; the number of the rank is `rank`";
    push(diags, codes::OWN_INDEX, span, "`own` is the index of an axis over devices only", note);
}

/// Adds the note about a function of another language, and the names that it proposes.
fn with_method_note(diag: Diag, text: &str, note: Message) -> Diag {
    let diag = diag.with_note(note);
    match new_names_of(text) {
        Some(names) => diag.with_cause(names),
        None => diag,
    }
}

pub(super) fn report_function(ops: OpRegistry, text: &str, span: Span, diags: &mut Diags) {
    report_function_of(ops, text, None, span, diags);
}

/// Reports an unknown function; `cast` is the conversion that it means.
pub(super) fn report_function_of(ops: OpRegistry, text: &str, cast: Option<String>, span: Span, diags: &mut Diags) {
    let known = function_names().chain(["wrap"]);
    if let Some(note) = typed_allocation_of(text) {
        let message = message!("there is no function `{}`", PartKind::Op.quote(text));
        return diags.push(Diag::error(codes::UNKNOWN_FUNCTION, span, message).with_note(note));
    }
    let diag = Diag::error(
        codes::UNKNOWN_FUNCTION,
        span,
        message!("there is no function `{}` of scalars", PartKind::Op.quote(text)),
    );
    let meant = cast.map(|cast| message!("conversions are named as their types: `{}`", cast));
    diags.push(match (meant.or_else(|| method_of(ops, text)), nearest_function(text, known)) {
        (Some(note), _) => with_method_note(diag, text, note),
        (None, Some(near)) if !text.contains('.') => diag.with_near_word(span, text, near),
        _ => diag.with_note("functions of scalars are `wrap`, `ceilDiv`, `where`, `max`, `min`, `abs`, casts such as `i64(x)`, and the pointwise functions"),
    });
}

pub(super) fn report_arity(text: &str, needed: usize, found: usize, span: Span, diags: &mut Diags) {
    let message = match needed {
        0 => message!("there is no function `{}` of {}", PartKind::Op.quote(text), count_text(found, "operand")),
        _ => message!("`{}` takes {}, not {}", PartKind::Op.quote(text), count_text(needed, "operand"), found),
    };
    push(diags, codes::WRONG_ARITY, span, message, "");
}

pub(super) fn report_cast(span: Span, diags: &mut Diags) {
    let message = "this conversion does not exist";
    push(
        diags,
        codes::UNKNOWN_FUNCTION,
        span,
        message,
        "there are conversions between floats, integers and truth values of tensors, and of scalars to integers, truth values and floats of 32 and 64 bits",
    );
}

pub(super) fn report_coordinate(text: &str, mesh: &DeviceMesh, span: Span, diags: &mut Diags) {
    let words: Vec<&str> = mesh.mesh_coordinates().map(|(_, word)| word).collect();
    report_word("coordinate", text, &words, span, diags);
    if matches!(text, "rank" | "id" | "index" | "device")
        && let Some(diag) = diags.items.last_mut()
    {
        diag.notes.push("the number of the rank is `rank`".into());
    }
}

pub(super) fn report_index_count(indexed: &str, rank: usize, found: usize, span: Span, diags: &mut Diags) {
    let message = message!(
        "`{}` has {}, but this index has {}",
        PartKind::Tensor.quote(indexed),
        count_text(rank, "axis"),
        count_text(found, "entry")
    );
    push(diags, codes::INDEX_COUNT, span, message, "reductions (`r.`) are not counted: they are not stored");
}

/// Reports an index `own` of an axis that does not lie across devices, or another one of an axis that does. The index may
/// be the last one.
pub(super) fn report_own_index(
    program: &Program,
    tensor: TensorId,
    axis: usize,
    [is_own, is_last]: [bool; 2],
    span: Span,
    diags: &mut Diags,
) {
    let name = program.quoted_tensor(tensor);
    let stored = logical_axes(program, tensor);
    let extent = stored.axes.iter().filter(|axis| !axis.is_reduction()).nth(axis).map(|axis| axis.extent);
    let mut devices =
        program.tensors().iter().flat_map(|(id, _)| program.domains(id)).filter(|one| one.parallel.is_device());
    let is_of_ranks = devices.any(|one| Some(one.extent) == extent);
    let sharded = later_device_axis(program, tensor, axis).filter(|_| is_own);
    let (message, note, meant): (Message, Message, Option<String>) = match (is_own, sharded) {
        (true, Some(other)) => (
            message!("axis {} of `{}` does not lie across devices, but axis {} does", axis, name, other),
            "write `:` for each axis that the rank has as a whole".into(),
            Some(format!("{}own", ":, ".repeat(other - axis))),
        ),
        (true, None) => (
            message!("axis {} of `{}` does not lie across devices, so no part of it is the rank's own", axis, name),
            match is_of_ranks {
                true => "write the number of a slice; that of the rank is `rank`".into(),
                false => {
                    "each rank has a tensor of this name with all of this axis: leave `own` out, or write the number of a slice".into()
                }
            },
            is_of_ranks.then(|| "rank".to_owned()),
        ),
        (false, _) => (
            message!("axis {} of `{}` lies across devices, and each rank holds one part of it", axis, name),
            "write `own`: other ranks' parts come by communication".into(),
            Some("own".to_owned()),
        ),
    };
    // The index of another statement has the same cause.
    let mut earlier = diags.items.iter_mut();
    if let Some(first) = earlier.find(|diag| diag.code == codes::OWN_INDEX && diag.message == message) {
        let of_index = first.primary.as_ref().map(|label| label.span);
        let is_of_index = |fix: &&mut Fix| fix.edits.first().map(|edit| edit.span) == of_index;
        if let (Some(meant), Some(fix)) = (meant, first.fixes.iter_mut().find(is_of_index)) {
            fix.edits.push(TextEdit { span, text: meant });
        }
        first.labels.push(DiagLabel { span, text: "so it is here".into() });
        return;
    }
    let axes = message!("the axes of `{}` are {}; reductions (`r.`) do not count", name, list_axes(program, tensor));
    let mut diag = Diag::error(codes::OWN_INDEX, span, message).with_note(note).with_note(axes);
    diag.fixes.extend(meant.map(|meant| {
        let fix = Fix::replacement(format!("write `{meant}`"), span, meant);
        // The indices after it may be of other axes, too.
        let is_sure = sharded.is_none() || is_last;
        let applicability = if is_sure { Applicability::Untried } else { Applicability::MaybeIncorrect };
        Fix { applicability, ..fix }
    }));
    if sharded.is_none() {
        diag.fixes.extend(resharded_fix(program, tensor, axis, is_own));
    }
    diags.push(diag);
}

/// The first stored axis of a tensor after one that lies across devices.
fn later_device_axis(program: &Program, tensor: TensorId, axis: usize) -> Option<usize> {
    let stored = logical_axes(program, tensor);
    let mut kept = stored.axes.iter().filter(|axis| !axis.is_reduction()).enumerate();
    kept.find(|(at, other)| *at > axis && other.is_device_index()).map(|(at, _)| at)
}

/// Checks an index `rank`: it counts from 0 over all ranks, which is the position in the mesh only if the mesh is 0..n.
pub(super) fn check_rank_index(program: &Program, tensor: TensorId, span: Span, diags: &mut Diags) {
    let Some(mesh) = program.tensor_mesh(tensor) else { return };
    if mesh.devices.iter().copied().eq(0..mesh.devices.len() as u32) {
        return;
    }
    let message = message!(
        "`rank` is no position in the mesh of `{}`, which does not begin with device 0, 1, 2",
        program.quoted_tensor(tensor)
    );
    diags.push(
        Diag::error(codes::RANK_INDEX, span, message)
            .into_warning()
            .with_note("write the position in the mesh, such as `rank - 4`"),
    );
}

pub(super) fn report_split_slice(program: &Program, tensor: TensorId, span: Span, diags: &mut Diags) {
    let message = message!(
        "the type of a slice of `{}` cannot be inferred, since axes of it were split",
        program.quoted_tensor(tensor)
    );
    push(diags, codes::NO_TYPE, span, message, "give the slice a name and a type: `V: f32[m] = G[i]`");
}

pub(super) fn report_other_type(text: &str, span: Span, first: Span, diags: &mut Diags) {
    let mut diag = Diag::error(
        codes::DECLARED_TWICE,
        span,
        message!("`{}` is declared with another type", PartKind::Tensor.quote(text)),
    )
    .with_note(message!("a name has one type: give this tensor another name, as in `{}2`", text));
    diag.labels.push(DiagLabel { span: first, text: "declared here".into() });
    diags.push(diag);
}

pub(super) fn report_target(slice: Option<String>, span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::WRONG_KIND, span, "this cannot be assigned to");
    diags.push(match slice {
        Some(slice) => with_slice(diag, slice, span),
        None => diag.with_note("the left side is a name, or a slice `C[i]`"),
    });
}

/// Reports a slice on the left side of a statement that only names its result.
pub(super) fn report_slice_target(span: Span, diags: &mut Diags) {
    let note = "ops write slices, `C[i] = relu(A[i])`, and messages take theirs as an argument: `recv(C[i], from=p)`";
    push(diags, codes::WRONG_KIND, span, "this statement needs a name on its left side", note);
}

pub(super) fn report_several_targets(span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, "only a call has several results", "write one statement for each name");
}

/// The comment after a place that is a divisor: names that other lines have, too.
fn commented_divisor(source: &str, span: Span) -> Option<CommentedDivisor<'_>> {
    let rest = source.get(span.end as usize..)?.lines().next()?.trim();
    let divisor = CommentedDivisor::of_comment(rest).filter(|divisor| divisor.is_plain && divisor.after.is_empty())?;
    let before = source.get(..span.start as usize)?;
    let targets: Vec<&str> =
        before.lines().filter_map(|line| line.split_once('=')).map(|(target, _)| target.trim()).collect();
    let are_written = divisor.names.iter().all(|name| targets.contains(name));
    (!divisor.names.is_empty() && are_written).then_some(divisor)
}

/// `B = A` for tensors.
pub(super) fn report_copy(source: &str, rank: Option<usize>, span: Span, diags: &mut Diags) {
    let text = source.get(span.as_usize_range()).unwrap_or_default();
    let message = message!("`{}` is no operation", text);
    if let Some(divisor) = commented_divisor(source, span) {
        let meant = format!("{text} / {}", divisor.text);
        let end = source
            .get(span.end as usize..)
            .and_then(|rest| rest.find('\n'))
            .map_or(source.len(), |at| at + span.end as usize);
        let place = Span::new(span.start as usize, end);
        let fix = Fix::replacement(format!("write `{meant}`"), place, meant);
        let note = "`//` begins a comment, and tensors are divided by `/`";
        let diag = Diag::error(codes::WRONG_KIND, span, message).with_note(note);
        diags.push(diag.with_fix(Fix { applicability: Applicability::Untried, ..fix }));
        return;
    }
    let (note, meant) = match transpose_of(text, rank) {
        Some(operation) if rank.is_some_and(|rank| rank > 2) => {
            (message!("axes are exchanged by `{}`", operation.clone()), operation)
        }
        Some(operation) => (message!("a matrix is transposed by `{}`", operation.clone()), operation),
        None => {
            let copy = format!("Set({text})");
            (message!("a copy is written `{}`; `alias B -> A` gives a tensor a second name", copy.clone()), copy)
        }
    };
    let fix = Fix::replacement(format!("write `{meant}`"), span, meant);
    let diag = Diag::error(codes::WRONG_KIND, span, message).with_note(note);
    diags.push(diag.with_fix(Fix { applicability: Applicability::Untried, ..fix }));
}

/// A scalar where a tensor is written.
pub(super) fn report_scalar_value(source: &str, span: Span, diags: &mut Diags) {
    let text = source.get(span.as_usize_range()).unwrap_or_default();
    let message = message!("`{}` is a scalar, but this statement writes a tensor", PartKind::Scalar.quote(text));
    push(diags, codes::WRONG_KIND, span, message, "give the scalar a name of its own, or fill the tensor with `full`");
}

/// Reports a called name that is no op, kernel, function or communication.
pub(super) fn report_unknown_op(
    ops: OpRegistry,
    file: &FileSyntax,
    kernels: &FxHashMap<Symbol, UnitId>,
    text: &str,
    span: Span,
    diags: &mut Diags,
) {
    // The header of a kernel with an error has its own.
    if file.answered.iter().any(|line| file.symbol_text(line.name) == text) {
        return;
    }
    let mut known: Vec<String> = kernels.keys().map(|name| file.symbol_text(*name).to_owned()).collect();
    known.sort_unstable();
    let words = COMMUNICATION_WORDS.iter().map(|(word, _)| *word).chain(["send", "recv", "permute", "alloc"]);
    let dtypes = DTYPE_WORDS.iter().map(|(word, _)| *word);
    let calls = ops.head_words().filter(|word| ops.find_op(word).is_some_and(is_callable));
    known.extend(calls.chain(function_names()).chain(words).chain(dtypes).map(str::to_owned));
    let known = known.iter().map(String::as_str);
    let diag = Diag::error(
        codes::UNKNOWN_OP,
        span,
        message!("there is no op, kernel or function `{}`", PartKind::Op.quote(text)),
    );
    diags.push(match nearest_function(text, known) {
        _ if allocation_of(text).is_some() => {
            diag.with_note(message!("write `{}`", allocation_of(text).unwrap_or_default()))
        }
        _ if typed_allocation_of(text).is_some() => diag.with_note(typed_allocation_of(text).unwrap_or_default()),
        _ if method_of(ops, text).is_some() => with_method_note(diag, text, method_of(ops, text).unwrap_or_default()),
        _ if COMMUNICATION_WORDS.iter().any(|(word, _)| *word == text) => {
            diag.with_note(message!("a collective is a statement of its own: `wait {}(A -> G)`", PartKind::Op.quote(text)))
        }
        Some(near) if !text.contains('.') => diag.with_near_word(span, text, near),
        _ if RESERVED_WORDS.contains(&text) => diag.with_note(message!("`{}` begins a statement of its own", PartKind::Word.quote(text))),
        _ => diag.with_note("docs/ops.md lists all ops, and `hir-opt --list-ops=pointwise` the functions; a kernel stands in front of the program"),
    });
}

pub(super) fn report_not_callable(text: &str, span: Span, diags: &mut Diags) {
    let message = message!("`{}` is not written as a call in `hir 2`", PartKind::Op.quote(text));
    push(diags, codes::UNKNOWN_OP, span, message, "docs/language.md lists the statements");
}

pub(super) fn report_list(what: &str, example: &str, span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        message!("a list of {} is needed here", what),
        message!("such as `{}`", example),
    );
}

pub(super) fn report_axis(program: &Program, tensor: TensorId, axis: i64, rank: usize, span: Span, diags: &mut Diags) {
    let message =
        message!("`{}` has no axis {}: it has {}", program.quoted_tensor(tensor), axis, count_text(rank, "axis"));
    push(diags, codes::INDEX_COUNT, span, message, "axes count from 0, reductions (`r.`) do not count");
}

pub(super) fn report_no_axis(program: &Program, tensor: TensorId, position: u32, span: Span, diags: &mut Diags) {
    let message = message!("`{}` has no axis {}", program.quoted_tensor(tensor), position);
    push(diags, codes::INDEX_COUNT, span, message, "axes of a loop count from 0 in printed order, reductions too");
}

pub(super) fn report_function_key(text: &str, span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::UNKNOWN_WORD,
        span,
        message!("the function `{}` has no arguments with names", PartKind::Op.quote(text)),
        "",
    );
}

pub(super) fn report_no_condition(span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, "this `if` has no condition".to_owned(), "write `if c:`");
}

pub(super) fn report_handle_type(span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, "a communication has no type".to_owned(), "write `h = send(..)`");
}

pub(super) fn report_no_target(text: &str, span: Span, diags: &mut Diags) {
    let message = message!("the result of `{}` is lost", PartKind::Op.quote(text));
    push(diags, codes::WRONG_RESULTS, span, message, message!("write `C = {}(..)`", PartKind::Op.quote(text)));
}

pub(super) fn report_post_form(word: &str, span: Span, diags: &mut Diags) {
    let form = match word {
        "send" => "send(A, to=p)".to_owned(),
        "recv" => "recv(B, from=p)".to_owned(),
        "permute" => "permute(A -> B, to=p, from=q)".to_owned(),
        _ => format!("{word}(A -> B)"),
    };
    push(
        diags,
        codes::WRONG_KIND,
        span,
        message!("this `{}` is not complete", PartKind::Op.quote(word)),
        message!("write `{}`", form),
    );
}

/// `G = allgather(A)`.
pub(super) fn report_collective_result(word: &str, note: Message, span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        message!("`{}` has its result inside of its brackets", PartKind::Op.quote(word)),
        note,
    );
}

pub(super) fn report_member(span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        "this statement cannot stand in a group",
        "a group holds posts, such as `send(..)` and `recv(..)`",
    );
}

/// `{ wait send(..) }`: an edit removes the `wait`.
pub(super) fn report_wait_in_group(whole: Span, post: Span, diags: &mut Diags) {
    let word = Span { start: whole.start, end: post.start };
    let diag = Diag::error(codes::OP_IN_GROUP, word, "`wait` cannot stand in a group");
    let fix = Fix::replacement("leave the `wait` out", word, "");
    diags.push(
        diag.with_note("leave it out: the group has a handle, and `wait h` waits for all its communications")
            .with_fix(Fix { applicability: Applicability::Untried, ..fix }),
    );
}

/// `wait Dispatch(..)`: an edit removes the `wait`.
pub(super) fn report_wait_for_nothing(op: &str, whole: Span, post: Span, diags: &mut Diags) {
    let word = Span { start: whole.start, end: post.start };
    let message = message!("`{}` has no handle that `wait` could wait for", PartKind::Op.quote(op));
    let fix = Fix::replacement("leave the `wait` out", word, "");
    diags.push(
        Diag::error(codes::WRONG_KIND, word, message)
            .with_note("write it without `wait`: what follows on its stream runs after it")
            .with_fix(Fix { applicability: Applicability::Untried, ..fix }),
    );
}

pub(super) fn report_wait(span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        "`wait` needs a communication",
        "write `wait h` for `h = send(..)`, or `wait allgather(A -> B)`",
    );
}

pub(super) fn report_verbatim(found: &Diags, span: Span, diags: &mut Diags) {
    let first = found.items.first();
    let why = first.map_or_else(|| "it is no statement".into(), |diag| diag.message.clone());
    let message = message!("this text is not the printed form: {}", why);
    push(
        diags,
        codes::VERBATIM,
        span,
        message,
        "between backquotes stands the printed form, in which tensors are numbers such as `T3`",
    );
}

/// Reports an argument with a word in a launch, whose arguments have none.
pub(super) fn report_keyed_launch_argument(span: Span, diags: &mut Diags) {
    let message = "the arguments of a kernel have no words";
    let note = "write `launch \"axpy.cu\"::axpy[grid, block](A, n, C) reads(A) writes(C)`";
    diags.push(Diag::error(codes::UNKNOWN_ARGUMENT, span, message).with_note(note));
}
