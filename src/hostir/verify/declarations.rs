//! V1 to V9: declarations of tensors, meshes, inputs and aliases.

use crate::diag::message;
use crate::diag::{Diag, DiagLabel, Diags, Message, Quoted, Span, codes, count_text};
use crate::ir::places::smallest_duplicate;
use crate::ir::places::tensor_span;
use crate::ir::{
    AttrValue, BlockId, DeviceMesh, IdVec, IterDomain, MeshId, OpId, ParallelType, Program, Tensor, TensorId,
    TensorNumbers, Value, expr_text, quoted_axis, quoted_expr, quoted_parallel_type, quoted_type,
};
use rustc_hash::FxHashMap;

/// Most axes that a tensor may have.
const MAX_AXES: usize = 64;

/// The tensors that a program refers to.
pub(super) struct ReferencedTensors {
    /// In order of their first appearance.
    pub(super) tensors: Vec<TensorId>,
    /// For each tensor, the first with its number in its scope: later checks treat tensors with different declarations
    /// as one.
    pub(super) first: IdVec<TensorId, TensorId>,
    /// The same, with each alias replaced by the tensor whose memory it has.
    pub(super) memory: IdVec<TensorId, TensorId>,
}

impl ReferencedTensors {
    /// Finds them.
    pub(super) fn new(program: &Program) -> Self {
        let mut seen = IdVec::filled(false, program.tensors().len());
        let mut tensors = Vec::new();
        let mut add = |tensor: TensorId| {
            if !std::mem::replace(&mut seen[tensor], true) {
                tensors.push(tensor);
            }
        };
        collect_values(program.inputs(), &mut add);
        collect_values(program.outputs(), &mut add);
        collect_block(program, program.body(), &mut add);
        for (_, unit) in program.units().iter() {
            collect_values(&unit.inputs, &mut add);
            collect_values(&unit.outputs, &mut add);
            collect_block(program, unit.body, &mut add);
        }
        let first = first_by_number(program, &tensors);
        let memory = program.tensors().ids().map(|t| first[program.memory_tensor(first[t])]).collect();
        Self { tensors, first, memory }
    }
}

fn collect_values(values: &[Value], add: &mut dyn FnMut(TensorId)) {
    values.iter().filter_map(|value| value.as_tensor()).for_each(add);
}

fn collect_block(program: &Program, block: BlockId, add: &mut dyn FnMut(TensorId)) {
    program.walk(block, &mut |id: OpId| {
        let op = program.op(id);
        collect_values(&op.results, add);
        collect_values(&op.operands, add);
        for (_, value) in &op.attrs {
            if let AttrValue::Tensor(tensor) = value {
                add(*tensor);
            }
        }
    });
}

fn first_by_number(program: &Program, tensors: &[TensorId]) -> IdVec<TensorId, TensorId> {
    let mut first: IdVec<TensorId, TensorId> = program.tensors().ids().collect();
    let mut numbers = TensorNumbers::with_tensors(tensors.len());
    for &id in tensors {
        let tensor = program.tensor(id);
        first[id] = numbers.first_tensor(tensor.unit, tensor.number, id);
    }
    first
}

/// Checks all declarations.
pub(super) fn check_declarations(program: &Program, referenced: &ReferencedTensors, diags: &mut Diags) {
    let mut meshes = IdVec::filled(false, program.meshes().len());
    let mut faults = MeshFaults::default();
    for &id in &referenced.tensors {
        let first = referenced.first[id];
        if first != id {
            report_difference(program, first, id, diags);
        }
        if let Some(mesh) = program.tensor(id).mesh
            && !std::mem::replace(&mut meshes[mesh], true)
        {
            check_mesh(program, id, mesh, diags);
        }
        check_axes(program, id, &mut faults, diags);
    }
    check_input_names(program, referenced, diags);
    super::aliases::check_aliases(program, referenced, diags);
}

