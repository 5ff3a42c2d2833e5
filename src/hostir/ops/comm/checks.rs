//! V40 to V45: communications: teams, roots, peers, reduce operations.

use super::links::{has_root, is_reducing_kind};
use super::root_advice::with_team_of_root;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes};
use crate::ir::places::{smallest_duplicate, with_declaration};
use crate::ir::scalar_names::loop_index;
use crate::ir::{
    AttrKey, CommBackend, OpId, Program, RankScalars, RootAs, TEAM_CUT, TensorId, bare_head, branch_condition,
    enclosing_ops, quoted_argument, quoted_team, quoted_word,
};

/// Communication: team, root, reduce operation.
pub(crate) fn check_communication(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let kind = op.word_attr(AttrKey::Type).map_or("", |word| program.name(word));
    let members = check_team(program, id, diags);
    if let Some(members) = &members {
        let (input, output) = (op.input_tensors().next(), op.output_tensors().next());
        let (senders, receivers) = match kind {
            "Gather" | "Reduce" => (true, false),
            "Broadcast" | "Scatter" => (false, true),
            "SendRecv" => (false, false),
            _ => (true, true),
        };
        check_members(program, id, members, diags);
        if let Some(tensor) = input.filter(|&tensor| senders && has_one_mesh_axis(program, tensor)) {
            check_in_team(program, id, tensor, "input", members, diags);
        }
        if let Some(tensor) = output.filter(|&tensor| receivers && has_one_mesh_axis(program, tensor)) {
            check_in_team(program, id, tensor, "output", members, diags);
        }
        if kind == "SendRecv" && members.len() > 2 {
            let message = message!(
                "a {} needs a team of 1 or 2 devices, but its team has {}",
                bare_head("SendRecv"),
                members.len()
            );
            diags.push(Diag::error(codes::TEAM_SIZE, program.op_span(id), message));
        }
    }
    check_root(program, id, kind, members.as_deref(), diags);
    if !kind.is_empty() && !is_reducing_kind(kind) && op.attr(AttrKey::RedOp).is_some() {
        let message = message!(
            "`{}` is given for a communication of type {}, which does not reduce",
            quoted_word("red_op"),
            bare_head(kind)
        );
        let note = message!(
            "only {}, {} and {} accept a reduce operation; remove it",
            bare_head("Reduce"),
            bare_head("Allreduce"),
            bare_head("ReduceScatter")
        );
        diags.push(Diag::error(codes::RED_OP, program.op_span(id), message).with_note(note));
    }
}

fn has_one_mesh_axis(program: &Program, tensor: TensorId) -> bool {
    program.tensor_mesh(tensor).is_some_and(|mesh| mesh.shape.len() == 1)
}

/// A communication has a team, or teams along an axis of a mesh.
fn check_team_axis(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let found = match (op.attr(AttrKey::Team), op.expr_attr(AttrKey::Over)) {
        (Some(_), None) => return,
        (None, Some(_)) if program.team_axis(op).is_some() => return,
        (Some(_), Some(_)) => "`team=` and `over=` are both given",
        (None, Some(_)) => "`over=` is no axis of a mesh",
        (None, None) => "the team is not given",
    };
    let note = message!(
        "`team=` lists the ranks of one team; `over=` names an axis of a mesh, such as `{}`: each line of ranks along it is a team",
        Quoted::spelled(PartKind::Word, "DeviceMesh{0 1}.x", "d.x")
    );
    diags.push(Diag::error(codes::TEAM_AXIS, program.op_span(id), found).with_note(note));
}

/// V40: the team has devices, each once. `None` if it has none, or nvFuser cut its list off.
fn check_team(program: &Program, id: OpId, diags: &mut Diags) -> Option<Vec<i64>> {
    check_team_axis(program, id, diags);
    let members = program.op(id).ints_attr(AttrKey::Team)?;
    let span = program.op_span(id);
    if members.last() == Some(&TEAM_CUT) {
        return None;
    }
    if members.is_empty() {
        let note = "list the participating devices, for example `team=(0 1)`";
        diags.push(Diag::error(codes::BAD_TEAM, span, "the team is empty").with_note(note));
        return None;
    }
    if let Some(negative) = members.iter().find(|device| **device < 0) {
        let message = format!("the team contains the negative device {negative}");
        diags.push(Diag::error(codes::BAD_TEAM, span, message).with_note("devices are numbered from 0"));
    }
    if let Some(twice) = smallest_duplicate(members) {
        diags.push(
            Diag::error(codes::BAD_TEAM, span, format!("device {twice} occurs twice in the team"))
                .with_note("list each device of a team once"),
        );
        return None;
    }
    Some(members.to_vec())
}

