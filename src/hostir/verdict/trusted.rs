//! Declarations that a proof rests on and that nothing has checked: what kernels of the user access.

use crate::diag::Span;
use crate::ir::{Program, TensorId};
use crate::ops::user_launch::launch_parts;

/// The declared accesses of a kernel of the user, which a proof takes as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedLaunch {
    /// The file of the kernel.
    pub file: String,
    /// The kernel.
    pub entry: String,
    /// The tensors that it is declared to read, as the text names them.
    pub reads: Vec<String>,
    /// The tensors that it is declared to write.
    pub writes: Vec<String>,
    /// The launch in the text.
    pub span: Span,
}

/// The names of tensors, in their order.
fn tensor_names(program: &Program, tensors: &[TensorId]) -> Vec<String> {
    tensors.iter().map(|&tensor| program.tensor_name(tensor)).collect()
}

/// The launches of a program, in the order of its text.
pub fn trusted_launches(program: &Program) -> Vec<TrustedLaunch> {
    let mut found = Vec::new();
    program.walk(program.body(), &mut |id| {
        let Some(parts) = launch_parts(program.op(id)) else { return };
        found.push(TrustedLaunch {
            file: program.name(parts.file).to_owned(),
            entry: program.name(parts.entry).to_owned(),
            reads: tensor_names(program, &parts.reads),
            writes: tensor_names(program, &parts.writes),
            span: program.op_span(id),
        });
    });
    found
}
