//! Kernels of a file, and their names.

use super::parameter::KernelParameter;

/// A file that source includes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KernelHeader {
    /// Its name as the directive has it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// A kernel of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelEntry {
    /// Its name: in source as it is written, in code as the driver knows it.
    pub name: String,
    /// The line of source that declares it, from 1.
    pub line: Option<usize>,
    /// Its parameters.
    pub parameters: Vec<KernelParameter>,
}

/// The search for a kernel in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoundEntry {
    /// The kernel.
    Known(KernelEntry),
    /// The file does not tell: it has templates or macros, several kernels of this name, or code that only the driver
    /// reads.
    Untold,
    /// There is none; the names of those that there are.
    Missing(Vec<String>),
    /// Several have this name without their parameters; their names in the code.
    Several(Vec<String>),
}

/// The name of the function at global scope that a mangled name stands for: `axpy` of `_Z4axpyPKfi`, by the rules of the
/// Itanium C++ ABI, section 5.1.
pub(super) fn plain_name(mangled: &str) -> Option<&str> {
    let rest = mangled.strip_prefix("_Z")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest[..digits].parse().ok()?;
    rest.get(digits..digits.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_stand_for_functions() {
        assert_eq!(plain_name("_Z4axpyPKfi"), Some("axpy"));
        assert_eq!(plain_name("_Z4fillIfEvPT_x"), Some("fill"));
        for name in ["axpy", "_Z", "_ZN1a4axpyEv", "_Z99axpy", "_Z18446744073709551615a"] {
            assert_eq!(plain_name(name), None, "{name}");
        }
    }
}
