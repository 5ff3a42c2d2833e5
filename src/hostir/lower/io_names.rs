//! The names by which callers refer to a program's inputs, outputs and scalars, and the texts that list them.

use crate::ir::scalar_names::{RUNTIME, sub_expressions};
use crate::ir::{Expr, ExprId, Program, TensorId, Value};

/// The tensors among inputs or outputs.
pub fn tensor_ids(values: &[Value]) -> Vec<TensorId> {
    values.iter().filter_map(|value| value.as_tensor()).collect()
}

/// `T0`, whatever name the tensor has.
pub fn tensor_number(program: &Program, tensor: TensorId) -> String {
    format!("T{}", program.tensor(tensor).number)
}

/// The position of the tensor with this number or name, or at this position.
pub fn find_named_tensor(program: &Program, tensors: &[TensorId], key: &str) -> Option<usize> {
    tensors
        .iter()
        .position(|tensor| tensor_number(program, *tensor) == key || program.tensor_name(*tensor) == key)
        .or_else(|| key.parse().ok().filter(|index: &usize| *index < tensors.len()))
}

/// The names of all scalars in the program's expressions; a name may occur several times.
pub fn scalar_names(program: &Program) -> Vec<&str> {
    let exprs = (0..program.exprs().len()).filter_map(|index| match program.expr(ExprId(index as u32)) {
        Expr::Name(name) => Some(program.name(*name)),
        _ => None,
    });
    exprs.collect()
}

/// The names of sizes and scalar inputs that callers may set, as a sentence.
pub fn describe_settable(program: &Program) -> String {
    let names = settable_names(program);
    match names.len() {
        0 => "it has no sizes to set".to_owned(),
        1 => format!("it has only {}", names[0]),
        count @ ..=MOST_NAMES => {
            format!("it has {} and {}", names[..count - 1].join(", "), names[count - 1])
        }
        count => {
            format!("it has {} and {} more", names[..MOST_NAMES].join(", "), count - MOST_NAMES)
        }
    }
}

/// Names that a sentence lists.
const MOST_NAMES: usize = 8;

/// The names of sizes and scalar inputs that callers may set, each once.
pub fn settable_names(program: &Program) -> Vec<&str> {
    let mut names = Vec::new();
    for (tensor, _) in program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none()) {
        program.domains(tensor).iter().for_each(|axis| add_names(program, axis.extent, &mut names));
    }
    let scalars = program.inputs().iter().filter_map(|input| input.as_scalar());
    scalars.for_each(|scalar| add_names(program, scalar, &mut names));
    for size in &program.given_names().sized.sizes {
        let name = program.name(size.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The names of scalar inputs that are no extent of a tensor, so that no shape determines their values.
pub fn untold_scalars(program: &Program) -> Vec<&str> {
    let tensors = program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none());
    let extents = tensors.flat_map(|(tensor, _)| program.domains(tensor).iter().map(|axis| axis.extent));
    let told: Vec<&str> =
        extents.filter_map(|extent| program.exprs().as_name(extent)).map(|n| program.name(n)).collect();
    let mut scalars = Vec::new();
    program.inputs().iter().filter_map(|input| input.as_scalar()).for_each(|s| add_names(program, s, &mut scalars));
    scalars.retain(|name| !told.contains(name));
    scalars
}

/// Adds the names of an expression that callers may set, each once.
fn add_names<'p>(program: &'p Program, expr: ExprId, names: &mut Vec<&'p str>) {
    match program.expr(expr) {
        Expr::Name(name) => {
            let name = program.name(*name);
            if !RUNTIME.contains(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
        other => sub_expressions(other).iter().for_each(|&part| add_names(program, part, names)),
    }
}
