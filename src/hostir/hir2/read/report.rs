//! Errors of the reader.

use super::foreign::{allocation_of, constant_of, method_of, new_names_of, transpose_of, typed_allocation_of};
use super::scope::Meaning;
use crate::axes::list_axes;
use crate::diag::{Diag, DiagLabel, Diags, codes, message, nearest_function, syntax_error};
use crate::hir2::defaults::{COMMUNICATION_WORDS, DTYPE_WORDS, is_callable};
use crate::ir::functions::function_names;
use crate::ir::{DeviceMesh, Program, RESERVED_WORDS, TensorId, UnitId, is_numbered_name, is_reserved_word};
use crate::ops::OpRegistry;
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{FileSyntax, MeshItem, NameSyntax, ProgramItem};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) fn push(diags: &mut Diags, code: &'static str, span: Span, message: String, note: impl Into<String>) {
    let note = note.into();
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
    let diag = Diag::error(codes::UNKNOWN_WORD, span, format!("`{owner}` has no argument `{found}`"));
    // A word may be a part of another one, as `op` of `op_type`.
    let whole = known.iter().copied().find(|word| word.split('_').any(|part| part == found));
    diags.push(match nearest_name(found, known.iter().copied()).or(whole) {
        Some(near) => diag.with_near_word(span, found, near),
        None if known.is_empty() => diag,
        None => diag.with_note(format!("its arguments are {}", list_words(known))),
    });
}

/// Reports an unknown word, with the nearest known one as a fix.
pub(super) fn report_word(what: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    report_unknown_word(format!("unknown {what} `{found}`"), found, known, span, diags);
}

/// Reports the value of an argument that takes other words.
pub(super) fn report_argument_choice(argument: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    report_unknown_word(format!("`{argument}=` does not take `{found}`"), found, known, span, diags);
}

fn report_unknown_word(message: String, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_WORD, span, message);
    // Words such as `f32` are letters and a number, of which only the order may be wrong.
    let turned = known.iter().copied().find(|word| sorted_letters(word) == sorted_letters(found));
    let diag = match nearest_name(found, known.iter().copied()).or(turned) {
        Some(near) => diag.with_near_word(span, found, near),
        None => diag.with_note(format!("the known ones are {}", list_words(known))),
    };
    diags.push(diag);
}

/// Reports a word of another language as the value of an argument: `meant` is its name here.
pub(super) fn report_foreign_choice(argument: &str, found: &str, meant: &str, span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_WORD, span, format!("`{argument}=` does not take `{found}`"));
    diags.push(diag.with_meant_word(span, meant));
}

/// Reports a word of another language: `meant` is its name here.
pub(super) fn report_foreign_word(what: &str, found: &str, meant: &str, span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_WORD, span, format!("unknown {what} `{found}`"));
    diags.push(diag.with_meant_word(span, meant));
}

fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Reports a word that names no mesh. Names of meshes are short: one with another number is no misspelling.
pub(super) fn report_mesh(found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let near: Vec<&str> = known.iter().copied().filter(|word| without_number(word) != without_number(found)).collect();
    let diag = Diag::error(codes::UNKNOWN_WORD, span, format!("unknown mesh `{found}`"));
    let declare = format!("declare it above the programs: `mesh {found} = 0..4`, or `[[0, 1], [2, 3]]`");
    diags.push(match nearest_name(found, near) {
        Some(near) => diag.with_near_name(span, near),
        None if known.is_empty() => diag.with_note(declare),
        None => diag.with_note(format!("the known ones are {}", list_words(known))).with_note(declare),
    });
}

fn sorted_letters(word: &str) -> Vec<u8> {
    let mut letters = word.as_bytes().to_vec();
    letters.sort_unstable();
    letters
}

