//! Faults of a launch, as runs of its kernel on copies of memory show them.

use hostir::data::HostTensor;
use hostir::plan::{BufferId, BufferView};

/// The bytes that memory has where a kernel is not declared to read it.
#[derive(Clone, Copy)]
pub(super) struct MemoryPattern {
    /// In memory that it is declared to write: an element that it leaves out keeps it.
    written: u8,
    /// In all other memory.
    others: u8,
}

/// Two patterns, which differ in every bit.
pub(super) const PATTERNS: [MemoryPattern; 2] =
    [MemoryPattern { written: 0xc3, others: 0xa5 }, MemoryPattern { written: 0x3c, others: 0x5a }];

impl MemoryPattern {
    /// Returns true if bytes that are declared as written still have the pattern.
    fn is_kept(self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == self.written)
    }
}

/// A difference between a kernel and its launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchFault {
    /// Memory that changes, but is not declared as written.
    UndeclaredWrite {
        /// The buffer that the first byte is in, and its element; `None` for memory of no tensor.
        place: Option<(BufferId, usize)>,
        /// The number of bytes.
        bytes: usize,
    },
    /// Results that depend on memory that is not declared as read.
    UndeclaredRead(ResultElements),
    /// Elements that are declared as written, but not written.
    Unwritten(ResultElements),
}

/// Some elements of a view that a launch declares as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultElements {
    /// Number of the view among those that are written.
    pub written: usize,
    /// The number of elements.
    pub count: usize,
    /// The coordinates of the first one.
    pub first: Vec<usize>,
}

/// A result of a kernel, beside that of its reference.
#[derive(Debug)]
pub struct ReferenceResult {
    /// Number of the view among those that are written.
    pub written: usize,
    /// Of the kernel.
    pub found: HostTensor,
    /// Of the reference.
    pub expected: HostTensor,
}

/// A view in a rank's memory.
pub(super) struct MemoryPart {
    /// The byte at which its first element starts.
    pub(super) start: usize,
    /// The view.
    pub(super) view: BufferView,
}

impl MemoryPart {
    fn element_bytes(&self) -> usize {
        self.view.dtype.byte_size()
    }

    /// The bytes at which its elements start, row-major.
    fn element_starts(&self) -> Vec<usize> {
        let mut starts = vec![self.start];
        for dim in &self.view.dims {
            let step = dim.stride * self.element_bytes();
            starts = starts.into_iter().flat_map(|start| (0..dim.extent).map(move |at| start + at * step)).collect();
        }
        starts
    }

    /// The coordinates of an element by its number.
    fn coordinates(&self, number: usize) -> Vec<usize> {
        let mut rest = number;
        let mut found: Vec<usize> = Vec::new();
        for dim in self.view.dims.iter().rev() {
            found.push(rest % dim.extent.max(1));
            rest /= dim.extent.max(1);
        }
        found.reverse();
        found
    }

    /// Its elements in a memory, row-major.
    pub(super) fn tensor(&self, memory: &[u8]) -> HostTensor {
        let mut tensor = HostTensor::zeros(self.view.dtype, &self.view.shape());
        let size = self.element_bytes();
        for (element, start) in tensor.bytes_mut().chunks_exact_mut(size).zip(self.element_starts()) {
            element.copy_from_slice(&memory[start..start + size]);
        }
        tensor
    }

    /// The elements with an outcome, if there are any; the view is number `written` among those that are written.
    fn select_elements(
        &self,
        written: usize,
        outcomes: &[ElementOutcome],
        wanted: ElementOutcome,
    ) -> Option<ResultElements> {
        let mut found = (0..outcomes.len()).filter(|at| outcomes[*at] == wanted);
        let first = self.coordinates(found.next()?);
        Some(ResultElements { written, count: 1 + found.count(), first })
    }

    /// Marks its bytes.
    fn mark_bytes(&self, bytes: &mut [bool]) {
        let size = self.element_bytes();
        self.element_starts().into_iter().for_each(|start| bytes[start..start + size].fill(true));
    }
}

fn marked_bytes(parts: &[MemoryPart], bytes: usize) -> Vec<bool> {
    let mut marked = vec![false; bytes];
    parts.iter().for_each(|part| part.mark_bytes(&mut marked));
    marked
}

/// Memory with a pattern everywhere but where it is read.
pub(super) fn poisoned_memory(
    memory: &[u8],
    reads: &[MemoryPart],
    writes: &[MemoryPart],
    pattern: MemoryPattern,
) -> Vec<u8> {
    let [read, written] = [reads, writes].map(|parts| marked_bytes(parts, memory.len()));
    let bytes = memory.iter().zip(read).zip(written).map(|((byte, read), written)| match (read, written) {
        (true, _) => *byte,
        (false, true) => pattern.written,
        (false, false) => pattern.others,
    });
    bytes.collect()
}

/// Memory before and after runs of a kernel.
pub(super) struct LaunchRuns<'a> {
    /// The rank's memory.
    pub(super) before: &'a [u8],
    /// After a run on it.
    pub(super) after: &'a [u8],
    /// After a second run on it, if there was one.
    pub(super) again: Option<&'a [u8]>,
    /// Memory with patterns.
    pub(super) poisoned: &'a [Vec<u8>; 2],
    /// After runs on these.
    pub(super) results: &'a [Vec<u8>; 2],
}

/// The fate of an element that is declared as written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementOutcome {
    Same,
    Unwritten,
    Depends,
}

