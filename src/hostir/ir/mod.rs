//! The IR: one host program as dense arenas.
//!
//! A [`Program`] owns flat tables of tensors, scalar expressions, meshes, ops and blocks. They refer to each
//! other by `Copy` ids and hold no text. Spans and comments, which no computation reads, are kept beside
//! the arenas in [`SourceMap`].
//!
//! Semantics of the IR:
//! - A block is a list of ops that *the host* runs in order. Most ops only enqueue work: on the current
//!   stream, or on a communicator's own queue.
//! - The language is not SSA. A tensor may be a result of several ops (`HirAliasSelect` binds it,
//!   ALLOCATE allocates it, a compute op fills it), and an input may be written. A tensor is identified by
//!   its [`TensorId`]; two declarations with one number and different types are two tensors here, and
//!   an error in `verify`.
//! - Scalars are expressions over names (`i0`, `StreamIdx`, `rank`), hash-consed in [`ExprArena`].
//! - Loops and branches are ops with blocks ([`Op::blocks`]).
//!
//! Reading is unrestricted; every change goes through [`edit::Edit`], which keeps a journal, so a pass that
//! rejects a program leaves it unchanged.

mod communication;
pub mod definitions;
pub mod edit;
mod enclosing;
mod expr;
pub mod functions;
mod given_names;
mod hir2_words;
mod id;
mod ids;
mod imports;
mod labels;
mod names;
mod op;
mod op_kind;
pub mod order;
mod partition;
pub mod places;
mod program;
mod quoted;
mod rank_scalars;
mod roots;
mod scalar_dependence;
pub mod scalar_names;
mod shifted_peer;
mod short_expr;
mod sized_mesh;
mod statement_label;
mod style;
mod tensor;
mod tensor_numbers;
pub(crate) mod text;
mod types;
mod unread;

pub use communication::{CommBackend, MessageDirection, MessageProtocol};
pub use definitions::IndexDefinitions;
pub use enclosing::{EnclosingOp, OffsetExpr, branch_condition, enclosing_ops, upper_bound};
pub use expr::{BinaryOp, Expr, ExprArena, MeshCoordinate, UnaryOp};
pub use given_names::{NO_MESH, RESERVED_WORDS, is_given_name, is_identifier, is_numbered_name, is_reserved_word};
pub use hir2_words::{
    COMMUNICATION_WORDS, DTYPE_WORDS, collective_word, dtype_of_word, function_of_word, statement_word, word_of_dtype,
    word_of_function,
};
pub(crate) use id::dense_id;
pub use id::{Id, IdVec};
pub use ids::{BlockId, DomainId, ExprId, MeshId, OpId, TensorId, UnitId};
pub use imports::{ImportLine, Imports};
pub use names::{NameInterner, Symbol};
pub use op::{AttrKey, AttrValue, Op, OpAttr, TEAM_CUT, Value};
pub use op_kind::{
    ArgumentsEnd, AxisLink, CallPadding, CommunicationEffect, ControlEffect, GemmForm, OpEffect, OpIdentity, OpKind,
    OpLayout, OwnForm, RunsOn, StandaloneRule, StreamEffect, Transfer, WordLink, result_count_text,
};
pub use order::first_free_number;
pub use partition::Partition;
pub use program::{
    Block, CommentPlace, GivenNames, HostUnit, Program, RunHints, SliceTexts, SourceComment, SourceMap, TextFrame,
    TypePlace,
};
pub use quoted::{
    bare_head, coalescing_group, quoted_argument, quoted_axis, quoted_bare_expr, quoted_expanded, quoted_expr,
    quoted_head, quoted_op, quoted_parallel_type, quoted_scalar, quoted_statement, quoted_synchronize, quoted_team,
    quoted_type, quoted_wait, quoted_word,
};
pub use rank_scalars::RankScalars;
pub(crate) use roots::set_root_as;
pub use roots::{RootAs, is_identity};
pub use scalar_dependence::depends_on_scalar;
pub use scalar_names::{FreeName, NameFinding, free_names, scan_names, sub_expressions};
pub use shifted_peer::{ChildPeer, NeighbourTeam, ShiftedPeer};
pub use short_expr::{short_expr_text, wrapped_parts};
pub use sized_mesh::{GivenSizes, MeshSize, MeshSizeSource, MeshTextPiece, SizedMeshes};
pub use statement_label::{handle_element_phrase, handle_label, handle_phrase, op_display_name, statement_label};
pub use style::{CastSpelling, Era, StreamSpelling, Style};
pub use tensor::{DeviceMesh, IterDomain, Tensor};
pub use tensor_numbers::TensorNumbers;
pub(crate) use text::{TextCache, TextWriter, push_integer, push_number};
pub use text::{domain_text, expr_text, mesh_text, tensor_text};
pub use types::{DType, IterType, MemoryType, ParallelType};
pub use unread::UnreadText;
