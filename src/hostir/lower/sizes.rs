//! Binds every extent of a program: from the command line, from meshes, and from the ops.
//!
//! Nodes are tensor axes, extent names and constants. Axes that an op declares equal, and axes whose extents are one
//! name, are one class; a class has at most one value. One error names each extent that remains open, and the flag that
//! sets it.

mod advice;
mod classes;
mod conflicts;
mod joins;
mod loops;
mod meshes;
mod misfits;
mod open;
mod units;

use crate::axes::LogicalAxis;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, Quoted, RunOption, Span, codes};
use crate::ir::scalar_names::{RUNTIME, sub_expressions};
use crate::ir::{AttrKey, Expr, ExprId, GivenSizes, OpId, Program, RankScalars, Symbol, TensorId, UnitId, Value};
use crate::lower::mesh_sizes::check_unused_ranks;
use crate::plan::{AxesTable, ExtentEnv, PlanLimits, evaluate_extent};
use classes::{KnownSize, SizeClasses, SizeSource};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// The name of the number of streams.
const STREAM_COUNT: &str = "numberOfStreams";

/// The maximum number of ranks that one process plans and runs.
const MAX_RANKS: u32 = 4096;

/// The sizes and limits that the user fixes.
#[derive(Clone, Debug)]
pub struct SizeSettings {
    /// Extents by name: `--set i0=8`.
    pub set: BTreeMap<String, i64>,
    /// Scalar inputs that are not integers: `--set d2=0.5`.
    pub reals: BTreeMap<String, f64>,
    /// The value of extents that nothing else determines: `--set '*=8'`.
    pub every: Option<i64>,
    /// Logical global shapes by tensor name or `T0`: `--shape T0=4x8`.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Sources of shapes that no flag gives, for messages: names of data files.
    pub files: BTreeMap<String, String>,
    /// Number of ranks; `None`: as many as the meshes need.
    pub devices: Option<u32>,
    /// True if `devices` is the number of started processes; messages mention this.
    pub processes: bool,
    /// The value of `numberOfStreams`.
    pub streams: u32,
    /// The seed of random numbers for which the program has none.
    pub random_seed: u64,
    /// The maximum bytes of all ranks' buffers together.
    pub memory_limit: u64,
    /// The resource limits for planning.
    pub limits: PlanLimits,
}

impl SizeSettings {
    /// The part that the reader of a text needs.
    pub fn given_sizes(&self) -> GivenSizes {
        GivenSizes { set: self.set.clone(), devices: self.devices, every: self.every, as_numbers: false }
    }
}

/// The number of streams if neither the caller nor the program's text says one.
const DEFAULT_STREAMS: u32 = 4;

/// The number of streams for which a program is planned: the requested one, else the one that its text proposes.
pub fn stream_count(program: &Program, asked: Option<u32>) -> u32 {
    asked.or(program.run_hints().streams).unwrap_or(DEFAULT_STREAMS)
}

impl Default for SizeSettings {
    fn default() -> Self {
        Self {
            set: BTreeMap::new(),
            reals: BTreeMap::new(),
            every: None,
            shapes: BTreeMap::new(),
            files: BTreeMap::new(),
            devices: None,
            processes: false,
            streams: DEFAULT_STREAMS,
            random_seed: 0,
            memory_limit: 1 << 36,
            limits: PlanLimits::default(),
        }
    }
}

/// The extent of a unit that a post gives a value, and the expression of the post.
#[derive(Clone, Copy)]
struct GivenExtent {
    node: u32,
    value: ExprId,
    post: OpId,
}

