//! Outputs: put together, and written all or none.

use super::cli::Options;
use super::data_files::{DataFile, Kind};
use super::failure::Failure;
use super::tensor_options::Bound;
use crate::data::{npy, safetensors};
use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes};
use hostir::lower;
use hostir::lower::Prepared;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use hostir_tool_support::staged::{PlaceKey, Staged};
use std::collections::BTreeMap;

/// The outputs of a run.
#[derive(Debug)]
pub(super) struct Results {
    /// Whole tensors by output; `None` where only the ranks' parts are asked for.
    pub(super) whole: Vec<Option<HostTensor>>,
    /// By output: the parts of the ranks that hold one.
    pub(super) parts: Vec<Vec<(u32, HostTensor)>>,
}

impl Results {
    /// Puts the ranks' parts together; replicas must agree. Tensors that are no outputs of the program
    /// stay apart where `in_parts` says so.
    ///
    /// # Errors
    /// Replicas that differ, and elements that no rank has.
    pub(super) fn assemble(
        prepared: &Prepared,
        run: RunResult,
        in_parts: &[bool],
    ) -> Result<Self, Diag> {
        let mut parts: Vec<Vec<(u32, HostTensor)>> =
            prepared.outputs.iter().map(|_| Vec::new()).collect();
        for (rank, outputs) in run.outputs.into_iter().enumerate() {
            for (index, part) in outputs.into_iter().enumerate() {
                let on = prepared.outputs.get(index).is_some_and(|port| port.on(rank as u32));
                if let (true, Some(part)) = (on, part) {
                    parts[index].push((rank as u32, part));
                }
            }
        }
        let whole = parts.iter().enumerate().map(|(index, parts)| {
            let apart = index >= prepared.results && in_parts.get(index) == Some(&true);
            match lower::assemble(prepared, index, parts.clone()) {
                _ if apart => Ok(None),
                Err(diag) if index >= prepared.results && diag.code == codes::REPLICAS => {
                    Err(diag.note("`%r` in the file's name writes one file a rank"))
                }
                whole => whole.map(Some),
            }
        });
        Ok(Self { whole: whole.collect::<Result<_, _>>()?, parts })
    }
}

/// The file of each output; `None` for outputs that are not written.
fn targets(prepared: &Prepared, options: &Options, bound: &Bound<'_>) -> Vec<Option<DataFile>> {
    prepared
        .outputs
        .iter()
        .enumerate()
        .map(|(index, port): (usize, &lower::Port)| {
            if let Some(file) = bound.outputs[index] {
                return Some(file.clone());
            }
            if index >= prepared.results {
                return None;
            }
            let (kind, extension) = if npy::can_hold(port.dtype) {
                (Kind::Npy, "npy")
            } else {
                (Kind::Safetensors, "safetensors")
            };
            let path = format!("{}/{}.{extension}", options.out_dir.as_ref()?, port.name);
            Some(DataFile { path, entry: None, kind })
        })
        .collect()
}

/// Refuses, before anything runs, files that cannot hold their output, and two outputs in one `.npy`, however its
/// name is spelled.
///
/// # Errors
/// All such files.
pub(super) fn check_files(
    prepared: &Prepared,
    options: &Options,
    bound: &Bound<'_>,
    io: &Io<'_>,
) -> Result<(), Failure> {
    let mut diags = Vec::new();
    let mut taken: BTreeMap<(FileKey, Option<String>), &str> = BTreeMap::new();
    for (port, target) in prepared.outputs.iter().zip(targets(prepared, options, bound)) {
        let Some(file) = target else { continue };
        if !file.kind.can_hold(port.dtype) {
            let message =
                format!("`{file}` cannot hold {}, which is {}", port.name, port.dtype.name());
            diags.push(Diag::global(errors::KIND, message).note("write it to a .safetensors file"));
        }
        let ranks = if file.per_rank() { 0..prepared.ranks } else { 0..1 };
        for file in
            ranks.filter(|rank| !file.per_rank() || port.on(*rank)).map(|rank| file.of_rank(rank))
        {
            let key = file_key(&file.path, io);
            let entry = match file.kind {
                // Whatever takes all that is written to it.
                Kind::Npy if key.is_err() => continue,
                Kind::Npy => None,
                Kind::Safetensors => Some(file.entry.as_ref().unwrap_or(&port.name).clone()),
            };
            if let Some(other) = taken.insert((key, entry), &port.name) {
                let message = format!("`{file}` is to hold both {other} and {}", port.name);
                let note = "a .safetensors file holds several tensors";
                diags.push(Diag::global(errors::CONFLICT, message).note(note));
                break;
            }
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags.into()) }
}

/// Writes all files beside their places.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn stage_files(
    prepared: &Prepared,
    results: &Results,
    options: &Options,
    bound: &Bound<'_>,
    staged: &mut Staged,
    io: &Io<'_>,
) -> Result<(), Failure> {
    let targets = targets(prepared, options, bound);
    let mut files = Files::default();
    for (index, (port, target)) in prepared.outputs.iter().zip(&targets).enumerate() {
        match target {
            Some(file) if file.per_rank() => {
                for (rank, part) in &results.parts[index] {
                    files.add(&file.of_rank(*rank), &port.name, part, io);
                }
            }
            Some(file) => {
                if let Some(whole) = &results.whole[index] {
                    files.add(file, &port.name, whole, io);
                }
            }
            None => {}
        }
    }
    if let Some(folder) = &options.out_dir {
        staged.folder(folder, &io.path(folder))?;
    }
    Ok(files.stage(staged, io)?)
}

/// Files to write, by their paths.
#[derive(Default)]
struct Files<'a> {
    files: BTreeMap<FileKey, Content<'a>>,
}

/// The place of a file; its path where that is no plain file.
type FileKey = Result<PlaceKey, String>;

fn file_key(path: &str, io: &Io<'_>) -> FileKey {
    PlaceKey::of(&io.path(path)).ok_or_else(|| path.to_owned())
}

/// The content of one file.
#[derive(Default)]
struct Content<'a> {
    /// As it was named first.
    path: String,
    kind: Option<Kind>,
    entries: Vec<(String, &'a HostTensor)>,
}

impl<'a> Files<'a> {
    fn add(&mut self, file: &DataFile, name: &str, tensor: &'a HostTensor, io: &Io<'_>) {
        let content = self.files.entry(file_key(&file.path, io)).or_default();
        if content.path.is_empty() {
            content.path.clone_from(&file.path);
        }
        content.kind = Some(file.kind);
        content.entries.push((file.entry.clone().unwrap_or_else(|| name.to_owned()), tensor));
    }
    /// Writes beside each file.
    fn stage(&self, staged: &mut Staged, io: &Io<'_>) -> Result<(), Diag> {
        for Content { path, kind, entries } in self.files.values() {
            let bytes = match kind {
                Some(Kind::Npy) => npy::write(entries[0].1),
                Some(Kind::Safetensors) | None => safetensors::write(entries),
            };
            let bytes = bytes.map_err(|error| {
                Diag::global(errors::KIND, format!("`{path}`: {}", error.message))
            })?;
            staged.add(path, &io.path(path), &bytes)?;
        }
        Ok(())
    }
}
