//! resize-mesh: adapts a program to another number of devices.
//!
//! [`uses`] lists the scalars of the program with the loops around them, [`classes`] finds the axes and loops that
//! count devices, [`extents`] computes every new extent, [`scalars`] every new scalar, and this file checks meshes and
//! teams and rewrites the program.

mod classes;
mod extents;
mod scalars;
mod sizes;
mod uses;
mod views;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use classes::AxisClasses;
use extents::ExtentChange;
use hostir::analysis::is_resharding;
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Span};
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::sub_expressions;
use hostir::ir::{
    AttrKey, AttrValue, DeviceMesh, Expr, ExprId, OpEffect, OpId, Program, TEAM_CUT, Tensor, TensorId, quoted_op,
    quoted_team,
};
use uses::{DeviceCounts, ReachableItems, ScalarUse};

/// resize-mesh: a program whose tensors are not all on a single one-dimensional mesh.
const RESIZE_MESHES: &str = "H0382";
/// resize-mesh: a team that does not consist of all devices.
const RESIZE_TEAM: &str = "H0383";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "resize-mesh",
    summary: "Change the number of devices of a program",
    description: "\
Takes unlowered and lowered programs whose tensors are all on one row of devices 0, 1, ..., D-1, and adapts
them to `devices` devices. It changes

- meshes, and the teams of communications;
- the extents of device axes, and of all axes and loops that ops tie to them: by their axes, by a slice that
  `rank` picks, by a peer or root that is the loop's index;
- constants that mean D: `( rank + StreamIdx ) % 4`, `ceilDiv(i0, 4)` beside a device axis, `size=` of an
  ALLOCATE, the ranges of a slice that takes a whole axis;
- extents that a view makes of device axes: with 2 devices `[ideviceIdx.x{4}, iS{8}]` of an input, seen as
  `[iS{32}]`, becomes 16 long, and `[iS{32}]` of an input, seen as `[ideviceIdx.x{4}, iS{8}]`, keeps its 32,
  16 for each device. Other extents of inputs stay as they are.

Resizing before lowering gives the same program as resizing after it, unless the old or new number of devices
is one: then lowering may choose other communications, and a lowered program is rejected.

Ambiguous programs are errors that name the place: several meshes, meshes with two axes or devices in another
order, teams that are a part of the mesh, a constant that may or may not mean D (`Stream ( StreamIdx % 4 )`;
`rank == 3`, which may be the last device or the fourth), an op that needs parts of an axis that changes
(`pad`, `cat`, `slice`). If D is 1 or 2 more programs are ambiguous, because a 1 may mean D or D - 1.

The example is `resize-mesh{devices=2}`.",
    example: Some(PassExample { options: "{devices=2}", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "devices",
        ty: OptionType::Int { min: 1, max: 65_536 },
        default: None,
        help: "The new number of devices",
    }],
    statistics: &[
        StatisticSpec { name: "meshes-resized", help: "tensors with a changed mesh" },
        StatisticSpec { name: "extents-changed", help: "extents changed with the number of devices" },
        StatisticSpec { name: "constants-changed", help: "scalars of ops changed with it" },
    ],
    action: PassAction::Rewrite(run_resize_mesh),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS1{i1}] (DeviceMesh{0 1 2 3})) -> (T1_g_float[iS2{4}, iS3{i1}] (DeviceMesh{0 1 2 3})) :
  T1_g_float[iS2{4}, iS3{i1}] (DeviceMesh{0 1 2 3}) = ALLOCATE(buffer=T1, mem_type=global, size=( i1 * 4 ), zero_init=false, resets_to_zero=false)
  Communication 0 (type=Allgather, team=(0 1 2 3), input=T0, output=T1, backend=NCCL)
  Wait Communication 0
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1, mem_type=global, size=( i1 * 2 ), zero_init=false, resets_to_zero=false)
  Communication 0 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 0
} // %HostIrContainer
";

fn run_resize_mesh(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let walked = ReachableItems::new(edit.program());
    let new = cx.options().int_value("devices");
    let Some(old) = device_count(edit.program(), &walked)? else { return Ok(()) };
    if new == old {
        return Ok(());
    }
    refuse_coordinates(edit.program(), &walked)?;
    refuse_computed_teams(edit.program(), &walked)?;
    refuse_parts(edit.program(), &walked)?;
    if old == 1 {
        refuse_lowered(edit.program(), &walked)?;
    }
    let devices = DeviceCounts { old, new };
    let classes = AxisClasses::new(edit.program(), &walked, devices);
    let sizes = extents::solve(edit.program(), &walked, &classes, devices)?;
    let change = extents::collect_changes(edit, &walked, &sizes)?;
    let scalars = scalars::rewrite_scalars(edit, &walked, &classes, devices)?;
    cx.add_count("constants-changed", scalars.len() as u64);
    apply_scalars(edit, scalars);
    cx.add_count("extents-changed", change.len() as u64);
    apply_extents(edit, &walked, &change);
    cx.add_count("meshes-resized", apply_meshes(edit, &walked, devices));
    if old == 1 { refuse_moving(edit.program(), &walked) } else { Ok(()) }
}