/// `1 axis`, `2 axes`.
pub(super) fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn list_words(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// Reports a name that is declared again; `meaning` is its kind.
pub(super) fn report_taken(file: &FileSyntax, name: NameSyntax, meaning: Meaning, first: Span, diags: &mut Diags) {
    report_twice(file, name, first, diags);
    if let Some(diag) = diags.items.last_mut() {
        diag.message = format!("`{}` is {} already", file.symbol_text(name.name), describe_meaning(meaning)).into();
    }
}

pub(super) fn report_twice(file: &FileSyntax, name: NameSyntax, first: Span, diags: &mut Diags) {
    let text = file.symbol_text(name.name);
    let mut diag = Diag::error(codes::NAME_TWICE, name.span, format!("the name `{text}` is taken")).with_note(
        "names of meshes, kernels and programs are unique in a file, others in their program: choose another one",
    );
    diag.labels.push(DiagLabel { span: first, text: "it is declared here".into() });
    diags.push(diag);
}

pub(super) fn report_reserved(text: &str, span: Span, diags: &mut Diags) {
    let message = format!("`{text}` is a word of the language and cannot be a name");
    push(diags, codes::RESERVED_NAME, span, message, "choose another name");
}

/// The line `names` names nothing of the file.
pub(super) fn report_given_name(text: &str, span: Span, diags: &mut Diags) {
    let message = format!("`{text}` is no mesh and no program of this file");
    let note =
        "`names` lists meshes and programs that have their default names, `d` or `main`, by choice; leave others out";
    push(diags, codes::UNKNOWN_WORD, span, message, note);
}

/// Reports `T7` or `h7` that names no tensor or communication, or has an unknown number.
pub(super) fn report_numbered(text: &str, meaning: Meaning, span: Span, diags: &mut Diags) {
    let what = if text.starts_with('T') { "tensor" } else { "communication" };
    let (digits, largest) = (text[1..].trim_start_matches('0'), hostir_grammar::MAX_NUMBER);
    let is_own = matches!((meaning, what), (Meaning::Tensor(_), "tensor") | (Meaning::Handle(_), "communication"));
    if is_own && digits.parse::<u32>().is_err() && !digits.is_empty() {
        let error = hostir_grammar::SyntaxError::large_number(digits, what, largest, span);
        return diags.push(syntax_error(error));
    }
    let message = format!("`{text}` cannot be a name: `{}` and a number stand for a {what}", &text[..1]);
    let note = match is_own {
        true => format!(
            "write `{}{}` for the {what} of that number",
            &text[..1],
            if digits.is_empty() { "0" } else { digits }
        ),
        false => "choose another name".to_owned(),
    };
    push(diags, codes::RESERVED_NAME, span, message, note);
}

pub(super) fn report_lone_kernel(file: &FileSyntax, kernel: &ProgramItem, diags: &mut Diags) {
    let text = file.symbol_text(kernel.name.name);
    let message = format!("kernel `{text}` belongs to no program");
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
        let message = format!("device {device} is in this mesh twice");
        push(diags, codes::MESH_DEVICE, item.span, message, "a mesh names each device once");
    }
    twice.is_none()
}

/// Checks the name of a kernel: a kernel is called like an op, so it must not have an op's name.
pub(super) fn check_kernel_name(ops: OpRegistry, file: &FileSyntax, name: NameSyntax, diags: &mut Diags) {
    let text = file.symbol_text(name.name);
    let is_taken = ops.find_op(text).is_some()
        || function_names().any(|known| known == text)
        || DTYPE_WORDS.iter().any(|(word, _)| *word == text)
        || COMMUNICATION_WORDS.iter().any(|(word, _)| *word == text);
    if is_taken {
        let message = format!("a kernel cannot be called `{text}`: that is an op");
        push(diags, codes::RESERVED_NAME, name.span, message, "choose another name");
    }
}

pub(super) fn report_order(rank: usize, span: Span, diags: &mut Diags) {
    let message = format!("`order(..)` does not list each of the {rank} axes once");
    push(diags, codes::AXES_ORDER, span, message, "it says which axis each printed position shows, from 0");
}

/// Reports that a tensor is needed; `slice` is the right spelling of a tensor that is called, `G(i)`.
pub(super) fn report_needed_tensor(slice: Option<String>, span: Span, diags: &mut Diags) {
    let note = slice.map_or_else(String::new, |slice| format!("write a slice as `{slice}`"));
    push(diags, codes::WRONG_KIND, span, "a tensor is needed here".to_owned(), note);
}

