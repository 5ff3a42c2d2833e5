//! Index spaces: the axes that all operands of a kernel share, joined if possible, and the C++ that computes an
//! element's address from an index.

use crate::codegen::source_writer::SourceWriter;
use crate::operand::SymbolicAddress;
use hostir::plan::BufferView;

/// The source of an operand's elements.
#[derive(Clone, Debug)]
pub(super) enum OperandSource {
    /// Elements in memory.
    Memory(SymbolicAddress),
    /// The index along an axis: its "offset" is its value.
    Index,
}

/// One operand of a kernel.
#[derive(Clone, Debug)]
pub(super) struct KernelOperand {
    /// The source of its elements.
    pub(super) source: OperandSource,
    /// C++ type of an element.
    pub(super) ctype: &'static str,
    /// Bytes of an element.
    pub(super) size: usize,
    /// A power of 2, at most 16, that is known to divide the address of the first element, in bytes.
    pub(super) align: usize,
    /// Elements between neighbours along each axis.
    pub(super) strides: Vec<usize>,
}

impl KernelOperand {
    /// A view, with its elements as this C++ type.
    pub(super) fn from_view(view: &BufferView, ctype: &'static str) -> Self {
        let size = view.dtype.byte_size();
        Self {
            source: OperandSource::Memory(SymbolicAddress::View(view.clone())),
            ctype,
            size,
            align: vector_alignment(view.offset * size),
            strides: view.dims.iter().map(|dim| dim.stride).collect(),
        }
    }
    /// The index along an axis of a space of this rank.
    pub(super) fn index(axis: usize, rank: usize) -> Self {
        let strides = (0..rank).map(|other| usize::from(other == axis)).collect();
        Self { source: OperandSource::Index, ctype: "long long", size: 8, align: 16, strides }
    }
    /// The kernel's parameter, if it is one.
    pub(super) fn kernel_param(&self) -> Option<&SymbolicAddress> {
        match &self.source {
            OperandSource::Memory(param) => Some(param),
            OperandSource::Index => None,
        }
    }
    /// Returns true if two neighbours along the last axis can be accessed as one element of twice the size.
    pub(super) fn allows_pairs(&self) -> bool {
        let (&inner, outer) = self.strides.split_last().unwrap_or((&0, &[]));
        inner == 1
            && outer.iter().all(|stride| stride % 2 == 0)
            && self.align.is_multiple_of(2 * self.size)
            && self.size < 16
    }
    fn is_memory(&self) -> bool {
        self.kernel_param().is_some()
    }
}

/// The largest of 1, 2, 4, 8 and 16 that divides a number of bytes.
pub(super) fn vector_alignment(bytes: usize) -> usize {
    1 << bytes.trailing_zeros().min(4)
}

/// Axes and operands.
#[derive(Clone, Debug)]
pub(super) struct IndexSpace {
    /// Extents, outermost first.
    pub(super) extents: Vec<usize>,
    /// Operands; each has a stride for each axis.
    pub(super) operands: Vec<KernelOperand>,
}

impl IndexSpace {
    /// A space without axes of extent 1.
    pub(super) fn new(extents: &[usize], operands: Vec<KernelOperand>) -> Self {
        let mut space = Self { extents: extents.to_vec(), operands };
        let long: Vec<usize> = (0..extents.len()).filter(|&axis| space.extents[axis] != 1).collect();
        space.arrange_axes(&long);
        space
    }
    /// Number of indices.
    pub(super) fn index_count(&self) -> usize {
        self.extents.iter().product()
    }
    /// Keeps these axes in this order.
    pub(super) fn arrange_axes(&mut self, axes: &[usize]) {
        self.extents = axes.iter().map(|&axis| self.extents[axis]).collect();
        for operand in &mut self.operands {
            operand.strides = axes.iter().map(|&axis| operand.strides[axis]).collect();
        }
    }
    /// Orders the axes by an operand's strides, largest first.
    pub(super) fn order_by(&mut self, operand: usize) {
        let strides = self.operands[operand].strides.clone();
        let mut axes: Vec<usize> = (0..self.extents.len()).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
        self.arrange_axes(&axes);
    }
    /// Joins neighbouring axes that are contiguous in every operand.
    pub(super) fn collapse_axes(&mut self) {
        let mut axis = 1;
        while axis < self.extents.len() {
            let inner = self.extents[axis];
            if self.operands.iter().all(|operand| operand.strides[axis - 1] == operand.strides[axis] * inner) {
                self.extents[axis - 1] *= inner;
                self.extents.remove(axis);
                for operand in &mut self.operands {
                    operand.strides.remove(axis - 1);
                }
            } else {
                axis += 1;
            }
        }
    }
    /// The largest offset of any operand.
    pub(super) fn max_offset(&self) -> usize {
        self.operands.iter().map(|operand| self.operand_reach(operand)).max().unwrap_or(0)
    }

    fn operand_reach(&self, operand: &KernelOperand) -> usize {
        let along = self.extents.iter().zip(&operand.strides);
        along.map(|(&extent, &stride)| extent.saturating_sub(1) * stride).sum()
    }
    /// Returns true if an operand's last axis has stride 1.
    pub(super) fn is_row(&self, operand: usize) -> bool {
        self.operands[operand].strides.last() == Some(&1)
    }
    /// The parameters of a launch.
    pub(super) fn kernel_params(&self) -> Vec<SymbolicAddress> {
        self.operands.iter().filter_map(|operand| operand.kernel_param().cloned()).collect()
    }
    /// The C++ types of the parameters.
    pub(super) fn param_ctypes(&self) -> Vec<&'static str> {
        let memory = self.operands.iter().filter(|operand| operand.is_memory());
        memory.map(|operand| operand.ctype).collect()
    }
    /// The name of an operand's parameter: `p0`, `p1`, ... in order.
    pub(super) fn pointer_name(&self, operand: usize) -> String {
        let before = self.operands[..operand].iter().filter(|operand| operand.is_memory());
        format!("p{}", before.count())
    }
}

