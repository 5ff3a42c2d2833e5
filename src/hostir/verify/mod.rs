//! The verifier: the invariants of every program in structure, types, shapes and scopes.
//!
//! [`verify`] reports every violation of one program in one run. The resolver checks names, argument kinds and
//! words (`H01`). The invariants, with their codes ([`crate::diag::codes`]):
//!
//! Declarations
//! - V1 the tensors of one number in one scope have one type (H0201)
//! - V2 the names of inputs are unique (H0202)
//! - V3 a mesh has devices, each once (H0203)
//! - V4 a tensor with a device axis has a mesh (H0204)
//! - V5 at most one stored axis of a tensor is on one device type, and one on the streams (H0205)
//! - V6 a constant extent of a device axis is the mesh's (H0206)
//! - V7 the mesh has an axis for the device type (H0207)
//! - V8 a tensor has at most 64 axes (H0208)
//! - V58 the axes of a tensor of the printed form have numbers of their own (H0249)
//! - V9 aliases are between tensors of the program (H0215), of one shape and element type (H0258); each
//!   has one original, which is not itself, and no memory of its own (H0259)
//!
//! Definitions, in text order, in each scope
//! - V10 a tensor is defined before it is used (H0211)
//! - V11 outputs are defined (H0212)
//! - V12 a tensor is not used after its Deallocate (H0213)
//! - V13 a Deallocate names a defined tensor (H0214)
//! - V14 the tensor whose memory an ALLOCATE shares is defined before (H0215), is of the same element type
//!   and not smaller (H0258), and the allocated tensor has no memory of its own (H0259)
//!
//! Communications
//! - V17 a Wait names the number of a communication or group (H0251)
//! - V18 the numbers of communications and groups are unique, except those of an array of handles (H0252)
//! - V56 a handle is an array everywhere or nowhere (H0153)
//! - V19 a group starts and ends in one block, and groups do not nest (H0253, H0254, H0255)
//! - V20 a group holds communications only (H0256)
//!
//! Units
//! - V21 the numbers of units are unique (H0264)
//! - V22 a unit holds tensor ops only (H0265)
//! - V23 a PostOnStream names a unit of the program (H0261)
//! - V24 a PostOnStream has the unit's number of inputs and outputs, their ranks and element types (H0262, H0263)
//!
//! Scalars
//! - V25 a loop index, and a name that `Index definitions:` compute from one, is used inside its loop (H0216)
//! - V26 a loop index does not hide another (H0218)
//! - V27 every other name is bound; one that nvFuser made up (`i84`) may be free, because nvFuser
//!   leaves definitions out: see [`crate::ir::free_names`] (H0217)
//! - V28 constant loop bounds run upwards from 0 or more (H0219)
//! - V29 no extent requires two values (H0222)
//! - V47 an integer position has no real and no truth value (H0238)
//! - V48 a broadcast has extent 1 (H0239)
//! - V52 a name that the user gave means one thing (H0130)
//! - V50 a definition under `Index definitions:` does not depend on itself (H0266)
//!
//! Tensor ops
//! - V30 the axes of operands and results pair up (H0220, H0221, H0224, H0225, H0226, H0227, H0229)
//! - V31 constant extents of pairs are equal (H0222)
//! - V32 only a cast changes the element type (H0223)
//! - V33 comparisons give `bool`, and the condition of a `where` is `bool` (H0223)
//! - V34 a constant index of a select is inside its axis (H0228)
//! - V35 constant ranges of a slice are inside their axes (H0226)
//! - V36 the dimension of a cat exists (H0233)
//! - V37 the size of an ALLOCATE is the product of the stored extents (H0231, a warning)
//! - V38 the `mem_type` of an ALLOCATE is the tensor's memory (H0232)
//! - V51 functions of integers have no real operand or result (H0268)
//! - V54 `nextafter` is of `float` or `double`, and `bit_cast` keeps the number of bits (H0269, H0270)
//! - V55 random numbers are floats of 16 to 64 bits, of the type that the op names (H0223)
//! - V53 a literal that becomes an element of a tensor is a value of its type (H0009)
//! - V39 an index holds integers, the dimension it chooses from exists, and what it does not choose is long
//!   enough (H0222, H0223, H0233)
//!
//! Communication ops
//! - V40 a team has devices, each once; two at most for a SendRecv (H0241, H0246)
//! - V41 the devices of the meshes are in the team: the senders' of Gather and Reduce, the receivers' of
//!   Scatter and Broadcast, both of the others; a mesh with several axes has several teams (H0242)
//! - V42 a root exactly where the type has one, and in the team (H0243)
//! - V43 a constant peer is a device of some mesh, for a CollectivePermute a position in the team (H0245)
//! - V44 a reduce operation only where the type reduces (H0244)
//!
//! Warnings, beside V37
//! - V45 a loop or a branch is not empty (H0234)
//! - V46 a P2PCommunication has a protocol only with `backend=CUDA` (H0247)
//! - V49 iterations on several streams do not all write one buffer that they keep (H0236)
//! - V57 no quotient of integers is 0 where reals are computed (H0290)