/// `keep=true` of `alloc`.
pub(super) fn report_argument_value(word: &str, is_false: bool, span: Span, diags: &mut Diags) {
    let note = match (word, is_false) {
        ("keep", true) => "write `alloc(fresh)`".to_owned(),
        ("fresh", true) => "write `alloc(keep)`".to_owned(),
        (_, true) => "write `alloc`".to_owned(),
        (_, false) => format!("write `alloc({word})`"),
    };
    push(diags, codes::UNKNOWN_WORD, span, format!("`{word}` of `alloc` takes no value"), note);
}

pub(super) fn report_kind(needed: &str, span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, format!("{needed} is needed here"), "");
}

pub(super) fn report_no_scalar(file: &FileSyntax, name: Symbol, meaning: Meaning, span: Span, diags: &mut Diags) {
    let what = describe_meaning(meaning);
    let text = file.symbol_text(name);
    let note = match meaning {
        Meaning::Handle(_) => format!("`wait {text}` waits for a communication"),
        Meaning::Tensor(_) => format!(
            "the host computes with scalars and reads no tensors: an input without a type, `{text}`, is a scalar; \
             `where(c, A, B)` chooses elements by a tensor of truth values"
        ),
        _ => String::new(),
    };
    push(diags, codes::WRONG_KIND, span, format!("`{text}` is {what}, but a scalar is needed here"), note);
}

pub(super) fn report_own(span: Span, diags: &mut Diags) {
    let note = "`A[own]` is the rank's own part of an axis over devices; the number of the rank is `rank`";
    push(diags, codes::OWN_INDEX, span, "`own` is the index of an axis over devices only".to_owned(), note);
}

/// Adds the note about a function of another language, and the names that it proposes.
fn with_method_note(diag: Diag, text: &str, note: String) -> Diag {
    let diag = diag.with_note(note);
    match new_names_of(text) {
        Some(names) => diag.with_cause(names),
        None => diag,
    }
}

pub(super) fn report_function(ops: OpRegistry, text: &str, span: Span, diags: &mut Diags) {
    let known = function_names().chain(["wrap"]);
    let diag = Diag::error(codes::UNKNOWN_FUNCTION, span, format!("there is no function `{text}` of scalars"));
    diags.push(match (method_of(ops, text), nearest_function(text, known)) {
        (Some(note), _) => with_method_note(diag, text, note),
        (None, Some(near)) if !text.contains('.') => diag.with_near_word(span, text, near),
        _ => diag.with_note("functions of scalars are `wrap`, `ceilDiv`, `where`, `max`, `min`, `abs`, casts such as `i64(x)`, and the pointwise functions"),
    });
}

pub(super) fn report_arity(text: &str, needed: usize, found: usize, span: Span, diags: &mut Diags) {
    let message = match needed {
        0 => format!("there is no function `{text}` of {}", count(found, "operand", "operands")),
        _ => format!("`{text}` takes {}, not {found}", count(needed, "operand", "operands")),
    };
    push(diags, codes::WRONG_ARITY, span, message, "");
}

pub(super) fn report_cast(span: Span, diags: &mut Diags) {
    let message = "this conversion does not exist".to_owned();
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
}

pub(super) fn report_no_tensor(text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNDEFINED_TENSOR, span, format!("there is no tensor `{text}`"));
    diags.push(match nearest_name(text, known.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note(format!(
            "a tensor is declared in the header, or where it is first written: `{text}: f32[m, n] = alloc`"
        )),
    });
}

/// Reports a name that nothing declares, in the place of a tensor or a scalar.
pub(super) fn report_no_name(text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_SCALAR, span, format!("the name `{text}` is not declared"));
    diags.push(match nearest_name(text, known.iter().copied().filter(|name| *name != text)) {
        _ if matches!(text, "x" | "y" | "z") => {
            diag.with_note(format!("the axis `{text}` of a mesh `d`, and the rank's coordinate along it, is `d.{text}`"))
        }
        _ if constant_of(text).is_some() => diag.with_note(constant_of(text).unwrap_or_default()),
        _ if allocation_of(text).is_some() && known.contains(&"alloc") => {
            diag.with_note(format!("write `{}`", allocation_of(text).unwrap_or_default()))
        }
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note("names are those of tensors, extents of their types, scalars `at = e`, indices of loops around the statement, `rank` and `streams`"),
    });
}

/// Reports a name that nothing declares, in the place of a stream.
pub(super) fn report_no_stream(text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_SCALAR, span, format!("the stream `{text}` is not declared"));
    diags.push(match nearest_name(text, known.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note(format!(
            "write `stream {text} = current` where that stream is the current one, or a number, as in `sync 1`"
        )),
    });
}

