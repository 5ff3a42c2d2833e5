//! Compiled kernels on disk: `$XDG_CACHE_HOME/hostir/kernels`, or below `~/.cache`.

use hostir::backend::cuda::ImageStore;
use std::ffi::OsString;
use std::path::PathBuf;

/// A folder of images, one a file.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// The user's folder; `None` if there is no place for it.
    pub(super) fn open(env: fn(&str) -> Option<OsString>) -> Option<Self> {
        let path = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))?;
        Some(Self { folder: cache.join("hostir").join("kernels") })
    }
}

impl ImageStore for Kept {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.join(key)).ok().filter(|image| image.starts_with(b"\x7fELF"))
    }

    fn put(&self, key: &str, image: &[u8]) {
        // Under another name first, so that nobody reads half of it. A folder that cannot be written
        // costs a compilation in each run and is no error.
        let half = self.folder.join(format!("{key}.{}", std::process::id()));
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&half, image))
            .and_then(|()| std::fs::rename(&half, self.folder.join(key)));
        if written.is_err() {
            let _ = std::fs::remove_file(half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_whole_images_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = Kept { folder: folder.path().join("a/b") };
        assert_eq!(store.get("x"), None);
        store.put("x", b"\x7fELF rest");
        assert_eq!(store.get("x").unwrap(), b"\x7fELF rest");
        store.put("y", b"not an image");
        assert_eq!(store.get("y"), None);
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 2);
    }
}
