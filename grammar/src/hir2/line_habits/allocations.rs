//! Memory of NumPy, PyTorch, CUDA and MLIR: functions that take the extents and the element type.

use super::context::LineContext;
use super::declarations::read_type;
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};
use crate::hir2::ast::{ArgNode, ExprId, ExprNode, FileSyntax};
use crate::hir2::element_types::{element_type, is_element_type};
use crate::spelling::nearest_candidate;

/// Functions that give memory, by the last word of their names, and whether its elements are 0.
const ALLOCATORS: &[(&str, bool)] = &[
    ("alloc", false),
    ("empty", false),
    ("new_empty", false),
    ("empty_like", false),
    ("malloc", false),
    ("zeros", true),
    ("new_zeros", true),
    ("zeros_like", true),
    ("calloc", true),
];

/// Arguments of `alloc` that are a word.
const WORDS: &[&str] = &["zero", "keep", "fresh", "resets"];

/// Arguments of `alloc` with a value.
const KEYS: &[&str] = &["size", "mem", "share"];

/// Arguments of other languages that have no counterpart.
const OTHER_KEYS: &[&str] = &["device", "requires_grad", "pin_memory", "order", "layout"];

/// A call that gives memory.
#[derive(Default)]
struct AllocationCall<'a> {
    dtype: Option<&'static str>,
    axes: Vec<&'a str>,
    /// The arguments that `alloc` has, too.
    kept: Vec<&'a str>,
}

impl<'a> AllocationCall<'a> {
    /// Reads the arguments; `None` if one has no meaning here.
    fn read(items: Vec<&'a str>) -> Option<Self> {
        let mut call = Self::default();
        for item in items.into_iter().filter(|item| !item.is_empty()) {
            call.add_argument(item)?;
        }
        Some(call)
    }

    fn add_argument(&mut self, item: &'a str) -> Option<()> {
        let keyed = item.split_once('=').filter(|(key, _)| is_name(key.trim()));
        match keyed.map(|(key, value)| (key.trim(), value.trim())) {
            Some(("zero", "True" | "true" | "1")) => self.kept.push("zero"),
            Some(("dtype" | "type", value)) => self.dtype = Some(type_of_word(value)?),
            Some(("shape" | "size", value)) if is_list(value) => self.add_list(value),
            Some((key, _)) if KEYS.contains(&key) => self.kept.push(item),
            Some((key, _)) => return OTHER_KEYS.contains(&key).then_some(()),
            None if WORDS.contains(&item) => self.kept.push(item),
            None if type_of_word(item).is_some() => self.dtype = type_of_word(item),
            None if is_list(item) => self.add_list(item),
            None if read_type(item).is_some() => {
                let (word, axes) = item.strip_suffix(']')?.split_once('[')?;
                self.dtype = element_type(word);
                self.axes = split_items(axes);
            }
            None if item == "0" => {}
            // A misspelt word.
            None if nearest_candidate(item, WORDS).is_some() => return None,
            None => self.axes.push(item),
        }
        Some(())
    }

    fn add_list(&mut self, list: &'a str) {
        let items = split_items(&list[1..list.len() - 1]);
        self.axes.extend(items.into_iter().filter(|item| !item.is_empty()));
    }

    /// `alloc` with the arguments that it has here.
    fn alloc_text(&self, is_zero: bool) -> String {
        let zero = Some("zero").filter(|_| is_zero && !self.kept.contains(&"zero"));
        let arguments: Vec<&str> = zero.into_iter().chain(self.kept.iter().copied()).collect();
        if arguments.is_empty() { "alloc".to_owned() } else { format!("alloc({})", arguments.join(", ")) }
    }
}

/// `[m, k]`, `(m, k)`.
fn is_list(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']') || text.starts_with('(') && text.ends_with(')')
}

/// The element type of `f32`, `torch.float16` or `"float32"`.
fn type_of_word(text: &str) -> Option<&'static str> {
    let word = text.trim_matches(['"', '\'']);
    element_type(word.rsplit_once('.').map_or(word, |(_, last)| last))
}

