//! The passes that pipelines may name: those of a table, and those of a caller.

use crate::framework::pass::PassInfo;

/// The passes that a pipeline may name: those of a table, and those of a caller.
///
/// ```
/// use hostir_passes::{PassInfo, PassRegistry, pipeline};
///
/// static NOTHING: PassInfo = PassInfo {
///     name: "nothing",
///     summary: "Change nothing",
///     ..PassInfo::DEFAULTS
/// };
/// static PASSES: PassRegistry = PassRegistry::with_passes(&[&NOTHING]);
///
/// let pipeline = pipeline::parse_pipeline("dce,nothing", PASSES).expect("both passes are known");
/// assert_eq!(pipeline.to_string(), "dce,nothing");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PassRegistry {
    table: &'static [&'static PassInfo],
    /// The passes of the caller.
    more: &'static [&'static PassInfo],
}

impl PassRegistry {
    /// The passes of a table alone.
    pub const fn of_table(table: &'static [&'static PassInfo]) -> Self {
        Self { table, more: &[] }
    }

    /// The passes of a table, and these.
    ///
    /// # Panics
    /// If two passes have one name; a `static` registry does not compile then.
    pub const fn of_tables(table: &'static [&'static PassInfo], more: &'static [&'static PassInfo]) -> Self {
        let mut at = 0;
        while at < more.len() {
            let name = more[at].name;
            assert!(!has_name(table, table.len(), name), "a caller's pass has the name of one of the table");
            assert!(!has_name(more, at, name), "two passes of a caller have one name");
            at += 1;
        }
        Self { table, more }
    }

    /// All passes: those of the table in its order, then those of the caller.
    pub fn passes(self) -> impl Iterator<Item = &'static PassInfo> + Clone {
        self.table.iter().chain(self.more).copied()
    }
}

impl From<&'static [&'static PassInfo]> for PassRegistry {
    fn from(table: &'static [&'static PassInfo]) -> Self {
        Self::of_table(table)
    }
}

/// True if one of the first `count` passes has a name; `-` and `_` are equivalent.
const fn has_name(passes: &[&PassInfo], count: usize, name: &str) -> bool {
    let mut at = 0;
    while at < count {
        if is_equal(passes[at].name.as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() {
        let is_dash = matches!((a[at], b[at]), (b'-' | b'_', b'-' | b'_'));
        if a[at] != b[at] && !is_dash {
            return false;
        }
        at += 1;
    }
    a.len() == b.len()
}