/// Finds the sizes of a program.
struct SizeSolver<'a> {
    program: &'a Program,
    axes: &'a AxesTable,
    /// The sizes of axes and names.
    sizes: SizeClasses,
    /// By tensor: the node of its first axis, which those of its other axes follow.
    first_axis: FxHashMap<TensorId, u32>,
    /// Scalar inputs that are not extents.
    scalars: Vec<u32>,
    reals: FxHashMap<Symbol, u64>,
    /// For extents of units: the expression that a post gives, and the post.
    unit_scalars: Vec<GivenExtent>,
    /// The axes that loops follow; `None` until first needed.
    ties: Option<Vec<loops::LoopTie>>,
    /// The reasons why nodes are in one class.
    joins: Vec<joins::JoinReason>,
    /// The op whose links are being joined.
    joining: Option<OpId>,
    /// The number of streams.
    streams: u32,
    diags: &'a mut Diags,
}

/// Binds all extents and the number of ranks; `None` after an error.
pub fn infer_sizes(program: &Program, sizes: &SizeSettings, diags: &mut Diags) -> Option<ExtentEnv> {
    let before = diags.items.len();
    let axes = AxesTable::new(program);
    let ranks = count_ranks(program, sizes, diags);
    let mut solver = SizeSolver {
        program,
        axes: &axes,
        sizes: SizeClasses::default(),
        first_axis: FxHashMap::default(),
        scalars: Vec::new(),
        reals: FxHashMap::default(),
        unit_scalars: Vec::new(),
        ties: None,
        joins: Vec::new(),
        joining: None,
        streams: sizes.streams,
        diags,
    };
    solver.refuse_rank_extents();
    solver.collect_axes();
    solver.fix_mesh_sizes();
    solver.link_ops();
    let meant = solver.error_count();
    solver.apply_flags(sizes);
    // A wrong flag leaves the sizes open that it was meant to set.
    if solver.error_count() > meant {
        solver.report_conflicts();
        return None;
    }
    let env = solver.solve_sizes(ranks, sizes);
    if sizes.every.is_none() {
        solver.check_hints();
    }
    solver.report_conflicts();
    solver.check_all(&env);
    let failed = diags.items[before..].iter().any(|diag| diag.severity == crate::diag::Severity::Error);
    (!failed).then_some(env)
}

/// The number of ranks that a program needs: one more than the largest device id of any mesh or team.
pub fn needed_ranks(program: &Program) -> u32 {
    let meshes = program.meshes().iter().flat_map(|(_, mesh)| mesh.devices.iter().copied());
    let teams = program.ops().iter().flat_map(|(_, op)| op.ints_attr(AttrKey::Team).unwrap_or_default());
    let teams = teams.filter_map(|&device| u32::try_from(device).ok());
    meshes.chain(teams).max().map_or(1, |device| device.saturating_add(1))
}

/// The number of ranks that a program needs, or that the user requested.
fn count_ranks(program: &Program, sizes: &SizeSettings, diags: &mut Diags) -> u32 {
    let needed = needed_ranks(program);
    let ranks = sizes.devices.unwrap_or(needed);
    if ranks < needed {
        diags.push(too_few_ranks(ranks, needed, sizes.processes));
    }
    check_unused_ranks(program, needed, sizes.devices, diags);
    if ranks.max(needed) > MAX_RANKS {
        let message = message!("the program needs {} ranks, but the limit is {}", ranks.max(needed), MAX_RANKS);
        diags.push(Diag::global_error(codes::TOO_LARGE, message));
    }
    if sizes.streams == 0 {
        diags.push(Diag::global_error(codes::SIZE, "the number of streams must be at least 1"));
    }
    ranks.max(needed)
}

/// The error for fewer ranks than the program needs. The hint depends on what set their number.
fn too_few_ranks(ranks: u32, needed: u32, processes: bool) -> Diag {
    let named = format!("its meshes and teams contain device {}", needed - 1);
    if processes {
        let plural = if ranks == 1 { " was" } else { "es were" };
        let message = message!("{} process{} started, but the program needs {}: {}", ranks, plural, needed, named);
        return Diag::global_error(codes::WORLD, message).with_note(message!(
            "start {} processes, or change the program's meshes (`hir-opt --pass=resize-mesh{{devices={}}}`)",
            needed,
            ranks
        ));
    }
    let message = message!(
        "the program needs {} devices: {}, but `{}` is {}",
        needed,
        named,
        Quoted::run_option(RunOption::Devices, "--devices"),
        ranks
    );
    Diag::global_error(codes::TOO_FEW_DEVICES, message)
        .with_note(message!("use `{}`", Quoted::run_option(RunOption::Devices, format!("--devices {needed}"))))
}

