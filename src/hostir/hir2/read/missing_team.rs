//! The error for a communication that names no team and has a tensor without a mesh, from which the team would follow.

use super::program::{HeaderMesh, ProgramReader};
use crate::diag::{Diag, Message, codes, message};
use crate::ir::{MeshId, Op, TensorId, UnitId};
use hostir_grammar::Span;

impl ProgramReader<'_> {
    /// Reports that the team of `op` is unknown, with the first tensor that has no mesh.
    pub(super) fn report_no_team(&mut self, op: &Op, span: Span) {
        let program = &self.program;
        let mut sides = op.input_tensors().chain(op.output_tensors());
        let Some(tensor) = sides.find(|&tensor| program.tensor_mesh(tensor).is_none()) else { return };
        // The verifier reports a tensor with an axis over devices and no mesh.
        let mut sharded =
            program.tensors().iter().filter(|(id, _)| program.domains(*id).iter().any(|one| one.parallel.is_device()));
        if sharded.any(|(id, _)| program.tensor_mesh(id).is_none()) {
            return;
        }
        let message = message!(
            "the team of this communication is not known, since {} has no mesh",
            program.quoted_tensor(tensor)
        );
        let note = self.mesh_advice(tensor);
        self.diags.push(Diag::error(codes::MISSING_ARGUMENT, span, message).with_note(note));
    }

    /// Advice on the mesh of a tensor in a program whose tensors have meshes of their own.
    fn declared_mesh_advice(&self, tensor: TensorId) -> Message {
        let mut meshes: Vec<&str> = self.shared.meshes.keys().map(|name| self.file.symbol_text(*name)).collect();
        meshes.sort_unstable();
        match meshes.as_slice() {
            [] | [_] => "give the program a mesh, `on d:`, or write `team=[0, 1]`".into(),
            several => {
                let several: Vec<String> = several.iter().map(|mesh| format!("`@{mesh}`")).collect();
                let name = self.program.quoted_tensor(tensor);
                message!("write the mesh of `{}` after its axes where it is declared: {}", name, several.join(" or "))
            }
        }
    }

    /// Advice on the mesh of a tensor: from the kernel that its value comes from, or from the program.
    fn mesh_advice(&self, tensor: TensorId) -> Message {
        let HeaderMesh::Known(Some(mesh)) = self.header_mesh else {
            return self.declared_mesh_advice(tensor);
        };
        let (name, place) = (self.program.quoted_tensor(tensor), self.program.quoted_mesh(Some(mesh)));
        match self.kernel_without_mesh(tensor) {
            Some(unit) => message!(
                "the kernel `{}` has no mesh, so its results and what is computed from them have none: write `on {}:` at \
                 the end of its head, or give {} a type where it is first written",
                self.program.unit_name(self.program.units[unit].number),
                place,
                name
            ),
            None => match self.team_text(mesh) {
                Some(team) => message!("give {} a mesh, `@{}` after its axes, or write `team={}`", name, place, team),
                None => message!("give {} a mesh, `@{}` after its axes", name, place),
            },
        }
    }

    /// The devices of a mesh that is not given by sizes.
    fn team_text(&self, mesh: MeshId) -> Option<String> {
        let is_sized = self.program.given.sized.texts.contains_key(&mesh);
        (!is_sized).then(|| format!("{:?}", self.program.meshes[mesh].devices))
    }

    /// The kernel without a mesh from whose results a tensor is computed.
    fn kernel_without_mesh(&self, tensor: TensorId) -> Option<UnitId> {
        let program = &self.program;
        let mut open = vec![tensor];
        let mut seen = open.clone();
        while let Some(tensor) = open.pop() {
            let writer = program.ops.iter().map(|(_, op)| op).filter(|op| op.output_tensors().any(|out| out == tensor));
            for op in writer {
                if let Some(unit) = program.posted_unit(op) {
                    return Some(unit);
                }
                let meshless = op.input_tensors().filter(|&input| program.tensor_mesh(input).is_none());
                let new: Vec<TensorId> = meshless.filter(|input| !seen.contains(input)).collect();
                seen.extend(&new);
                open.extend(new);
            }
        }
        None
    }
}
