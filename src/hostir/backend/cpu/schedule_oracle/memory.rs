//! The memory of a schedule's steps: sets of elements that each view contains wholly or not at all.

use super::steps::StepId;
use crate::plan::{BufferId, BufferView};
use rustc_hash::FxHashMap;

/// Elements of a memory that are in exactly the same views; steps read and write them together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementClass {
    /// The memory.
    pub(super) memory: u32,
    /// The first element.
    pub(super) element: u32,
}

/// An allocation of a rank, from its Alloc on; memory of the caller lasts for all runs.
#[derive(Clone, Debug)]
pub(super) struct MemoryObject {
    /// The rank.
    pub(super) rank: u32,
    /// The buffer of its plan.
    pub(super) buffer: BufferId,
    /// True for inputs, which have values when the first run begins.
    pub(super) filled: bool,
    elements: usize,
    views: Vec<BufferView>,
}

/// One use of a memory by a step.
#[derive(Clone, Copy, Debug)]
struct ViewUse {
    step: StepId,
    memory: u32,
    view: u32,
    writes: bool,
}

/// Collects the uses of memory by steps.
#[derive(Clone, Default, Debug)]
pub(super) struct MemoryUses {
    objects: Vec<MemoryObject>,
    uses: Vec<ViewUse>,
}

impl MemoryUses {
    /// Adds a memory.
    pub(super) fn add_object(&mut self, rank: u32, buffer: BufferId, elements: usize, filled: bool) -> u32 {
        self.objects.push(MemoryObject { rank, buffer, filled, elements, views: Vec::new() });
        self.objects.len() as u32 - 1
    }

    /// A step touches a view of a memory.
    pub(super) fn add_use(&mut self, step: StepId, memory: u32, view: &BufferView, writes: bool) {
        if view.is_empty() {
            return;
        }
        let views = &mut self.objects[memory as usize].views;
        let known = views.iter().position(|known| known.offset == view.offset && known.dims == view.dims);
        let place = known.unwrap_or_else(|| {
            views.push(view.clone());
            views.len() - 1
        });
        self.uses.push(ViewUse { step, memory, view: place as u32, writes });
    }

    /// The number of elements that all views visit together, which is the cost of dividing memory into classes.
    pub(super) fn visited_elements(&self) -> u64 {
        let of_object = |object: &MemoryObject| -> u64 {
            object.views.iter().filter(|view| !is_whole(view, object.elements)).map(|view| view.len() as u64).sum()
        };
        self.objects.iter().map(of_object).sum()
    }

    /// Divides all memory into classes; returns the classes that each of `steps` steps accesses.
    pub(super) fn into_access_table(self, steps: usize) -> AccessTable {
        let mut table = AccessTable { accesses: vec![Vec::new(); steps], ..AccessTable::default() };
        let mut of_views: Vec<Vec<Vec<u32>>> = Vec::with_capacity(self.objects.len());
        for (memory, object) in self.objects.iter().enumerate() {
            of_views.push(divide_object(memory as u32, object, &mut table.classes));
        }
        for ViewUse { step, memory, view, writes } in self.uses {
            let classes = &of_views[memory as usize][view as usize];
            let accesses = &mut table.accesses[step.0 as usize];
            accesses.extend(classes.iter().map(|&class| ClassAccess { class, writes }));
        }
        table.objects = self.objects;
        table
    }
}

fn is_whole(view: &BufferView, elements: usize) -> bool {
    view.is_contiguous() && view.len() == elements
}

/// Divides a memory into classes; returns those of each view, in order.
fn divide_object(memory: u32, object: &MemoryObject, classes: &mut Vec<ElementClass>) -> Vec<Vec<u32>> {
    let first = classes.len() as u32;
    if object.views.iter().all(|view| is_whole(view, object.elements)) {
        classes.push(ElementClass { memory, element: 0 });
        return vec![vec![first]; object.views.len()];
    }
    let class_of = refine_classes(object);
    let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
    for (element, class) in class_of.iter().enumerate() {
        numbers.entry(*class).or_insert_with(|| {
            classes.push(ElementClass { memory, element: element as u32 });
            classes.len() as u32 - 1
        });
    }
    let of_view = |view: &BufferView| {
        let mut found = vec![false; classes.len() - first as usize];
        for_each_element(view, |element| found[(numbers[&class_of[element]] - first) as usize] = true);
        let held = found.iter().enumerate().filter(|(_, held)| **held);
        held.map(|(class, _)| first + class as u32).collect()
    };
    object.views.iter().map(of_view).collect()
}

/// By element: a number that is equal for elements in the same views.
fn refine_classes(object: &MemoryObject) -> Vec<u32> {
    let mut class_of = vec![0u32; object.elements];
    let mut visited = vec![0u32; object.elements];
    let mut next = 1;
    for (number, view) in (1..).zip(&object.views) {
        if is_whole(view, object.elements) {
            continue;
        }
        let mut inside: FxHashMap<u32, u32> = FxHashMap::default();
        for_each_element(view, |element| {
            // An expanded axis visits an element several times.
            if std::mem::replace(&mut visited[element], number) == number {
                return;
            }
            class_of[element] = *inside.entry(class_of[element]).or_insert_with(|| {
                next += 1;
                next
            });
        });
    }
    class_of
}

/// Calls `visit` with each element of a view.
fn for_each_element(view: &BufferView, mut visit: impl FnMut(usize)) {
    let extents: Vec<usize> = view.shape();
    let mut index = vec![0usize; extents.len()];
    let mut element = view.offset;
    if view.is_empty() {
        return;
    }
    loop {
        visit(element);
        let mut axis = extents.len();
        loop {
            let Some(inner) = axis.checked_sub(1) else { return };
            axis = inner;
            index[axis] += 1;
            element += view.dims[axis].stride;
            if index[axis] < extents[axis] {
                break;
            }
            element -= view.dims[axis].stride * extents[axis];
            index[axis] = 0;
        }
    }
}

/// A step's access to a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassAccess {
    /// The class.
    pub(super) class: u32,
    /// True for a write.
    pub(super) writes: bool,
}

/// The accesses of all steps.
#[derive(Clone, Default, Debug)]
pub(super) struct AccessTable {
    /// All memory.
    pub(super) objects: Vec<MemoryObject>,
    /// All classes.
    pub(super) classes: Vec<ElementClass>,
    accesses: Vec<Vec<ClassAccess>>,
}

impl AccessTable {
    /// The accesses of a step.
    pub(super) fn accesses_of(&self, step: StepId) -> &[ClassAccess] {
        &self.accesses[step.0 as usize]
    }

    /// The memory of a class.
    pub(super) fn object_of(&self, class: u32) -> &MemoryObject {
        &self.objects[self.classes[class as usize].memory as usize]
    }
}
