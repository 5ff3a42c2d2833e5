//! The numbers of an instruction that may differ by a constant from one iteration of a loop to the next.

use super::inst::{Inst, InstKind};
use super::view::BufferView;
use smallvec::SmallVec;

/// A number of an instruction: the id of a slot, an offset, a peer.
enum FieldMut<'i> {
    /// A dense id or a rank.
    Slot(&'i mut u32),
    /// An offset in elements, or a position in a team. Its low 32 bits are the number.
    Size(&'i mut usize),
}

/// The low bits of a size.
const LOW_BITS: usize = u32::MAX as usize;

impl FieldMut<'_> {
    /// Takes the number out and leaves 0.
    fn take(self) -> u32 {
        match self {
            FieldMut::Slot(number) => std::mem::take(number),
            FieldMut::Size(number) => {
                let low = *number & LOW_BITS;
                *number &= !LOW_BITS;
                low as u32
            }
        }
    }
    /// Sets the number.
    fn set(self, low: u32) {
        match self {
            FieldMut::Slot(number) => *number = low,
            FieldMut::Size(number) => *number = (*number & !LOW_BITS) | low as usize,
        }
    }
}

/// The numbers of an instruction. A field is an index among them; that of the iteration is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstNumbers<'p> {
    /// Its iteration.
    pub(super) iteration: u32,
    /// The others, in the order of [`visit_kind_fields`].
    pub(super) others: &'p [u32],
}

impl<'p> InstNumbers<'p> {
    /// The numbers in the order of their fields.
    fn iter(self) -> impl Iterator<Item = u32> + 'p {
        std::iter::once(self.iteration).chain(self.others.iter().copied())
    }
    /// The number of a field.
    fn of_field(self, field: u32) -> u32 {
        if field == 0 { self.iteration } else { self.others[field as usize - 1] }
    }
}

/// The change of an instruction's views from one round of a loop to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ViewMotion {
    /// The views stay.
    None,
    /// Some are elsewhere in the same buffers.
    Elements,
    /// Some are in other buffers.
    Buffers,
}

/// A field that differs from one round of a loop to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FieldStep {
    /// The field.
    field: u32,
    /// The difference, modulo 2^32.
    step: u32,
}

/// The fields of an instruction that differ from one round of a loop to the next, each by a constant.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct InstSteps {
    fields: SmallVec<[FieldStep; 4]>,
}

/// The field of the iteration.
pub(super) const ITERATION_FIELD: u32 = 0;
/// The field of an event, or of the completion handle of an instruction that has no peer.
pub(super) const HANDLE_FIELD: u32 = 1;
/// The field of a message's peer.
pub(super) const PEER_FIELD: u32 = 1;
/// The field of a message's completion handle.
pub(super) const MESSAGE_WORK_FIELD: u32 = 2;

