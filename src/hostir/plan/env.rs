//! Values of names: extents, scalar inputs, and the numbers of ranks and streams.

use crate::ir::{Symbol, UnitId};
use rustc_hash::FxHashMap;

/// The values of all names.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ExtentEnv {
    values: FxHashMap<(Option<UnitId>, Symbol), i64>,
    /// The bits of scalar inputs that are not integers.
    reals: FxHashMap<Symbol, u64>,
    /// Number of ranks.
    pub ranks: u32,
    /// The value of `numberOfStreams`.
    pub streams: u32,
    /// The seed of random numbers for which the program has none.
    pub random_seed: u64,
}

impl ExtentEnv {
    /// The value of a name of the host program (`None`) or of a unit.
    pub fn name_value(&self, unit: Option<UnitId>, name: Symbol) -> Option<i64> {
        self.values.get(&(unit, name)).copied()
    }
    /// The value of a scalar input that is not an integer.
    pub fn real_value(&self, name: Symbol) -> Option<f64> {
        self.reals.get(&name).map(|bits| f64::from_bits(*bits))
    }
    /// The values of the host program's names, in no fixed order.
    pub fn host_values(&self) -> impl Iterator<Item = (Symbol, i64)> {
        let values = self.values.iter();
        values.filter(|((unit, _), _)| unit.is_none()).map(|(&(_, name), &value)| (name, value))
    }
    /// The same with another number of streams.
    pub(crate) fn with_streams(&self, streams: u32) -> Self {
        Self { streams, ..self.clone() }
    }
    /// Binds a name.
    pub fn bind_name(&mut self, unit: Option<UnitId>, name: Symbol, value: i64) {
        self.values.insert((unit, name), value);
    }
}

impl ExtentEnv {
    /// An environment of real scalar inputs, by their bits, without extents.
    pub(crate) fn with_reals(ranks: u32, streams: u32, reals: FxHashMap<Symbol, u64>) -> Self {
        Self { ranks, streams, reals, ..Self::default() }
    }
}