/// V1: the tensors of one number in one scope have one type.
fn report_difference(program: &Program, first: TensorId, second: TensorId, diags: &mut Diags) {
    let name = program.quoted_tensor(second);
    let what = describe_difference(program, first, second);
    if what.is_empty() {
        return;
    }
    let mut diag = Diag::error(
        codes::DECLARATIONS_DIFFER,
        tensor_span(program, second),
        message!("`{}` is declared twice with different types: {}", name, what),
    );
    diag = diag.with_primary_text("declared again here").with_label(tensor_span(program, first), "first declared here");
    diags.push(diag.with_note(message!(
        "a number denotes one tensor: repeat the same text, write `{}` alone, or renumber one of them",
        name
    )));
}

/// Describes the difference between two declarations.
fn describe_difference(program: &Program, first: TensorId, second: TensorId) -> Message {
    let (a, b): (&Tensor, &Tensor) = (program.tensor(first), program.tensor(second));
    let mut parts: Vec<Message> = Vec::new();
    if a.dtype != b.dtype {
        parts.push(message!("the element types are `{}` and `{}`", quoted_type(a.dtype), quoted_type(b.dtype)));
    }
    if a.memory != b.memory {
        parts.push(message!("the memories are `{}` and `{}`", a.memory.name(), b.memory.name()));
    }
    let (x, y) = (program.domains(first), program.domains(second));
    if x.len() != y.len() {
        let [first, second] = [x, y].map(|domains| count_text(domains.len(), "axis"));
        parts.push(message!("{} and {}", first, second));
    } else if let Some(k) = (0..x.len()).find(|&k| x[k] != y[k]) {
        let (first, second) = (quoted_axis(program, &x[k]), quoted_axis(program, &y[k]));
        parts.push(message!("axis {} is `{}` and `{}`", k, first, second));
    }
    if a.axes != b.axes {
        parts.push("the order of the axes differs".into());
    }
    if a.mesh != b.mesh {
        parts.push(message!("the meshes are `{}` and `{}`", program.quoted_mesh(a.mesh), program.quoted_mesh(b.mesh)));
    }
    if a.name != b.name {
        let [first, second] = [first, second].map(|tensor| program.quoted_tensor(tensor));
        parts.push(message!("the names are `{}` and `{}`", first, second));
    }
    if a.logical != b.logical {
        let [first, second] = [a, b].map(|tensor| logical_text(program, tensor));
        parts.push(message!("{} and {}", first, second));
    }
    Message::join(&parts, "; ")
}

fn logical_text(program: &Program, tensor: &Tensor) -> Message {
    match &tensor.logical {
        None => "no `logical=`".into(),
        Some(extents) => {
            let extents: Vec<Message> = extents.iter().map(|&extent| quoted_expr(program, extent).into()).collect();
            message!("`logical={{{}}}`", Message::join(&extents, ", "))
        }
    }
}

/// V3: a mesh has devices, each once.
fn check_mesh(program: &Program, tensor: TensorId, id: MeshId, diags: &mut Diags) {
    let mesh = program.mesh(id);
    let span = tensor_span(program, tensor);
    if mesh.devices.is_empty() {
        diags.push(
            Diag::error(codes::BAD_MESH, span, "the mesh has no devices")
                .with_note("a tensor without a mesh is placed on every rank"),
        );
        return;
    }
    if let Some(twice) = smallest_duplicate(&mesh.devices) {
        let text = program.quoted_mesh(Some(id));
        diags.push(
            Diag::error(codes::BAD_MESH, span, message!("device {} occurs twice in `{}`", twice, text))
                .with_note("list each device of a mesh once"),
        );
    }
}

/// V4 to V8: the axes of a tensor and its mesh.
fn check_axes(program: &Program, id: TensorId, faults: &mut MeshFaults, diags: &mut Diags) {
    let domains = program.domains(id);
    if domains.len() > MAX_AXES {
        let message =
            message!("`{}` has {} axes, but the limit is {}", program.quoted_tensor(id), domains.len(), MAX_AXES);
        diags.push(Diag::error(codes::TOO_MANY_AXES, tensor_span(program, id), message));
    }
    check_numbers(program, id, diags);
    let mut used = 0u32;
    for domain in domains {
        let distributed = domain.parallel.is_device() || domain.parallel == ParallelType::Stream;
        if !distributed || domain.is_reduction() {
            continue;
        }
        let bit = 1 << (domain.parallel as u32);
        if used & bit != 0 {
            report_shared_device_axis(program, id, domain.parallel, diags);
        }
        used |= bit;
        if domain.parallel.is_device() {
            check_device_axis(program, id, domain, faults, diags);
        }
    }
}

