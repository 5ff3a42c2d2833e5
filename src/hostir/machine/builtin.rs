//! The built-in machines.

use super::Machine;

/// The name of the machine for which programs are modelled if nothing names another.
pub const DEFAULT_NAME: &str = "h200x4";

/// The names of the built-in machines.
pub const BUILTIN_NAMES: [&str; 6] = ["h100x2", "h100x4", "h100x8", "h200x2", "h200x4", "h200x8"];

/// The file of each built-in machine, in the order of [`BUILTIN_NAMES`].
const FILES: [&str; 6] = [
    include_str!("builtin/h100x2.toml"),
    include_str!("builtin/h100x4.toml"),
    include_str!("builtin/h100x8.toml"),
    include_str!("builtin/h200x2.toml"),
    include_str!("builtin/h200x4.toml"),
    include_str!("builtin/h200x8.toml"),
];

impl Machine {
    /// The built-in machine of a name.
    pub fn find_builtin(name: &str) -> Option<Self> {
        let file = Self::builtin_file(name)?;
        Some(Self::from_toml(file).expect("a test reads the built-in files"))
    }

    /// The file of the built-in machine of a name.
    pub fn builtin_file(name: &str) -> Option<&'static str> {
        let at = BUILTIN_NAMES.iter().position(|known| *known == name)?;
        FILES.get(at).copied()
    }

    /// The machine for which programs are modelled if nothing names another: [`DEFAULT_NAME`].
    pub fn default_machine() -> Self {
        Self::find_builtin(DEFAULT_NAME).expect("the default is a built-in machine")
    }
}
