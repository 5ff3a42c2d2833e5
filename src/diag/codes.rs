//! The codes of errors about names and structure (`H01`), one line each.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $code;)*
        /// All codes of this layer with what they mean, in order.
        pub const NAMES: &[(&str, &str)] = &[$(($code, concat!($($doc),+))),*];
    };
}

codes! {
    /// An unknown statement or op.
    UNKNOWN_OP = "H0101";
    /// An unknown function in a scalar expression.
    UNKNOWN_FUNCTION = "H0102";
    /// An argument that is missing.
    MISSING_ARGUMENT = "H0103";
    /// A keyed argument that the op does not have.
    UNKNOWN_ARGUMENT = "H0104";
    /// A keyed argument that stands twice.
    DUPLICATE_ARGUMENT = "H0105";
    /// An argument with a value of the wrong kind.
    WRONG_KIND = "H0106";
    /// Too many operands.
    EXTRA_OPERAND = "H0107";
    /// Too many or too few results.
    WRONG_RESULTS = "H0108";
    /// A word that is none of those an argument takes.
    UNKNOWN_WORD = "H0109";
    /// A short reference to a tensor that has not been written in full before.
    UNDEFINED_TENSOR = "H0110";
    /// A type that a host program cannot hold.
    UNSUPPORTED_TYPE = "H0111";
    /// An op without its number, or with one that it does not have.
    WRONG_NUMBER = "H0112";
    /// A position that is no axis of the operand.
    NO_SUCH_AXIS = "H0113";
    /// Operations on tensors inside one another.
    NESTED_TENSOR_OP = "H0114";
    /// An ALLOCATE whose buffer is not its result.
    OTHER_BUFFER = "H0115";
    /// A HostUnit whose lists of inputs or outputs differ.
    UNIT_LISTS = "H0116";
    /// A function with too many or too few operands.
    WRONG_ARITY = "H0117";
}