/// Reports a name of anything but a tensor.
pub(super) fn report_needs_tensor(text: &str, meaning: Meaning, span: Span, diags: &mut Diags) {
    let message = format!("`{text}` is {}, but a tensor is needed here", describe_meaning(meaning));
    push(diags, codes::WRONG_KIND, span, message, "");
}

/// Reports `wait` in front of anything but a communication.
pub(super) fn report_no_wait(text: &str, meaning: Meaning, span: Span, diags: &mut Diags) {
    let message = format!("`{text}` is {}, but `wait` needs a communication", describe_meaning(meaning));
    let note = match meaning {
        Meaning::Stream(_) => format!("write `sync {text}` to wait for a stream"),
        _ => "a communication gets a name where it is posted: `h = send(..)`".to_owned(),
    };
    push(diags, codes::WRONG_KIND, span, message, note);
}

fn describe_meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Tensor(_) => "a tensor",
        Meaning::Handle(_) => "a communication",
        Meaning::Stream(_) => "a stream",
        Meaning::Scalar => "a scalar",
        Meaning::Poisoned => "unknown",
    }
}

/// Checks that `streams n` has a positive number, and that the header has each size once.
pub(super) fn check_hints(file: &FileSyntax, diags: &mut Diags) {
    if let Some(streams) = file.head.streams.filter(|streams| !(1..=i64::from(u32::MAX)).contains(&streams.value)) {
        let message = format!("a program cannot run on {} streams", streams.value);
        push(diags, codes::WRONG_NUMBER, streams.span, message, "write a number from 1, as in `streams 3`");
    }
    let mut first: FxHashMap<Symbol, Span> = FxHashMap::default();
    for size in &file.head.sizes {
        if let Some(earlier) = first.insert(size.name, size.span) {
            let message = format!("the size of `{}` is given twice", file.symbol_text(size.name));
            diags.push(Diag::error(codes::NAME_TWICE, size.span, message).with_label(earlier, "it is given here"));
        }
        let text = file.symbol_text(size.name);
        if is_reserved_word(text) {
            report_reserved(text, size.span, diags);
        } else if is_numbered_name(text) && text.starts_with('T') {
            report_numbered(text, Meaning::Scalar, size.span, diags);
        }
    }
}

pub(super) fn report_index_count(indexed: &str, rank: usize, found: usize, span: Span, diags: &mut Diags) {
    let message = format!(
        "`{indexed}` has {}, but this index has {}",
        count(rank, "axis", "axes"),
        count(found, "entry", "entries")
    );
    push(diags, codes::INDEX_COUNT, span, message, "reductions (`r.`) are not counted: they are not stored");
}

pub(super) fn report_own_index(
    program: &Program,
    tensor: TensorId,
    axis: usize,
    is_own: bool,
    span: Span,
    diags: &mut Diags,
) {
    let name = program.tensor_name(tensor);
    let (message, note) = match is_own {
        true => (
            format!("axis {axis} of `{name}` does not lie across devices, so no part of it is the rank's own"),
            "write the number of a slice; that of the rank is `rank`",
        ),
        false => (
            format!("axis {axis} of `{name}` lies across devices, and each rank holds one part of it"),
            "write `own`: other ranks' parts come by communication",
        ),
    };
    let axes = message!("the axes of `{}` are {}; reductions (`r.`) do not count", name, list_axes(program, tensor));
    diags.push(Diag::error(codes::OWN_INDEX, span, message).with_note(note).with_note(axes));
}

/// Checks an index `rank`: it counts from 0 over all ranks, which is the position in the mesh only if the mesh is 0..n.
pub(super) fn check_rank_index(program: &Program, tensor: TensorId, span: Span, diags: &mut Diags) {
    let Some(mesh) = program.tensor_mesh(tensor) else { return };
    if mesh.devices.iter().copied().eq(0..mesh.devices.len() as u32) {
        return;
    }
    let message = format!(
        "`rank` is no position in the mesh of `{}`, which does not begin with device 0, 1, 2",
        program.tensor_name(tensor)
    );
    diags.push(
        Diag::error(codes::RANK_INDEX, span, message)
            .into_warning()
            .with_note("write the position in the mesh, such as `rank - 4`"),
    );
}

