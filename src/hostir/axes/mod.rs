//! The logical axes of tensors.
//!
//! The text prints loop domains, and [`Program::logical_axes`] gives the order in which they are axes: device domains
//! may have been moved to the front (`T0[ideviceIdx.x1, iS0, iS2]` is [S, D, S]). Domains made by splits (`ceilDiv`
//! extents, `rf` beside a parallel axis, numbers that suggest it) do not determine the axes: such tensors need
//! `logical=`, without which nothing is inferred for them. The exceptions are a split of an axis of extent `i0` over n
//! streams, `istreamIdx0{n}` and `iS1{ceilDiv(i0, n)}`, and what the reader of a text infers ([`crate::style`]).

mod cut;
pub mod pairing;

use crate::diag::message;
use crate::diag::{Message, Quoted};
use crate::ir::{
    DomainId, Expr, ExprId, IterDomain, IterType, ParallelType, Program, TensorId, quoted_axis, quoted_expr,
};
pub(crate) use cut::merged_extent;
use cut::{given_axes, given_stream_axis};
use smallvec::SmallVec;

/// One logical axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogicalAxis {
    /// The kind of the axis: iteration, reduction, broadcast, ...
    pub iter: IterType,
    /// The parallel type over which the axis is distributed.
    pub parallel: ParallelType,
    /// Its extent over all devices (of a broadcast: 1).
    pub extent: ExprId,
    /// Extent of an expanded broadcast.
    pub expanded: Option<ExprId>,
    /// Position among the tensor's printed domains; `u32::MAX` for an axis given by `logical=`.
    pub printed: u32,
    /// The number of parts of an axis that a split shards over devices, each of which stores one part. `None` if each
    /// device stores one index of the axis.
    pub parts: Option<ExprId>,
}

impl LogicalAxis {
    #[inline]
    fn from_domain(domain: &IterDomain, printed: u32) -> Self {
        Self {
            iter: domain.iter,
            parallel: domain.parallel,
            extent: domain.extent,
            expanded: domain.expanded,
            printed,
            parts: None,
        }
    }
    /// The number of its domain in the text, if it is a printed domain of this tensor and has one.
    pub fn domain_number(&self, program: &Program, tensor: TensorId) -> Option<u32> {
        program.domains(tensor).get(self.printed as usize)?.number
    }
    /// Whether the axis has no storage.
    #[inline]
    pub fn is_reduction(&self) -> bool {
        self.iter == IterType::Reduction
    }
    /// Whether the axis is a broadcast.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        self.iter == IterType::Broadcast
    }
    /// Returns true if the axis is stored and sharded over devices.
    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.device_type().is_some()
    }
    /// Returns true if each device stores one index of the axis.
    pub fn is_device_index(&self) -> bool {
        self.is_sharded() && self.parts.is_none()
    }
    /// The device type over which the axis is stored, if any.
    #[inline]
    pub fn device_type(&self) -> Option<ParallelType> {
        (self.parallel.is_device() && !self.is_reduction()).then_some(self.parallel)
    }
}

/// Axes, outermost first. They are copied often, and few tensors have more than four.
pub type AxisList = SmallVec<[LogicalAxis; 4]>;

/// The logical axes of one tensor, reductions included.
#[derive(Clone, Debug)]
pub struct LogicalAxes {
    /// The axes, outermost first.
    pub axes: AxisList,
    /// True if the printed domains come from splits and no `logical=` gives the axes. `axes` then holds the printed
    /// domains unchanged and carries no claim about the logical axes.
    pub split: bool,
}

impl LogicalAxes {
    /// Returns true if an axis is a product of domains: nothing is known of the axes, or a split shards one over
    /// devices.
    pub fn has_parts(&self) -> bool {
        self.split || self.axes.iter().any(|axis| axis.parts.is_some())
    }
    /// Positions of the axes that have storage (or are broadcasts), outermost first.
    pub fn stored_positions(&self) -> SmallVec<[u32; 8]> {
        (0..self.axes.len() as u32).filter(|&k| !self.axes[k as usize].is_reduction()).collect()
    }
    /// Positions of all axes.
    pub fn all_positions(&self) -> SmallVec<[u32; 8]> {
        (0..self.axes.len() as u32).collect()
    }
    /// The axis at a position among the printed domains.
    pub fn of_printed(&self, printed: u32) -> Option<u32> {
        self.axes.iter().position(|axis| axis.printed == printed).map(|k| k as u32)
    }
}

