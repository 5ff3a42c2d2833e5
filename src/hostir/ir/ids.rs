//! The ids of what a program has. They are separate from the arenas that they index, because ops, expressions and
//! tensors refer to each other.

use super::id::id;

id! {
    /// An expression of [`ExprArena`](super::ExprArena).
    ExprId
}
id! {
    /// An op of a program.
    OpId
}
id! {
    /// A block of a program.
    BlockId
}
id! {
    /// A HostUnit of a program (its index, not its number).
    UnitId
}
id! {
    /// A tensor of a program.
    TensorId
}
id! {
    /// An iteration domain of a program.
    DomainId
}
id! {
    /// A device mesh of a program; equal meshes have equal ids.
    MeshId
}