mod aliases;
mod changes;
mod communications;
mod declarations;
mod declared_results;
mod definitions;
mod flow;
mod integers;
mod names;
mod quotients;
mod scalars;
mod streams;
mod units;

use crate::analysis::ExtentClasses;
use crate::diag::components::{VERIFIER, codes_of};
use crate::diag::{Diag, DiagLabel, Diags, PartKind, Severity, Span, codes};
use crate::ir::{IdVec, OpId, Program, TensorId};
pub use changes::{VerifiedState, verify_edit};
use declared_results::advise_results;

/// Programs of fewer ops are checked on one thread: starting others takes longer.
const PARALLEL: usize = 4096;

/// Checks a program. Errors come in the order of their places in the text.
///
/// ```
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
/// } // %HostIrContainer
/// ";
/// let (programs, mut diags) = hostir::load(text);
/// hostir::verify::verify(&programs[0], &mut diags);
/// assert_eq!(diags.items[0].code, "H0212");
/// assert_eq!(diags.items[0].message, "output `T1` is never defined");
/// ```
pub fn verify(program: &Program, diags: &mut Diags) {
    let _not_needed = verify_with_state(program, diags);
}

/// Checks a program, as [`verify`] does. Returns what [`verify_edit`] needs to check the program after an edit; `None`
/// after an error.
pub fn verify_with_state(program: &Program, diags: &mut Diags) -> Option<VerifiedState> {
    let (OpFindings { rules, extents, state }, (mut found, rest)) = join_checks(
        program,
        || check_ops_and_extents(program),
        || check_structure(program),
        || {
            let mut found = check_posts_and_names(program);
            integers::check_integers(program, &mut found);
            found
        },
    );
    report_family("declarations and definitions", &found);
    report_family("single ops", &rules);
    report_family("posts, units and names", &rest);
    report_family("extents", &extents);
    let all = found.items.len() + rules.items.len() + rest.items.len() + extents.items.len();
    found.items.extend(without_duplicates(program, &found, rules).items);
    found.items.extend(rest.items);
    found.items.extend(independent_extents(&found, extents));
    let consequences = all - found.items.len();
    tracing::debug!(target: VERIFIER, ops = program.ops().len(), found = found.items.len(), consequences, "verified");
    found.sort_by_place();
    let is_valid = !found.has_errors();
    diags.items.append(&mut found.items);
    state.filter(|_| is_valid)
}

/// Makes three checks of a program; of a large one at the same time.
fn join_checks<A: Send, B: Send, C: Send>(
    program: &Program,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
    third: impl FnOnce() -> C + Send,
) -> (A, (B, C)) {
    if program.ops().len() < PARALLEL {
        return (first(), (second(), third()));
    }
    // Whoever is done first takes what is left.
    rayon::join(first, || rayon::join(second, third))
}