/// The logical axes of a tensor.
pub fn logical_axes(program: &Program, tensor: TensorId) -> LogicalAxes {
    if let Some(logical) = &program.tensor(tensor).logical {
        return LogicalAxes { axes: given_axes(program, tensor, logical), split: false };
    }
    if let Some(order) = plain_order(program, tensor) {
        let axes = order.map(|(at, domain)| LogicalAxis::from_domain(domain, at)).collect();
        return LogicalAxes { axes, split: false };
    }
    let domains = program.domains(tensor);
    if let Some(axes) = before_stream_split(program, tensor) {
        return LogicalAxes { axes, split: false };
    }
    let split = program.tensor(tensor).split || is_split(program, domains);
    let positions = if split { (0..domains.len() as u32).collect() } else { program.logical_axes(tensor) };
    let axes = positions.into_iter().map(|k| LogicalAxis::from_domain(&domains[k as usize], k)).collect();
    LogicalAxes { axes, split }
}

/// The number of stored axes of a tensor.
pub fn stored_rank(program: &Program, tensor: TensorId) -> usize {
    match plain_order(program, tensor) {
        Some(order) => order.filter(|(_, domain)| !domain.is_reduction()).count(),
        None => logical_axes(program, tensor).stored_positions().len(),
    }
}

/// The position among the printed domains of stored axis number `axis`; `u32::MAX` for an axis given by `logical=`.
pub fn stored_axis_place(program: &Program, tensor: TensorId, axis: usize) -> Option<u32> {
    if let Some(order) = plain_order(program, tensor) {
        return order.filter(|(_, domain)| !domain.is_reduction()).nth(axis).map(|(printed, _)| printed);
    }
    let logical = logical_axes(program, tensor);
    let position = *logical.stored_positions().get(axis)?;
    logical.axes.get(position as usize).map(|axis| axis.printed)
}

/// The number among the stored axes of the axis with this position among the printed domains.
pub fn stored_axis_number(program: &Program, tensor: TensorId, printed: u32) -> Option<usize> {
    if let Some(mut order) =
        plain_order(program, tensor).map(|order| order.filter(|(_, domain)| !domain.is_reduction()))
    {
        return order.position(|(at, _)| at == printed);
    }
    let logical = logical_axes(program, tensor);
    let axis = logical.of_printed(printed)?;
    logical.stored_positions().iter().position(|&position| position == axis)
}

/// The printed domains in the order of the axes, each with its position, if no axis was split and no text gives the
/// axes: then they are the logical axes.
pub(crate) fn plain_order(program: &Program, id: TensorId) -> Option<impl Iterator<Item = (u32, &IterDomain)>> {
    let domains = program.domains(id);
    let places = 0..domains.len();
    is_plain(program, id).then(|| places.filter_map(move |at| plain_domain(program, id, at)))
}

/// Returns true if no axis of a tensor was split and no text gives the axes.
fn is_plain(program: &Program, id: TensorId) -> bool {
    let tensor = program.tensor(id);
    tensor.logical.is_none()
        && !tensor.split
        && program.domains(id).iter().all(|domain| {
            domain.parallel != ParallelType::Stream && !domain.rfactor && !is_ceil_div(program, domain.extent)
        })
}

/// The domain of an axis of a tensor for which [`is_plain`] holds, with its position.
fn plain_domain(program: &Program, id: TensorId, axis: usize) -> Option<(u32, &IterDomain)> {
    let domains = program.domains(id);
    let place = match &program.tensor(id).axes {
        Some(axes) => *axes.get(axis)?,
        None => axis as u32,
    };
    domains.get(place as usize).map(|domain| (place, domain))
}

/// The axes that a tensor stores, with their positions: ``0: `iS9{c}`, 1: `ideviceIdx.x10{4}```.
pub fn list_axes(program: &Program, tensor: TensorId) -> Message {
    let found = logical_axes(program, tensor);
    let stored = found.axes.iter().filter(|axis| !axis.is_reduction()).zip(0..);
    let texts: Vec<Message> =
        stored.map(|(axis, position)| message!("{}: `{}`", position, axis_text(program, tensor, axis))).collect();
    Message::join(&texts, ", ")
}

