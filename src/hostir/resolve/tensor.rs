//! Tensors, domains and meshes.
//!
//! A tensor is one declaration per scope, however it is spelled; `T3` alone is the last earlier full text of that
//! number.

use super::Resolver;
use crate::ir::order::{self, DomainPositions};
use crate::ir::{
    self, DType, DomainId, ExprId, IterDomain, IterType, MemoryType, MeshId, ParallelType, Tensor, TensorId,
};
use hostir_grammar::ast::{self, ArgRange, ArgSyntax, TensorRefId, TensorText};
use hostir_grammar::{Span, is_kernel_type};
use smallvec::SmallVec;

/// The attributes in braces after a tensor.
#[derive(Default)]
struct TensorAttrs {
    logical: Option<Box<[ExprId]>>,
    axes: Option<DomainPositions>,
    name: Option<ir::Symbol>,
    mesh_name: Option<ir::Symbol>,
}

impl Resolver<'_> {
    /// The tensor of a text, or of a short reference at `span`.
    pub(super) fn resolve_tensor(&mut self, id: TensorRefId, span: Span) -> Option<TensorId> {
        let (scope, tensor) = self.tables.tensors[id.index()];
        if scope == self.tables.scope {
            if self.tables.short_form {
                self.scope.note_full_text(self.program.tensors[tensor].number, tensor);
            }
            return Some(tensor);
        }
        let ast = self.ast;
        let node = &ast.tensors[id.index()];
        let Some(text) = &node.full else {
            // A full text with an error has none either, and its error was reported.
            let cut_short = self.source[node.span.as_usize_range()].contains('_');
            return if cut_short { None } else { self.resolve_short_ref(node.number, span) };
        };
        let tensor = self.resolve_full_ref(node.number, text);
        let tensor = match self.scope.declare(node.number, tensor) {
            Some(before) if self.is_respelled(before, tensor) => {
                self.scope.declare(node.number, before);
                before
            }
            _ => {
                // The first occurrence of a text in the file may be in an earlier container.
                let first = scope == 0 && node.span.start >= self.program.source.header.start;
                self.program.source.tensors.push(if first { node.span } else { span });
                tensor
            }
        };
        self.tables.tensors[id.index()] = (self.tables.scope, tensor);
        if self.tables.short_form {
            self.scope.note_full_text(node.number, tensor);
        }
        Some(tensor)
    }

    /// Returns true if the newest tensor is an older one in other words (`iS0{i0*2}` for `iS0{( i0 * 2 )}`), and drops
    /// it.
    fn is_respelled(&mut self, before: TensorId, newest: TensorId) -> bool {
        let program = &mut self.program;
        let (a, b) = (&program.tensors[before], &program.tensors[newest]);
        let same = a.memory == b.memory
            && a.dtype == b.dtype
            && a.positions == b.positions
            && a.mesh == b.mesh
            // One statement of it is valid wherever the tensor occurs.
            && (a.logical == b.logical || b.logical.is_none())
            && (a.name == b.name || b.name.is_none())
            && a.axes == b.axes
            && a.unit == b.unit
            && program.domains(before) == program.domains(newest);
        if same {
            let start = b.domains_start as usize;
            program.tensors.truncate(newest.0 as usize);
            program.domains.truncate(start);
            self.in_doubt.retain(|&tensor| tensor != newest);
        }
        same
    }

    fn resolve_short_ref(&mut self, number: u32, span: Span) -> Option<TensorId> {
        let found = self.scope.latest_of_number(number);
        if found.is_none() {
            self.report_undefined_tensor(number, span);
        }
        found
    }

    fn resolve_full_ref(&mut self, number: u32, text: &TensorText) -> TensorId {
        let ast = self.ast;
        let nodes = &ast.domains[text.domains_start as usize..text.domains_end as usize];
        let domains: SmallVec<[IterDomain; 8]> = nodes.iter().map(|node| self.resolve_iter_domain(node)).collect();
        let memory = MemoryType::parse(ast.symbol_text(text.memory)).unwrap_or(MemoryType::Global);
        let dtype = self.resolve_dtype(number, text);
        let positions = self.resolve_symbol(text.positions);
        let mesh = text.mesh.as_ref().map(|mesh| self.resolve_mesh(mesh));
        let TensorAttrs { logical, axes, name, mesh_name } = self.resolve_tensor_attrs(text.attrs, &domains);
        if let (Some(mesh), Some(node), Some(name)) = (mesh, &text.mesh, mesh_name) {
            let before = self.program.given.meshes.insert(mesh, name);
            self.report_renamed(before, name, node.span);
        }
        let given = axes.is_some();
        let axes = axes.unwrap_or_else(|| order::implied_axes(&domains, self.scope.is_permuted(number)));
        let may_be_split = !given && logical.is_none() && domains.iter().any(IterDomain::is_distributed);
        let domains_start = self.program.domains.len() as u32;
        for domain in domains {
            self.program.domains.push(domain);
        }
        let tensor = self.program.tensors.push(Tensor {
            number,
            name,
            memory,
            dtype,
            domains_start,
            domains_end: self.program.domains.len() as u32,
            positions,
            mesh,
            axes: (!axes.is_sorted()).then(|| axes.as_slice().into()),
            split: false,
            logical,
            unit: self.scope.unit,
        });
        if may_be_split {
            self.in_doubt.push(tensor);
        }
        tensor
    }

    /// `{logical={i0, i2}}` or `{axes={1, 0, 2}}` of a tensor with these domains. Both determine the axis of which a
    /// domain over devices or streams is a part: that of the domain after it.
    fn resolve_tensor_attrs(&mut self, attrs: ArgRange, domains: &[IterDomain]) -> TensorAttrs {
        let (rank, distributed) = (domains.len(), domains.iter().any(IterDomain::is_distributed));
        let ast = self.ast;
        let mut found = TensorAttrs::default();
        for arg in ast.args_in(attrs) {
            match arg.key.map(|key| ast.symbol_text(key)) {
                Some("logical") => found.logical = self.resolve_expr_list(arg),
                Some("axes") => found.axes = self.resolve_axes_attr(arg, rank),
                Some("name") => found.name = self.resolve_name_value(arg),
                Some("mesh") => found.mesh_name = self.resolve_mesh_name(arg),
                _ => self.report_bad_tensor_attribute(arg),
            }
        }
        if let (Some(_), Some(_), [.., last]) = (&found.logical, &found.axes, ast.args_in(attrs))
            && !distributed
        {
            self.report_axes_and_logical(last);
            found.axes = None;
        }
        found
    }

    /// The positions of the domains in the order of the axes; each occurs once.
    fn resolve_axes_attr(&mut self, arg: &ArgSyntax, rank: usize) -> Option<DomainPositions> {
        let listed = self.resolve_expr_list(arg)?;
        let exprs = &self.program.exprs;
        let places = listed.iter().map(|&at| exprs.as_int(at).and_then(|at| u32::try_from(at).ok()));
        let axes: Option<DomainPositions> = places.collect();
        let axes = axes.filter(|axes| axes.len() == rank && (0..rank as u32).all(|place| axes.contains(&place)));
        if axes.is_none() {
            self.report_wrong_axes(rank, arg);
        }
        axes
    }

    /// The grammar knows the element types and has reported any other word.
    fn resolve_dtype(&mut self, number: u32, text: &TensorText) -> DType {
        let word = self.ast.symbol_text(text.dtype);
        if word.is_empty() {
            self.element_types.first.get_or_insert((number, text.dtype_span));
            return self.element_types.element_type;
        }
        match DType::parse(word) {
            Some(dtype) => dtype,
            None if is_kernel_type(word) => DType::Kernel(self.resolve_symbol(text.dtype)),
            None => DType::Float,
        }
    }

    fn resolve_mesh(&mut self, node: &ast::MeshSyntax) -> MeshId {
        self.intern_mesh(ir::DeviceMesh { shape: node.shape.clone(), devices: node.devices.clone() })
    }

    pub(super) fn intern_mesh(&mut self, mesh: ir::DeviceMesh) -> MeshId {
        if let Some(&id) = self.program.mesh_ids.get(&mesh) {
            return id;
        }
        let id = self.program.meshes.push(mesh.clone());
        self.program.mesh_ids.insert(mesh, id);
        id
    }

    /// The grammar has reported unknown letters and parallel types.
    fn resolve_iter_domain(&mut self, node: &ast::DomainSyntax) -> IterDomain {
        let letter = [node.iter];
        let iter = std::str::from_utf8(&letter).ok().and_then(IterType::parse);
        let parallel = match self.ast.symbol_text(node.parallel) {
            "Stream" | "streamIdx" => Some(ParallelType::Stream),
            text => ParallelType::parse(text),
        };
        let extent = self.resolve_extent(node.extent);
        IterDomain {
            iter: iter.unwrap_or(IterType::Iteration),
            parallel: parallel.unwrap_or(ParallelType::Serial),
            number: node.number,
            extent,
            start: node.start.map(|start| self.resolve_extent(start)),
            stop: node.stop.map(|stop| self.resolve_extent(stop)),
            expanded: node.expanded.map(|expanded| self.resolve_extent(expanded)),
            rfactor: node.rfactor,
            padded: node.padded,
            clustered: node.clustered,
        }
    }

    /// An extent; 1 after an error.
    fn resolve_extent(&mut self, id: ast::ExprId) -> ExprId {
        match self.resolve_expr(id) {
            Some(extent) => extent,
            None => self.program.exprs.intern_int(1),
        }
    }

    /// A domain outside of tensors, from the pool.
    pub(super) fn intern_pool_domain(&mut self, id: ast::DomainId) -> DomainId {
        if let Some(domain) = self.tables.pool_domain(id) {
            return domain;
        }
        let ast = self.ast;
        let domain = self.resolve_iter_domain(&ast.domains[id.index()]);
        let domain = self.program.domains.push(domain);
        self.tables.set_pool_domain(id, domain);
        domain
    }

    /// The domain of `of` that is written like this one, else one from the pool.
    pub(super) fn resolve_domain(&mut self, id: ast::DomainId, of: Option<TensorId>) -> DomainId {
        let Some(tensor) = of else { return self.intern_pool_domain(id) };
        let tensor = &self.program.tensors[tensor];
        let (start, end) = (tensor.domains_start, tensor.domains_end);
        let number = self.ast.domains[id.index()].number;
        let pool = self.intern_pool_domain(id);
        let wanted = self.program.domains[pool];
        (start..end)
            .map(DomainId)
            .find(|at| self.program.domains[*at].number == number && self.program.domains[*at] == wanted)
            .unwrap_or(pool)
    }
}