/// Checks that the members of a team are devices of meshes, if all tensors of the communication have a mesh.
fn check_members(program: &Program, id: OpId, team: &[i64], diags: &mut Diags) {
    if program.op(id).all_tensors().any(|tensor| program.tensor_mesh(tensor).is_none()) {
        return;
    }
    let devices = program.meshes().iter().flat_map(|(_, mesh)| mesh.devices.iter().copied());
    let Some(last) = devices.max().map(i64::from) else { return };
    if let Some(member) = team.iter().find(|&&member| member > last) {
        let message = message!("device {} of the team is in no mesh", member);
        let note =
            message!("the devices of the meshes go up to {}: name one of them, or add {} to a mesh", last, member);
        diags.push(Diag::error(codes::BAD_TEAM, program.op_span(id), message).with_note(note));
    }
}

/// Returns true if a statement is in a branch that only some ranks take.
fn is_chosen_by_rank(program: &Program, id: OpId) -> bool {
    let scalars = RankScalars::new(program);
    let around = enclosing_ops(program, id).into_iter();
    around
        .filter_map(|around| branch_condition(program, around))
        .any(|condition| scalars.is_dependent(program, condition))
}

/// V41: the devices of a mesh are in the team, unless a branch chooses the ranks.
fn check_in_team(program: &Program, id: OpId, tensor: TensorId, side: &str, team: &[i64], diags: &mut Diags) {
    let Some(mesh) = program.tensor_mesh(tensor) else { return };
    if mesh.devices.iter().map(|&device| i64::from(device)).eq(team.iter().copied()) {
        return;
    }
    let mut sorted = team.to_vec();
    sorted.sort_unstable();
    let mut devices = mesh.devices.iter();
    if let Some(device) = devices.find(|&&device| sorted.binary_search(&i64::from(device)).is_err())
        && !is_chosen_by_rank(program, id)
    {
        let name = program.quoted_tensor(tensor);
        let mesh = program.quoted_mesh(program.tensor(tensor).mesh);
        let message = message!("device {} of the {}'s mesh is not in the team", device, side);
        let diag = Diag::error(codes::TEAM_MESH, program.op_span(id), message)
            .with_primary_text(message!("`{}` is placed on `{}`", name, mesh))
            .with_note(message!("add {} to `team=`, or remove it from the mesh of `{}`", device, name));
        diags.push(with_declaration(diag, program, tensor, id));
    }
}

/// `a Gather`, `an Allgather`.
fn with_article(kind: &str) -> Message {
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'U']);
    message!("{} {}", if vowel { "an" } else { "a" }, bare_head(kind))
}

/// V42: a root exactly where the type has one, and in the team. Roots are ranks or positions
/// ([`RootAs`]).
fn check_root(program: &Program, id: OpId, kind: &str, team: Option<&[i64]>, diags: &mut Diags) {
    let span = program.op_span(id);
    let root = program.op(id).expr_attr(AttrKey::Root);
    match root {
        None if has_root(kind) => {
            let note = "add `root=` with the device that sends or receives the whole tensor";
            diags.push(Diag::error(codes::ROOT, span, message!("{} needs a root", with_article(kind))).with_note(note));
        }
        Some(_) if !kind.is_empty() && !has_root(kind) => {
            let message = message!("{} does not accept a root", with_article(kind));
            diags.push(Diag::error(codes::ROOT, span, message).with_note("remove `root=`"));
        }
        None if program.op(id).attr(AttrKey::RootAs).is_some() => {
            let message = "`root_as=` is given without `root=`";
            diags.push(Diag::error(codes::ROOT, span, message).with_note("remove `root_as=`"));
        }
        _ => {}
    }
    let (Some(root), Some(team)) = (root.and_then(|root| program.exprs().as_int(root)), team) else {
        return;
    };
    let counted = program.root_as(program.op(id));
    let inside = match counted {
        RootAs::Position => (0..team.len() as i64).contains(&root),
        RootAs::Rank => team.contains(&root),
    };
    if has_root(kind) && !inside {
        let list = quoted_team(team);
        let (message, note) = match counted {
            RootAs::Position if team.contains(&root) => (
                message!("root {} is past the end of a team of {}", root, team.len()),
                message!("a root is a position in the team {} here; write `root_as=rank` to name rank {}", list, root),
            ),
            RootAs::Position => (
                message!("root {} is past the end of a team of {}", root, team.len()),
                message!("the team is {}", list),
            ),
            RootAs::Rank => (message!("root {} is not in the team", root), message!("the team is {}", list)),
        };
        let diag = Diag::error(codes::ROOT, span, message).with_note(note);
        diags.push(match counted {
            RootAs::Position => diag,
            RootAs::Rank => {
                let mut around = enclosing_ops(program, id).into_iter().map(|around| program.op(around.op));
                let index = around.find_map(|op| loop_index(program, op)).map(|index| program.name(index));
                with_team_of_root(program, program.op(id), root, team.len(), index, diag)
            }
        });
    }
}