impl SizeSolver<'_> {
    fn axis_node(&self, tensor: TensorId, axis: u32) -> Option<u32> {
        let count = self.axes.axes_of(tensor).len() as u32;
        (axis < count).then(|| self.first_axis.get(&tensor).map(|first| first + axis)).flatten()
    }

    /// All ranks store tensors of one shape.
    fn refuse_rank_extents(&mut self) {
        let ranks = RankScalars::new(self.program);
        for tensor in self.program.tensors().ids() {
            let extents = self.axes.axes_of(tensor).iter().flat_map(|axis| [Some(axis.extent), axis.expanded]);
            if !extents.flatten().any(|extent| ranks.is_dependent(self.program, extent)) {
                continue;
            }
            let name = self.program.quoted_tensor(tensor);
            let message =
                message!("an extent of {} depends on the rank, but a tensor has one shape on all ranks", name);
            let note = "spread an axis over the devices, or write an extent that no rank exceeds";
            self.diags.push(Diag::error(codes::SIZE, self.tensor_span(tensor), message).with_note(note));
        }
    }

    fn tensor_span(&self, tensor: TensorId) -> Span {
        self.program.source().tensors.get(tensor).copied().unwrap_or_default()
    }

    /// Makes the nodes of all axes, and fixes those with a size from the text or a mesh.
    fn collect_axes(&mut self) {
        for tensor in self.program.tensors().ids() {
            let first = self.sizes.classes.element_count() as u32;
            self.first_axis.insert(tensor, first);
            for _ in self.axes.axes_of(tensor) {
                self.sizes.new_node();
            }
            for (index, axis) in self.axes.axes_of(tensor).iter().enumerate() {
                self.collect_axis(tensor, first + index as u32, index, axis);
            }
        }
    }

    fn collect_axis(&mut self, tensor: TensorId, node: u32, index: usize, axis: &LogicalAxis) {
        let unit = self.program.tensor(tensor).unit;
        self.collect_names(unit, axis.extent);
        if let Some(expanded) = axis.expanded {
            self.collect_names(unit, expanded);
        }
        let place = self.axis_text((tensor, index as u32));
        let span = Some(self.tensor_span(tensor));
        match self.program.expr(axis.extent) {
            Expr::Name(name) if self.program.name(*name) == STREAM_COUNT => {
                let (value, why) =
                    (i64::from(self.streams), message!("{} has as many elements as there are streams", place));
                self.sizes.fix_node(node, KnownSize { value, span, why: why.into(), source: SizeSource::Derived });
            }
            Expr::Name(name) if is_runtime_name(self.program, *name) => {}
            Expr::Name(name) => {
                let name = self.sizes.name_node(unit, *name);
                self.joins.push(joins::JoinReason { nodes: (node, name), op: None, is_alias: false });
                self.sizes.union_nodes(node, name);
            }
            Expr::Int(value) => {
                let why = message!("the extent of {}", place);
                self.sizes.fix_node(node, KnownSize { value: *value, span, why: why.into(), source: SizeSource::Text });
            }
            _ => {}
        }
        let Some(mesh) = self.program.tensor(tensor).mesh.filter(|_| axis.parts.is_none()) else { return };
        if let Some(extent) = self.program.mesh(mesh).axis_extent(axis.parallel) {
            let name = self.program.quoted_mesh(Some(mesh));
            let why = message!("{} is sharded over the {} devices of {}", place, extent, name);
            let source = self.source_of_mesh(mesh);
            self.sizes.fix_node(node, KnownSize { value: i64::from(extent), span, why: why.into(), source });
        }
    }

    /// Makes nodes for the names of an expression.
    fn collect_names(&mut self, unit: Option<UnitId>, expr: ExprId) {
        match self.program.expr(expr).clone() {
            Expr::Name(name) if is_runtime_name(self.program, name) => {}
            Expr::Name(name) => {
                self.sizes.name_node(unit, name);
            }
            Expr::Unary(_, a) | Expr::Set(a) => self.collect_names(unit, a),
            Expr::Binary(_, a, b) => {
                self.collect_names(unit, a);
                self.collect_names(unit, b);
            }
            Expr::Call(_, args) => args.iter().for_each(|&arg| self.collect_names(unit, arg)),
            _ => {}
        }
    }

    /// Joins the axes that ops declare equal, and units' tensors with the operands they stand for.
    fn link_ops(&mut self) {
        let mut ops = Vec::new();
        self.program.walk_with_units(&mut |op| ops.push(op));
        for &(new, original) in self.program.aliases().unwrap_or_default() {
            for axis in 0..self.axes.axes_of(new).len() as u32 {
                self.link_axes(new, axis, original, axis);
            }
        }
        let mut links = Vec::new();
        for op in ops {
            self.joining = Some(op);
            // A loop may continue over the domain of a tensor that nothing else names.
            if let Some(domain) = self.program.op(op).domain_attr(AttrKey::Domain) {
                self.collect_names(None, self.program.domain(domain).extent);
            }
            links.clear();
            self.program.op(op).kind.spec().axes(self.program, op, &mut links);
            for link in links.iter().filter(|link| !link.broadcast) {
                self.link_axes(link.from.0, link.from.1, link.to.0, link.to.1);
            }
            if self.program.op(op).posted_number().is_some() {
                self.link_unit(op);
            }
        }
    }

    fn link_axes(&mut self, from: TensorId, from_axis: u32, to: TensorId, to_axis: u32) {
        if self.is_broadcast_axis(from, from_axis) || self.is_broadcast_axis(to, to_axis) {
            return;
        }
        if let (Some(one), Some(other)) = (self.axis_node(from, from_axis), self.axis_node(to, to_axis)) {
            let op = self.joining.map(|op| (op, (from, from_axis), (to, to_axis)));
            self.joins.push(joins::JoinReason { nodes: (one, other), op, is_alias: op.is_none() });
            self.sizes.union_nodes(one, other);
        }
    }

    /// Returns true if an axis is a broadcast, or the tensor does not have it.
    fn is_broadcast_axis(&self, tensor: TensorId, axis: u32) -> bool {
        self.axes.axes_of(tensor).get(axis as usize).is_none_or(|axis| axis.is_broadcast())
    }

    fn apply_flags(&mut self, sizes: &SizeSettings) {
        for (name, &value) in &sizes.set {
            let known = self.program.names().find_symbol(name);
            let node = known.and_then(|name| self.sizes.name_nodes.get(&(None, name)).copied());
            let is_scalar =
                known.is_some_and(|name| is_scalar_input(self.program, name) || is_proposed_size(self.program, name));
            match (node, known) {
                (Some(node), _) => {
                    let why = message!("`{}`", Quoted::set_option(name, value));
                    self.sizes
                        .fix_node(node, KnownSize { value, span: None, why: why.into(), source: SizeSource::Caller });
                }
                (None, Some(symbol)) if is_scalar => {
                    let node = self.sizes.name_node(None, symbol);
                    self.scalars.push(node);
                    let why = message!("`{}`", Quoted::set_option(name, value));
                    self.sizes
                        .fix_node(node, KnownSize { value, span: None, why: why.into(), source: SizeSource::Caller });
                }
                _ => {
                    let message =
                        message!("`{}` does not name an extent of the program", Quoted::set_option(name, value));
                    self.diags.push(Diag::global_error(codes::SIZE, message));
                }
            }
        }
        for (name, value) in &sizes.reals {
            match self.program.names().find_symbol(name) {
                Some(symbol) if is_scalar_input(self.program, symbol) => {
                    self.reals.insert(symbol, value.to_bits());
                }
                _ => {
                    let message =
                        message!("`{}`: an extent must be an integer", Quoted::set_option(name, format!("{value:?}")));
                    self.diags.push(Diag::global_error(codes::SIZE, message));
                }
            }
        }
        for (name, shape) in &sizes.shapes {
            self.apply_shape(name, shape, sizes.files.get(name));
        }
    }

    fn apply_shape(&mut self, name: &str, shape: &[usize], file: Option<&String>) {
        let flag = shape_source(name, shape, file);
        let Some(tensor) = find_tensor(self.program, name) else {
            let message = message!("{} names no tensor of the program", flag);
            self.diags.push(Diag::global_error(codes::SIZE, message));
            return;
        };
        let axes = self.axes.axes_of(tensor);
        let stored: Vec<u32> = (0..axes.len() as u32).filter(|&axis| !axes[axis as usize].is_reduction()).collect();
        if stored.len() != shape.len() {
            let message = message!("{} has {} sizes, but {} has {} axes", flag, shape.len(), name, stored.len());
            let span = self.tensor_span(tensor);
            self.diags.push(Diag::error(codes::SIZE, span, message));
            return;
        }
        for (&axis, &extent) in stored.iter().zip(shape) {
            if let Some(node) = self.shape_node(tensor, axis) {
                let value = i64::try_from(extent).unwrap_or(i64::MAX);
                self.sizes.fix_node(
                    node,
                    KnownSize { value, span: None, why: flag.clone().into(), source: SizeSource::Caller },
                );
            }
        }
    }

    /// The node for the extent of an axis that a caller sees: for an expanded broadcast the expanded size, if that is a
    /// name. (Other sizes are compared with the data.)
    fn shape_node(&mut self, tensor: TensorId, axis: u32) -> Option<u32> {
        let Some(expanded) = self.axes.axes_of(tensor)[axis as usize].expanded else {
            return self.axis_node(tensor, axis);
        };
        match self.program.expr(expanded) {
            Expr::Name(name) if is_runtime_name(self.program, *name) => None,
            Expr::Name(name) => Some(self.sizes.name_node(self.program.tensor(tensor).unit, *name)),
            _ => None,
        }
    }

    /// Evaluates compound extents until nothing changes.
    fn solve_sizes(&mut self, ranks: u32, sizes: &SizeSettings) -> ExtentEnv {
        let reals = std::mem::take(&mut self.reals);
        let mut env = ExtentEnv::with_reals(ranks, sizes.streams, reals);
        env.random_seed = sizes.random_seed;
        loop {
            self.bind_known(&mut env);
            let followed = self.solve_unit_scalars(&env)
                || self.solve_compound(&env)
                || self.name_units()
                || self.follow_loops(&env);
            // Proposals of the text come after everything that the caller sets.
            let filled = match sizes.every {
                Some(value) => !followed && self.fix_one_open(value),
                None => !followed && self.fix_one_hint(),
            };
            if !followed && !filled {
                return env;
            }
        }
    }

    fn bind_known(&mut self, env: &mut ExtentEnv) {
        for index in 0..self.sizes.names.len() {
            let (unit, name, node) = self.sizes.names[index];
            let root = self.sizes.find_root(node);
            if let Some(known) = &self.sizes.known[root as usize] {
                env.bind_name(unit, name, known.value);
            }
        }
    }

    /// Fixes axes whose compound extent has become known; returns true if there was any.
    fn solve_compound(&mut self, env: &ExtentEnv) -> bool {
        let mut progress = false;
        for tensor in self.program.tensors().ids() {
            for index in 0..self.axes.axes_of(tensor).len() {
                let axis = self.axes.axes_of(tensor)[index];
                if matches!(self.program.expr(axis.extent), Expr::Name(_) | Expr::Int(_)) {
                    continue;
                }
                let unit = self.program.tensor(tensor).unit;
                let Ok(value) = evaluate_extent(self.program, env, unit, axis.extent) else {
                    continue;
                };
                let Some(node) = self.axis_node(tensor, index as u32) else { continue };
                let root = self.sizes.find_root(node);
                if self.sizes.known[root as usize].as_ref().is_some_and(|known| known.value == value) {
                    continue;
                }
                progress |= self.sizes.known[root as usize].is_none();
                let why = self.axis_text((tensor, index as u32));
                let span = Some(self.tensor_span(tensor));
                self.sizes.fix_node(node, KnownSize { value, span, why: why.into(), source: SizeSource::Derived });
            }
        }
        progress
    }

    /// Reports open extents, all in one error, and sizes that no axis can have.
    fn check_all(&mut self, env: &ExtentEnv) {
        let mut open: Vec<(String, u32)> = Vec::new();
        let mut seen = FxHashSet::default();
        let scalars: FxHashSet<u32> = self.scalars.iter().copied().collect();
        for index in 0..self.sizes.names.len() {
            let (_, name, node) = self.sizes.names[index];
            let root = self.sizes.find_root(node);
            match &self.sizes.known[root as usize] {
                Some(known) if known.value < 0 && !scalars.contains(&node) => {
                    let name = self.program.name(name);
                    let message =
                        message!("`{}` is {} ({}); a size must not be negative", name, known.value, known.why);
                    self.diags.push(Diag::global_error(codes::SIZE, message));
                }
                None if seen.insert(root) => {
                    open.push((self.program.name(name).to_owned(), root));
                }
                _ => {}
            }
        }
        if !open.is_empty() {
            let places = self.class_axes();
            open.retain(|(name, root)| self.is_needed(name, places.get(root)));
        }
        if !open.is_empty() {
            self.report_open(&open);
        }
        let scalars = self.program.inputs().iter().filter_map(|input| input.as_scalar());
        for expr in scalars {
            if let Expr::Name(name) = self.program.expr(expr)
                && env.name_value(None, *name).is_none()
                && env.real_value(*name).is_none()
                && !self.sizes.name_nodes.contains_key(&(None, *name))
            {
                let name = self.program.name(*name);
                let message = message!("the input `{}` has no value", name);
                let option = match self.is_real_scalar(expr) {
                    true => Quoted::set_option(name, 0.5),
                    false => Quoted::set_option(name, 8),
                };
                self.diags.push(
                    Diag::global_error(codes::SIZE_UNKNOWN, message).with_note(message!("set it with `{}`", option)),
                );
            }
        }
    }

    /// Returns true if a run needs the size: the length of a reduced axis that no tensor stores does not matter.
    fn is_needed(&self, name: &str, places: Option<&Vec<(TensorId, u32)>>) -> bool {
        let Some(places) = places else { return true };
        let mut axes = places.iter().map(|&(tensor, axis)| &self.axes.axes_of(tensor)[axis as usize]);
        axes.any(|axis| !axis.is_reduction()) || !self.name_holders(name).iter().all(|at| places.contains(at))
    }

    fn is_input(&self, tensor: TensorId) -> bool {
        self.program.inputs().iter().any(|input| input.as_tensor() == Some(tensor))
    }

    /// `--shape T0=4x8`: the known sizes, and 8 for the others.
    fn shape_flag(&mut self, tensor: TensorId) -> String {
        let mut sizes = Vec::new();
        for axis in 0..self.axes.axes_of(tensor).len() as u32 {
            if self.axes.axes_of(tensor)[axis as usize].is_reduction() {
                continue;
            }
            let root = self.axis_node(tensor, axis).map(|node| self.sizes.find_root(node));
            let known = root.and_then(|root| self.sizes.known[root as usize].as_ref());
            sizes.push(known.map_or(8, |known| known.value).to_string());
        }
        format!("--shape {}={}", self.program.tensor_name(tensor), sizes.join("x"))
    }

    /// The first few of some axes in words, each once.
    fn axes_text(&self, places: &[(TensorId, u32)]) -> Message {
        let mut known = FxHashSet::default();
        let distinct: Vec<_> = places.iter().copied().filter(|&axis| known.insert(axis)).collect();
        let few = distinct.iter().take(3).map(|&axis| self.axis_text(axis));
        let text = Message::join(&few.collect::<Vec<_>>(), ", ");
        match distinct.len().checked_sub(3) {
            Some(more @ 1..) => message!("{} and {} more", text, more),
            _ => text,
        }
    }

    /// The axes whose extents depend on a name.
    fn name_holders(&self, name: &str) -> Vec<(TensorId, u32)> {
        let mut found = Vec::new();
        let Some(name) = self.program.names().find_symbol(name) else { return found };
        for tensor in self.program.tensors().ids() {
            for (axis, index) in self.axes.axes_of(tensor).iter().zip(0..) {
                let extents = [Some(axis.extent), axis.expanded];
                if extents.into_iter().flatten().any(|extent| mentions_name(self.program, extent, name)) {
                    found.push((tensor, index));
                }
            }
        }
        found
    }

    /// The axes of each class, in tensor order.
    fn class_axes(&mut self) -> FxHashMap<u32, Vec<(TensorId, u32)>> {
        let mut places: FxHashMap<u32, Vec<(TensorId, u32)>> = FxHashMap::default();
        for tensor in self.program.tensors().ids() {
            for index in 0..self.axes.axes_of(tensor).len() as u32 {
                if let Some(node) = self.axis_node(tensor, index) {
                    places.entry(self.sizes.find_root(node)).or_default().push((tensor, index));
                }
            }
        }
        places
    }
}

