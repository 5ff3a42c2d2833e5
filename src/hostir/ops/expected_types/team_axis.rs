//! The axis of meshes along which the members of a team are: its letter, and their number as the program says it.

use crate::ir::{MeshId, MeshTextPiece, Op, ParallelType, Program, TensorId, is_identifier, short_expr_text};

/// The axis over the devices of a team: its letter, and the number of members.
pub(crate) struct TeamAxis {
    /// Over which devices.
    pub(crate) parallel: ParallelType,
    /// `x`
    pub(crate) letter: &'static str,
    /// `p`, or a number.
    pub(crate) count: String,
}

impl TeamAxis {
    /// The axis of a communication's team, one of whose tensors is given.
    pub(crate) fn of_tensor(program: &Program, op: &Op, tensor: TensorId) -> Self {
        let mut across =
            op.all_tensors().flat_map(|side| program.domains(side)).filter(|domain| domain.parallel.is_device());
        let (mesh, parallel) = match program.team_axis(op) {
            Some((mesh, axis)) => (Some(mesh), axis),
            None => {
                let own = program.domains(tensor).iter().find(|domain| domain.parallel.is_device());
                let parallel = own.map_or(ParallelType::DIDx, |domain| domain.parallel);
                (program.tensor(tensor).mesh.or(program.meshes().ids().next()), parallel)
            }
        };
        let declared =
            across.find(|domain| domain.parallel == parallel).map(|domain| short_expr_text(program, domain.extent));
        let count = declared.or_else(|| mesh.and_then(|mesh| sized_extent(program, mesh, parallel)));
        Self {
            parallel,
            letter: parallel.name().trim_start_matches("deviceIdx."),
            count: count.unwrap_or_else(|| program.team_size(op).unwrap_or_default().to_string()),
        }
    }
}

/// `n / 4`, or the number; `None` if it is not whole.
pub(crate) fn divided_extent(extent: &str, count: &str) -> Option<String> {
    match (extent.parse::<i64>(), count.parse::<i64>()) {
        (Ok(extent), Ok(count)) => (count > 0 && extent % count == 0).then(|| (extent / count).to_string()),
        _ if is_identifier(extent) => Some(format!("{extent} / {count}")),
        _ => Some(format!("({extent}) / {count}")),
    }
}

/// The size that gives an axis of a mesh: `p` of `0..p`, `b` of `[y:a, x:b]`.
fn sized_extent(program: &Program, mesh: MeshId, axis: ParallelType) -> Option<String> {
    let pieces = program.given_names().sized.texts.get(&mesh)?;
    let texts = pieces.iter().map(|piece| match piece {
        MeshTextPiece::Text(text) => text,
        MeshTextPiece::Name(name) => program.name(*name),
    });
    let text: String = texts.collect();
    let letter = axis.name().trim_start_matches("deviceIdx.");
    let found = match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(axes) => axes.split(',').find_map(|one| one.trim().strip_prefix(letter)?.strip_prefix(':')),
        None => text.strip_prefix("0..").filter(|_| axis == ParallelType::DIDx),
    };
    found.map(str::trim).filter(|rest| is_identifier(rest)).map(str::to_owned)
}
