//! The numbers of an instruction that may differ by a constant from one iteration of a loop to the next.

use super::inst::{Inst, InstKind};
use super::view::BufferView;
use smallvec::SmallVec;

/// A number of an instruction: the id of a slot, an offset, a peer.
enum FieldMut<'i> {
    /// A dense id or a rank.
    Slot(&'i mut u32),
    /// An offset in elements, or a position in a team.
    Size(&'i mut usize),
}

impl FieldMut<'_> {
    /// The number, as 64 bits.
    fn read(&self) -> i64 {
        match self {
            FieldMut::Slot(number) => i64::from(**number),
            FieldMut::Size(number) => (**number).cast_signed() as i64,
        }
    }
    /// Adds to the number, modulo its range.
    fn add(self, amount: i64) {
        match self {
            FieldMut::Slot(number) => *number = number.wrapping_add(amount as u32),
            FieldMut::Size(number) => *number = number.wrapping_add((amount as isize).cast_unsigned()),
        }
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
    /// The number of the field.
    field: u32,
    /// The difference.
    step: i64,
}

/// The fields of an instruction that differ from one round of a loop to the next, each by a constant.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct InstSteps {
    fields: SmallVec<[FieldStep; 4]>,
    /// Whether views are elsewhere in each round.
    moves_views: bool,
}

/// The field of an event, or of the completion handle of an instruction that has no peer.
pub(super) const HANDLE_FIELD: u32 = 1;
/// The field of a message's peer.
pub(super) const PEER_FIELD: u32 = 1;
/// The field of a message's completion handle.
pub(super) const MESSAGE_WORK_FIELD: u32 = 2;

impl InstSteps {
    /// The steps between an instruction and its counterparts one and two rounds later; `None` if they differ by more
    /// than constant steps.
    pub(crate) fn between(rounds: [&Inst; 3]) -> Option<Self> {
        let [first, second, third] = rounds;
        if first.stream != second.stream || first.origin.op != second.origin.op {
            return None;
        }
        let values = rounds.map(field_values);
        let mut steps = Self::default();
        for (field, ((&a, &b), &c)) in (0u32..).zip(values[0].iter().zip(&values[1]).zip(&values[2])) {
            if b.wrapping_sub(a) != c.wrapping_sub(b) {
                return None;
            }
            if a != b {
                steps.fields.push(FieldStep { field, step: b.wrapping_sub(a) });
            }
        }
        let fits = [second, third].into_iter().zip(1..).all(|(inst, round)| {
            let mut predicted = first.clone();
            steps.move_inst(&mut predicted, round);
            predicted == *inst
        });
        steps.moves_views = fits && steps.view_motion(first) != ViewMotion::None;
        fits.then_some(steps)
    }

    /// Returns true if the instruction's views move in each round.
    pub(crate) fn moves_views(&self) -> bool {
        self.moves_views
    }

    /// The number of a slot or rank so many rounds later, by its field.
    pub(super) fn moved_slot(&self, field: u32, number: u32, rounds: i64) -> u32 {
        let step = self.fields.iter().find(|step| step.field == field);
        step.map_or(number, |step| number.wrapping_add(step.step.wrapping_mul(rounds) as u32))
    }

    /// The change of the instruction's views from one round to the next.
    pub(crate) fn view_motion(&self, inst: &Inst) -> ViewMotion {
        let mut next = inst.clone();
        self.move_inst(&mut next, 1);
        let views = |inst: &Inst| -> Vec<BufferView> {
            inst.kind.read_views().into_iter().chain(inst.kind.written_views()).cloned().collect()
        };
        let (here, there) = (views(inst), views(&next));
        match here == there {
            true => ViewMotion::None,
            false if here.iter().zip(&there).all(|(one, other)| one.buffer == other.buffer) => ViewMotion::Elements,
            false => ViewMotion::Buffers,
        }
    }

    /// Moves an instruction by so many rounds, forward or back.
    pub(crate) fn move_inst(&self, inst: &mut Inst, rounds: i64) {
        let mut steps = self.fields.iter().peekable();
        let mut number = 0;
        visit_fields(inst, &mut |field| {
            if let Some(step) = steps.next_if(|step| step.field == number) {
                field.add(step.step.wrapping_mul(rounds));
            }
            number += 1;
        });
    }
}

/// All fields of an instruction.
fn field_values(inst: &Inst) -> SmallVec<[i64; 8]> {
    let mut values = SmallVec::new();
    visit_fields(&mut inst.clone(), &mut |field| values.push(field.read()));
    values
}

/// Calls a function for each field of an instruction, in an order that depends only on its type.
fn visit_fields(inst: &mut Inst, visit: &mut dyn FnMut(FieldMut<'_>)) {
    visit(FieldMut::Slot(&mut inst.origin.iteration.0));
    visit_kind_fields(&mut inst.kind, visit);
}

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
