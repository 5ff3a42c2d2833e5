//! Symmetric memory: a caller's inputs and outputs in memory that all ranks have mapped, such as torch's. Peers address
//! them in place, without a copy through the session's memory.
//!
//! The addresses are fixed when a session is prepared: all ranks agree on the inputs and outputs in symmetric memory,
//! and check that each address leads to the shard of the right rank.
//!
//! No barrier protects this memory. A peer accesses it only between the rank's ready signal and the rank's wait for the
//! done semaphore ([`hostir_gpu::p2p`]). Both belong to the rank's run, which comes after the work that the caller's
//! stream had when the run was enqueued, and before the work that it gets later.

use crate::runtime::failure::global_diag;
use crate::runtime::io_binding::IoSide;
use crate::runtime::io_binding::binding_routes::owns_buffer;
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::rank::RankRuntime;
use crate::runtime::symmetric_buffers::{SymmetricBuffers, SymmetricTensor};
use crate::sys::{Error, driver};
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir_gpu::memory_layout::ALIGNMENT;
use hostir_gpu::p2p::MessagePlan;

/// The bytes that a rank writes into a tensor for its peers to recognize.
const TAG_BYTES: usize = 8;

/// Decides which of a caller's symmetric tensors peers address in place. All ranks have to name the same ones; if some
/// rank cannot use a tensor, all ranks copy it.
pub(crate) fn agree_on_buffers(
    prepared: &PreparedProgram,
    messages: &MessagePlan,
    process_group: &ProcessGroup,
    tensors: &[SymmetricTensor],
) -> Result<SymmetricBuffers, Vec<Diag>> {
    check_tensors(prepared, tensors)?;
    let mut usable: Vec<bool> = tensors.iter().map(|tensor| is_usable(tensor, prepared, messages)).collect();
    if process_group.is_multi_process() && !messages.list.is_empty() {
        let all = process_group.all_gather("symmetric memory", &encode(tensors, &usable))?;
        for (rank, message) in all.iter().enumerate() {
            if !slots(message).eq(slots(&all[0])) {
                return Err(vec![disagreement(rank)]);
            }
            for (usable, record) in usable.iter_mut().zip(message.chunks(RECORD)) {
                *usable &= record[0] == 1;
            }
        }
    }
    let found: Vec<&SymmetricTensor> = tensors.iter().zip(usable).filter(|(_, is)| *is).map(|(one, _)| one).collect();
    Ok(SymmetricBuffers::new(prepared, &found))
}

/// Returns true if peers address a tensor, and can do so in place.
fn is_usable(tensor: &SymmetricTensor, prepared: &PreparedProgram, messages: &MessagePlan) -> bool {
    let mut parts = prepared.plans.iter().filter_map(|plan| Some((plan, tensor.view(plan)?)));
    let is_addressed =
        parts.clone().any(|(plan, view)| messages.peer_accessed_buffers(plan.rank).contains(&view.buffer));
    is_addressed
        && parts.all(|(plan, view)| {
            let address = tensor.addresses[plan.rank as usize];
            owns_buffer(plan, tensor.side, view)
                && address != 0
                && address.is_multiple_of(ALIGNMENT as u64)
                && view.len() * view.dtype.byte_size() >= TAG_BYTES
        })
}

/// Bytes of a tensor in the message of a rank.
const RECORD: usize = 6;

/// The message of a rank: for each tensor whether the rank can use it, the side and the position.
fn encode(tensors: &[SymmetricTensor], usable: &[bool]) -> Vec<u8> {
    let records = tensors.iter().zip(usable).flat_map(|(tensor, usable)| {
        let [a, b, c, d] = (tensor.position as u32).to_le_bytes();
        [u8::from(*usable), u8::from(tensor.side == IoSide::Output), a, b, c, d]
    });
    records.collect()
}

/// The inputs and outputs of a rank's message.
fn slots(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    message.chunks(RECORD).map(|record| &record[1..])
}

/// Refuses tensors that the program does not have, and repeated ones.
fn check_tensors(prepared: &PreparedProgram, tensors: &[SymmetricTensor]) -> Result<(), Vec<Diag>> {
    let ranks = prepared.plans.len();
    for (at, tensor) in tensors.iter().enumerate() {
        let SymmetricTensor { side, position, addresses } = tensor;
        let known = if *side == IoSide::Input { prepared.inputs.len() } else { prepared.outputs.len() };
        let (message, note) = if *position >= known {
            let message = message!("the program has no {} number {}", side.to_string(), position);
            (message, format!("it has {known} {side}s"))
        } else if addresses.len() != ranks {
            let message =
                message!("{} addresses were given for {} number {}", addresses.len(), side.to_string(), position);
            (message, format!("pass one for each of the {ranks} ranks"))
        } else if tensors[..at].iter().any(|other| (other.side, other.position) == (*side, *position)) {
            let message = message!("symmetric memory was given twice for {} number {}", side.to_string(), position);
            (message, "pass it once".to_owned())
        } else {
            continue;
        };
        return Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)]);
    }
    Ok(())
}