pub(super) fn report_split_slice(program: &Program, tensor: TensorId, span: Span, diags: &mut Diags) {
    let message = format!(
        "the type of a slice of `{}` cannot be inferred, since axes of it were split",
        program.tensor_name(tensor)
    );
    push(diags, codes::NO_TYPE, span, message, "give the slice a name and a type: `V: f32[m] = G[i]`");
}

pub(super) fn report_other_type(text: &str, span: Span, first: Span, diags: &mut Diags) {
    let mut diag = Diag::error(codes::DECLARED_TWICE, span, format!("`{text}` is declared with another type"))
        .with_note("a type stands at the first place only");
    diag.labels.push(DiagLabel { span: first, text: "declared here".into() });
    diags.push(diag);
}

pub(super) fn report_target(slice: Option<String>, span: Span, diags: &mut Diags) {
    let note = match slice {
        Some(slice) => format!("write a slice as `{slice}`"),
        None => "the left side is a name, or a slice `C[i]`".to_owned(),
    };
    push(diags, codes::WRONG_KIND, span, "this cannot be assigned to".to_owned(), note);
}

/// Reports a slice on the left side of a statement that only names its result.
pub(super) fn report_slice_target(span: Span, diags: &mut Diags) {
    let note = "ops write slices, `C[i] = relu(A[i])`, and messages take theirs as an argument: `recv(C[i], from=p)`";
    push(diags, codes::WRONG_KIND, span, "this statement needs a name on its left side".to_owned(), note);
}

pub(super) fn report_several_targets(span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        "only a call has several results".to_owned(),
        "write one statement for each name",
    );
}

/// `B = A` for tensors.
pub(super) fn report_copy(source: &str, span: Span, diags: &mut Diags) {
    let text = source.get(span.as_usize_range()).unwrap_or_default();
    let message = format!("`{text}` is no operation");
    let note = match transpose_of(text) {
        Some(operation) => format!("a matrix is transposed by `{operation}`"),
        None => format!("a copy is written `Set({text})`; `alias B -> A` gives a tensor a second name"),
    };
    push(diags, codes::WRONG_KIND, span, message, note);
}

/// A scalar where a tensor is written.
pub(super) fn report_scalar_value(source: &str, span: Span, diags: &mut Diags) {
    let text = source.get(span.as_usize_range()).unwrap_or_default();
    let message = format!("`{text}` is a scalar, but this statement writes a tensor");
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
    let mut known: Vec<String> = kernels.keys().map(|name| file.symbol_text(*name).to_owned()).collect();
    known.sort_unstable();
    let words = COMMUNICATION_WORDS.iter().map(|(word, _)| *word).chain(["send", "recv", "permute", "alloc"]);
    let dtypes = DTYPE_WORDS.iter().map(|(word, _)| *word);
    let calls = ops.head_words().filter(|word| ops.find_op(word).is_some_and(is_callable));
    known.extend(calls.chain(function_names()).chain(words).chain(dtypes).map(str::to_owned));
    let known = known.iter().map(String::as_str);
    let diag = Diag::error(codes::UNKNOWN_OP, span, format!("there is no op, kernel or function `{text}`"));
    diags.push(match nearest_function(text, known) {
        _ if allocation_of(text).is_some() => {
            diag.with_note(format!("write `{}`", allocation_of(text).unwrap_or_default()))
        }
        _ if typed_allocation_of(text).is_some() => diag.with_note(typed_allocation_of(text).unwrap_or_default()),
        _ if method_of(ops, text).is_some() => with_method_note(diag, text, method_of(ops, text).unwrap_or_default()),
        _ if COMMUNICATION_WORDS.iter().any(|(word, _)| *word == text) => {
            diag.with_note(format!("a collective is a statement of its own: `wait {text}(A -> G)`"))
        }
        Some(near) if !text.contains('.') => diag.with_near_word(span, text, near),
        _ if RESERVED_WORDS.contains(&text) => diag.with_note(format!("`{text}` begins a statement of its own")),
        _ => diag.with_note("docs/ops.md lists all ops, and `hir-opt --list-ops=pointwise` the functions; a kernel stands in front of the program"),
    });
}

