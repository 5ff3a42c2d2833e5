//! Types: declarations of tensors, axes and meshes.

use super::imports::report_imported_mesh;
use super::program::{HeaderMesh, ProgramReader};
use super::report;
use super::scope::Meaning;
use crate::hir2::defaults::DTYPE_WORDS;
use crate::ir::{
    DType, ExprId, IterDomain, IterType, MemoryType, MeshId, NO_MESH, ParallelType, Symbol, Tensor, TensorId, TypePlace,
};
use crate::ops::result_types::{DomainList, TensorType};
use hostir_grammar::hir2::ast::{AxisSyntax, ExprNode, ItemSyntax, NameSyntax, NodeRange, TypeId, TypeSyntax};
use hostir_grammar::{Span, is_kernel_type};
use smallvec::SmallVec;

/// Words of parallel types.
const PARALLEL_WORDS: &[(&str, ParallelType)] =
    &[("x", ParallelType::DIDx), ("y", ParallelType::DIDy), ("z", ParallelType::DIDz), ("st", ParallelType::Stream)];

/// Element types as PyTorch calls them.
const TORCH_DTYPES: &[(&str, &str)] = &[
    ("float64", "f64"),
    ("float32", "f32"),
    ("float16", "f16"),
    ("bfloat16", "bf16"),
    ("int64", "i64"),
    ("int32", "i32"),
    ("int16", "i16"),
    ("int8", "i8"),
    ("uint8", "u8"),
    ("double", "f64"),
    ("float", "f32"),
    ("half", "f16"),
    ("fp64", "f64"),
    ("fp32", "f32"),
    ("fp16", "f16"),
    ("bfloat", "bf16"),
    ("float8_e4m3fn", "f8e4m3"),
    ("float8_e5m2", "f8e5m2"),
    ("long", "i64"),
    ("int", "i32"),
    ("short", "i16"),
    ("complex64", "c64"),
    ("complex128", "c128"),
];

