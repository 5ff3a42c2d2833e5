//! Partitions: numbered elements in classes, by union-find.

/// A partition of the numbers `0..len` into classes. The smallest element of a class names it.
///
/// ```
/// let mut partition = hostir::ir::Partition::of_singletons(4);
/// assert_eq!(partition.join_classes(3, 1), Some((1, 3)));
/// assert_eq!(partition.join_classes(1, 3), None);
/// assert_eq!(partition.into_classes(), [0, 1, 2, 1]);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Partition {
    /// By element: an element of its class that is not larger; for the one that names the class, itself.
    parents: Vec<u32>,
}

impl Partition {
    /// A partition in which each of `len` elements is a class of its own.
    pub fn of_singletons(len: usize) -> Self {
        Self { parents: (0..len as u32).collect() }
    }

    /// Adds an element, which is a class of its own.
    pub fn add_element(&mut self) -> u32 {
        let element = self.element_count() as u32;
        self.parents.push(element);
        element
    }

    /// The number of elements.
    pub fn element_count(&self) -> usize {
        self.parents.len()
    }

    /// The class of an element.
    pub fn class_of(&self, mut element: u32) -> u32 {
        while self.parents[element as usize] != element {
            element = self.parents[element as usize];
        }
        element
    }

    /// The class of an element. Shortens the path to it for later calls.
    pub fn find_class(&mut self, mut element: u32) -> u32 {
        while self.parents[element as usize] != element {
            let up = self.parents[self.parents[element as usize] as usize];
            self.parents[element as usize] = up;
            element = up;
        }
        element
    }

    /// Joins the classes of two elements. Returns the class that remains and the one that it absorbs; `None` if both
    /// elements are of one class already.
    pub fn join_classes(&mut self, a: u32, b: u32) -> Option<(u32, u32)> {
        let (a, b) = (self.find_class(a), self.find_class(b));
        let (kept, gone) = (a.min(b), a.max(b));
        self.parents[gone as usize] = kept;
        (kept != gone).then_some((kept, gone))
    }

    /// Makes [`Self::class_of`] answer at once, until classes are joined again.
    pub fn flatten(&mut self) {
        // A parent is never larger than its child, and so is flattened before it.
        for element in 0..self.parents.len() {
            self.parents[element] = self.parents[self.parents[element] as usize];
        }
    }

    /// The class of each element.
    pub fn into_classes(mut self) -> Vec<u32> {
        self.flatten();
        self.parents
    }
}
