//! Binds the written arguments of a statement to those that its op declares, for both notations.
//!
//! Which argument fills which declaration, and which are missing, unknown or given twice, is decided here. A notation
//! says by which word an argument is given and which need none; it reads the values and words the messages.

use super::spec::ArgSpec;
use crate::ir::{AttrKey, AttrValue, Op, OpKind, TensorId, Value};
use smallvec::SmallVec;

/// One statement in a notation of arguments.
pub trait ArgumentNotation {
    /// An argument as it is written.
    type Argument;
    /// True if values are read although an argument is missing, so that the errors in them are reported too.
    const READS_INCOMPLETE: bool;

    /// The word in front of an argument's value.
    fn word_of<'a>(&'a self, argument: &'a Self::Argument) -> Option<&'a str>;
    /// Returns true if a declaration is filled by an argument with this word.
    fn is_named(&self, kind: OpKind, declared: &ArgSpec, word: &str) -> bool;
    /// Returns true if a declaration is filled by an argument without a word.
    fn is_positional(&self, kind: OpKind, declared: &ArgSpec) -> bool;
    /// Returns true if a declaration needs no argument.
    fn may_lack(&self, declared: &ArgSpec) -> bool;
    /// The value of an attribute; `of` is the first operand so far. `None` after an error.
    fn read_attribute(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        argument: &Self::Argument,
        of: Option<TensorId>,
    ) -> Option<AttrValue>;
    /// The value of an operand or a result; `None` after an error.
    fn read_operand(&mut self, declared: &ArgSpec, argument: &Self::Argument) -> Option<Value>;
    /// The value of an attribute that the notation leaves out; `None` if it has to be written.
    fn usual_value(&mut self, declared: &ArgSpec) -> Option<AttrValue>;
    /// Reports arguments that do not fit the declarations.
    fn report_mismatch(&mut self, kind: OpKind, mismatch: ArgumentMismatch<'_, Self::Argument>);
}

/// Arguments that do not fit the declarations of an op.
pub enum ArgumentMismatch<'a, A> {
    /// No declaration has the argument's word, or all that need no word are filled.
    Unexpected(&'a A),
    /// Two arguments fill one declaration.
    Twice {
        /// The declaration.
        declared: &'static ArgSpec,
        /// The argument that fills it.
        first: &'a A,
        /// The other one.
        second: &'a A,
    },
    /// No argument fills a declaration that needs one.
    Missing(&'static ArgSpec),
}

/// The argument of each declaration.
struct BoundArguments<'a, A> {
    slots: SmallVec<[Option<&'a A>; 8]>,
    /// All arguments of the declaration that is repeated.
    repeated: SmallVec<[&'a A; 4]>,
}

/// Reads the arguments of a statement into an op; `None` after an error.
pub fn read_arguments<N: ArgumentNotation>(notation: &mut N, mut op: Op, arguments: &[N::Argument]) -> Option<Op> {
    let spec = op.kind.spec();
    let bound = bind_arguments(notation, op.kind, arguments)?;
    if !N::READS_INCOMPLETE && !report_missing(notation, op.kind, &bound) {
        return None;
    }
    let keyed = spec.args.iter().zip(&bound.slots).filter(|(declared, _)| declared.key.is_some());
    op.attrs.reserve_exact(keyed.filter(|(declared, slot)| slot.is_some() || declared.usual.is_some()).count());
    let mut good = true;
    for (declared, slot) in spec.args.iter().zip(&bound.slots) {
        match slot {
            Some(_) if declared.repeated => {
                for argument in &bound.repeated {
                    good &= fill_argument(notation, declared, argument, &mut op).is_some();
                }
            }
            Some(argument) => good &= fill_argument(notation, declared, argument, &mut op).is_some(),
            None => match declared.key.and_then(|key| Some((key, notation.usual_value(declared)?))) {
                Some(attribute) => op.attrs.push(attribute),
                None if N::READS_INCOMPLETE && !notation.may_lack(declared) => {
                    notation.report_mismatch(op.kind, ArgumentMismatch::Missing(declared));
                    good = false;
                }
                None => {}
            },
        }
    }
    spec.list_given(&mut op, |place| bound.slots[place].is_some());
    good.then_some(op)
}

/// Stores the value of one argument in the op.
fn fill_argument<N: ArgumentNotation>(
    notation: &mut N,
    declared: &ArgSpec,
    argument: &N::Argument,
    op: &mut Op,
) -> Option<()> {
    if let Some(key) = declared.key {
        let of = op.input_tensors().next();
        let value = notation.read_attribute(declared, key, argument, of)?;
        op.attrs.push((key, value));
        return Some(());
    }
    let value = notation.read_operand(declared, argument)?;
    if declared.result {
        op.results.push(value);
    } else {
        op.operands.push(value);
    }
    Some(())
}

/// Finds the declaration of each argument; `None` if one has none, or not its own.
fn bind_arguments<'a, N: ArgumentNotation>(
    notation: &mut N,
    kind: OpKind,
    arguments: &'a [N::Argument],
) -> Option<BoundArguments<'a, N::Argument>> {
    let declared = kind.spec().args;
    let slots = SmallVec::from_elem(None, declared.len());
    let mut bound = BoundArguments { slots, repeated: SmallVec::new() };
    let mut repeats = repeated_count(notation, kind, arguments);
    let (mut next, mut good) = (0, true);
    for argument in arguments {
        let Some(at) = find_declaration(notation, kind, &bound, argument, next) else {
            notation.report_mismatch(kind, ArgumentMismatch::Unexpected(argument));
            good = false;
            continue;
        };
        let positional = notation.word_of(argument).is_none();
        if positional && declared[at].repeated {
            bound.repeated.push(argument);
            repeats = repeats.saturating_sub(1);
            next = if repeats == 0 { at + 1 } else { at };
        } else if positional || at == next {
            next = at + 1;
        }
        match bound.slots[at] {
            Some(first) if !declared[at].repeated => {
                let twice = ArgumentMismatch::Twice { declared: &declared[at], first, second: argument };
                notation.report_mismatch(kind, twice);
                good = false;
            }
            _ => bound.slots[at] = Some(argument),
        }
    }
    good.then_some(bound)
}

/// The declaration that an argument fills; `next` is the one after the last.
fn find_declaration<N: ArgumentNotation>(
    notation: &N,
    kind: OpKind,
    bound: &BoundArguments<'_, N::Argument>,
    argument: &N::Argument,
    next: usize,
) -> Option<usize> {
    let declared = kind.spec().args;
    let Some(word) = notation.word_of(argument) else {
        return (next..declared.len()).find(|&at| {
            let is_free = declared[at].repeated || bound.slots[at].is_none();
            is_free && notation.is_positional(kind, &declared[at])
        });
    };
    // Arguments mostly stand in the order of their declarations.
    let (before, after) = declared.split_at(next.min(declared.len()));
    let found = after.iter().position(|declared| notation.is_named(kind, declared, word)).map(|at| before.len() + at);
    found.or_else(|| before.iter().position(|declared| notation.is_named(kind, declared, word)))
}

/// The number of arguments without a word that the repeated declaration takes.
fn repeated_count<N: ArgumentNotation>(notation: &N, kind: OpKind, arguments: &[N::Argument]) -> usize {
    let declared = kind.spec().args;
    if !declared.iter().any(|declared| declared.repeated) {
        return 0;
    }
    let given = arguments.iter().filter(|argument| notation.word_of(argument).is_none()).count();
    let others = declared.iter().filter(|declared| {
        let mut words = arguments.iter().filter_map(|argument| notation.word_of(argument));
        let has_word = words.any(|word| notation.is_named(kind, declared, word));
        !declared.repeated && !has_word && notation.is_positional(kind, declared)
    });
    given.saturating_sub(others.count())
}

/// Reports each declaration that lacks its argument. Returns true if there is none.
fn report_missing<N: ArgumentNotation>(
    notation: &mut N,
    kind: OpKind,
    bound: &BoundArguments<'_, N::Argument>,
) -> bool {
    let mut complete = true;
    for (declared, slot) in kind.spec().args.iter().zip(&bound.slots) {
        if slot.is_none() && !notation.may_lack(declared) {
            notation.report_mismatch(kind, ArgumentMismatch::Missing(declared));
            complete = false;
        }
    }
    complete
}