/// The number of devices of the program; `None` if it names none.
fn device_count(program: &Program, walked: &ReachableItems) -> Result<Option<i64>, Diags> {
    let mut diags = Diags::default();
    let mut first: Option<(TensorId, i64)> = None;
    for &tensor in &walked.tensors {
        let Some(mesh) = program.tensor_mesh(tensor) else { continue };
        let span = program.tensor_span(tensor);
        if !counts_from_zero(&mesh.devices) || mesh.shape.len() > 1 {
            diags.push(non_row_mesh_error(program, tensor, span));
            return Err(diags);
        }
        let count = mesh.devices.len() as i64;
        match first {
            Some((other, known)) if known != count => {
                let (a, b) = (program.quoted_tensor(other), program.quoted_tensor(tensor));
                let message = message!("{} is on {} devices, but {} on {}", a, known, b, count);
                let note = "only programs with a single mesh can be resized";
                let diag = Diag::error(RESIZE_MESHES, span, message).with_note(note);
                diags.push(diag.with_label(program.tensor_span(other), message!("{} devices", known)));
                return Err(diags);
            }
            Some(_) => {}
            None => first = Some((tensor, count)),
        }
    }
    let mut count = first.map(|(_, count)| count);
    for &id in &walked.ops {
        let Some(team) = program.op(id).ints_attr(AttrKey::Team) else { continue };
        let known = *count.get_or_insert(team.len() as i64);
        if team.len() as i64 != known || !team.iter().zip(0..).all(|(&device, k)| device == k) {
            diags.push(partial_team_error(program, id, team, known));
        }
    }
    diags.or_value(count)
}

/// Refuses an axis with a part on each device: it is printed as two domains, and both would change.
fn refuse_parts(program: &Program, walked: &ReachableItems) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for &tensor in &walked.tensors {
        if logical_axes(program, tensor).axes.iter().all(|axis| axis.parts.is_none()) {
            continue;
        }
        let name = program.quoted_tensor(tensor);
        let message =
            message!("each device has a part of an axis of {}, and the length of a part depends on their number", name);
        let note = message!("give {} a separate axis for the devices: `[ideviceIdx.x0{{4}}, iS1{{i0}}]`", name);
        diags.push(Diag::error(RESIZE_MESHES, program.tensor_span(tensor), message).with_note(note));
    }
    diags.or_value(())
}

/// Refuses the coordinates of another mesh, which may or may not be those of the resized one.
fn refuse_coordinates(program: &Program, walked: &ReachableItems) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for one in &walked.uses {
        let Some(text) = mesh_coordinate_in(program, one.expr) else { continue };
        let message = message!("`{}` is a coordinate in a mesh, whose counterpart on other devices is unknown", text);
        let note = "write `rank` or a loop's index: on devices 0, 1, 2, ... they are the coordinate";
        diags.push(Diag::error(RESIZE_MESHES, program.op_span(one.op), message).with_note(note));
    }
    diags.or_value(())
}

/// Refuses teams whose members are computed, for the devices that the program has.
fn refuse_computed_teams(program: &Program, walked: &ReachableItems) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for &id in walked.ops.iter().filter(|&&id| program.computed_team(program.op(id)).is_some()) {
        let message = "the members of this team are computed, and their counterparts on other devices are unknown";
        let note =
            "give the mesh by a size, `mesh d = 0..p`, and compute the members from that size: then no pass is needed";
        diags.push(Diag::error(RESIZE_TEAM, program.op_span(id), message).with_note(note));
    }
    diags.or_value(())
}

/// The name of the first coordinate of a mesh in an expression.
fn mesh_coordinate_in(program: &Program, expr: ExprId) -> Option<String> {
    match program.expr(expr) {
        Expr::MeshCoordinate(mesh, coordinate) => Some(program.mesh_coordinate_name(*mesh, *coordinate)),
        other => sub_expressions(other).into_iter().find_map(|part| mesh_coordinate_in(program, part)),
    }
}

/// Refuses a lowered program on one device: every communication is a copy there, and lowering takes any kind for any
/// op.
fn refuse_lowered(program: &Program, walked: &ReachableItems) -> Result<(), Diags> {
    let Some(&id) = walked.ops.iter().find(|id| {
        let op = program.op(**id);
        op.kind.is_communication() && !op.operands.is_empty()
    }) else {
        return Ok(());
    };
    let message = "the effect of this communication of one device on several devices is unknown";
    let note = "resize the program before lowering it";
    let mut diags = Diags::default();
    diags.push(Diag::error(RESIZE_TEAM, program.op_span(id), message).with_note(note));
    Err(diags)
}

