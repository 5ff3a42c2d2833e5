//! Finds the parts of inputs, and the functions, that cause a difference: it changes each alone, in both programs.

use super::compare::{OutputDifference, OutputPlace, value_at};
use super::field::FieldElement;
use super::hash::{HashKeys, HashedSubject};
use super::inputs::{ChangedElements, InputChange};
use super::run::{ExactProgram, ExactSetting, run_exactly};
use super::value::is_drawn;
use crate::lower::{IoTensor, PreparedProgram};
use crate::plan::InstKind;

/// Most parts into which an axis is divided.
const MOST_PARTS: usize = 64;
/// The maximum number of elements that all runs of a diagnosis visit together.
const MOST_VISITS: u64 = 2_000_000_000;
/// The largest recognised factor between two weights.
const MOST_WEIGHT: u64 = 64;

/// The dependence of an element on a part of an input, compared with the reference's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PartRelation {
    /// Only the reference's depends on it.
    Missing,
    /// Only the program's depends on it.
    Surplus,
    /// Its weight is this fraction of that in the reference.
    Weight(i64, u64),
    /// Both depend on it, in different ways.
    Otherwise,
}

/// A part of an input that causes the difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WrongPart {
    /// The position of the input.
    pub(super) input: usize,
    /// By axis: the indices.
    pub(super) part: Vec<Vec<usize>>,
    /// The relation to the reference.
    pub(super) relation: PartRelation,
}

/// The known causes of a difference.
#[derive(Clone, Default, Debug)]
pub(super) struct DifferenceCauses {
    /// Parts of inputs.
    pub(super) parts: Vec<WrongPart>,
    /// Functions through which it goes.
    pub(super) subjects: Vec<HashedSubject>,
}

/// The element in both programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ElementPair {
    program: FieldElement,
    reference: FieldElement,
}

impl ElementPair {
    fn pair_difference(self) -> FieldElement {
        self.program - self.reference
    }
}

/// The dependence of the two elements, and of their difference, on one part or function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dependence {
    program: bool,
    reference: bool,
    difference: bool,
}

impl Dependence {
    /// The relation if only one of the elements depends on the part.
    fn one_sided(self) -> Option<PartRelation> {
        match (self.program, self.reference) {
            (false, true) => Some(PartRelation::Missing),
            (true, false) => Some(PartRelation::Surplus),
            _ => None,
        }
    }
}

/// Runs both programs with changes, and looks at one element.
struct ElementProbe<'p> {
    program: ExactProgram<'p>,
    reference: ExactProgram<'p>,
    place: OutputPlace,
    expected: OutputPlace,
    keys: HashKeys,
    unchanged: ElementPair,
    parts_of_axis: usize,
}

/// Finds the causes of a difference that runs with these keys have shown. `subjects` are the functions of both.
pub(super) fn find_causes(
    program: ExactProgram<'_>,
    reference: ExactProgram<'_>,
    keys: HashKeys,
    difference: &OutputDifference,
    subjects: &[HashedSubject],
) -> DifferenceCauses {
    let (place, expected) = (difference.place, difference.expected);
    let none = ElementPair { program: FieldElement::ZERO, reference: FieldElement::ZERO };
    let parts_of_axis = affordable_parts(program.prepared, reference.prepared);
    let mut probe = ElementProbe { program, reference, place, expected, keys, unchanged: none, parts_of_axis };
    let Some(unchanged) = probe.changed_pair(None, None) else { return DifferenceCauses::default() };
    probe.unchanged = unchanged;
    let fresh = [HashedSubject::UninitialisedMemory];
    let subjects = subjects.iter().chain(&fresh).copied().filter(|&subject| probe.goes_through(subject)).collect();
    let inputs = program.prepared.inputs.iter().enumerate().filter(|(_, io_tensor)| is_drawn(io_tensor.dtype));
    let parts = inputs.flat_map(|(position, io_tensor)| probe.wrong_parts(position, io_tensor)).collect();
    DifferenceCauses { parts, subjects }
}

/// The number of parts into which each axis is divided, so that all runs take a bounded time.
fn affordable_parts(program: &PreparedProgram, reference: &PreparedProgram) -> usize {
    let insts = program.plans.iter().chain(&reference.plans).flat_map(|plan| plan.iter());
    let visits = insts.map(|inst| match &inst.kind {
        InstKind::Gemm(gemm) => (gemm.out.len() * gemm.a.dims.last().map_or(1, |dim| dim.extent)) as u64,
        kind => kind.traffic_bytes() / 8 + 1,
    });
    let axes: usize = program.inputs.iter().map(|io_tensor| io_tensor.axes.len()).sum();
    let runs = MOST_VISITS / visits.sum::<u64>().max(1);
    (runs as usize / axes.max(1)).clamp(2, MOST_PARTS)
}

