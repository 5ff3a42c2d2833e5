//! Errors about the number of devices: sizes of meshes without a value, and ranks without work.

use crate::diag::message;
use crate::diag::{Diag, Diags, Quoted, RunOption, codes};
use crate::hir2::read::sized_meshes::open_size_note;
use crate::ir::{MeshSizeSource, Program};

/// The error for a size of the meshes that nothing gives a value: the program was read for an assumed one.
pub fn open_mesh_size(program: &Program) -> Option<Diag> {
    let open = program.given_names().sized.open_sizes().next()?;
    let name = program.name(open.name);
    let message = message!("nothing gives `{}`, and with it the number of devices", name);
    let diag = Diag::error(codes::MESH_SIZE_OPEN, program.source().header, message);
    Some(diag.with_note(open_size_note(name)))
}

/// Reports a text in `hir 2` that leaves some of the requested ranks without work: its meshes are numbers, or sizes
/// that do not follow the number of ranks.
pub(super) fn check_unused_ranks(program: &Program, needed: u32, devices: Option<u32>, diags: &mut Diags) {
    let Some(ranks) = devices.filter(|ranks| *ranks > needed) else { return };
    let sized = &program.given_names().sized;
    if !program.is_hir2() || program.meshes().iter().next().is_none() || sized.open_sizes().next().is_some() {
        return;
    }
    let message =
        message!("the program uses {} of {} ranks: its meshes and teams end at device {}", needed, ranks, needed - 1);
    let fewer = Quoted::run_option(RunOption::Devices, format!("--devices {needed}"));
    let note = match sized.sizes.iter().find(|size| size.source == MeshSizeSource::Set) {
        Some(size) => message!(
            "leave out `{}`, so that the number of ranks gives it, or use `{}`",
            Quoted::set_option(program.name(size.name), size.value),
            fewer
        ),
        None => message!(
            "give the mesh by a size, `mesh d = 0..p`, and write `p` for its number of devices (`hir 2.1`): the number of ranks then gives `p`; or use `{}`",
            fewer
        ),
    };
    diags.push(Diag::global_error(codes::UNUSED_RANKS, message).with_note(note));
}
