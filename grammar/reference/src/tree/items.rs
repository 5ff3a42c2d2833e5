//! The lines outside of programs, programs and types.

use super::{Checked, DeviceNode, ProgramNode, Suffix, TreeBuilder, TypeParts, reject, require};
use hostir_grammar::Span;
use hostir_grammar::ast::ExprId;
use hostir_grammar::hir2::ast::{
    ExprNode, ImportItem, ItemSyntax, MeshItem, NameSyntax, NodeRange, ProgramItem, SizeSyntax, SizedMeshSyntax,
    TypeId, TypeSyntax,
};
use hostir_grammar::hir2::tokens::{GRID_AXES, MAX_DEVICE, MAX_DEVICES};

/// The devices of a mesh, as far as they were read.
#[derive(Default)]
struct DeviceTable {
    shape: Vec<u32>,
    devices: Vec<u32>,
    is_ragged: bool,
}

impl DeviceTable {
    /// Reads the list at a depth: the extents of all lists there are equal, or the table is ragged.
    fn read_list(&mut self, items: &[DeviceNode], depth: usize) -> Checked<()> {
        for item in items {
            match item {
                DeviceNode::List(inner) => self.read_list(inner, depth + 1)?,
                DeviceNode::Device(number) => {
                    self.devices.push(device_number(*number)?);
                    self.is_ragged |= self.shape.len() > depth + 1;
                }
            }
        }
        let count = items.len() as u32;
        if self.shape.len() <= depth {
            self.shape.resize(depth + 1, 0);
        }
        self.is_ragged |= self.shape[depth] != 0 && self.shape[depth] != count;
        self.shape[depth] = count;
        Ok(())
    }
}

/// The number of a device.
fn device_number(number: i64) -> Checked<u32> {
    match u32::try_from(number).ok().filter(|number| *number < MAX_DEVICE) {
        Some(number) => Ok(number),
        None => reject(),
    }
}

