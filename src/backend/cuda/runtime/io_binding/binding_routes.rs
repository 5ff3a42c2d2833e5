//! How a program reaches what is bound to its inputs and outputs: in place, by a copy before or after the
//! run, or in memory of the session's own.

use crate::runtime::io_binding::Side;
use crate::runtime::io_binding::tensor_check::{Strided, VECTOR};
use hostir::plan::{BufferId, BufferKind, Plan, View};
use hostir_gpu::memory_layout::ALIGNMENT;
use hostir_gpu::operand::Place;
use hostir_gpu::schedule::{Call, Schedule};

/// Where a plan keeps an input or output.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Home {
    pub(crate) side: Side,
    /// Position among the inputs or outputs.
    pub(crate) position: usize,
    pub(crate) view: View,
    /// Whether a caller's memory can take the place of its buffer: the tensor is all that is in it, and
    /// nothing but this program's own calls has to find it.
    pub(crate) replaceable: bool,
    /// Whether its buffer is an input's.
    pub(crate) of_input: bool,
    /// Whether the program writes it.
    pub(crate) written: bool,
    /// What the calls take for granted of its buffer's address, in bytes.
    pub(crate) alignment: u64,
}

/// How a port is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// Nothing is bound: the session's own memory.
    Own,
    /// The caller's memory takes the place of the buffer.
    InPlace,
    /// The session's own memory, and a copy.
    Copied,
    /// An output that lies where the caller wants it without doing anything.
    There,
}

/// Two ports (numbers among the homes) whose memory may not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clash(pub(crate) usize, pub(crate) usize);

/// The homes of a rank's inputs and then its outputs; `None` where it has no part of one.
pub(crate) fn homes(plan: &Plan, schedule: &Schedule, outside: &[bool]) -> Vec<Option<Home>> {
    let alignments = alignments(plan, schedule);
    let mut written = vec![false; plan.buffers.len()];
    for view in plan.iter().filter_map(|inst| inst.kind.writes()) {
        written[view.buffer.0 as usize] = true;
    }
    let sharing = |buffer: BufferId| {
        plan.outputs.iter().flatten().filter(|view| view.buffer == buffer).count()
    };
    let home = |side: Side, position: usize, view: &View| {
        let at = view.buffer.0 as usize;
        let buffer = &plan.buffers[view.buffer];
        let of_input = matches!(buffer.kind, BufferKind::Input(_));
        let whole = view.offset == 0 && view.is_contiguous() && view.len() == buffer.elements;
        let alone = side == Side::Input || (!of_input && sharing(view.buffer) == 1);
        Home {
            side,
            position,
            view: view.clone(),
            replaceable: outside[at] && whole && alone,
            of_input,
            written: side == Side::Output || written[at],
            alignment: alignments[at],
        }
    };
    let of = |side: Side, views: &[Option<View>]| -> Vec<Option<Home>> {
        let views = views.iter().enumerate();
        views.map(|(position, view)| Some(home(side, position, view.as_ref()?))).collect()
    };
    let mut all = of(Side::Input, &plan.inputs);
    all.extend(of(Side::Output, &plan.outputs));
    all
}

/// What the schedule's calls take for granted of each buffer's address. Kernels read 16 bytes at a time;
/// products were chosen for the alignment that their operands' places promise.
fn alignments(plan: &Plan, schedule: &Schedule) -> Vec<u64> {
    let mut found = vec![VECTOR; plan.buffers.len()];
    for step in &schedule.steps {
        let Call::Product { operands, .. } = &step.call else { continue };
        for view in operands.iter().flatten().filter_map(Place::view) {
            let bytes = view.offset * view.dtype.size();
            let promised = if bytes == 0 { ALIGNMENT } else { 1 << bytes.trailing_zeros().min(8) };
            let needed = &mut found[view.buffer.0 as usize];
            *needed = (*needed).max(promised as u64);
        }
    }
    found
}

/// Decides for every port; fails where the order of a run's reads and writes would show.
pub(crate) fn decide(
    homes: &[Option<Home>],
    bound: &[Option<Strided>],
) -> Result<Vec<Route>, Clash> {
    let mut routes: Vec<Route> =
        homes.iter().zip(bound).map(|(home, tensor)| simple(home.as_ref(), tensor)).collect();
    let ports: Vec<(usize, &Home, &Strided)> = homes
        .iter()
        .zip(bound)
        .enumerate()
        .filter_map(|(at, (home, tensor))| Some((at, home.as_ref()?, tensor.as_ref()?)))
        .filter(|(_, home, _)| !home.view.is_empty())
        .collect();
    // Inputs come first: what is written among them is known when the outputs' turn comes.
    for &(at, home, tensor) in ports.iter().filter(|(_, home, _)| home.written) {
        for &(other, its, theirs) in &ports {
            let seen = its.written && other <= at;
            if other == at || seen || !tensor.overlaps(theirs) {
                continue;
            }
            let (input, output) = if at < other { (at, other) } else { (other, at) };
            if is_there(&ports, input, output, &routes) {
                routes[output] = Route::There;
            } else if home.side == Side::Output && its.side == Side::Input && !lies_in(home, its) {
                // Written only when everything has been read.
                routes[at] = Route::Copied;
            } else {
                return Err(Clash(input, output));
            }
        }
    }
    Ok(routes)
}

/// The route of a port that overlaps no other one.
fn simple(home: Option<&Home>, tensor: &Option<Strided>) -> Route {
    let (Some(home), Some(tensor)) = (home, tensor) else { return Route::Own };
    if home.view.is_empty() {
        return Route::Own;
    }
    let aligned = tensor.pointer().is_multiple_of(home.alignment);
    match home.replaceable && tensor.view.is_contiguous() && aligned {
        true => Route::InPlace,
        false => Route::Copied,
    }
}

/// Whether an output is in the buffer of an input.
fn lies_in(output: &Home, input: &Home) -> bool {
    output.view.buffer == input.view.buffer
}

/// Whether an output that is kept in an input's buffer is wanted exactly where that input was bound.
fn is_there(
    ports: &[(usize, &Home, &Strided)],
    input: usize,
    output: usize,
    routes: &[Route],
) -> bool {
    let find = |number: usize| ports.iter().find(|(at, ..)| *at == number);
    let (Some((_, input_home, source)), Some((_, output_home, target))) =
        (find(input), find(output))
    else {
        return false;
    };
    if input_home.side != Side::Input
        || output_home.side != Side::Output
        || !lies_in(output_home, input_home)
    {
        return false;
    }
    match routes.get(input) {
        Some(Route::InPlace) => {
            let kept = Strided { base: source.pointer(), view: output_home.view.clone() };
            kept.same(target)
        }
        _ => output_home.view == input_home.view && source.same(target),
    }
}
