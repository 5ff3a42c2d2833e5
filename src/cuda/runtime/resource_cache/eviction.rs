//! The bookkeeping of idle resources: what is kept, what is evicted, and who gets it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Resources that have one user at a time. A resource in the cache belongs to nobody until it is taken.
pub(crate) struct IdleCache<K, V> {
    /// Keys, weights and resources, oldest first.
    items: VecDeque<(K, u64, V)>,
    /// Most of all weights together.
    limit: u64,
}

impl<K: PartialEq, V> IdleCache<K, V> {
    /// An empty shelf.
    pub(crate) fn new(limit: u64) -> Self {
        Self { items: VecDeque::new(), limit }
    }

    /// Puts a resource into the cache. Returns the evicted ones for the caller to drop outside of the lock: the oldest,
    /// or the resource itself if it is too heavy.
    #[must_use]
    pub(crate) fn put(&mut self, key: K, weight: u64, value: V) -> Vec<V> {
        if weight > self.limit {
            return vec![value];
        }
        self.items.push_back((key, weight, value));
        let mut weight: u64 = self.items.iter().map(|(_, weight, _)| weight).sum();
        let mut gone = Vec::new();
        while weight > self.limit
            && let Some((_, less, value)) = self.items.pop_front()
        {
            weight -= less;
            gone.push(value);
        }
        gone
    }

    /// Takes the newest thing of a key.
    pub(crate) fn take(&mut self, key: &K) -> Option<V> {
        let at = self.items.iter().rposition(|(other, ..)| other == key)?;
        self.items.remove(at).map(|(.., value)| value)
    }

    /// Takes the lightest resource of a key whose weight is within the bounds.
    pub(crate) fn take_fitting(&mut self, key: &K, least: u64, most: u64) -> Option<V> {
        let items = self.items.iter().enumerate();
        let found = items.filter(|(_, (other, weight, _))| other == key && (least..=most).contains(weight));
        let at = found.min_by_key(|(_, (_, weight, _))| *weight)?.0;
        self.items.remove(at).map(|(.., value)| value)
    }

    /// Takes everything of a key.
    pub(crate) fn take_all(&mut self, key: &K) -> Vec<V> {
        let (gone, kept) = self.items.drain(..).partition(|(other, ..)| other == key);
        self.items = kept;
        let gone: VecDeque<(K, u64, V)> = gone;
        gone.into_iter().map(|(.., value)| value).collect()
    }
}

/// Resources with any number of users at once. When there are too many, the cache forgets all: users keep theirs, and
/// later requests only take longer.
pub(crate) struct SharedCache<K, V> {
    items: HashMap<K, V>,
    limit: usize,
}

impl<K: Eq + Hash, V: Clone> SharedCache<K, V> {
    /// Nothing is known.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: HashMap::new(), limit }
    }

    /// Returns the value of a key, if known.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.items.get(key).cloned()
    }

    /// Inserts a resource, and replaces an earlier one. Returns the forgotten ones for the caller to drop.
    #[must_use]
    pub(crate) fn insert_or_flush(&mut self, key: K, value: V) -> HashMap<K, V> {
        let full = self.items.len() >= self.limit && !self.items.contains_key(&key);
        let gone = if full { std::mem::take(&mut self.items) } else { HashMap::new() };
        self.items.insert(key, value);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_taken_once_and_the_newest_first() {
        let mut shelf = IdleCache::new(10);
        assert!(shelf.put("a", 1, 1).is_empty());
        assert!(shelf.put("b", 1, 2).is_empty());
        assert!(shelf.put("a", 1, 3).is_empty());
        assert_eq!([shelf.take(&"a"), shelf.take(&"a"), shelf.take(&"a")], [Some(3), Some(1), None]);
        assert_eq!(shelf.take(&"b"), Some(2));
    }

    #[test]
    fn what_lay_longest_goes_first() {
        let mut shelf = IdleCache::new(10);
        assert!(shelf.put("a", 4, 1).is_empty());
        assert!(shelf.put("b", 4, 2).is_empty());
        assert!(shelf.put("a", 2, 3).is_empty());
        assert_eq!(shelf.put("c", 5, 4), [1, 2]);
        assert_eq!(shelf.put("c", 11, 5), [5]);
        assert_eq!([shelf.take(&"a"), shelf.take(&"c"), shelf.take(&"c")], [Some(3), Some(4), None]);
    }

    #[test]
    fn the_smallest_that_fits() {
        let mut shelf = IdleCache::new(1000);
        for weight in [64, 16, 32, 256] {
            assert!(shelf.put(0, weight, weight).is_empty());
        }
        assert_eq!(shelf.take_fitting(&0, 17, 68), Some(32));
        assert_eq!(shelf.take_fitting(&0, 17, 68), Some(64));
        // A resource that is much too large is left for programs that need it.
        assert_eq!(shelf.take_fitting(&0, 17, 68), None);
        assert_eq!(shelf.take_fitting(&1, 1, 1000), None);
        assert_eq!(shelf.take_all(&0), [16, 256]);
        assert_eq!(shelf.take_all(&0), []);
    }

    #[test]
    fn emptying_leaves_other_keys() {
        let mut shelf = IdleCache::new(1000);
        for key in [0, 1, 0, 2] {
            assert!(shelf.put(key, 1, key).is_empty());
        }
        assert_eq!(shelf.take_all(&0), [0, 0]);
        assert_eq!([shelf.take(&1), shelf.take(&2), shelf.take(&0)], [Some(1), Some(2), None]);
    }

    #[test]
    fn too_much_is_forgotten() {
        let mut known = SharedCache::new(2);
        assert!(known.insert_or_flush("a", 1).is_empty());
        assert!(known.insert_or_flush("b", 2).is_empty());
        assert!(known.insert_or_flush("b", 3).is_empty());
        assert_eq!([known.get(&"a"), known.get(&"b")], [Some(1), Some(3)]);
        assert_eq!(known.insert_or_flush("c", 4).len(), 2);
        assert_eq!([known.get(&"a"), known.get(&"c")], [None, Some(4)]);
    }
}