impl LaunchRuns<'_> {
    /// Returns true if a result differs between memories that are equal where the kernel is declared to read.
    pub(super) fn depends_on_undeclared(&self, reads: &[MemoryPart], writes: &[MemoryPart]) -> bool {
        let read = marked_bytes(reads, self.before.len());
        writes.iter().any(|part| self.outcomes(part, &read).any(|outcome| outcome == ElementOutcome::Depends))
    }

    /// All faults: writes first. `known` are the places of tensors, in the order in which names are preferred.
    pub(super) fn find_faults(
        &self,
        reads: &[MemoryPart],
        writes: &[MemoryPart],
        known: &[MemoryPart],
    ) -> Vec<LaunchFault> {
        let mut faults: Vec<LaunchFault> = self.undeclared_write(writes, known).into_iter().collect();
        let read = marked_bytes(reads, self.before.len());
        for (written, part) in writes.iter().enumerate() {
            let outcomes: Vec<ElementOutcome> = self.outcomes(part, &read).collect();
            let dependent = part.select_elements(written, &outcomes, ElementOutcome::Depends);
            faults.extend(dependent.map(LaunchFault::UndeclaredRead));
            let unwritten = part.select_elements(written, &outcomes, ElementOutcome::Unwritten);
            faults.extend(unwritten.map(LaunchFault::Unwritten));
        }
        faults
    }

    fn undeclared_write(&self, writes: &[MemoryPart], known: &[MemoryPart]) -> Option<LaunchFault> {
        let declared = marked_bytes(writes, self.before.len());
        let [first, second] = self.poisoned.each_ref().map(Vec::as_slice);
        let [one, two] = self.results.each_ref().map(Vec::as_slice);
        let runs = [(self.before, self.after), (first, one), (second, two)];
        let undeclared = (0..self.before.len()).filter(|at| !declared[*at]);
        let mut changed = undeclared.filter(|at| runs.iter().any(|(before, after)| before[*at] != after[*at]));
        let first = changed.next()?;
        let place = known.iter().find_map(|part| {
            let element = first.checked_sub(part.start)? / part.element_bytes().max(1);
            (element < part.view.len()).then_some((part.view.buffer, element))
        });
        Some(LaunchFault::UndeclaredWrite { place, bytes: 1 + changed.count() })
    }

    /// The outcomes of the elements of a part, row-major.
    fn outcomes(&self, part: &MemoryPart, read: &[bool]) -> impl Iterator<Item = ElementOutcome> {
        let size = part.element_bytes();
        part.element_starts().into_iter().map(move |start| self.outcome(start, size, read))
    }

    fn outcome(&self, start: usize, size: usize, read: &[bool]) -> ElementOutcome {
        let range = start..start + size;
        let own = &self.after[range.clone()];
        let [first, second] = self.results.each_ref().map(|result| &result[range.clone()]);
        // A result that differs between runs on the same data says nothing.
        let varies = self.again.is_some_and(|again| &again[range.clone()] != own);
        let is_kept = [first, second].into_iter().zip(PATTERNS).all(|(bytes, pattern)| pattern.is_kept(bytes));
        match (is_kept && !read[start], varies || (first == own && second == own)) {
            (true, _) => ElementOutcome::Unwritten,
            (false, true) => ElementOutcome::Same,
            (false, false) => ElementOutcome::Depends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::ir::DType;
    use hostir::plan::row_major;

    fn part(buffer: u32, start: usize, elements: usize) -> MemoryPart {
        let view =
            BufferView { buffer: BufferId(buffer), offset: 0, dims: row_major(&[elements]), dtype: DType::Int16 };
        MemoryPart { start, view }
    }

    /// The faults of a kernel: it reads elements 0 and 1, and writes elements 4 and 5 of 8.
    fn faults(kernel: impl Fn(&mut [u8])) -> Vec<LaunchFault> {
        let before: Vec<u8> = (0..16).collect();
        let (reads, writes) = ([part(0, 0, 2)], [part(1, 8, 2)]);
        let run = |content: &[u8]| {
            let mut memory = content.to_vec();
            kernel(&mut memory);
            memory
        };
        let poisoned = PATTERNS.map(|pattern| poisoned_memory(&before, &reads, &writes, pattern));
        let (after, results) = (run(&before), poisoned.each_ref().map(|content| run(content)));
        let runs = LaunchRuns { before: &before, after: &after, again: None, poisoned: &poisoned, results: &results };
        runs.find_faults(&reads, &writes, &[part(0, 0, 2), part(1, 8, 2), part(2, 12, 2)])
    }

    /// Copies an element.
    fn set(memory: &mut [u8], to: usize, from: usize) {
        memory.copy_within(2 * from..2 * from + 2, 2 * to);
    }

    #[test]
    fn kernels_that_keep_to_their_declarations_have_no_fault() {
        let found = faults(|memory| {
            set(memory, 4, 0);
            set(memory, 5, 1);
        });
        assert_eq!(found, []);
    }

    #[test]
    fn undeclared_writes_are_found_also_of_equal_values() {
        let found = faults(|memory| {
            set(memory, 4, 0);
            set(memory, 5, 0);
            memory[14] = 14;
        });
        assert_eq!(found, [LaunchFault::UndeclaredWrite { place: Some((BufferId(2), 1)), bytes: 1 }]);
    }

    #[test]
    fn undeclared_reads_and_elements_that_are_left_out_are_found() {
        let found = faults(|memory| set(memory, 4, 7));
        let [depends, unwritten] = &found[..] else { panic!("{found:?}") };
        let elements = |at| ResultElements { written: 0, count: 1, first: vec![at] };
        assert_eq!(*unwritten, LaunchFault::Unwritten(elements(1)));
        assert_eq!(*depends, LaunchFault::UndeclaredRead(elements(0)));
    }
}