impl ProgramReader<'_> {
    /// Declares a tensor with a type; `None` after an error, which its uses do not repeat.
    pub(super) fn declare_tensor(&mut self, name: NameSyntax, ty: TypeId) -> Option<TensorId> {
        let node = *self.file.tensor_type(ty);
        let Some((ty, memory)) = self.tensor_type(&node) else {
            self.poison(name);
            return None;
        };
        let tensor = self.add_named_tensor(name, ty, memory)?;
        self.program.source.types.insert(tensor, self.type_place(&node));
        Some(tensor)
    }

    fn type_place(&self, node: &TypeSyntax) -> TypePlace {
        let axes = &self.file.axes[node.axes.indices()];
        let inside = axes.first().zip(axes.last()).map(|(first, last)| first.span.join(last.span));
        TypePlace { whole: node.span, dtype: node.dtype.span, axes: inside }
    }

    /// Makes a name stand for something unknown.
    pub(super) fn poison(&mut self, name: NameSyntax) {
        if self.tables.scope.get(name.name).is_none() {
            self.tables.scope.set_meaning(name.name, Meaning::Poisoned, name.span);
        }
    }

    /// Declares a tensor of this type.
    pub(super) fn add_named_tensor(
        &mut self,
        name: NameSyntax,
        ty: TensorType,
        memory: Option<MemoryType>,
    ) -> Option<TensorId> {
        let number = self.numbered(name.name, "T");
        let symbol = if number.is_some() { None } else { Some(self.symbol(name.name)) };
        let number = number.unwrap_or_else(|| self.numbering.new_tensor());
        let tensor = self.add_tensor(number, symbol, ty, memory, name.span);
        if !self.declare(name, Meaning::Tensor(tensor)) {
            return None;
        }
        Some(tensor)
    }

    /// Adds a tensor without a name: a slice inside of a statement.
    pub(super) fn add_hidden_tensor(&mut self, ty: TensorType, span: Span) -> TensorId {
        let number = self.numbering.new_tensor();
        self.add_tensor(number, None, ty, None, span)
    }

    fn add_tensor(
        &mut self,
        number: u32,
        name: Option<Symbol>,
        ty: TensorType,
        memory: Option<MemoryType>,
        span: Span,
    ) -> TensorId {
        let start = self.program.domains.len() as u32;
        let first = self.numbering.new_domains(ty.domains.len());
        // Numbers ascend in the order of the axes, as a reader of the printed form expects.
        for (printed, domain) in (0..).zip(&ty.domains) {
            let rank = match &ty.axes {
                Some(axes) => axes.iter().position(|&at| at == printed).unwrap_or(0) as u32,
                None => printed,
            };
            self.program.domains.push(IterDomain { number: Some(first + rank), ..*domain });
        }
        let tensor = self.program.tensors.push(Tensor {
            number,
            name,
            memory: memory.unwrap_or(MemoryType::Local),
            dtype: ty.dtype,
            domains_start: start,
            domains_end: self.program.domains.len() as u32,
            positions: ty.positions,
            mesh: ty.mesh,
            axes: ty.axes,
            split: ty.split,
            logical: ty.logical,
            unit: self.kernels.open,
        });
        self.program.source.tensors.push(span);
        self.memory.note_tensor(tensor, memory);
        tensor
    }

    /// A type and the memory that it names.
    pub(super) fn tensor_type(&mut self, node: &TypeSyntax) -> Option<(TensorType, Option<MemoryType>)> {
        let dtype = self.element_type(node.dtype);
        let memory = node.memory.map(|word| self.memory_type(word));
        let file = self.file;
        let axes: SmallVec<[Option<IterDomain>; 4]> =
            file.axes[node.axes.indices()].iter().map(|axis| self.read_axis(axis)).collect();
        let mesh = match node.mesh {
            Some(name) if file.symbol_text(name.name) == NO_MESH => Some(None),
            Some(name) => self.find_mesh(name).map(Some),
            None => match self.header_mesh {
                HeaderMesh::Known(mesh) => Some(mesh),
                HeaderMesh::Faulty => None,
            },
        };
        let axes = axes.into_iter().collect::<Option<DomainList>>()?;
        let order = match node.order {
            Some(order) => Some(self.printed_order(order, axes.len(), node.span)?),
            None => None,
        };
        let logical = match node.logical {
            Some(list) => {
                let extents: Option<Vec<ExprId>> =
                    file.expr_lists[list.indices()].iter().map(|&extent| self.scalar(extent)).collect();
                Some(extents?.into())
            }
            None => None,
        };
        if let Some(text) = node.positions
            && !hostir_grammar::are_positions(self.file.symbol_text(text))
        {
            report::report_word("position", self.file.symbol_text(text), &["ca_pos( 1 )"], node.span, self.diags);
            return None;
        }
        let positions = node.positions.map_or(Symbol(0), |text| self.symbol(text));
        let (domains, axes) = place_axes(axes, order);
        let ty = TensorType { dtype: dtype?, domains, axes, logical, split: node.split, positions, mesh: mesh? };
        match memory {
            Some(None) => None,
            Some(memory) => Some((ty, memory)),
            None => Some((ty, None)),
        }
    }

    fn element_type(&mut self, word: NameSyntax) -> Option<DType> {
        let text = self.file.symbol_text(word.name);
        let found = self.word_dtype(word.name);
        if found.is_none() && is_kernel_type(text) {
            return Some(DType::Kernel(self.symbol(word.name)));
        }
        let meant = TORCH_DTYPES.iter().find(|(torch, _)| found.is_none() && *torch == text);
        if let Some((_, ours)) = meant {
            report::report_foreign_word("element type", text, ours, word.span, self.diags);
        } else if found.is_none() {
            let words: Vec<&str> = DTYPE_WORDS.iter().map(|(word, _)| *word).collect();
            report::report_word("element type", text, &words, word.span, self.diags);
        }
        found
    }

    fn memory_type(&mut self, word: NameSyntax) -> Option<MemoryType> {
        let text = self.file.symbol_text(word.name);
        let found = MemoryType::parse(text);
        if found.is_none() {
            report::report_word("memory", text, &["g", "l", "s", "t", "sym"], word.span, self.diags);
        }
        found
    }

    /// The mesh of a name; an error if there is none.
    pub(super) fn find_mesh(&mut self, name: NameSyntax) -> Option<MeshId> {
        let file = self.file;
        if self.kernels.is_imported {
            report_imported_mesh(file.symbol_text(name.name), name.span, self.diags);
            return None;
        }
        let Some(named) = self.shared.meshes.get(&name.name) else {
            let declared = file.items.iter().filter_map(|item| match item {
                ItemSyntax::Mesh(mesh) => Some(file.symbol_text(mesh.name.name)),
                ItemSyntax::Import(_) | ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
            });
            let mut words: Vec<&str> = Vec::new();
            for word in declared {
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            report::report_mesh(file.symbol_text(name.name), &words, name.span, self.diags);
            return None;
        };
        if named.is_poisoned {
            return None;
        }
        let is_sized = named.sized.is_some();
        let known = match is_sized {
            true => self.sized_meshes.get(&name.name),
            false => self.program.mesh_ids.get(&named.mesh),
        };
        if let Some(&id) = known {
            return Some(id);
        }
        let id = match self.find_sized_mesh(name.name) {
            Some(id) => id,
            None => {
                let id = self.program.meshes.push(named.mesh.clone());
                self.program.mesh_ids.insert(named.mesh.clone(), id);
                id
            }
        };
        if let Some(size) = named.rank_count {
            self.program.source.rank_count = Some(file.symbol_text(size).to_owned());
        }
        if named.is_default {
            self.program.source.default_meshes.insert(id, file.symbol_text(name.name).to_owned());
        } else {
            let symbol = self.symbol(name.name);
            self.program.given.meshes.insert(id, symbol);
        }
        Some(id)
    }

    /// One axis, without a number.
    pub(super) fn read_axis(&mut self, node: &AxisSyntax) -> Option<IterDomain> {
        if let ExprNode::Verbatim(text) = *self.file.expr(node.extent)
            && node.iter.is_none()
            && node.parallel.is_none()
        {
            let domain = self.verbatim_domain(text, node.span)?;
            return Some(IterDomain { number: None, ..domain });
        }
        let iter = match node.iter.map(|word| (self.file.symbol_text(word.name), word.span)) {
            Some(("r", _)) => IterType::Reduction,
            Some(("b", _)) => IterType::Broadcast,
            _ => IterType::Iteration,
        };
        let parallel = match node.parallel {
            Some(word) => self.parallel_type(word)?,
            None => ParallelType::Serial,
        };
        let inside = std::mem::replace(&mut self.unbound.in_type, true);
        let extent = self.scalar(node.extent);
        let expanded = match node.expanded {
            Some(expanded) => self.scalar(expanded).map(Some),
            None => Some(None),
        };
        self.unbound.in_type = inside;
        Some(IterDomain { expanded: expanded?, ..IterDomain::new(iter, parallel, extent?) })
    }

    fn parallel_type(&mut self, word: NameSyntax) -> Option<ParallelType> {
        let text = self.file.symbol_text(word.name);
        let found = PARALLEL_WORDS.iter().find(|(known, _)| *known == text).map(|(_, parallel)| *parallel);
        if found.is_none() {
            let words: Vec<&str> = PARALLEL_WORDS.iter().map(|(word, _)| *word).collect();
            report::report_word("distribution of an axis", text, &words, word.span, self.diags);
        }
        found
    }

    /// `order(1, 0)`: for each printed position its axis.
    fn printed_order(&mut self, list: NodeRange, rank: usize, span: Span) -> Option<Vec<u32>> {
        let file = self.file;
        let places = file.expr_lists[list.indices()].iter().map(|&at| match *file.expr(at) {
            ExprNode::Int(at) => u32::try_from(at).ok(),
            _ => None,
        });
        let order: Option<Vec<u32>> = places.collect();
        let order = order.filter(|order| order.len() == rank && (0..rank as u32).all(|axis| order.contains(&axis)));
        if order.is_none() {
            report::report_order(rank, span, self.diags);
        }
        order
    }
}

/// Domains in printed order, and the positions of the axes among them.
fn place_axes(axes: DomainList, order: Option<Vec<u32>>) -> (DomainList, Option<Box<[u32]>>) {
    let Some(order) = order else { return (axes, None) };
    let domains = order.iter().map(|&axis| axes[axis as usize]).collect();
    let positions: Vec<u32> =
        (0..axes.len() as u32).map(|axis| order.iter().position(|&at| at == axis).unwrap_or(0) as u32).collect();
    (domains, (!positions.is_sorted()).then(|| positions.into()))
}