/// Tells who debugs the verifier what a family of rules found.
fn report_family(rules: &str, found: &Diags) {
    if !found.items.is_empty() {
        tracing::debug!(target: VERIFIER, rules, codes = ?codes_of(&found.items), "found");
    }
}

/// Checks each declaration and each op by itself, and the order of definitions and uses of names. This is for a program
/// with unreadable statements, whose effects on names, posts and waits are unknown. It leaves out warnings, and errors
/// about a place that contains one of the errors found `earlier`.
pub fn verify_partial(program: &Program, earlier: &[Span], diags: &mut Diags) {
    /// Errors that may only mean that the statement with the counterpart is missing.
    const NEED_OTHERS: &[&str] =
        &[codes::UNKNOWN_ALIAS, codes::UNKNOWN_UNIT, codes::UNIT_COUNT, codes::UNIT_TENSOR, codes::PEER];
    let unread = &program.source().unread;
    let (OpFindings { rules, extents, .. }, ((mut found, flow), order)) = join_checks(
        program,
        || check_ops_and_extents(program),
        || check_declarations_and_flow(program, !unread.is_lost()),
        || if unread.is_lost() { Diags::default() } else { check_integers_and_names(program) },
    );
    let rules = without_duplicates(program, &found, rules);
    found.items.extend(rules.items);
    if !unread.is_lost() {
        found.items.extend(flow.items);
        found.items.extend(order.items);
        found.items.extend(independent_extents(&found, extents));
    }
    found.items.retain(|diag| {
        diag.severity == Severity::Error
            && !NEED_OTHERS.contains(&diag.code)
            && !diag.primary.iter().chain(&diag.labels).any(|label| has_earlier_error(label, earlier))
    });
    found.sort_by_place();
    diags.items.append(&mut found.items);
}

/// The declarations by themselves, and, where the order of statements is known, that of definitions and uses.
fn check_declarations_and_flow(program: &Program, is_ordered: bool) -> (Diags, Diags) {
    let (mut declared, mut flow) = (Diags::default(), Diags::default());
    let referenced = declarations::ReferencedTensors::new(program);
    declarations::check_declarations(program, &referenced, &mut declared);
    if is_ordered {
        flow::check_flow(program, &referenced, &mut flow);
    }
    (declared, flow)
}

/// Integers, and the names of scalars, but for those that a statement with an error may define.
fn check_integers_and_names(program: &Program) -> Diags {
    let (mut found, mut names) = (Diags::default(), Diags::default());
    integers::check_integers(program, &mut found);
    scalars::check_scalars(program, &mut names);
    let unread = &program.source().unread;
    names.items.retain(|diag| !diag.message.texts_of(PartKind::Scalar).any(|word| unread.has_word(word)));
    found.items.extend(names.items);
    found
}

/// Returns true if a label shows text in which there was an error before.
fn has_earlier_error(label: &DiagLabel, earlier: &[Span]) -> bool {
    earlier.iter().any(|at| label.span.start < at.end.max(at.start + 1) && at.start < label.span.end)
}

/// Errors that do not cause an extent to need two values.
const INDEPENDENT: &[&str] = &[
    codes::UNDEFINED,
    codes::UNDEFINED_OUTPUT,
    codes::FREED,
    codes::FREE_UNDEFINED,
    codes::UNKNOWN_SCALAR,
    codes::INDEX_OUTSIDE_LOOP,
    codes::EXTENT,
];

/// The extents that need two values. After most errors of declarations and ops these are only another view of the same
/// error, and so they are if an op has an error.
fn independent_extents(found: &Diags, extents: Diags) -> Vec<Diag> {
    let mut errors = found.items.iter().filter(|diag| diag.severity == Severity::Error);
    if errors.any(|diag| !INDEPENDENT.contains(&diag.code)) {
        return Vec::new();
    }
    let places: Vec<Span> = found.primary_spans().collect();
    let is_new = |diag: &Diag| diag.primary.as_ref().is_none_or(|label| !has_earlier_error(label, &places));
    extents.items.into_iter().filter(is_new).collect()
}

