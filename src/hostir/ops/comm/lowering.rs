//! Lowering of communications and groups.

use super::half_lowered_advice;
use super::handles::{register_post, register_work};
use super::root_advice::{root_outside_error, with_root_condition, with_team_of_root};
use crate::diag::message;
use crate::diag::{Applicability, Diag, Fix, Message, PartKind, Quoted, Span, codes, nearest_candidate};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, CommBackend, DType, Expr, ExprId, MeshCoordinate, MeshId, MessageDirection, MessageProtocol, Op, OpId,
    Program, RankScalars, RootAs, TensorId, bare_head, coalescing_group, depends_on_scalar, quoted_argument,
    quoted_bare_expr, quoted_head, quoted_type, short_expr_text, sub_expressions,
};
use crate::ops::expected_types::{declared_type_text, result_advice};
use crate::plan::{
    BufferView, CollectiveInst, CollectiveKind, CommSlot, HandlePost, InstKind, MemberSeat, MessageHeader, PlanBuilder,
    RedOp, WholeTensor, emit_copy, row_major,
};

/// This rank; communications need single ranks.
pub(super) fn require_rank(cx: &PlanBuilder<'_>) -> Result<u32, Diag> {
    cx.rank.ok_or_else(|| {
        cx.error_here(codes::HALF_LOWERED, "the program mixes communications with resharding ops that are not lowered")
            .with_note(half_lowered_advice())
    })
}

/// The communicator of all ranks with this name.
fn world_communicator(cx: &mut PlanBuilder<'_>, backend: CommBackend, name: Option<&str>) -> CommSlot {
    cx.communicator_slot((0..cx.env.ranks).collect(), backend, name)
}