/// V58: the axes of a tensor of the printed form have numbers of their own.
fn check_numbers(program: &Program, id: TensorId, diags: &mut Diags) {
    if program.is_hir2() {
        return;
    }
    let domains = program.domains(id);
    let twice = domains.iter().enumerate().find_map(|(at, domain)| {
        let earlier = domains[..at].iter().find(|other| domain.number.is_some() && other.number == domain.number)?;
        Some((earlier, domain))
    });
    if let Some((first, second)) = twice {
        let message = message!(
            "the axes `{}` and `{}` of `{}` have one number",
            quoted_axis(program, first),
            quoted_axis(program, second),
            program.quoted_tensor(id)
        );
        let note = "give each axis a number of its own: a number names one axis";
        diags.push(Diag::error(codes::AXIS_NUMBER, tensor_span(program, id), message).with_note(note));
    }
}

fn report_shared_device_axis(program: &Program, id: TensorId, parallel: ParallelType, diags: &mut Diags) {
    let name = program.quoted_tensor(id);
    let message =
        message!("two axes of `{}` are sharded over `{}`, but only one may be", name, quoted_parallel_type(parallel));
    diags.push(Diag::error(codes::AXES_SHARE_DEVICES, tensor_span(program, id), message).with_note(Message::advice(
        "write `S` for one of them, or shard it over another axis of the mesh",
        "store one of them whole on every rank, or shard it over another axis of the mesh",
    )));
}

fn check_device_axis(program: &Program, id: TensorId, domain: &IterDomain, faults: &mut MeshFaults, diags: &mut Diags) {
    let inside = domain.parallel.mesh_axis_from_inside().unwrap_or(0);
    let constant = program.exprs().as_int(domain.extent).map(u32::try_from);
    if let Some(mesh) = program.tensor_mesh(id)
        && inside < mesh.shape.len()
        && constant.is_none_or(|extent| extent.ok() == mesh.axis_extent(domain.parallel))
    {
        return;
    }
    let (name, axis, span) = (program.quoted_tensor(id), quoted_axis(program, domain), tensor_span(program, id));
    let constant = program.exprs().as_int(domain.extent);
    let fault = MeshFault { mesh: program.tensor(id).mesh, parallel: domain.parallel, extent: constant };
    // In the printed form each tensor names its mesh itself.
    if (fault.mesh.is_some() || program.is_hir2()) && faults.is_known(fault, &axis, &name, span, diags) {
        return;
    }
    let Some(mesh) = program.tensor_mesh(id) else {
        diags.push(
            Diag::error(
                codes::NO_MESH,
                span,
                message!("`{}` of `{}` is sharded over devices, but the tensor has no mesh", axis, name),
            )
            .with_note("give the program a mesh: `on d` at the end of its head, or in the printed form `(DeviceMesh{0 1})` after the axes"),
        );
        return;
    };
    if inside >= mesh.shape.len() {
        let rank = count_text(mesh.shape.len(), "axis");
        let parallel = quoted_parallel_type(domain.parallel);
        let message =
            message!("`{}` of `{}` needs a mesh axis for `{}`, but its mesh has {}", axis, name, parallel, rank);
        let note = match mesh.shape.len() {
            1 => message!(
                "this mesh has one axis, `{}`: write `{}`",
                quoted_parallel_type(ParallelType::DIDx),
                quoted_axis(program, &IterDomain { parallel: ParallelType::DIDx, ..*domain })
            ),
            _ => message!(
                "`{}` is the last axis of the mesh, `{}` the second to last",
                quoted_parallel_type(ParallelType::DIDx),
                quoted_parallel_type(ParallelType::DIDy)
            ),
        };
        diags.push(Diag::error(codes::MESH_RANK, span, message).with_note(note));
        return;
    }
    check_extent(program, domain, mesh, &NamedAxis { tensor: name, axis, span }, diags);
}