impl ElementProbe<'_> {
    fn changed_pair(&self, change: Option<InputChange>, altered: Option<HashedSubject>) -> Option<ElementPair> {
        let setting = ExactSetting { keys: HashKeys { altered, ..self.keys }, change };
        let program = run_exactly(self.program, &setting).ok()?;
        let reference = run_exactly(self.reference, &setting).ok()?;
        Some(ElementPair {
            program: value_at(&program, self.place)?.to_number(),
            reference: value_at(&reference, self.expected)?.to_number(),
        })
    }

    fn goes_through(&self, subject: HashedSubject) -> bool {
        let changed = self.changed_pair(None, Some(subject));
        changed.is_some_and(|changed| changed.pair_difference() != self.unchanged.pair_difference())
    }

    fn dependence_on(&self, input: usize, part: &[Vec<usize>]) -> Dependence {
        let change = InputChange { input, part: part.to_vec(), elements: ChangedElements::Redrawn };
        let changed = self.changed_pair(Some(change), None).unwrap_or(self.unchanged);
        Dependence {
            program: changed.program != self.unchanged.program,
            reference: changed.reference != self.unchanged.reference,
            difference: changed.pair_difference() != self.unchanged.pair_difference(),
        }
    }

    /// The parts of an input that cause the difference.
    fn wrong_parts(&self, input: usize, io_tensor: &IoTensor) -> Vec<WrongPart> {
        let whole: Vec<Vec<usize>> = io_tensor.whole_shape().iter().map(|&extent| (0..extent).collect()).collect();
        if !self.dependence_on(input, &whole).difference {
            return Vec::new();
        }
        let axes: Vec<Vec<AxisSlice>> = (0..whole.len()).map(|axis| self.axis_slices(input, &whole, axis)).collect();
        let affected: Vec<Vec<usize>> = axes.iter().map(|slices| slice_indices(slices, |_| true)).collect();
        // Sharded tensors say most.
        let mut order: Vec<usize> = (0..whole.len()).collect();
        order.sort_by_key(|axis| io_tensor.axes[*axis].device.is_none());
        let Some(axis) = order.into_iter().find(|axis| explains_difference(&axes[*axis], whole[*axis].len())) else {
            let relation = self.relation_of(self.dependence_on(input, &affected), input, &affected);
            return vec![WrongPart { input, part: affected, relation }];
        };
        let mut relations: Vec<PartRelation> = Vec::new();
        for slice in &axes[axis] {
            if !relations.contains(&slice.relation) {
                relations.push(slice.relation);
            }
        }
        let groups = relations.into_iter().map(|relation| {
            let mut part = affected.clone();
            part[axis] = slice_indices(&axes[axis], |slice| slice.relation == relation);
            WrongPart { input, part, relation }
        });
        groups.collect()
    }

    /// The slices of an axis on which the difference depends.
    fn axis_slices(&self, input: usize, whole: &[Vec<usize>], axis: usize) -> Vec<AxisSlice> {
        let width = whole[axis].len().div_ceil(self.parts_of_axis).max(1);
        let slices = whole[axis].chunks(width).filter_map(|indices| {
            let mut part = whole.to_vec();
            part[axis] = indices.to_vec();
            let dependence = self.dependence_on(input, &part);
            let relation = dependence.difference.then(|| self.relation_of(dependence, input, &part))?;
            Some(AxisSlice { indices: indices.to_vec(), relation })
        });
        slices.collect()
    }

    /// The relation of a part on which the difference depends.
    fn relation_of(&self, dependence: Dependence, input: usize, part: &[Vec<usize>]) -> PartRelation {
        if let Some(relation) = dependence.one_sided() {
            return relation;
        }
        let change = InputChange { input, part: part.to_vec(), elements: ChangedElements::Zero };
        let Some(without) = self.changed_pair(Some(change), None) else { return PartRelation::Otherwise };
        let found = self.unchanged.program - without.program;
        let Some(expected) = (self.unchanged.reference - without.reference).inverse_element() else {
            return PartRelation::Otherwise;
        };
        let weight = found * expected;
        let mut fractions = (1..=MOST_WEIGHT).filter_map(|under| {
            let over = weight * FieldElement::from_integer(under as i64);
            Some(PartRelation::Weight(over.small_integer(MOST_WEIGHT)?, under))
        });
        fractions.next().unwrap_or(PartRelation::Otherwise)
    }
}

/// Some indices of an axis, and their relation to the reference.
struct AxisSlice {
    indices: Vec<usize>,
    relation: PartRelation,
}

/// The indices of some slices.
fn slice_indices(slices: &[AxisSlice], is_wanted: impl Fn(&AxisSlice) -> bool) -> Vec<usize> {
    slices.iter().filter(|slice| is_wanted(slice)).flat_map(|slice| slice.indices.iter().copied()).collect()
}

/// Returns true if the relation of each slice is known, and they are not all slices of the axis with one relation.
fn explains_difference(slices: &[AxisSlice], extent: usize) -> bool {
    let affected: usize = slices.iter().map(|slice| slice.indices.len()).sum();
    let Some(first) = slices.first() else { return false };
    let known = slices.iter().all(|slice| slice.relation != PartRelation::Otherwise);
    known && (affected < extent || slices.iter().any(|slice| slice.relation != first.relation))
}
