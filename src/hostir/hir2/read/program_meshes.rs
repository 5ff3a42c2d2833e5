//! The meshes of a program that are given by sizes.

use super::program::ProgramReader;
use super::sized_meshes::FormPiece;
use crate::ir::{Expr, ExprId, MeshId, MeshSize, MeshTextPiece, Symbol};
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, FileSyntax, MeshItem, SizedMeshSyntax};

impl ProgramReader<'_> {
    /// The program's mesh that is given by sizes: one for each name, since others may have the same devices for the
    /// present sizes only.
    pub(super) fn find_sized_mesh(&mut self, name: ast::Symbol) -> Option<MeshId> {
        if let Some(&id) = self.sized_meshes.get(&name) {
            return Some(id);
        }
        let shared = self.shared;
        let named = shared.meshes.get(&name)?;
        let pieces = named.sized.as_ref()?;
        let id = self.program.meshes.push(named.mesh.clone());
        let mut text = Vec::with_capacity(pieces.len());
        for piece in pieces {
            text.push(match piece {
                FormPiece::Text(text) => MeshTextPiece::Text(text.as_str().into()),
                FormPiece::Name(name) => MeshTextPiece::Name(self.note_mesh_size(*name)),
            });
        }
        self.program.given.sized.texts.insert(id, text);
        self.sized_meshes.insert(name, id);
        Some(id)
    }

    /// Records the value of a size of the program's meshes.
    fn note_mesh_size(&mut self, name: ast::Symbol) -> Symbol {
        let symbol = self.symbol(name);
        self.program.exprs.intern_name(symbol);
        let sizes = &mut self.program.given.sized.sizes;
        if let Some((value, source)) = self.shared.sizes.value_of(name)
            && sizes.iter().all(|size| size.name != symbol)
        {
            sizes.push(MeshSize { name: symbol, value, source });
        }
        symbol
    }

    /// The number in the place of a size of a mesh, if the program is to have one.
    pub(super) fn mesh_size_number(&mut self, name: ast::Symbol) -> Option<ExprId> {
        let value = self.shared.sizes.number_of(name)?;
        Some(self.program.exprs.intern(Expr::Int(value)))
    }
}

/// `p` of a mesh `0..p`.
pub(super) fn rank_count_size(file: &FileSyntax, item: &MeshItem) -> Option<ast::Symbol> {
    let SizedMeshSyntax::Range(start, stop) = item.sized? else { return None };
    match (file.expr(start), file.expr(stop)) {
        (ExprNode::Int(0), &ExprNode::Name(size)) => Some(size),
        _ => None,
    }
}
