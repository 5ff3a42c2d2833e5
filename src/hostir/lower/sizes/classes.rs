//! The sizes of axes and names: classes of equal ones, and the value of each class.

use crate::diag::{Message, Span};
use crate::ir::{Partition, Symbol, UnitId};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The source of a class's value, for messages.
#[derive(Clone, Debug)]
pub(super) struct KnownSize {
    pub(super) value: i64,
    pub(super) span: Option<Span>,
    pub(super) why: Rc<Message>,
    pub(super) source: SizeSource,
}

/// The origin of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SizeSource {
    /// A constant of the text, or a size that the text proposes.
    Text,
    /// The caller, by a flag or a file.
    Caller,
    /// Another known source: a mesh, a loop, other sizes.
    Derived,
}

/// A class that was given two sizes.
#[derive(Clone, Debug)]
pub(super) struct SizeConflict {
    /// The size that was given first.
    pub(super) old: KnownSize,
    /// The node that had it.
    pub(super) origin: Option<u32>,
    /// The other size.
    pub(super) new: KnownSize,
    /// The node that got it.
    pub(super) node: u32,
}

/// Sizes by node, of an axis or a name. A class of equal sizes is named by one of its nodes.
#[derive(Default)]
pub(super) struct SizeClasses {
    pub(super) classes: Partition,
    /// By the node that names a class.
    pub(super) known: Vec<Option<KnownSize>>,
    /// By class: the node whose size is known.
    pub(super) origins: FxHashMap<u32, u32>,
    /// The sizes that nodes were given.
    pub(super) claims: Vec<(u32, KnownSize)>,
    /// Classes that were given two sizes.
    pub(super) conflicts: Vec<SizeConflict>,
    /// The names of the host program and of units, each with its node.
    pub(super) names: Vec<(Option<UnitId>, Symbol, u32)>,
    pub(super) name_nodes: FxHashMap<(Option<UnitId>, Symbol), u32>,
}

impl SizeClasses {
    /// Adds a node in a class of its own.
    pub(super) fn new_node(&mut self) -> u32 {
        self.known.push(None);
        self.classes.add_element()
    }

    /// The node that names the class of a node.
    pub(super) fn find_root(&mut self, node: u32) -> u32 {
        self.classes.find_class(node)
    }

    /// Makes two sizes equal.
    pub(super) fn union_nodes(&mut self, a: u32, b: u32) {
        let Some((low, high)) = self.classes.join_classes(a, b) else { return };
        if let Some(known) = self.known[high as usize].take() {
            // The same class, but a conflict names the node.
            self.set_size(self.origins.get(&high).copied().unwrap_or(low), known);
        }
    }

    /// Gives a node a size that the text, the caller or something else that is known says.
    pub(super) fn fix_node(&mut self, node: u32, known: KnownSize) {
        self.claims.push((node, known.clone()));
        self.set_size(node, known);
    }

    /// Gives the class of a node a size; two different ones are a conflict.
    fn set_size(&mut self, node: u32, known: KnownSize) {
        let root = self.find_root(node);
        let Some(old) = self.known[root as usize].clone() else {
            self.known[root as usize] = Some(known);
            self.origins.insert(root, node);
            return;
        };
        if old.value == known.value {
            return;
        }
        let origin = self.origins.get(&root).copied();
        self.conflicts.push(SizeConflict { old, origin, new: known, node });
    }

    /// Returns true if the caller gave a class a size, whoever gave it one before.
    pub(super) fn has_claim_of_caller(&mut self, root: u32) -> bool {
        let claims = self.claims.iter().filter(|(_, known)| known.source == SizeSource::Caller);
        let nodes: Vec<u32> = claims.map(|(node, _)| *node).collect();
        nodes.into_iter().any(|node| self.find_root(node) == root)
    }

    /// Returns true if the caller gave this node a size.
    pub(super) fn is_claimed_by_caller(&self, node: u32) -> bool {
        self.claims.iter().any(|(claimed, known)| *claimed == node && known.source == SizeSource::Caller)
    }

    /// The node of a name, which is new if the name is.
    pub(super) fn name_node(&mut self, unit: Option<UnitId>, name: Symbol) -> u32 {
        if let Some(&node) = self.name_nodes.get(&(unit, name)) {
            return node;
        }
        let node = self.new_node();
        self.name_nodes.insert((unit, name), node);
        self.names.push((unit, name, node));
        node
    }
}
