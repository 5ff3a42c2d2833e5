//! Outputs: assembles them, and writes all or none.

use super::cli::Options;
use super::data_files::{DataFile, DataFormat};
use super::failure::RunFailure;
use super::tensor_options::BoundOptions;
use crate::data::{npy, safetensors};
use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::ir::quoted_type;
use hostir::lower;
use hostir::lower::PreparedProgram;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::{PlaceKey, StagedFiles};
use std::collections::BTreeMap;

/// The outputs of a run.
#[derive(Debug)]
pub(super) struct OutputTensors {
    /// Whole tensors by output; `None` if only the ranks' shards are requested.
    pub(super) whole: Vec<Option<HostTensor>>,
    /// By output: the shards of the ranks that have one.
    pub(super) parts: Vec<Vec<(u32, HostTensor)>>,
}

impl OutputTensors {
    /// Assembles the ranks' shards; replicas must agree. Tensors that are no outputs of the program stay in shards if
    /// `in_parts` is true.
    ///
    /// # Errors
    /// If replicas differ, or no rank has an element.
    pub(super) fn assemble_outputs(
        prepared: &PreparedProgram,
        run: RunResult,
        in_parts: &[bool],
    ) -> Result<Self, Diag> {
        let mut parts: Vec<Vec<(u32, HostTensor)>> = prepared.outputs.iter().map(|_| Vec::new()).collect();
        for (rank, outputs) in run.outputs.into_iter().enumerate() {
            for (index, part) in outputs.into_iter().enumerate() {
                let on = prepared.outputs.get(index).is_some_and(|io_tensor| io_tensor.is_on_rank(rank as u32));
                if let (true, Some(part)) = (on, part) {
                    parts[index].push((rank as u32, part));
                }
            }
        }
        let whole = parts.iter().enumerate().map(|(index, parts)| {
            let in_shards = index >= prepared.results && in_parts.get(index) == Some(&true);
            match lower::assemble_output(prepared, index, parts.clone()) {
                _ if in_shards => Ok(None),
                Err(diag) if index >= prepared.results && diag.code == codes::REPLICAS => {
                    Err(diag.with_note("use `%r` in the name of the file to write one file per rank"))
                }
                whole => whole.map(Some),
            }
        });
        Ok(Self { whole: whole.collect::<Result<_, _>>()?, parts })
    }
}

/// The file of each output; `None` for outputs that are not written.
fn output_files(prepared: &PreparedProgram, options: &Options, bound: &BoundOptions<'_>) -> Vec<Option<DataFile>> {
    prepared
        .outputs
        .iter()
        .enumerate()
        .map(|(index, io_tensor): (usize, &lower::IoTensor)| {
            if let Some(file) = bound.outputs[index] {
                return Some(file.clone());
            }
            if index >= prepared.results {
                return None;
            }
            let (kind, extension) = if npy::can_hold(io_tensor.dtype) {
                (DataFormat::Npy, "npy")
            } else {
                (DataFormat::Safetensors, "safetensors")
            };
            let path = format!("{}/{}.{extension}", options.out_dir.as_ref()?, io_tensor.name);
            Some(DataFile { path, entry: None, kind })
        })
        .collect()
}