/// Checks the protocol: only copies on the current stream have an initiator.
fn check_protocol(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let words = [AttrKey::Protocol, AttrKey::Backend].map(|key| op.word_attr(key).map(|word| program.name(word)));
    if let [Some(protocol), Some(backend)] = words
        && backend != "CUDA"
    {
        let message = message!(
            "`{}` has no effect with `{}`",
            quoted_argument("protocol", protocol),
            quoted_argument("backend", backend)
        );
        let note = message!(
            "remove it: only `{}` uses a protocol, which selects the side that copies",
            quoted_argument("backend", "CUDA")
        );
        let diag = Diag::error(codes::PROTOCOL, program.op_span(id), message).with_note(note);
        diags.push(diag.into_warning());
    }
}

/// Checks the communicator's name: a copy on the current stream has no communicator.
fn check_comm_name(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    if let Some(name) = program.comm_name(op)
        && program.comm_backend(op) == CommBackend::Cuda
    {
        let (comm, backend) = (quoted_argument("comm", name), quoted_argument("backend", "CUDA"));
        let message = message!("`{}` has no effect with `{}`", comm, backend);
        let note =
            "remove it: such a message is a copy on the current stream, so another stream is what runs beside it";
        let diag = Diag::error(codes::COMMUNICATOR_NAME, program.op_span(id), message).with_note(note);
        diags.push(diag.into_warning());
    }
}

/// V43: a constant peer is a device of some mesh.
pub(crate) fn check_p2p(program: &Program, id: OpId, diags: &mut Diags) {
    check_protocol(program, id, diags);
    check_comm_name(program, id, diags);
    let Some(peer) = program.op(id).expr_attr(AttrKey::Peer) else { return };
    let Some(peer) = program.exprs().as_int(peer) else { return };
    let devices = program.meshes().iter().flat_map(|(_, mesh)| mesh.devices.iter().copied());
    let last = devices.max().map(i64::from);
    if peer < 0 || last.is_some_and(|last| peer > last) {
        let message = format!("peer {peer} is not a device of any mesh");
        let diag = Diag::error(codes::PEER, program.op_span(id), message);
        diags.push(match last {
            Some(last) => diag.with_note(format!("the devices of the meshes go up to {last}")),
            None => diag.with_note("peers are numbered from 0"),
        });
    }
}

/// V44: the peers of a CollectivePermute are positions in its team.
pub(crate) fn check_collective_permute(program: &Program, id: OpId, diags: &mut Diags) {
    let Some(members) = check_team(program, id, diags) else { return };
    for key in [AttrKey::SendPeer, AttrKey::RecvPeer] {
        let Some(peer) = program.op(id).expr_attr(key).and_then(|peer| program.exprs().as_int(peer)) else {
            continue;
        };
        if !(0..members.len() as i64).contains(&peer) {
            let message = format!("`{}` {peer} is past the end of a team of {}", key.word(), members.len());
            let note = "the peers of a CollectivePermute are positions in its team";
            diags.push(Diag::error(codes::PEER, program.op_span(id), message).with_note(note));
        }
    }
}