/// The position of a tensor's domain among the axes that the tensor stores.
pub fn stored_position(program: &Program, tensor: TensorId, domain: DomainId) -> Option<usize> {
    let printed = domain.0.checked_sub(program.tensor(tensor).domains_start)?;
    let axes = logical_axes(program, tensor).axes;
    let mut stored = axes.iter().filter(|axis| !axis.is_reduction());
    stored.position(|axis| axis.printed == printed)
}

/// An axis as its text writes its domain.
pub fn axis_text(program: &Program, tensor: TensorId, axis: &LogicalAxis) -> Quoted {
    match program.domains(tensor).get(axis.printed as usize) {
        Some(domain) => quoted_axis(program, domain),
        None => quoted_expr(program, axis.extent),
    }
}

/// `axis 1 of T6`, counted without reductions as users count; for a reduction `the reduced axis i2 of T6`. `axes` are
/// the tensor's.
pub fn axis_place(program: &Program, tensor: TensorId, axes: &[LogicalAxis], index: u32) -> Message {
    let name = program.quoted_tensor(tensor);
    match axes.get(index as usize) {
        Some(axis) if axis.is_reduction() => {
            message!("the reduced axis `{}` of {}", quoted_expr(program, axis.extent), name)
        }
        _ => {
            let before = axes.iter().take(index as usize);
            message!("axis {} of {}", before.filter(|axis| !axis.is_reduction()).count(), name)
        }
    }
}

/// The axis that is sharded over streams, and its number of shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamAxis {
    /// Its position among the logical axes.
    pub axis: u32,
    /// The number of shards; the last ones are shorter, or empty, if it does not divide the extent.
    pub parts: ExprId,
}

/// The axis of a tensor that is sharded over streams: either each index is a shard, or a printed domain gives the
/// number of shards.
pub fn stream_axis(program: &Program, tensor: TensorId) -> Option<StreamAxis> {
    let domains = program.domains(tensor);
    let parts = domains.iter().find(|domain| is_stream_domain(domain))?.extent;
    if let Some(axis) = given_stream_axis(program, tensor) {
        return Some(StreamAxis { axis, parts });
    }
    let axes = logical_axes(program, tensor).axes;
    if let Some(axis) = axes.iter().position(|axis| axis.parallel == ParallelType::Stream) {
        return Some(StreamAxis { axis: axis as u32, parts });
    }
    let inner = domains.iter().position(|domain| ceil_div_dividend(program, domain.extent, parts).is_some())?;
    let whole = ceil_div_dividend(program, domains[inner].extent, parts)?;
    let order = program.logical_axes(tensor);
    // Of several axes of one extent, the one at the position of the domain.
    let before = order.iter().map(|&at| at as usize).take_while(|&at| at != inner);
    let place = before.filter(|&at| !is_stream_domain(&domains[at])).count();
    let axis = match axes.get(place).is_some_and(|axis| axis.extent == whole) {
        true => place,
        false => axes.iter().position(|axis| axis.extent == whole)?,
    };
    Some(StreamAxis { axis: axis as u32, parts })
}

fn is_stream_domain(domain: &IterDomain) -> bool {
    domain.parallel == ParallelType::Stream && domain.iter != IterType::Reduction
}

/// The axes before one of them was split over streams, outer part first; `None` if another one was split.
fn before_stream_split(program: &Program, tensor: TensorId) -> Option<AxisList> {
    let domains = program.domains(tensor);
    let at = domains.iter().position(|domain| domain.parallel == ParallelType::Stream)?;
    let outer = &domains[at];
    let inner = domains.iter().position(|domain| ceil_div_dividend(program, domain.extent, outer.extent).is_some())?;
    let splits = domains.iter().filter(|domain| is_ceil_div(program, domain.extent) || domain.rfactor);
    let serial = domains[inner].parallel == ParallelType::Serial;
    let devices = domains.iter().any(|domain| domain.parallel.is_device());
    if outer.is_reduction() || splits.count() != 1 || !serial || devices {
        return None;
    }
    let mut axes = AxisList::new();
    for printed in program.logical_axes(tensor) {
        let place = printed as usize;
        if place == at {
            continue;
        }
        let mut axis = LogicalAxis::from_domain(&domains[place], printed);
        if place == inner {
            axis.extent = ceil_div_dividend(program, axis.extent, outer.extent)?;
        }
        axes.push(axis);
    }
    Some(axes)
}