/// Refuses, before anything runs, files that cannot hold their output, and two outputs in one `.npy`, however its name
/// is spelled.
///
/// # Errors
/// All such files.
pub(super) fn check_files(
    prepared: &PreparedProgram,
    options: &Options,
    bound: &BoundOptions<'_>,
    io: &ToolIo<'_>,
) -> Result<(), RunFailure> {
    let mut diags = Vec::new();
    let mut taken: BTreeMap<(FileKey, Option<String>), &str> = BTreeMap::new();
    for (io_tensor, target) in prepared.outputs.iter().zip(output_files(prepared, options, bound)) {
        let Some(file) = target else { continue };
        if !file.kind.can_hold(io_tensor.dtype) {
            let message = message!(
                "`{}` cannot store {}, which is {}",
                file.to_string(),
                io_tensor.name,
                quoted_type(io_tensor.dtype)
            );
            let note = match npy::can_hold(io_tensor.dtype) {
                true => "write it to a .npy file instead",
                false => "write it to a .safetensors file instead",
            };
            diags.push(Diag::global_error(errors::KIND, message).with_note(note));
        }
        let ranks = if file.per_rank() { 0..prepared.ranks } else { 0..1 };
        for file in ranks.filter(|rank| !file.per_rank() || io_tensor.is_on_rank(*rank)).map(|rank| file.of_rank(rank))
        {
            let key = file_key(&file.path, io);
            let entry = match file.kind {
                // Whatever takes all that is written to it.
                DataFormat::Npy if key.is_err() => continue,
                DataFormat::Npy => None,
                DataFormat::Safetensors => Some(file.entry.as_ref().unwrap_or(&io_tensor.name).clone()),
            };
            if let Some(other) = taken.insert((key, entry), &io_tensor.name) {
                let message = message!("`{}` cannot store both {} and {}", file.to_string(), other, io_tensor.name);
                let note = "use a .safetensors file, which can store several tensors";
                diags.push(Diag::global_error(errors::CONFLICT, message).with_note(note));
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
    prepared: &PreparedProgram,
    results: &OutputTensors,
    options: &Options,
    bound: &BoundOptions<'_>,
    staged: &mut StagedFiles,
    io: &ToolIo<'_>,
) -> Result<(), RunFailure> {
    let targets = output_files(prepared, options, bound);
    let mut files = OutputFiles::default();
    for (index, (io_tensor, target)) in prepared.outputs.iter().zip(&targets).enumerate() {
        match target {
            Some(file) if file.per_rank() => {
                for (rank, part) in &results.parts[index] {
                    files.add_tensor(&file.of_rank(*rank), &io_tensor.name, part, io);
                }
            }
            Some(file) => {
                if let Some(whole) = &results.whole[index] {
                    files.add_tensor(file, &io_tensor.name, whole, io);
                }
            }
            None => {}
        }
    }
    if let Some(folder) = &options.out_dir {
        staged.create_folder(folder, &io.resolve_path(folder))?;
    }
    Ok(files.stage_files(staged, io)?)
}

/// Files to write, by their paths.
#[derive(Default)]
struct OutputFiles<'a> {
    files: BTreeMap<FileKey, FileContent<'a>>,
}

/// The place of a file; its path if it is not a plain file.
type FileKey = Result<PlaceKey, String>;

fn file_key(path: &str, io: &ToolIo<'_>) -> FileKey {
    PlaceKey::for_path(&io.resolve_path(path)).ok_or_else(|| path.to_owned())
}

/// The content of one file.
#[derive(Default)]
struct FileContent<'a> {
    /// As it was named first.
    path: String,
    kind: Option<DataFormat>,
    entries: Vec<(String, &'a HostTensor)>,
}

impl<'a> OutputFiles<'a> {
    fn add_tensor(&mut self, file: &DataFile, name: &str, tensor: &'a HostTensor, io: &ToolIo<'_>) {
        let content = self.files.entry(file_key(&file.path, io)).or_default();
        if content.path.is_empty() {
            content.path.clone_from(&file.path);
        }
        content.kind = Some(file.kind);
        content.entries.push((file.entry.clone().unwrap_or_else(|| name.to_owned()), tensor));
    }
    /// Writes beside each file.
    fn stage_files(&self, staged: &mut StagedFiles, io: &ToolIo<'_>) -> Result<(), Diag> {
        for FileContent { path, kind, entries } in self.files.values() {
            let bytes = match kind {
                Some(DataFormat::Npy) => npy::write_npy(entries[0].1),
                Some(DataFormat::Safetensors) | None => safetensors::write_safetensors(entries),
            };
            let bytes =
                bytes.map_err(|error| Diag::global_error(errors::KIND, message!("`{}`: {}", path, error.message)))?;
            staged.add_file(path, &io.resolve_path(path), &bytes)?;
        }
        Ok(())
    }
}