fn disagreement(rank: usize) -> Diag {
    let message = message!("rank {} has other inputs and outputs in symmetric memory than rank 0", rank);
    Diag::global_error(codes::SYMMETRIC_MEMORY, message)
        .with_note("all ranks pass tensors of symmetric memory for the same inputs and outputs, or none of them does")
}

/// Checks that each address leads to the shard of its rank: each rank writes a tag into its own shards, which the
/// others look for. One process needs no check: addresses are the same for all ranks.
pub(crate) fn check_mapping(
    symmetric: &SymmetricBuffers,
    ranks: &[RankRuntime<'_>],
    process_group: &ProcessGroup,
) -> Result<(), Vec<Diag>> {
    let ([rank], false) = (ranks, symmetric.is_empty() || !process_group.is_multi_process()) else { return Ok(()) };
    let own: Vec<u64> = symmetric.parts(rank.plan.rank).collect();
    let kept = rank.device.make_current().and_then(|()| driver::synchronize_device());
    let kept = kept.and_then(|()| own.iter().map(|address| read_tag(*address)).collect::<Result<Vec<_>, _>>());
    // From here on no device works on them.
    let kept = process_group.finish_step("symmetric memory: keep", kept.map_err(call_diags))?;
    let found = exchange_tags(symmetric, rank.plan.rank, &own, process_group);
    let restored = own.iter().zip(&kept).try_for_each(|(address, tag)| write_tag(*address, *tag));
    process_group.finish_step("symmetric memory: compare", found.and(restored.map_err(call_diags)))
}

/// Writes this process's tags, and compares the contents at the addresses of the others.
fn exchange_tags(
    symmetric: &SymmetricBuffers,
    rank: u32,
    own: &[u64],
    process_group: &ProcessGroup,
) -> Result<(), Vec<Diag>> {
    // The tag is an address of this process, so no other tensor of the rank has the same.
    let tags: Vec<[u8; TAG_BYTES]> =
        own.iter().map(|address| (!address ^ u64::from(rank) << 56).to_le_bytes()).collect();
    let written = own.iter().zip(&tags).try_for_each(|(address, tag)| write_tag(*address, *tag));
    let written = written.map_err(call_diags).map(|()| tags.concat());
    let all = process_group.all_gather("symmetric memory: marks", &written?)?;
    let mut wrong = None;
    for (other, tags) in all.iter().enumerate().filter(|(other, _)| *other != rank as usize) {
        for (address, tag) in symmetric.parts(other as u32).zip(tags.chunks(TAG_BYTES)) {
            if read_tag(address).map_err(call_diags)? != *tag {
                wrong = wrong.or(Some(other));
            }
        }
    }
    // Others may still look.
    process_group.all_gather("symmetric memory: looked", &[])?;
    wrong.map_or(Ok(()), |other| Err(vec![wrong_mapping(rank, other)]))
}

fn wrong_mapping(rank: u32, other: usize) -> Diag {
    let message = message!("an address that rank {} has for rank {}'s symmetric memory leads elsewhere", rank, other);
    Diag::global_error(codes::SYMMETRIC_MEMORY, message)
        .with_note("all ranks pass the same symmetric tensor, each its own part and where it has mapped the others'")
}

#[allow(unsafe_code, reason = "reads a caller's memory")]
fn read_tag(address: u64) -> Result<[u8; TAG_BYTES], Error> {
    let mut tag = [0; TAG_BYTES];
    // SAFETY: the caller's promise of symmetric memory; the tensor has as many bytes, and no device is at work on it.
    unsafe { driver::download_bytes(&mut tag, address) }?;
    Ok(tag)
}

#[allow(unsafe_code, reason = "writes a caller's memory")]
fn write_tag(address: u64, tag: [u8; TAG_BYTES]) -> Result<(), Error> {
    // SAFETY: as for `read_tag`.
    unsafe { driver::upload_bytes(address, &tag) }
}

fn call_diags(error: Error) -> Vec<Diag> {
    vec![global_diag(&error)]
}