impl TreeBuilder<'_> {
    /// `hir 2.1`
    pub fn set_version(&mut self, minor: u32, start: u32, end: u32) {
        self.file.head.version = Span { start, end };
        self.file.head.minor = minor;
    }

    /// `m=64`
    pub fn size(&mut self, name: NameSyntax, value: i64, start: u32, end: u32) -> Checked<SizeSyntax> {
        require(value >= 0)?;
        Ok(SizeSyntax { name: name.name, value, span: Span { start, end } })
    }

    /// `streams 3`: `start` and `end` are those of the number.
    pub fn set_streams(&mut self, value: i64, start: u32, end: u32) -> Checked<()> {
        require(value >= 0)?;
        let name = self.file.strings.intern("");
        self.file.head.streams = Some(SizeSyntax { name, value, span: Span { start, end } });
        Ok(())
    }

    /// `import a, b from "file.hir"`
    pub fn add_import(&mut self, names: Vec<NameSyntax>, path: NameSyntax, span: Span) -> Checked<()> {
        self.require_minor_version()?;
        let item = ImportItem { span, names, path: path.name, path_span: path.span };
        self.file.items.push(ItemSyntax::Import(item));
        Ok(())
    }

    /// Rejects a construct of `hir 2.1` in a text of `hir 2`.
    pub(super) fn require_minor_version(&self) -> Checked<()> {
        require(self.file.head.minor > 0)
    }

    // Meshes.

    fn add_mesh(&mut self, name: NameSyntax, table: DeviceTable, sized: Option<SizedMeshSyntax>, span: Span) {
        let DeviceTable { shape, devices, .. } = table;
        self.file.items.push(ItemSyntax::Mesh(MeshItem { span, name, shape, devices, sized }));
    }

    /// `0..4`, or `0..p` where a letter is in the range.
    pub fn add_range_mesh(&mut self, name: NameSyntax, first: ExprId, end: ExprId, span: Span) -> Checked<()> {
        let range = self.file.expr_span(first).join(self.file.expr_span(end));
        let has_name = self.text[range.as_usize_range()].contains(|c: char| c.is_ascii_alphabetic() || c == '_');
        if has_name {
            self.require_sizes(first)?;
            self.add_mesh(name, DeviceTable::default(), Some(SizedMeshSyntax::Range(first, end)), span);
            return Ok(());
        }
        let (ExprNode::Int(from), ExprNode::Int(to)) = (*self.file.expr(first), *self.file.expr(end)) else {
            return reject();
        };
        require(self.begins_with_digit(first) && self.begins_with_digit(end))?;
        let (first, end) = (device_number(from)?, device_number(to)?);
        require(first < end && end - first <= MAX_DEVICES)?;
        // The numbers of such a range are no expressions.
        self.file.exprs.truncate(self.file.exprs.len() - 2);
        self.heights.truncate(self.file.exprs.len());
        let table = DeviceTable { shape: vec![end - first], devices: (first..end).collect(), is_ragged: false };
        self.add_mesh(name, table, None, span);
        Ok(())
    }

    /// A mesh by sizes needs `hir 2.1`; it begins with a number, a name or a bracket.
    fn require_sizes(&self, first: ExprId) -> Checked<()> {
        let first = self.leftmost(first);
        let begins = match *self.file.expr(first) {
            ExprNode::Int(value) => value >= 0 && self.begins_with_digit(first),
            ExprNode::Name(_) | ExprNode::Bool(_) | ExprNode::Paren(_) => true,
            _ => false,
        };
        require(begins)?;
        self.require_minor_version()
    }

    fn begins_with_digit(&self, expr: ExprId) -> bool {
        self.text[self.file.expr_span(expr).as_usize_range()].starts_with(|c: char| c.is_ascii_digit())
    }

    /// `[[0, 1], [2, 3]]`
    pub fn add_list_mesh(&mut self, name: NameSyntax, list: &[DeviceNode], start: u32, end: u32) -> Checked<()> {
        let mut table = DeviceTable::default();
        table.read_list(list, 0)?;
        let count = table.shape.iter().fold(1usize, |count, extent| count.saturating_mul(*extent as usize));
        require(!table.is_ragged && count == table.devices.len())?;
        require(!table.devices.is_empty() && table.devices.len() <= MAX_DEVICES as usize)?;
        let span = self.span(start, end);
        self.add_mesh(name, table, None, span);
        Ok(())
    }

    /// `[y:a, x:b]`
    pub fn add_grid_mesh(
        &mut self,
        name: NameSyntax,
        axes: &[(NameSyntax, ExprId)],
        start: u32,
        end: u32,
    ) -> Checked<()> {
        let words: Vec<&str> = axes.iter().map(|(axis, _)| self.file.symbol_text(axis.name)).collect();
        require(GRID_AXES.contains(&words.as_slice()))?;
        self.require_minor_version()?;
        let extents: Vec<ExprId> = axes.iter().map(|(_, extent)| *extent).collect();
        let grid = SizedMeshSyntax::Grid(self.add_list(&extents));
        let span = self.span(start, end);
        self.add_mesh(name, DeviceTable::default(), Some(grid), span);
        Ok(())
    }

    // Programs and types.

    /// A program or a kernel.
    pub fn add_program(&mut self, node: ProgramNode, is_kernel: bool) {
        let ProgramNode { name, inputs, outputs, mesh, end, body, span } = node;
        let header = Span { start: span.start, end: mesh.map_or(end, |mesh| mesh.span.end) };
        let item = ProgramItem { span, header, header_failed: false, name, inputs, outputs, mesh, body };
        self.file.items.push(if is_kernel { ItemSyntax::Kernel(item) } else { ItemSyntax::Program(item) });
    }

    /// A type.
    pub fn add_type(&mut self, parts: TypeParts) -> TypeId {
        let start = self.file.axes.len() as u32;
        self.file.axes.extend(parts.axes);
        let axes = NodeRange { start, end: self.file.axes.len() as u32 };
        let mut ty = TypeSyntax {
            span: parts.span,
            dtype: parts.dtype,
            memory: parts.memory,
            axes,
            order: None,
            logical: None,
            split: false,
            positions: None,
            mesh: None,
        };
        for suffix in parts.suffixes {
            match suffix {
                Suffix::Order(items) => ty.order = Some(items),
                Suffix::Logical(items) => ty.logical = Some(items),
                Suffix::Split => ty.split = true,
                Suffix::Positions(text) => ty.positions = Some(text),
                Suffix::Mesh(name) => ty.mesh = Some(name),
            }
        }
        self.file.types.push(ty);
        TypeId(self.file.types.len() as u32 - 1)
    }
}