pub(super) fn report_not_callable(text: &str, span: Span, diags: &mut Diags) {
    let message = format!("`{text}` is not written as a call in `hir 2`");
    push(diags, codes::UNKNOWN_OP, span, message, "docs/language.md lists the statements");
}

pub(super) fn report_list(what: &str, example: &str, span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, format!("a list of {what} is needed here"), format!("such as `{example}`"));
}

pub(super) fn report_axis(program: &Program, tensor: TensorId, axis: i64, rank: usize, span: Span, diags: &mut Diags) {
    let message =
        format!("`{}` has no axis {axis}: it has {}", program.tensor_name(tensor), count(rank, "axis", "axes"));
    push(diags, codes::INDEX_COUNT, span, message, "axes count from 0, reductions (`r.`) do not count");
}

pub(super) fn report_no_axis(program: &Program, tensor: TensorId, position: u32, span: Span, diags: &mut Diags) {
    let message = format!("`{}` has no axis {position}", program.tensor_name(tensor));
    push(diags, codes::INDEX_COUNT, span, message, "axes of a loop count from 0 in printed order, reductions too");
}

pub(super) fn report_function_key(text: &str, span: Span, diags: &mut Diags) {
    push(diags, codes::UNKNOWN_WORD, span, format!("the function `{text}` has no arguments with names"), "");
}

pub(super) fn report_no_condition(span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, "this `if` has no condition".to_owned(), "write `if c:`");
}

pub(super) fn report_handle_type(span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, "a communication has no type".to_owned(), "write `h = send(..)`");
}

pub(super) fn report_no_target(text: &str, span: Span, diags: &mut Diags) {
    let message = format!("the result of `{text}` is lost");
    push(diags, codes::WRONG_RESULTS, span, message, format!("write `C = {text}(..)`"));
}

pub(super) fn report_post_form(word: &str, span: Span, diags: &mut Diags) {
    let form = match word {
        "send" => "send(A, to=p)".to_owned(),
        "recv" => "recv(B, from=p)".to_owned(),
        "permute" => "permute(A -> B, to=p, from=q)".to_owned(),
        _ => format!("{word}(A -> B)"),
    };
    push(diags, codes::WRONG_KIND, span, format!("this `{word}` is not complete"), format!("write `{form}`"));
}

/// `G = allgather(A)`.
pub(super) fn report_collective_result(word: &str, note: String, span: Span, diags: &mut Diags) {
    push(diags, codes::WRONG_KIND, span, format!("`{word}` has its result inside of its brackets"), note);
}

pub(super) fn report_post_key(word: &str, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    if found.is_empty() {
        let message = format!("`{word}` takes no further operand");
        push(diags, codes::EXTRA_OPERAND, span, message, format!("its arguments are {}", list_words(known)));
        return;
    }
    let hint = match found {
        "peer" | "dst" | "dest" => Some("to"),
        "src" | "source" => Some("from"),
        "backend" => Some("via"),
        "red_op" | "reduce" => Some("op"),
        _ => None,
    };
    match hint.filter(|hint| known.contains(hint)) {
        Some(hint) => {
            let message = format!("`{word}` has no argument `{found}`");
            diags.push(Diag::error(codes::UNKNOWN_WORD, span, message).with_meant_word(span, hint));
        }
        None => report_argument_word(word, found, known, span, diags),
    }
}

pub(super) fn report_member(span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        "this statement cannot stand in a group".to_owned(),
        "a group holds posts, such as `send(..)` and `recv(..)`",
    );
}

pub(super) fn report_wait(span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::WRONG_KIND,
        span,
        "`wait` needs a communication".to_owned(),
        "write `wait h` for `h = send(..)`, or `wait allgather(A -> B)`",
    );
}

pub(super) fn report_no_handle(text: &str, posted: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(codes::UNKNOWN_HANDLE, span, format!("no communication is called `{text}`"));
    diags.push(match nearest_name(text, posted.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note("a communication gets a name where it is posted: `h = send(..)`"),
    });
}

pub(super) fn report_verbatim(found: &Diags, span: Span, diags: &mut Diags) {
    let first = found.items.first();
    let why = first.map_or_else(|| "it is no statement".into(), |diag| diag.message.clone());
    let message = format!("this text is not the printed form: {why}");
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