/// `i0` of `ceilDiv(i0, parts)`.
fn ceil_div_dividend(program: &Program, extent: ExprId, parts: ExprId) -> Option<ExprId> {
    match program.expr(extent) {
        Expr::Set(inner) => ceil_div_dividend(program, *inner, parts),
        Expr::Call(name, args) if program.name(*name) == "ceilDiv" => match args.as_slice() {
            [whole, by] if *by == parts => Some(*whole),
            _ => None,
        },
        _ => None,
    }
}

fn plain_axis(extent: ExprId) -> LogicalAxis {
    LogicalAxis {
        iter: IterType::Iteration,
        parallel: ParallelType::Serial,
        extent,
        expanded: None,
        printed: u32::MAX,
        parts: None,
    }
}

/// Returns true if some printed domain is a part of an axis.
fn is_split(program: &Program, domains: &[IterDomain]) -> bool {
    domains.iter().any(|domain| is_ceil_div(program, domain.extent))
        || (domains.iter().any(IterDomain::is_distributed) && domains.iter().any(|domain| domain.rfactor))
}

/// Returns true if an extent is a quotient, `ceilDiv(i0, 4)`.
pub(crate) fn is_quotient(program: &Program, extent: ExprId) -> bool {
    is_ceil_div(program, extent)
}

/// Returns true if an extent is a quotient by this number of parts.
pub(crate) fn is_quotient_by(program: &Program, extent: ExprId, parts: ExprId) -> bool {
    ceil_div_dividend(program, extent, parts).is_some()
}

fn is_ceil_div(program: &Program, extent: ExprId) -> bool {
    match program.expr(extent) {
        Expr::Call(name, _) => program.name(*name) == "ceilDiv",
        Expr::Set(inner) => is_ceil_div_call(program, *inner),
        _ => false,
    }
}

fn is_ceil_div_call(program: &Program, extent: ExprId) -> bool {
    matches!(program.expr(extent), Expr::Call(name, _) if program.name(*name) == "ceilDiv")
}

/// The axes of the most recent tensor: links are sorted by tensor.
#[derive(Default)]
pub(crate) struct LastAxes(Option<KnownAxes>);

/// A tensor and its axes; `None` for a tensor whose axes are its printed domains.
struct KnownAxes {
    tensor: TensorId,
    axes: Option<LogicalAxes>,
}

impl LastAxes {
    /// The extent of an axis, if the tensor has it.
    pub(crate) fn axis_extent(&mut self, program: &Program, tensor: TensorId, axis: u32) -> Option<ExprId> {
        match self.known_axes(program, tensor) {
            Some(axes) => axes.axes.get(axis as usize).map(|axis| axis.extent),
            None => plain_domain(program, tensor, axis as usize).map(|(_, domain)| domain.extent),
        }
    }
    /// An axis, if the tensor has it.
    pub(crate) fn find_axis(&mut self, program: &Program, tensor: TensorId, axis: u32) -> Option<LogicalAxis> {
        match self.known_axes(program, tensor) {
            Some(axes) => axes.axes.get(axis as usize).copied(),
            None => {
                plain_domain(program, tensor, axis as usize).map(|(at, domain)| LogicalAxis::from_domain(domain, at))
            }
        }
    }
    /// The axes of a tensor if they are not its printed domains.
    fn known_axes(&mut self, program: &Program, tensor: TensorId) -> Option<&LogicalAxes> {
        if self.0.as_ref().is_none_or(|known| known.tensor != tensor) {
            let axes = (!is_plain(program, tensor)).then(|| logical_axes(program, tensor));
            self.0 = Some(KnownAxes { tensor, axes });
        }
        self.0.as_ref()?.axes.as_ref()
    }
}