/// The number of elements along the last axis of `inner` that one access can hold for all of the first `count`
/// operands; operands with stride 0 along it are read once. `other` holds further axes of the same operands.
pub(super) fn vector_width(inner: &IndexSpace, other: Option<&IndexSpace>, count: usize) -> usize {
    let rows = (0..count).filter(|&k| inner.operands[k].is_memory() && inner.is_row(k));
    let Some(size) = rows.map(|k| inner.operands[k].size).max() else { return 1 };
    let mut width = (16 / size).max(1);
    while width > 1 && !(0..count).all(|k| allows_width(inner, other, k, width)) {
        width /= 2;
    }
    width
}

/// Returns true if an operand permits accesses of `width` elements along the last axis of `inner`.
pub(super) fn allows_width(inner: &IndexSpace, other: Option<&IndexSpace>, operand: usize, width: usize) -> bool {
    let Some((&last, outer)) = inner.operands[operand].strides.split_last() else { return false };
    let parts = inner.extents.last().is_some_and(|extent| extent % width == 0);
    let one = &inner.operands[operand];
    if last == 0 || !one.is_memory() {
        return parts && last <= 1;
    }
    let others = other.is_none_or(|other| are_multiples(&other.operands[operand].strides, width));
    let aligned = one.align.is_multiple_of((width * one.size).min(16));
    last == 1 && parts && are_multiples(outer, width) && others && aligned
}

fn are_multiples(strides: &[usize], width: usize) -> bool {
    strides.iter().all(|stride| stride % width == 0)
}

/// The alignment in bytes of accesses of `width` elements of `size` bytes.
pub(super) fn access_bytes(width: usize, size: usize) -> usize {
    (width * size).min(16)
}

/// The integers of a kernel's index arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexInt {
    wide: bool,
}

impl IndexInt {
    /// 32 bits if the number of indices and the largest offset fit, else 64.
    pub(super) fn for_sizes(count: usize, reach: usize) -> Self {
        const MOST: usize = i32::MAX as usize;
        Self { wide: count > MOST || reach > MOST }
    }
    /// The C++ type.
    pub(super) fn ctype(self) -> &'static str {
        if self.wide { "unsigned long long" } else { "unsigned int" }
    }
    /// A literal.
    pub(super) fn literal(self, value: usize) -> String {
        if self.wide { format!("{value}ull") } else { format!("{value}u") }
    }
    /// A built-in index as this type.
    pub(super) fn built_in(self, name: &str) -> String {
        if self.wide { format!("(unsigned long long){name}") } else { name.to_owned() }
    }

    /// Splits a flat index over axes: declares a name for each and returns them.
    pub(super) fn split_index(self, w: &mut SourceWriter, flat: &str, extents: &[usize], prefix: &str) -> Vec<String> {
        let names: Vec<String> = (0..extents.len()).map(|axis| format!("{prefix}{axis}")).collect();
        let ctype = self.ctype();
        match extents {
            [] => {}
            [_] => w.line(format!("const {ctype} {prefix}0 = {flat};")),
            _ => {
                w.line(format!("{ctype} {prefix}r = {flat};"));
                for axis in (1..extents.len()).rev() {
                    let extent = self.literal(extents[axis]);
                    let name = &names[axis];
                    w.line(format!("const {ctype} {name} = {prefix}r % {extent}; {prefix}r /= {extent};"));
                }
                w.line(format!("const {ctype} {} = {prefix}r;", names[0]));
            }
        }
        names
    }
    /// The offset of indices; the last index counts runs of `width` elements.
    pub(super) fn linear_offset(self, names: &[String], strides: &[usize], width: usize) -> String {
        let last = names.len().saturating_sub(1);
        let terms = names.iter().zip(strides).enumerate().filter(|(_, (_, stride))| **stride != 0);
        let terms: Vec<String> = terms
            .map(|(axis, (name, &stride))| match stride * if axis == last { width } else { 1 } {
                1 => name.clone(),
                factor => format!("{name} * {}", self.literal(factor)),
            })
            .collect();
        if terms.is_empty() { self.literal(0) } else { terms.join(" + ") }
    }
}

/// The C++ type of an access of `width` elements.
pub(super) fn vector_ctype(ctype: &str, size: usize, width: usize) -> String {
    match width {
        1 => ctype.to_owned(),
        _ => format!("Pack<{ctype}, {width}, {}>", access_bytes(width, size)),
    }
}

/// Element `index` of a value whose type packs `width` elements.
pub(super) fn vector_element(value: &str, width: usize, index: &str) -> String {
    if width == 1 { value.to_owned() } else { format!("{value}.v[{index}]") }
}

/// The place of an access of `width` elements at an offset from a pointer.
pub(super) fn access_expression(
    operand: &KernelOperand,
    pointer: &str,
    offset: &str,
    width: usize,
    constant: bool,
) -> String {
    if width == 1 {
        return format!("{pointer}[{offset}]");
    }
    let constant = if constant { "const " } else { "" };
    let pack = vector_ctype(operand.ctype, operand.size, width);
    format!("*reinterpret_cast<{constant}{pack}*>({pointer} + ({offset}))")
}
