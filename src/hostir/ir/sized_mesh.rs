//! Meshes whose devices follow from sizes (`mesh d = 0..p`): their text, and the values for which a program was read.
//!
//! The devices of such a mesh are known when the text is read, so all later layers see a mesh of numbers; the text is
//! kept for the writer of `hir 2`.

use super::ids::MeshId;
use super::names::Symbol;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Values for the sizes of meshes, from outside of a text.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GivenSizes {
    /// By name: `--set p=4`.
    pub set: BTreeMap<String, i64>,
    /// The number of ranks, which gives the size that is open.
    pub devices: Option<u32>,
    /// The value of sizes that nothing else gives: `--set '*=8'`.
    pub every: Option<i64>,
    /// True if the program is to have numbers in the place of these sizes, as passes and the printed form need them.
    pub as_numbers: bool,
}

/// The origin of a mesh size's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeshSizeSource {
    /// The caller, by the size's name.
    Set,
    /// The number of ranks.
    Devices(u32),
    /// The caller, for all open sizes.
    Every,
    /// The line `sizes` of the text.
    Text,
    /// Nothing: a number for which the program is verified, but not run.
    Assumed,
}

/// A size of a mesh, with the value for which the program was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshSize {
    /// Its name.
    pub name: Symbol,
    /// Its value.
    pub value: i64,
    /// The origin of the value.
    pub source: MeshSizeSource,
}

/// A part of the text of a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MeshTextPiece {
    /// Numbers, operators, brackets.
    Text(Box<str>),
    /// A size.
    Name(Symbol),
}

/// The meshes of a program that are given by sizes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SizedMeshes {
    /// The text of each such mesh.
    pub texts: FxHashMap<MeshId, Vec<MeshTextPiece>>,
    /// Their sizes, in the order of the text.
    pub sizes: Vec<MeshSize>,
}

impl SizedMeshes {
    /// The sizes without a value.
    pub fn open_sizes(&self) -> impl Iterator<Item = &MeshSize> {
        self.sizes.iter().filter(|size| size.source == MeshSizeSource::Assumed)
    }
}