/// An error of an axis and its mesh.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct MeshFault {
    mesh: Option<MeshId>,
    parallel: ParallelType,
    extent: Option<i64>,
}

/// The faults that were reported: a mesh that does not fit has one error, which shows some of its tensors.
#[derive(Default)]
struct MeshFaults {
    /// For each, the number of its error.
    reported: FxHashMap<MeshFault, usize>,
}

/// The maximum number of further tensors that an error about a mesh shows.
const MOST_SHOWN: usize = 3;

impl MeshFaults {
    /// Returns true if a fault was reported; its error then shows this axis, too.
    fn is_known(&mut self, fault: MeshFault, axis: &Quoted, name: &Quoted, span: Span, diags: &mut Diags) -> bool {
        let Some(&at) = self.reported.get(&fault) else {
            self.reported.insert(fault, diags.items.len());
            return false;
        };
        if let Some(diag) = diags.items.get_mut(at).filter(|diag| diag.labels.len() < MOST_SHOWN) {
            diag.labels.push(DiagLabel { span, text: message!("likewise `{}` of `{}`", axis, name) });
        }
        true
    }
}

/// An axis for the messages about it.
struct NamedAxis {
    /// The name of its tensor.
    tensor: Quoted,
    /// Its text.
    axis: Quoted,
    /// The place of the tensor's declaration.
    span: Span,
}

fn check_extent(program: &Program, domain: &IterDomain, mesh: &DeviceMesh, named: &NamedAxis, diags: &mut Diags) {
    let NamedAxis { tensor: name, axis, span } = named;
    let (Some(found), Some(need)) = (program.exprs().as_int(domain.extent), mesh.axis_extent(domain.parallel)) else {
        return;
    };
    if found != i64::from(need) {
        let message = message!(
            "`{}` of `{}` has extent {}, but its mesh has {} devices along that axis",
            axis,
            name,
            found,
            need
        );
        let sizes = &program.given_names().sized.sizes;
        let size = sizes.iter().find(|size| size.value == i64::from(need)).map(|size| program.name(size.name));
        let note = message!(
            "the extent of a device axis counts all devices: write {}, or change the mesh",
            size.map_or_else(|| need.to_string(), |name| format!("`{name}`"))
        );
        let diag = Diag::error(codes::DEVICE_EXTENT, *span, message).with_note(note);
        diags.push(match mesh_of_devices(program, mesh, found) {
            Some(note) => diag.with_note(note),
            None => diag,
        });
    }
}

/// The mesh that may be meant, if the axis has one device more: the end of a range is not in it.
fn mesh_of_devices(program: &Program, mesh: &DeviceMesh, meant: i64) -> Option<Message> {
    let first = *mesh.devices.first()?;
    let count = i64::try_from(mesh.devices.len()).ok()?;
    let is_range = mesh.shape.len() == 1 && mesh.devices.iter().copied().eq(first..first + mesh.devices.len() as u32);
    (is_range && meant == count + 1 && program.is_hir2()).then(|| {
        let end = i64::from(first) + meant;
        message!("a range of devices ends before its end: {} devices are `{}..{}`", meant, first, end)
    })
}

/// V2: inputs have different names.
fn check_input_names(program: &Program, referenced: &ReferencedTensors, diags: &mut Diags) {
    let mut tensors = IdVec::filled(None, program.tensors().len());
    let mut scalars = FxHashMap::default();
    for (k, &value) in program.inputs().iter().enumerate() {
        let (before, name, span) = match value {
            Value::Tensor(tensor) => {
                let before = tensors[referenced.first[tensor]].replace(k);
                (before, program.tensor_name(tensor), tensor_span(program, tensor))
            }
            Value::Scalar(expr) => (scalars.insert(expr, k), expr_text(program, expr), program.source().header),
            Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => continue,
        };
        if let Some(before) = before {
            let message = message!("inputs {} and {} are both named `{}`", before, k, name);
            diags.push(Diag::error(codes::DUPLICATE_INPUT, span, message).with_note("rename one of them"));
        }
    }
}