/// Returns the errors of single ops, without those of ops whose tensors are declared twice: most of the errors about
/// one of the two declarations are consequences of that.
fn without_duplicates(program: &Program, declarations: &Diags, all: Diags) -> Diags {
    if declarations.items.iter().all(|diag| diag.code != codes::DECLARATIONS_DIFFER) {
        return all;
    }
    let first = declarations::ReferencedTensors::new(program).first;
    let mut twice = Vec::new();
    for tensor in program.tensors().ids().filter(|&tensor| first[tensor] != tensor) {
        twice.extend([tensor, first[tensor]]);
    }
    check_ops(program, &twice)
}

/// Checks declarations, and the order of definitions, uses and frees.
fn check_structure(program: &Program) -> Diags {
    let mut found = Diags::default();
    let referenced = declarations::ReferencedTensors::new(program);
    declarations::check_declarations(program, &referenced, &mut found);
    flow::check_flow(program, &referenced, &mut found);
    names::check_given_names(program, &referenced, &mut found);
    found
}

/// The findings of the checks of single ops, and about extents that follow from all ops together.
struct OpFindings {
    rules: Diags,
    extents: Diags,
    /// The state that later checks need; `None` if extents need two values.
    state: Option<VerifiedState>,
}

/// Checks each op by itself, and the extents that follow from the links of all.
fn check_ops_and_extents(program: &Program) -> OpFindings {
    let (mut rules, mut extents) = (Diags::default(), Diags::default());
    let (mut classes, mut links) = (ExtentClasses::of_meshes(program), Vec::new());
    let mut checked: IdVec<OpId, bool> = IdVec::filled(false, program.ops().len());
    let mut unknown: Vec<TensorId> = Vec::new();
    program.walk_with_units(&mut |id| {
        links.clear();
        let before = rules.items.len();
        program.op(id).kind.spec().verify_links(program, id, &mut links, &mut rules);
        advise_results(program, id, before, &mut rules);
        without_consequences(program, id, before, &mut unknown, &mut rules);
        classes.link_op(program, id, &links);
        checked[id] = true;
    });
    scalars::check_extent_conflicts(program, &classes, &mut extents);
    let state = classes.conflicts().is_empty().then(|| VerifiedState::new(checked, classes));
    OpFindings { rules, extents, state }
}

/// Removes the errors of an op, from number `before` on, that follow from a reduction with a wrong type: `unknown` are the
/// results of those.
fn without_consequences(program: &Program, id: OpId, before: usize, unknown: &mut Vec<TensorId>, rules: &mut Diags) {
    let op = program.op(id);
    let found = &rules.items[before..];
    if found.is_empty() {
        return;
    }
    if found.iter().any(|diag| diag.code == codes::NO_REDUCED_AXIS) {
        unknown.extend(op.output_tensors());
    } else if op.input_tensors().any(|input| unknown.contains(&input)) {
        rules.items.truncate(before);
    }
}

/// Runs the checks of single ops, except on ops that use the tensors in `but`.
fn check_ops(program: &Program, but: &[TensorId]) -> Diags {
    let mut found = Diags::default();
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        if !op.all_tensors().any(|tensor| but.contains(&tensor)) {
            let before = found.items.len();
            op.kind.spec().verify(program, id, &mut found);
            advise_results(program, id, before, &mut found);
        }
    });
    found
}

/// Posts, units, streams and names of scalars.
fn check_posts_and_names(program: &Program) -> Diags {
    let mut found = Diags::default();
    communications::check_posts(program, &mut found);
    units::check_units(program, &mut found);
    scalars::check_scalars(program, &mut found);
    definitions::check_definitions(program, &mut found);
    streams::check_streams(program, &mut found);
    quotients::check_quotients(program, &mut found);
    found
}