/// Refuses a lowered program with ops that would move data between several devices; with one device they do not.
fn refuse_moving(program: &Program, walked: &ReachableItems) -> Result<(), Diags> {
    let mut ops = walked.ops.iter();
    let Some(&mark) =
        ops.find(|id| matches!(program.op(**id).kind.effect(), OpEffect::Communicate(_) | OpEffect::Control(_)))
    else {
        return Ok(());
    };
    let mut ops = walked.ops.iter().copied();
    let Some(id) = ops.find(|&id| program.op(id).blocks.is_empty() && is_resharding(program, id)) else {
        return Ok(());
    };
    let (name, what) = (quoted_op(program, id), quoted_op(program, mark));
    let message = message!("on several devices, this `{}` would move data between them", name);
    let label = message!("`{}` occurs only in lowered programs", what);
    let mut diags = Diags::default();
    diags.push(
        Diag::error(RESIZE_TEAM, program.op_span(id), message)
            .with_label(program.op_span(mark), label)
            .with_note("resize the program before lowering it"),
    );
    Err(diags)
}

fn counts_from_zero(devices: &[u32]) -> bool {
    devices.iter().zip(0..).all(|(&device, k)| device == k)
}

fn non_row_mesh_error(program: &Program, tensor: TensorId, span: Span) -> Diag {
    let mesh = program.mesh_name(program.tensor(tensor).mesh);
    let name = program.quoted_tensor(tensor);
    let message = message!("{} is on {}, which is not of the form 0, 1, 2, ...", name, mesh);
    let note = "only programs on a single one-dimensional mesh that starts at device 0 can be resized";
    Diag::error(RESIZE_MESHES, span, message).with_note(note)
}

fn partial_team_error(program: &Program, id: OpId, team: &[i64], known: i64) -> Diag {
    let span = program.op_span(id);
    let message = match team.last() {
        Some(&TEAM_CUT) => "the team is truncated, as nvFuser prints long teams".into(),
        _ => message!(
            "the team {} does not consist of the {} devices of the program, from 0 on in order",
            quoted_team(team),
            known
        ),
    };
    let note = "write the whole team, in order: the counterpart of a part of the mesh is unknown";
    Diag::error(RESIZE_TEAM, span, message).with_note(note)
}

/// Puts new scalars into ops.
fn apply_scalars(edit: &mut Edit<'_>, scalars: Vec<(ScalarUse, hostir::ir::ExprId)>) {
    for (place, expr) in scalars {
        let mut op = edit.program().op(place.op).clone();
        place.put_expr(&mut op, expr);
        edit.set_op(place.op, op);
    }
}

/// Puts new extents into domains, `logical=` lists and attributes, and recomputes the sizes of allocations.
fn apply_extents(edit: &mut Edit<'_>, walked: &ReachableItems, change: &[ExtentChange]) {
    let mut changed = vec![false; edit.program().tensors().len()];
    for one in change {
        match *one {
            ExtentChange::Domain { tensor, domain, extent } => {
                let new = hostir::ir::IterDomain { extent, ..*edit.program().domain(domain) };
                edit.set_domain(domain, new);
                if let Some(tensor) = tensor {
                    changed[tensor.0 as usize] = true;
                }
            }
            ExtentChange::Logical { tensor, axis, extent } => {
                let mut new = edit.program().tensor(tensor).clone();
                if let Some(slot) = new.logical.as_mut().and_then(|l| l.get_mut(axis as usize)) {
                    *slot = extent;
                }
                edit.set_tensor(tensor, new);
                changed[tensor.0 as usize] = true;
            }
            ExtentChange::Attr { op, key, ref value } => {
                let mut new = edit.program().op(op).clone();
                new.set_attr(key, value);
                edit.set_op(op, new);
            }
        }
    }
    let mut build = OpBuilder::new(edit);
    for &id in &walked.ops {
        let op = build.program().op(id);
        // The size of an ALLOCATE is computed; `size` of an iota is an operand.
        let tensor = op.output_tensors().next().filter(|_| op.kind.is_allocation());
        let Some(tensor) = tensor.filter(|tensor| changed[tensor.0 as usize]) else { continue };
        let mut new = op.clone();
        let size = build.element_count_expr(tensor);
        new.set_attr(AttrKey::Size, &AttrValue::Expr(size));
        build.edit.set_op(id, new);
    }
}

/// Gives all tensors the new mesh, and all communications the new team.
fn apply_meshes(edit: &mut Edit<'_>, walked: &ReachableItems, devices: DeviceCounts) -> u64 {
    let row: Vec<u32> = (0..devices.new as u32).collect();
    let team = AttrValue::Ints((0..devices.new).collect());
    let mesh = edit.intern_mesh(DeviceMesh { shape: vec![devices.new as u32], devices: row });
    let mut count = 0;
    // Tensors of earlier passes, too: they share names of extents with the others.
    for tensor in edit.program().tensors().ids() {
        let lies = edit.program().tensor_mesh(tensor).map(|mesh| mesh.devices.len() as i64);
        if lies == Some(devices.old) {
            let new = Tensor { mesh: Some(mesh), ..edit.program().tensor(tensor).clone() };
            edit.set_tensor(tensor, new);
            count += u64::from(walked.tensors.binary_search(&tensor).is_ok());
        }
    }
    for &id in &walked.ops {
        if edit.program().op(id).ints_attr(AttrKey::Team).is_none() {
            continue;
        }
        let mut op = edit.program().op(id).clone();
        op.set_attr(AttrKey::Team, &team);
        edit.set_op(id, op);
    }
    count
}
