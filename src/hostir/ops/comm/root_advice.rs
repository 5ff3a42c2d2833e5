//! The repair of a collective whose root is in another team, or has no data.

use crate::diag::{Diag, Message, codes, message};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, MeshCoordinate, Op, Program, RootAs, TensorId, quoted_argument, short_expr_text};
use crate::plan::PlanBuilder;

/// Adds to the error about a root that is not in the team what its number means.
/// `step` is the index of the loop around it.
pub(super) fn with_team_of_root(
    program: &Program,
    op: &Op,
    root: i64,
    members: usize,
    step: Option<&str>,
    diag: Diag,
) -> Diag {
    if program.root_as(op) == RootAs::Position {
        return diag.with_note(message!("a position is from 0 to {}", members.saturating_sub(1)));
    }
    let position = quoted_argument("root_as", RootAs::Position.word());
    if let Some(over) = teams_text(program, op) {
        return diag.with_note(message!(
            "`{}` makes several teams, and rank {} is in one of them: with `{}` the root is counted from 0 in each team",
            quoted_argument("over", &over),
            root,
            position
        ));
    }
    match (0..members as i64).contains(&root) {
        true => diag.with_note(message!("write `{}` if the root is counted from 0 in the team", position)),
        false => diag.with_note(last_root_note(program, op, members, step)),
    }
}

/// The numbers that a root may have, for one that no rank has.
fn last_root_note(program: &Program, op: &Op, members: usize, step: Option<&str>) -> Message {
    let last = members.saturating_sub(1);
    let root = op.expr_attr(AttrKey::Root).map(|root| short_expr_text(program, root)).unwrap_or_default();
    let meant = step.map_or_else(String::new, |step| format!("; write `root={step}` for another one in each step"));
    Message::advice(
        format!("ranks count from 0: the last of {members} is {last}"),
        format!("ranks count from 0, so the last of {members} is {last}: `root={root}` names none of them{meant}"),
    )
}

/// The axis along which the teams of a communication are: `d.y`.
fn teams_text(program: &Program, op: &Op) -> Option<String> {
    let (mesh, axis) = program.team_axis(op)?;
    Some(program.mesh_coordinate_name(mesh, MeshCoordinate::Along(axis)))
}

/// The error for a root outside of the mesh of the tensor that it receives.
pub(super) fn root_outside_error(cx: &PlanBuilder<'_>, tensor: TensorId) -> Diag {
    let program = cx.program;
    let op = program.op(cx.current_op());
    let root = op.expr_attr(AttrKey::Root).map(|root| short_expr_text(program, root)).unwrap_or_default();
    let devices = program.tensor_mesh(tensor).map_or(&[][..], |mesh| &mesh.devices);
    let (name, mesh) = (program.quoted_tensor(tensor), program.quoted_mesh(program.tensor(tensor).mesh));
    let message = message!("`root={}` has no `{}`, which is on `{}`", root, name, mesh);
    let diag = with_declaration(
        Diag::error(codes::ROOT, program.op_span(cx.current_op()), message),
        program,
        tensor,
        cx.current_op(),
    );
    match devices {
        [only] => diag.with_note(message!("write `root={}`: that is the only rank of `{}`", only, mesh)),
        [first, .., last] => diag.with_note(message!("the ranks of `{}` are from {} to {}", mesh, first, last)),
        [] => diag,
    }
}

/// Adds to the error that a root has no input the condition under which the ranks of its team have it.
pub(super) fn with_root_condition(program: &Program, op: &Op, input: TensorId, diag: Diag) -> Diag {
    match root_condition(program, op, input) {
        Some(condition) => diag.with_note(message!(
            "only the team that has it may take part: put the communication in {}",
            Message::advice(format!("`IF {condition}`"), format!("a branch, `if {condition}:`"))
        )),
        None => diag,
    }
}

/// The coordinates that all ranks of a tensor have along the axes of the teams' mesh other than the teams' own:
/// `d.x == 0`.
fn root_condition(program: &Program, op: &Op, input: TensorId) -> Option<String> {
    let (mesh, axis) = program.team_axis(op)?;
    let (id, mesh, devices) = (mesh, program.mesh(mesh), &program.tensor_mesh(input)?.devices);
    let others = mesh.mesh_coordinates().filter(|(coordinate, _)| match coordinate {
        MeshCoordinate::Along(other) => *other != axis,
        MeshCoordinate::Size => false,
    });
    let mut terms = Vec::new();
    for (coordinate, _) in others {
        let mut values = devices.iter().map(|&device| mesh.coordinate_value(Some(device), coordinate));
        let value = values.next()??;
        if values.all(|other| other == Some(value)) {
            terms.push(format!("{} == {value}", program.mesh_coordinate_name(id, coordinate)));
        }
    }
    (!terms.is_empty()).then(|| terms.join(" && "))
}