/// True for a function that gives memory of zeros, false for other memory; `None` for all other names.
fn fills_with_zeros(name: &str) -> Option<bool> {
    let last = name.rsplit(['.', ':']).next()?;
    ALLOCATORS.iter().find(|(known, _)| *known == last).map(|(_, is_zero)| *is_zero)
}

/// True for the name of a function that gives memory.
pub(super) fn is_allocator(name: &str) -> bool {
    fills_with_zeros(name).is_some()
}

/// True for a call that gives memory and has arguments that `alloc` lacks.
pub(super) fn is_other_allocation(file: &FileSyntax, name: &str, args: &[ArgNode]) -> bool {
    is_allocator(name) && (name != "alloc" || !args.iter().all(|arg| is_own_argument(file, arg)))
}

/// True for an argument of `alloc` here.
fn is_own_argument(file: &FileSyntax, arg: &ArgNode) -> bool {
    match (arg.key, file.expr(arg.value)) {
        (Some(key), _) => KEYS.contains(&file.strings.get(key.name)),
        (None, ExprNode::Name(word)) => WORDS.contains(&file.strings.get(*word)),
        (None, _) => false,
    }
}

/// True for `f32[m, k]` as a value.
pub(super) fn is_type(file: &FileSyntax, value: ExprId) -> bool {
    let ExprNode::Index(base, _) = *file.expr(value) else { return false };
    matches!(*file.expr(base), ExprNode::Name(word) if is_element_type(file.strings.get(word)))
}

/// `G = alloc(p, k, dtype=f16)`, `G: f32[p] = zeros(p)`, `G = torch.empty((p, k), dtype=torch.float16)`.
pub(super) fn allocation_call(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=").filter(|_| line.is_name(0))?;
    let start = line.code.len() - line.code[line.pieces[equals].place.end..].trim_start().len();
    let value = line.code[start..].trim_end_matches(';').trim_end();
    let is_type = read_type(value).is_some() && !context.is_declared(line.piece_text(equals + 1));
    let called = is_type.then(|| format!("alloc({value})"));
    let (name, arguments) = called.as_deref().unwrap_or(value).strip_suffix(')')?.split_once('(')?;
    let (name, parameter) = name.strip_suffix('>').and_then(|name| name.split_once('<')).unwrap_or((name, ""));
    let is_zero = fills_with_zeros(name)?;
    let call = AllocationCall::read(split_items(arguments))?;
    let dtype = call.dtype.or_else(|| type_of_word(parameter));
    let meant = call.alloc_text(is_zero);
    let target = line.code[..line.pieces[equals].place.start].trim();
    let declared = match target.split_once(':').map(|(name, ty)| (name, ty.trim())) {
        Some((_, ty)) if ty.contains('[') => target.to_owned(),
        Some((name, ty)) if is_element_type(ty) => typed_target(name, ty, &call.axes)?,
        Some(_) => return None,
        None if context.outputs().contains(&target) || context.is_declared(target) => target.to_owned(),
        None if name.ends_with("_like") => {
            let like = context.type_of(call.axes.first()?)?;
            typed_target(target, dtype.unwrap_or(&like.dtype), &like.axes)?
        }
        None => typed_target(target, dtype.unwrap_or("f32"), &call.axes)?,
    };
    let rewritten = format!("{declared} = {meant}");
    let message = "memory is given by `alloc`, and its extents are those of the type";
    (rewritten != line.code).then(|| Habit::rewrite_line(start..start + value.len(), rewritten, message))
}

/// `G: f16[p, k]`.
fn typed_target<S: std::borrow::Borrow<str>>(name: &str, dtype: &str, axes: &[S]) -> Option<String> {
    (is_name(name) && !axes.is_empty()).then(|| format!("{name}: {dtype}[{}]", axes.join(", ")))
}