impl InstSteps {
    /// The steps between the numbers of an instruction and of its counterparts one and two rounds later; `None` if they
    /// differ by more than constant steps.
    pub(super) fn of_rounds(rounds: [InstNumbers<'_>; 3]) -> Option<Self> {
        let [first, second, third] = rounds;
        let mut fields = SmallVec::new();
        for (field, ((a, b), c)) in (0u32..).zip(first.iter().zip(second.iter()).zip(third.iter())) {
            let step = b.wrapping_sub(a);
            if step != c.wrapping_sub(b) {
                return None;
            }
            if step != 0 {
                fields.push(FieldStep { field, step });
            }
        }
        Some(Self { fields })
    }

    /// Returns true if an instruction has these numbers so many rounds later.
    pub(super) fn lead_to(&self, first: InstNumbers<'_>, later: InstNumbers<'_>, rounds: usize) -> bool {
        let mut numbers = later.iter();
        self.moved_numbers(first, rounds).all(|number| numbers.next() == Some(number))
    }

    /// The numbers of an instruction so many rounds later.
    pub(super) fn moved_numbers(&self, first: InstNumbers<'_>, rounds: usize) -> impl Iterator<Item = u32> {
        let mut steps = self.fields.iter().peekable();
        (0u32..).zip(first.iter()).map(move |(field, number)| match steps.next_if(|step| step.field == field) {
            Some(step) => number.wrapping_add(step.step.wrapping_mul(rounds as u32)),
            None => number,
        })
    }
}

/// The number of a field so many rounds later.
pub(super) fn moved_number(numbers: InstNumbers<'_>, steps: Option<&InstSteps>, field: u32, rounds: usize) -> u32 {
    let number = numbers.of_field(field);
    let step = steps.and_then(|steps| steps.fields.iter().find(|step| step.field == field));
    step.map_or(number, |step| number.wrapping_add(step.step.wrapping_mul(rounds as u32)))
}

/// Takes the numbers of an instruction out, its iteration apart from the others.
pub(super) fn take_numbers(inst: &mut Inst) -> (u32, SmallVec<[u32; 8]>) {
    let mut others = SmallVec::new();
    visit_kind_fields(&mut inst.kind, &mut |field| others.push(field.take()));
    (std::mem::take(&mut inst.origin.iteration.0), others)
}

/// Sets the numbers of an instruction to those that it has so many rounds later.
pub(super) fn set_numbers(inst: &mut Inst, numbers: InstNumbers<'_>, steps: Option<&InstSteps>, rounds: usize) {
    match steps {
        None => {
            let mut others = numbers.others.iter();
            inst.origin.iteration.0 = numbers.iteration;
            visit_kind_fields(&mut inst.kind, &mut |field| field.set(others.next().copied().unwrap_or(0)));
        }
        Some(steps) => {
            let mut moved = steps.moved_numbers(numbers, rounds);
            inst.origin.iteration.0 = moved.next().unwrap_or(0);
            visit_kind_fields(&mut inst.kind, &mut |field| field.set(moved.next().unwrap_or(0)));
        }
    }
}

/// The change of views from those of an instruction to those of its counterpart in the next round.
pub(super) fn motion_between(inst: &Inst, next: &Inst) -> ViewMotion {
    let views = |inst: &Inst| -> Vec<BufferView> {
        inst.kind.read_views().into_iter().chain(inst.kind.written_views()).cloned().collect()
    };
    let (here, there) = (views(inst), views(next));
    match here == there {
        true => ViewMotion::None,
        false if here.iter().zip(&there).all(|(one, other)| one.buffer == other.buffer) => ViewMotion::Elements,
        false => ViewMotion::Buffers,
    }
}

/// Calls a function for each field of an operation, in an order that depends only on its type.
fn visit_kind_fields(kind: &mut InstKind, visit: &mut dyn FnMut(FieldMut<'_>)) {
    match kind {
        InstKind::Alloc { buffer } | InstKind::Free { buffer } => visit(FieldMut::Slot(&mut buffer.0)),
        InstKind::Copy { src, dst } => [src, dst].into_iter().for_each(|view| visit_view(view, visit)),
        InstKind::Fill { dst, .. } => visit_view(dst, visit),
        InstKind::Gemm(gemm) => {
            visit_view(&mut gemm.out, visit);
            gemm.read_views_mut().for_each(|view| visit_view(view, visit));
        }
        InstKind::Kernel(kernel) => {
            visit_view(&mut kernel.output, visit);
            kernel.inputs.iter_mut().for_each(|view| visit_view(view, visit));
        }
        InstKind::Reduce(fold) => {
            [&mut fold.input, &mut fold.output].into_iter().for_each(|view| visit_view(view, visit));
        }
        InstKind::Take(take) => {
            let views = [&mut take.input, &mut take.index, &mut take.output];
            views.into_iter().for_each(|view| visit_view(view, visit));
        }
        InstKind::Accumulate(put) => {
            let views = [&mut put.base, &mut put.index, &mut put.value, &mut put.output];
            views.into_iter().for_each(|view| visit_view(view, visit));
        }
        InstKind::Rows(rows) => {
            visit_view(&mut rows.output, visit);
            rows.inputs.iter_mut().for_each(|view| visit_view(view, visit));
        }
        InstKind::Attention(attention) => {
            attention.views_mut().for_each(|view| visit_view(view, visit));
            attention.composition.iter_mut().for_each(|kind| visit_kind_fields(kind, visit));
        }
        InstKind::Launch(launch) => {
            launch.views_mut().for_each(|view| visit_view(view, visit));
            launch.reference.iter_mut().flatten().for_each(|kind| visit_kind_fields(kind, visit));
        }
        InstKind::Collective(collective) => {
            visit(FieldMut::Slot(&mut collective.work.0));
            collective.root.iter_mut().for_each(|root| visit(FieldMut::Size(root)));
            collective.input.iter_mut().chain(&mut collective.output).for_each(|view| visit_view(view, visit));
        }
        InstKind::Message { header, view } => {
            visit(FieldMut::Slot(&mut header.peer));
            visit(FieldMut::Slot(&mut header.work.0));
            visit_view(view, visit);
        }
        InstKind::GroupBegin => {}
        InstKind::GroupEnd { work, .. } | InstKind::WaitWork { work } => visit(FieldMut::Slot(&mut work.0)),
        InstKind::Record { event } | InstKind::WaitEvent { event } => visit(FieldMut::Slot(&mut event.0)),
    }
}

fn visit_view(view: &mut BufferView, visit: &mut dyn FnMut(FieldMut<'_>)) {
    visit(FieldMut::Slot(&mut view.buffer.0));
    visit(FieldMut::Size(&mut view.offset));
}
