//! Types of tensors and meshes in the words of a program's notation.

use hostir::diag::{Notation, Quoted, message};
use hostir::ir::{MemoryType, MeshId, Program, TensorId, quoted_axis, quoted_type, tensor_text};

/// `f32[x:4, n]`, or the text of the printed form without its number.
pub fn type_text(program: &Program, tensor: TensorId) -> String {
    if !program.is_hir2() {
        return tensor_text(program, tensor);
    }
    let domains = program.domains(tensor);
    let shown = program.logical_axes(tensor);
    let axes: Vec<String> =
        shown.iter().filter_map(|at| domains.get(*at as usize)).map(|axis| short(quoted_axis(program, axis))).collect();
    let entry = program.tensor(tensor);
    let memory = match entry.memory {
        MemoryType::Global | MemoryType::Local => String::new(),
        other => format!(".{}", other.name()),
    };
    format!("{}{memory}[{}]", short(quoted_type(entry.dtype)), axes.join(", "))
}

fn short(quoted: Quoted) -> String {
    message!("{}", quoted).in_notation(Notation::Hir2).as_str().to_owned()
}

/// `d: devices 0 1 2 3`, or with several axes `d: devices 2 x 4: 0 1 2 3 4 5 6 7`.
pub fn mesh_text(program: &Program, mesh: MeshId) -> String {
    let devices = program.mesh(mesh);
    let numbers: Vec<String> = devices.devices.iter().take(16).map(u32::to_string).collect();
    let more = if devices.devices.len() > 16 { " .." } else { "" };
    let shape: Vec<String> = devices.shape.iter().map(u32::to_string).collect();
    let shape = if shape.len() > 1 { format!("{}: ", shape.join(" x ")) } else { String::new() };
    format!("`{}`: devices {shape}{}{more}", program.mesh_name(Some(mesh)), numbers.join(" "))
}
