//! Dense ids and the vectors they index.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense id: a `u32` that indexes one arena.
pub trait Id: Copy + Eq {
    /// The id with an index.
    fn new(index: usize) -> Self;
    /// The index.
    fn index(self) -> usize;
}

/// Declares a `u32` id type.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
        impl $crate::ir::Id for $name {
            #[inline]
            fn new(index: usize) -> Self { Self(index as u32) }
            #[inline]
            fn index(self) -> usize { self.0 as usize }
        }
    };
}
pub(crate) use id;
pub(crate) use id as dense_id;

/// A vector indexed by one id type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }
}

impl<I: Id, T> IdVec<I, T> {
    /// Appends and returns the new id.
    #[inline]
    pub fn push(&mut self, item: T) -> I {
        let id = I::new(self.items.len());
        self.items.push(item);
        id
    }
    /// Makes room for `count` more items.
    pub fn reserve(&mut self, count: usize) {
        self.items.reserve(count);
    }
    /// Reserves room for exactly `count` more items; fails if memory is short.
    pub fn try_reserve_exact(&mut self, count: usize) {
        // Without reserved memory the list grows when it has to.
        let _ = self.items.try_reserve_exact(count);
    }
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// All ids in order.
    #[inline]
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }
    /// Ids and items in order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }
    /// The item, if the id is in range.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
    /// The items as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
    /// Drops all items from `len` on (journal roll-back).
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
}

impl<I: Id, T: Clone> IdVec<I, T> {
    /// A vector of `len` copies of `item`: a side table for an arena of that length.
    pub fn filled(item: T, len: usize) -> Self {
        Self { items: vec![item; len], id: PhantomData }
    }
    /// Grows to `len` with copies of `item`.
    pub fn grow(&mut self, len: usize, item: T) {
        if self.items.len() < len {
            self.items.resize(len, item);
        }
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        Self { items: items.into_iter().collect(), id: PhantomData }
    }
}
