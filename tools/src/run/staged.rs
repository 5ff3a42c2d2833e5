//! Files that are written beside their places and moved there together, so that a run leaves all of
//! them whole or none.

use std::io::Write;
use std::path::PathBuf;

/// Temporary files, removed unless they were moved into place.
#[derive(Default, Debug)]
pub(super) struct Staged {
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staged {
    /// Writes a file's content beside its place.
    pub(super) fn add(&mut self, path: PathBuf, bytes: &[u8]) -> std::io::Result<()> {
        self.write(path, |file| file.write_all(bytes))
    }
    /// Has a file's content written beside its place, piece by piece.
    pub(super) fn write(
        &mut self,
        path: PathBuf,
        content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if path.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside =
            path.with_file_name(format!(".{name}.{}.{}.tmp", std::process::id(), self.files.len()));
        self.files.push((beside.clone(), path));
        let mut file = std::io::BufWriter::new(std::fs::File::create(beside)?);
        content(&mut file)?;
        file.flush()
    }
    /// Moves all files into place; the path that failed comes back.
    pub(super) fn commit(mut self) -> Result<(), (PathBuf, std::io::Error)> {
        while let Some((beside, path)) = self.files.pop() {
            if let Err(error) = std::fs::rename(&beside, &path) {
                self.files.push((beside, path.clone()));
                return Err((path, error));
            }
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (beside, _) in &self.files {
            let _ = std::fs::remove_file(beside);
        }
    }
}
