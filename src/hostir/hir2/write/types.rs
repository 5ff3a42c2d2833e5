//! Types of tensors: `bf16[x:4, m, k]`.

use super::ProgramWriter;
use crate::hir2::defaults::word_of_dtype;
use crate::ir::text::push_number;
use crate::ir::{DType, Expr, IterDomain, IterType, MeshId, NO_MESH, ParallelType, Symbol, TensorId, domain_text};

/// `r.`, `b.` or nothing; `None` if there is no spelling.
fn iter_prefix(iter: IterType) -> Option<&'static str> {
    match iter {
        IterType::Iteration => Some(""),
        IterType::Reduction => Some("r."),
        IterType::Broadcast => Some("b."),
        _ => None,
    }
}

/// `x:`, `st:` or nothing; `None` if there is no spelling.
fn parallel_prefix(parallel: ParallelType) -> Option<&'static str> {
    match parallel {
        ParallelType::Serial => Some(""),
        ParallelType::DIDx => Some("x:"),
        ParallelType::DIDy => Some("y:"),
        ParallelType::DIDz => Some("z:"),
        ParallelType::Stream => Some("st:"),
        _ => None,
    }
}

impl ProgramWriter<'_> {
    /// The type of a tensor.
    pub(super) fn write_type(&mut self, id: TensorId) {
        let program = self.program;
        let tensor = program.tensor(id);
        match tensor.dtype {
            DType::Kernel(text) => self.push_verbatim(text),
            dtype => self.out.push_str(word_of_dtype(dtype)),
        }
        if tensor.memory != self.tables.default_memory(id) {
            self.out.push('.');
            self.out.push_str(tensor.memory.name());
        }
        self.out.push('[');
        let domains = program.domains(id);
        let axes = program.logical_axes(id);
        for (index, at) in axes.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            if let Some(domain) = domains.get(*at as usize) {
                self.write_axis(domain);
            }
        }
        self.out.push(']');
        if !axes.is_sorted() {
            self.write_order(&axes);
        }
        if let Some(logical) = &tensor.logical {
            self.out.push_str(" logical(");
            self.write_expr_list(logical);
            self.out.push(')');
        }
        if tensor.split && tensor.logical.is_none() {
            self.out.push_str(" split");
        }
        let positions = program.name(tensor.positions);
        if !positions.is_empty() {
            self.out.push(' ');
            self.push_verbatim(tensor.positions);
        }
        self.write_mesh_suffix(tensor.mesh);
    }

    fn push_verbatim(&mut self, text: Symbol) {
        self.out.push('`');
        self.out.push_str(self.program.name(text));
        self.out.push('`');
    }

    /// ` @d2` where the mesh is not the header's.
    fn write_mesh_suffix(&mut self, mesh: Option<MeshId>) {
        if mesh == self.header_mesh {
            return;
        }
        self.out.push_str(" @");
        self.write_mesh_name(mesh);
    }

    /// The name of a mesh; `all` for none.
    pub(super) fn write_mesh_name(&mut self, mesh: Option<MeshId>) {
        let place = mesh.and_then(|mesh| self.mesh_places.get(&mesh));
        let name = place.and_then(|&place| self.file.meshes.get(place));
        self.out.push_str(name.map_or(NO_MESH, |mesh| &mesh.name));
    }

    /// ` order(1, 0)`: for each printed position the axis that it shows.
    fn write_order(&mut self, axes: &[u32]) {
        self.out.push_str(" order(");
        for printed in 0..axes.len() {
            if printed > 0 {
                self.out.push_str(", ");
            }
            let axis = axes.iter().position(|&at| at as usize == printed).unwrap_or(printed);
            push_number(&mut self.out, axis as u64);
        }
        self.out.push(')');
    }

    /// `r.x:4`, `b.1 ex n`, or the printed domain in backquotes.
    pub(super) fn write_axis(&mut self, domain: &IterDomain) {
        let marked = domain.rfactor || domain.padded || domain.clustered;
        let bounded = domain.start.is_some() || domain.stop.is_some();
        let expanded = domain.expanded.is_some() && domain.iter != IterType::Broadcast;
        let prefixes = iter_prefix(domain.iter).zip(parallel_prefix(domain.parallel));
        let ragged = matches!(self.program.expr(domain.extent), Expr::RaggedExtents(_));
        let Some((iter, parallel)) = prefixes.filter(|_| !marked && !bounded && !expanded && !ragged) else {
            return self.write_verbatim_axis(domain);
        };
        let start = self.out.len();
        self.out.push_str(iter);
        self.out.push_str(parallel);
        let extent = self.out.len();
        self.write_expr(domain.extent);
        // A field of a scalar with such a name, and a name in backquotes, would be read as a domain.
        if ["r.", "b.", "`"].iter().any(|prefix| self.out[extent..].starts_with(prefix)) {
            self.out.truncate(start);
            return self.write_verbatim_axis(domain);
        }
        if let Some(expanded) = domain.expanded {
            self.out.push_str(" ex ");
            self.write_expr(expanded);
        }
    }

    fn write_verbatim_axis(&mut self, domain: &IterDomain) {
        if let Expr::RaggedExtents(extents) = *self.program.expr(domain.extent) {
            return self.write_ragged_axis(domain, extents);
        }
        self.out.push('`');
        self.out.push_str(&domain_text(self.program, &IterDomain { number: None, ..*domain }));
        self.out.push('`');
    }

    /// The printed form of a ragged axis, which names the tensor of its extents by the number alone.
    fn write_ragged_axis(&mut self, domain: &IterDomain, extents: TensorId) {
        let (iter, parallel) = (domain.iter.name(), domain.parallel.name());
        let number = self.program.tensor(extents).number;
        self.out.push_str(&format!("`{iter}{parallel}Ragged{{extents=T{number}}}`"));
    }
}