/// The communicator of a message; `None` for one on a stream. The messages of a group are of one communicator.
fn message_communicator(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<Option<CommSlot>, Diag> {
    let op = cx.program.op(id);
    let (backend, name) = (cx.program.comm_backend(op), cx.program.comm_name(op));
    if backend == CommBackend::Cuda {
        return Ok(None);
    }
    let comm = world_communicator(cx, backend, name);
    let Some((other, first)) = cx.communications.join_group(comm, id) else { return Ok(Some(comm)) };
    if other == comm {
        return Ok(Some(comm));
    }
    Err(cx
        .error_here(
            codes::GROUP_COMMUNICATORS,
            message!("this message and another one of its {} are of different communicators", coalescing_group()),
        )
        .with_label(cx.program.op_span(first), "the other one is here")
        .with_note(message!(
            "a {} starts the messages of one communicator together: give them all the same `comm=`, or make two of it",
            coalescing_group()
        )))
}

/// A view that a communication can use: one range of memory. For an expanded broadcast, the stored elements.
pub(super) fn contiguous_view(cx: &PlanBuilder<'_>, tensor: TensorId, view: &BufferView) -> Result<BufferView, Diag> {
    let view = cx.declared_part(tensor, view);
    if view.is_contiguous() {
        return Ok(view);
    }
    let mut expected = 1;
    let mut reason = String::new();
    for (axis, dim) in view.dims.iter().enumerate().rev() {
        if dim.extent != 1 && dim.stride != expected {
            reason = format!("its axis {axis} has stride {}, but {expected} is required", dim.stride);
            break;
        }
        expected *= dim.extent;
    }
    let name = cx.quoted_tensor(tensor);
    Err(cx
        .error_here(codes::LAYOUT, message!("{} is not contiguous in memory: {}", name, reason))
        .with_note("communications need contiguous memory: select outer axes only, or copy with `Set` into an allocated tensor first"))
}

/// A tensor that a communication reads on this rank.
fn readable_view(cx: &PlanBuilder<'_>, tensor: TensorId) -> Result<BufferView, Diag> {
    contiguous_view(cx, tensor, &cx.input_view(tensor)?)
}

/// The tensor that a member of a collective sends. A root without it is in a team that may not take part.
fn sent_view(cx: &PlanBuilder<'_>, op: &Op, kind: CollectiveKind, input: TensorId) -> Result<BufferView, Diag> {
    readable_view(cx, input).map_err(|diag| match kind.has_root() && !cx.is_in_mesh(input) {
        true if cx.program.is_hir2() && cx.program.team_axis(op).is_none() => root_outside_error(cx, input),
        true => with_root_condition(cx.program, op, input, diag),
        false => diag,
    })
}

/// A tensor that a communication writes on this rank: it must have memory.
fn writable_view(cx: &PlanBuilder<'_>, tensor: TensorId) -> Result<BufferView, Diag> {
    let Some(view) = cx.tensor_binding(tensor).cloned() else {
        if let Some(error) = cx.ended_error(tensor) {
            return Err(error);
        }
        return Err(cx.freed_output_error(tensor).unwrap_or_else(|| no_memory_error(cx, tensor)));
    };
    contiguous_view(cx, tensor, &view)
}

/// The error for a tensor that a communication writes, but nothing allocates.
fn no_memory_error(cx: &PlanBuilder<'_>, tensor: TensorId) -> Diag {
    let message = message!("{} has no memory to receive into", cx.quoted_tensor(tensor));
    let program = cx.program;
    let add = message!("add an {} for it before the communication", bare_head("ALLOCATE"));
    if !program.is_hir2() {
        return cx.error_here(codes::NO_MEMORY_HERE, message).with_note(add);
    }
    if !cx.is_in_mesh(tensor) && program.op(cx.current_op()).expr_attr(AttrKey::Root).is_some() {
        return root_outside_error(cx, tensor);
    }
    let name = program.tensor_name(tensor);
    let whole = name.split('[').next().unwrap_or_default();
    let diag = Diag::error(codes::NO_MEMORY_HERE, program.op_span(cx.current_op()), message);
    let Some((owner, _)) = program.tensors().iter().find(|(id, _)| program.tensor_name(*id) == whole) else {
        return diag.with_note(add);
    };
    let diag = with_declaration(diag, program, owner, cx.current_op());
    let is_in_header = program.outputs().iter().any(|output| output.as_tensor() == Some(owner));
    match program.source().types.get(&owner).filter(|_| !is_in_header) {
        Some(place) => {
            let after = Span { start: place.whole.end, end: place.whole.end };
            let text = declared_type_text(program, owner);
            let fix = Fix::replacement(format!("write `{whole}: {text} = alloc`"), after, " = alloc");
            diag.with_note(message!("a declaration alone has no memory: write `{}: {} = alloc`", whole, text))
                .with_fix(Fix { applicability: Applicability::Untried, ..fix })
        }
        None => diag.with_note(message!("write `{} = alloc` on a line before the communication", whole)),
    }
}

/// Fails inside a coalesced group, whose members start together on one communicator.
pub(super) fn require_no_group(cx: &PlanBuilder<'_>) -> Result<(), Diag> {
    match cx.communications.open_group() {
        Some(_) => {
            let message = message!("a {} can only contain sends and receives", coalescing_group());
            let note = Message::advice(
                "start the collective before or after the group",
                "start it outside: collectives go on beside each other until their own `wait`s, as in \
                 `h = allgather(A -> G)` and `g = allreduce(X -> Y)`",
            );
            Err(cx.error_here(codes::POSTS, message).with_note(note))
        }
        None => Ok(()),
    }
}

/// `Communication`: a collective of a team.
pub(super) fn lower_communication(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let me = require_rank(cx)?;
    let op = cx.program.op(id);
    let (input, output) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let kind = collective_kind(cx, op)?;
    let team = cx.checked_team(op)?;
    let root = root_position(cx, op, kind, &team)?;
    let red_op = reduction_op(cx, op, kind, cx.tensor_dtype(input))?;
    require_no_group(cx)?;
    let position = team.iter().position(|&device| device == me).unwrap_or(0);
    let at_root = root == Some(position);
    let role = kind.member_role(MemberSeat {
        is_root: at_root,
        is_alone: team.len() == 1,
        in_input_mesh: cx.is_in_mesh(input),
        in_output_mesh: cx.is_in_mesh(output),
    });
    let input_view = if role.sends { Some(sent_view(cx, op, kind, input)?) } else { None };
    let output_view = if role.receives { Some(writable_view(cx, output)?) } else { None };
    check_layout(cx, kind, input, output, input_view.as_ref(), output_view.as_ref())?;
    check_counts(cx, kind, team.len(), [input, output], &input_view, &output_view)?;
    let comm = cx.communicator_slot(team, cx.program.comm_backend(op), cx.program.comm_name(op));
    let work = cx.new_work();
    register_work(cx, id, work)?;
    cx.emit_inst(InstKind::Collective(Box::new(CollectiveInst {
        comm,
        kind,
        root,
        red_op,
        input: input_view,
        output: output_view,
        work,
    })))
}

/// Gathers the shards of a tensor that is sharded over all devices of its mesh, in the order of the mesh, into a new
/// tensor, and waits for them.
pub(in crate::ops) fn emit_mesh_allgather(
    cx: &mut PlanBuilder<'_>,
    input: TensorId,
    output: TensorId,
) -> Result<(), Diag> {
    require_rank(cx)?;
    require_no_group(cx)?;
    let team = cx.program.tensor_mesh(input).map_or(Vec::new(), |mesh| mesh.devices.clone());
    let source = readable_view(cx, input)?;
    let target = cx.output_view(output)?;
    let kind = CollectiveKind::Allgather;
    check_layout(cx, kind, input, output, Some(&source), Some(&target))?;
    let (source, target) = (Some(source), Some(target));
    check_counts(cx, kind, team.len(), [input, output], &source, &target)?;
    let comm = cx.communicator_slot(team, CommBackend::Nccl, None);
    let work = cx.new_work();
    let gather = CollectiveInst { comm, kind, root: None, red_op: RedOp::Sum, input: source, output: target, work };
    cx.emit_inst(InstKind::Collective(Box::new(gather)))?;
    cx.emit_inst(InstKind::WaitWork { work })
}

fn collective_kind(cx: &PlanBuilder<'_>, op: &Op) -> Result<CollectiveKind, Diag> {
    let word = op.word_attr(AttrKey::Type).map_or("", |word| cx.program.name(word));
    let found = CollectiveKind::ALL.iter().copied().find(|kind| kind.name() == word);
    found.ok_or_else(|| {
        let diag =
            cx.error_here(codes::CANNOT_RUN, format!("communications of type `{word}` are not supported in a run"));
        match nearest_candidate(word, CollectiveKind::ALL.iter().map(|kind| kind.name())) {
            Some(name) => diag.with_note(format!("did you mean `{name}`?")),
            None => diag,
        }
    })
}

/// Position of the root in the team.
fn root_position(cx: &PlanBuilder<'_>, op: &Op, kind: CollectiveKind, team: &[u32]) -> Result<Option<usize>, Diag> {
    if !kind.has_root() {
        return Ok(None);
    }
    if kind == CollectiveKind::SendRecv && team.len() > 2 {
        let message =
            message!("the team of a {} must have 1 or 2 members, but has {}", bare_head("SendRecv"), team.len());
        return Err(cx.error_here(codes::TEAM, message));
    }
    let Some(expr) = op.expr_attr(AttrKey::Root) else {
        return Err(cx.error_here(codes::TEAM, message!("{} needs `root=`", bare_head(kind.name()))));
    };
    let root = cx.eval_int(expr)?;
    let counted = cx.program.root_as(op);
    let place = match counted {
        RootAs::Position => usize::try_from(root).ok().filter(|&place| place < team.len()),
        RootAs::Rank => team.iter().position(|&device| i64::from(device) == root),
    };
    place.map(Some).ok_or_else(|| {
        let message = match counted {
            RootAs::Rank => format!("the root {root} is not in the team {team:?}"),
            RootAs::Position => format!("the root {root} is not a position in the team {team:?}"),
        };
        let step = cx.loop_indices().last().map(|(index, _)| cx.program.name(*index));
        with_team_of_root(cx.program, op, root, team.len(), step, cx.error_here(codes::TEAM, message))
    })
}

fn reduction_op(cx: &PlanBuilder<'_>, op: &Op, kind: CollectiveKind, dtype: DType) -> Result<RedOp, Diag> {
    let Some(word) = op.word_attr(AttrKey::RedOp) else { return Ok(RedOp::Sum) };
    let word = cx.program.name(word);
    let Some(found) = RedOp::parse(word).map(RedOp::ignoring_nan) else {
        return Err(
            cx.error_here(codes::CANNOT_RUN, format!("the reduce operation `{word}` is not supported in a run"))
        );
    };
    let unfit = match found {
        // Two numbers an element.
        _ if dtype == DType::Float4E2M1x2 => true,
        RedOp::Min | RedOp::Max | RedOp::FMin | RedOp::FMax => dtype.is_complex(),
        RedOp::And | RedOp::Or | RedOp::Xor => dtype.is_float() || dtype.is_complex(),
        RedOp::Avg => dtype == DType::Bool,
        RedOp::Sum | RedOp::Product => false,
    };
    if kind.is_reducing() && unfit {
        let message = message!("the reduce operation `{}` is not defined for `{}`", word, quoted_type(dtype));
        return Err(cx.error_here(codes::CANNOT_RUN, message));
    }
    Ok(found)
}

/// The gathered or scattered axis must be the outermost one in memory: parts are ranges.
fn check_layout(
    cx: &PlanBuilder<'_>,
    kind: CollectiveKind,
    input: TensorId,
    output: TensorId,
    input_view: Option<&BufferView>,
    output_view: Option<&BufferView>,
) -> Result<(), Diag> {
    let (sharded, whole, view) = match kind.whole_tensor() {
        Some(WholeTensor::Output) => (input, output, output_view),
        Some(WholeTensor::Input) => (output, input, input_view),
        None => return Ok(()),
    };
    let Some(view) = view else { return Ok(()) };
    // A reduction in the result of a ReduceScatter stands for the input's partial axis.
    let parts: Vec<_> = match kind {
        CollectiveKind::ReduceScatter => cx.axes.axes_of(sharded).iter().collect(),
        _ => cx.axes.stored_axes(sharded).collect(),
    };
    let mut wholes: Vec<_> = cx.axes.stored_axes(whole).zip(0usize..).collect();
    if wholes.len() != view.dims.len() {
        return Ok(());
    }
    // If the result does not name the reduction, it has one axis less than the input: the partial one is missing.
    let partial = wholes.iter().position(|(axis, _)| axis.is_device_index());
    if let (CollectiveKind::ReduceScatter, Some(partial), true) = (kind, partial, wholes.len() == parts.len() + 1) {
        wholes.remove(partial);
    }
    if parts.len() != wholes.len() {
        return Ok(());
    }
    let mut pairs = parts.iter().zip(&wholes);
    let moved = pairs.find(|(part, (whole, _))| part.is_sharded() && part.parallel != whole.parallel);
    let Some((_, &(_, axis))) = moved else { return Ok(()) };
    match view.dims[..axis].iter().position(|dim| dim.extent != 1) {
        None => Ok(()),
        Some(outer) => {
            let message = message!(
                "{} needs the sharded axis outermost, but axis {} of {} is inside axis {} of extent {}",
                bare_head(kind.name()),
                axis,
                cx.quoted_tensor(whole),
                outer,
                view.dims[outer].extent
            );
            Err(cx
                .error_here(codes::LAYOUT, message)
                .with_note("permute the axis to the outermost position, communicate, and permute back"))
        }
    }
}

/// The other axis of the mesh along which a collective fits.
fn fitting_axis(cx: &PlanBuilder<'_>, kind: CollectiveKind, sent: usize, received: usize) -> Option<Message> {
    let (mesh, own) = cx.program.team_axis(cx.program.op(cx.current_op()))?;
    let devices = cx.program.mesh(mesh);
    let mut others = devices.mesh_coordinates().filter_map(|(coordinate, _)| match coordinate {
        MeshCoordinate::Along(axis) if axis != own => Some((coordinate, devices.axis_extent(axis)?)),
        _ => None,
    });
    let fitting = others.find(|(_, members)| kind.counts_fit(*members as usize, sent, received));
    fitting.map(|(coordinate, members)| {
        let over = cx.program.mesh_coordinate_name(mesh, coordinate);
        message!("the teams of `{}` have {} members, which fits", quoted_argument("over", &over), members)
    })
}

/// The collective of the same purpose that such sizes fit: with or without a sum.
fn fitting_kind(kind: CollectiveKind, members: usize, sent: usize, received: usize) -> Option<CollectiveKind> {
    let others: &[CollectiveKind] = match kind {
        CollectiveKind::Allreduce => &[CollectiveKind::ReduceScatter],
        CollectiveKind::ReduceScatter => &[CollectiveKind::Allreduce],
        CollectiveKind::Allgather => &[CollectiveKind::AllToAll],
        CollectiveKind::AllToAll => &[CollectiveKind::Allgather, CollectiveKind::Scatter],
        _ => &[],
    };
    others.iter().copied().find(|other| other.counts_fit(members, sent, received))
}

/// Checks the element counts and types that one rank can check by itself.
fn check_counts(
    cx: &PlanBuilder<'_>,
    kind: CollectiveKind,
    members: usize,
    [sent_tensor, received_tensor]: [TensorId; 2],
    input: &Option<BufferView>,
    output: &Option<BufferView>,
) -> Result<(), Diag> {
    if let (CollectiveKind::AllToAll, Some(view)) = (kind, input)
        && view.len() % members != 0
    {
        let message = format!(
            "the {} elements of {} cannot be divided into {members} equal shards",
            view.len(),
            cx.tensor_name(sent_tensor)
        );
        let diag = cx.error_here(codes::SHAPES, message);
        if let Some(advice) = result_advice(cx.program, cx.current_op()) {
            return Err(advice.add_to(diag));
        }
        return Err(diag.with_note(message!(
            "give a rank's part of {} an axis of extent {} in front, with the part for each rank: `[x:{}, {}, ..]`",
            cx.quoted_tensor(sent_tensor),
            members,
            members,
            members
        )));
    }
    let (Some(input), Some(output)) = (input, output) else { return Ok(()) };
    let (sent, received) = (input.len(), output.len());
    if !kind.counts_fit(members, sent, received) {
        let counts = [Some(sent), sent.checked_mul(members), sent.checked_div(members)];
        let needed = counts.into_iter().flatten().find(|&count| kind.counts_fit(members, sent, count));
        let [given, result] = [sent_tensor, received_tensor].map(|tensor| cx.quoted_tensor(tensor));
        let head = message!("{} among {} members", bare_head(kind.name()), members);
        let message = match needed {
            Some(needed) => {
                message!(
                    "{} makes {} elements of the {} of {}, but {} has {}",
                    head,
                    needed,
                    sent,
                    given,
                    result,
                    received
                )
            }
            None => message!("{} cannot transfer {} elements of {} into {} of {}", head, sent, given, received, result),
        };
        let diag = cx.error_here(codes::SHAPES, message);
        if let Some(advice) = result_advice(cx.program, cx.current_op()) {
            return Err(advice.add_to(diag));
        }
        let diag = match fitting_axis(cx, kind, sent, received) {
            Some(note) => diag.with_note(note),
            None => diag,
        };
        let other = fitting_kind(kind, members, sent, received);
        return Err(match other.filter(|_| cx.program.is_hir2()) {
            Some(other) => diag.with_note(message!(
                "these sizes are those of `{}({} -> {})`",
                bare_head(other.name()).hir2_text().trim_matches('`'),
                cx.quoted_tensor(sent_tensor),
                cx.quoted_tensor(received_tensor)
            )),
            None => diag,
        });
    }
    if input.dtype != output.dtype {
        let message = message!(
            "{} is `{}`, but {} is `{}`",
            cx.quoted_tensor(sent_tensor),
            quoted_type(input.dtype),
            cx.quoted_tensor(received_tensor),
            quoted_type(output.dtype)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    Ok(())
}

/// The repair of a peer that is the rank itself: one that is the same for all ranks is the other side's in a loop over
/// these.
fn own_peer_advice(cx: &PlanBuilder<'_>, expr: ExprId, me: u32) -> Message {
    let is_fixed = !RankScalars::new(cx.program).is_dependent(cx.program, expr);
    let index = cx.loop_indices().last().map(|(name, _)| cx.program.name(*name));
    let zero = cx.loop_indices().iter().rev().find(|(name, _)| depends_on_scalar(cx.program, expr, *name));
    match (is_fixed, index) {
        (false, Some(_)) if cx.program.is_hir2() && zero.is_some() => {
            let (name, value) = zero.map_or(("", 0), |(name, value)| (cx.program.name(*name), *value));
            message!(
                "at {}={} the peer is the rank itself: put this in `if {} != {}:`, and copy that part with `Set`",
                name,
                value,
                name,
                value
            )
        }
        (true, Some(index)) if cx.program.is_hir2() && !names_index(cx, expr) => message!(
            "the peer is the other rank: on rank {} write one that the loop counts, `{}`, not its own number",
            me,
            index
        ),
        _ => message!("guard the local case with `{}` and copy with `Set`", quoted_head("IF")),
    }
}

/// Returns true if an expression depends on the index of a loop around the statement.
fn names_index(cx: &PlanBuilder<'_>, expr: ExprId) -> bool {
    cx.loop_indices().iter().any(|(name, _)| depends_on_scalar(cx.program, expr, *name))
}

/// The repair of a peer that ranks at an end do not have.
fn missing_neighbour_advice(cx: &PlanBuilder<'_>, expr: ExprId, value: i64) -> Message {
    if let Some(note) = grid_peer_advice(cx, expr) {
        return note;
    }
    let (peer, ranks) = (quoted_bare_expr(cx.program, expr), cx.env.ranks);
    let short = short_expr_text(cx.program, expr);
    let named = cx.program.source().rank_count.clone().unwrap_or_else(|| ranks.to_string());
    let [bound, short_bound] =
        [&ranks.to_string(), &named].map(|end| if value < 0 { ">= 0".to_owned() } else { format!("< {end}") });
    let condition = format!("{} {bound}", peer.printed());
    Message::advice(
        format!(
            "ranks at an end have no such peer: post it in `IF Manual ( {condition} ):`; in a ring the peer is \
             `( ( {} + {ranks} ) % {ranks} )`",
            peer.printed()
        ),
        format!(
            "ranks at an end have no such peer: write `if {short} {short_bound}:` around it; in a ring the peer is \
             `wrap({short}, {named})`"
        ),
    )
}

/// The number of a rank of a grid, for a peer that is computed from coordinates of a mesh of two axes.
fn grid_peer_advice(cx: &PlanBuilder<'_>, expr: ExprId) -> Option<Message> {
    let mesh = mesh_of_coordinate(cx.program, expr)?;
    let &[rows, columns] = cx.program.mesh(mesh).shape.as_slice() else { return None };
    let starts_at_0 = cx.program.mesh(mesh).devices.iter().copied().eq(0..rows * columns);
    let name = cx.program.mesh_name(Some(mesh));
    starts_at_0.then(|| {
        message!(
            "the ranks of `{}` count along its rows of {}: the rank at (y, x) is `{}.y * {} + {}.x`",
            PartKind::Mesh.quote(name.clone()),
            columns,
            name,
            columns,
            name
        )
    })
}

/// The mesh of a coordinate in an expression.
fn mesh_of_coordinate(program: &Program, expr: ExprId) -> Option<MeshId> {
    match program.expr(expr) {
        Expr::MeshCoordinate(mesh, MeshCoordinate::Along(_)) => Some(*mesh),
        other => sub_expressions(other).iter().find_map(|&part| mesh_of_coordinate(program, part)),
    }
}

/// An absolute peer.
fn peer_rank(cx: &PlanBuilder<'_>, me: u32, expr: ExprId) -> Result<u32, Diag> {
    let value = cx.eval_int(expr)?;
    let known = u32::try_from(value).ok().filter(|&peer| peer < cx.env.ranks);
    let Some(peer) = known else {
        let message = format!("peer {value} is out of range: there are {} ranks", cx.env.ranks);
        let diag = cx.error_here(codes::TEAM, message);
        return Err(match cx.is_remainder(expr) {
            true => cx.with_remainder_note(diag, expr, value),
            false => diag.with_note(missing_neighbour_advice(cx, expr, value)),
        });
    };
    if peer == me {
        return Err(cx
            .error_here(codes::TEAM, format!("rank {me} cannot send to or receive from itself"))
            .with_note(own_peer_advice(cx, expr, me)));
    }
    Ok(peer)
}

/// Lowers `P2PCommunication`: one send or receive on the world's communicator, or, with `backend=CUDA`, on the current
/// stream, where the initiator (`protocol`) waits for the target.
pub(super) fn lower_p2p(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let me = require_rank(cx)?;
    let op = cx.program.op(id);
    let Some(expr) = op.expr_attr(AttrKey::Peer) else {
        return Err(cx.error_here(codes::TEAM, "the peer is unknown"));
    };
    let peer = peer_rank(cx, me, expr)?;
    let Some(tensor) = op.input_tensors().chain(op.output_tensors()).next() else {
        return Err(cx.error_here(codes::NEEDED, "the buffer is unknown"));
    };
    let backend = cx.program.comm_backend(op);
    if backend == CommBackend::Ucc && cx.communications.open_group().is_some() {
        return Err(cx
            .error_here(
                codes::POSTS,
                message!("UCC does not support {}", Quoted::spelled(PartKind::Word, "coalescing groups", "groups")),
            )
            .with_note(message!(
                "use `{}`, which starts the messages of a group together",
                quoted_argument("backend", "NCCL")
            ))
            .with_note("or remove the group, and let one of each two ranks send first and the other receive first"));
    }
    let comm = message_communicator(cx, id)?;
    let protocol = if comm.is_none() { cx.program.message_protocol(op) } else { MessageProtocol::Get };
    let work = cx.new_work();
    register_work(cx, id, work)?;
    if comm.is_none() {
        cx.communications.add_stream_message(work);
    }
    let Some(direction) = cx.program.message_direction(op) else {
        return Err(cx.error_here(codes::CANNOT_RUN, "the direction of the message is unknown"));
    };
    let view = match direction {
        MessageDirection::Send => readable_view(cx, tensor)?,
        MessageDirection::Recv => writable_view(cx, tensor)?,
    };
    cx.emit_inst(InstKind::Message {
        header: MessageHeader { direction, comm, protocol, peer, work },
        view: Box::new(view),
    })
}

/// Lowers `CollectivePermute`: one send and one receive that start together, a group of their own; peers are positions
/// in the team.
pub(super) fn lower_collective_permute(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let me = require_rank(cx)?;
    require_no_group(cx)?;
    let op = cx.program.op(id);
    let (input, output) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let team = cx.checked_team(op)?;
    let to = team_member(cx, op, &team, AttrKey::SendPeer)?;
    let from = team_member(cx, op, &team, AttrKey::RecvPeer)?;
    let (source, target) = (readable_view(cx, input)?, writable_view(cx, output)?);
    if source.len() != target.len() || source.dtype != target.dtype {
        return Err(cx.shape_error(input, &source.shape(), output, &target.shape()));
    }
    let work = cx.new_work();
    register_work(cx, id, work)?;
    if (to == me) != (from == me) {
        return Err(cx.error_here(codes::TEAM, "a peer of the CollectivePermute is the rank itself"));
    }
    let comm = cx.communicator_slot(team.clone(), cx.program.comm_backend(op), cx.program.comm_name(op));
    cx.emit_inst(InstKind::GroupBegin)?;
    if to == me {
        let target = BufferView { dims: source.dims.clone(), ..target };
        emit_copy(
            cx,
            BufferView { dims: row_major(&source.shape()), ..source },
            BufferView { dims: row_major(&target.shape()), ..target },
        )?;
    } else {
        let (send, recv) = (cx.new_work(), cx.new_work());
        let received = MessageHeader::on_communicator(MessageDirection::Recv, comm, from, recv);
        let sent = MessageHeader::on_communicator(MessageDirection::Send, comm, to, send);
        cx.emit_inst(InstKind::Message { header: received, view: Box::new(target) })?;
        cx.emit_inst(InstKind::Message { header: sent, view: Box::new(source) })?;
    }
    cx.emit_inst(InstKind::GroupEnd { comm, work })
}

/// The device that an attribute names by its position in the team.
fn team_member(cx: &PlanBuilder<'_>, op: &Op, team: &[u32], key: AttrKey) -> Result<u32, Diag> {
    let Some(expr) = op.expr_attr(key) else {
        return Err(cx.error_here(codes::TEAM, format!("`{}` is unknown", key.word())));
    };
    let value = cx.eval_int(expr)?;
    let device = usize::try_from(value).ok().and_then(|place| team.get(place).copied());
    device.ok_or_else(|| {
        let count = team.len();
        let message = format!("peer {value} is out of range: the team has {count} members, 0 to {}", count.max(1) - 1);
        let wrapped = Message::advice(
            "in a ring the peers are `( ( rank + 1 ) % n )` and `( ( rank + n - 1 ) % n )` of n members",
            format!("a ring of them is closed by `to=(rank + 1) % {count}, from=wrap(rank - 1, {count})`"),
        );
        cx.error_here(codes::TEAM, message).with_note(wrapped)
    })
}

/// Opens a group.
pub(super) fn lower_start_coalescing(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    require_rank(cx)?;
    if let Some(open) = cx.communications.begin_group(id) {
        let span = cx.program.op_span(open);
        return Err(cx
            .error_here(codes::POSTS, "a group cannot start inside another group")
            .with_label(span, "the outer group starts here"));
    }
    cx.emit_inst(InstKind::GroupBegin)
}

/// Starts the group.
pub(super) fn lower_end_coalescing(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    require_rank(cx)?;
    let Some(messages) = cx.communications.end_group() else {
        return Err(cx.error_here(
            codes::POSTS,
            message!("`EndCoalescing` without a `{}` before it", quoted_head("StartCoalescing")),
        ));
    };
    let comm = match cx.communications.take_group_communicator() {
        Some(comm) => comm,
        None => world_communicator(cx, CommBackend::Nccl, None),
    };
    let work = cx.new_work();
    register_post(cx, HandlePost { op: id, work: Some(work), messages })?;
    cx.emit_inst(InstKind::GroupEnd { comm, work })
}

/// Lowers to nothing: handles are exchanged when a run starts.
pub(super) fn lower_share_mem_handles(cx: &mut PlanBuilder<'_>, _: OpId) -> Result<(), Diag> {
    require_rank(cx).map(|_| ())
}