/// The option or the file that gives a tensor its shape.
fn shape_source(name: &str, shape: &[usize], file: Option<&String>) -> Message {
    let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
    match file {
        Some(file) => message!("`{}` with shape [{}]", file, shape.join(", ")),
        None => {
            let option = format!("--shape {name}={}", shape.join("x"));
            message!("`{}`", Quoted::run_option(RunOption::Shape, option))
        }
    }
}

/// Returns true if the runtime binds a name: nobody sets it as an extent.
fn is_runtime_name(program: &Program, name: Symbol) -> bool {
    RUNTIME.contains(&program.name(name))
}

fn mentions_name(program: &Program, expr: ExprId, name: Symbol) -> bool {
    match program.expr(expr) {
        Expr::Name(found) => *found == name,
        other => sub_expressions(other).iter().any(|&part| mentions_name(program, part, name)),
    }
}

fn is_scalar_input(program: &Program, name: Symbol) -> bool {
    let scalars = program.inputs().iter().filter_map(|input| input.as_scalar());
    scalars.into_iter().any(|expr| program.exprs().as_name(expr) == Some(name))
}

/// Returns true for a name of the text's line `sizes`, which may be a scalar alone.
fn is_proposed_size(program: &Program, name: Symbol) -> bool {
    program.run_hints().sizes.iter().any(|(proposed, _)| *proposed == name)
}

/// The host program's tensor with a user's name or `T3`; also by position: `0` is the first input.
pub fn find_tensor(program: &Program, name: &str) -> Option<TensorId> {
    let tensors = || program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none());
    let by_name = tensors().map(|(id, _)| id).find(|&id| program.tensor_name(id) == name);
    let number = name.strip_prefix('T').and_then(|number| number.parse::<u32>().ok());
    by_name
        .or_else(|| tensors().find(|(_, t)| Some(t.number) == number).map(|(id, _)| id))
        .or_else(|| program.inputs().get(name.parse::<usize>().ok()?).and_then(|v: &Value| v.as_tensor()))
}
