//! Compiled kernels: from the resource cache, from the image store of the options, or from NVRTC.

use crate::runtime::options::Options;
use crate::runtime::store_key::store_key;
use crate::runtime::user_kernels::UserImages;
use crate::sys::driver::CudaDevice;
use crate::sys::{Error, nvrtc};
use hostir::plan::Plan;
use hostir_gpu::cubin::is_whole;
use hostir_gpu::schedule::RankSchedule;
use std::collections::BTreeMap;

/// Compiled kernels by their text.
pub(crate) type KernelImages = BTreeMap<String, Vec<u8>>;

/// All kernels of a program.
pub(crate) struct ProgramImages {
    /// Those that were generated.
    pub(crate) generated: KernelImages,
    /// Those of the user.
    pub(crate) user: UserImages,
}

/// Compiles every distinct kernel of these ranks, or takes it from the store.
pub(crate) fn compile_kernels(
    own: &[(&Plan, RankSchedule)],
    device: &CudaDevice,
    options: &Options,
) -> Result<KernelImages, Error> {
    let architecture = device.architecture()?;
    let mut images = KernelImages::new();
    for text in own.iter().flat_map(|(_, schedule)| &schedule.texts) {
        if !images.contains_key(text) {
            images.insert(text.clone(), load_or_compile(text, architecture, options)?);
        }
    }
    Ok(images)
}

/// Takes a kernel from this process's cache or from the store, or compiles it.
pub(crate) fn load_or_compile(text: &str, architecture: u32, options: &Options) -> Result<Vec<u8>, Error> {
    options.cache.kernel_image(architecture, text, || {
        let (major, minor) = nvrtc::version()?;
        let key = cubin_key(text, &nvrtc::compile_options(architecture), major, minor);
        let kept = options.store.as_ref().and_then(|store| store.get(&key));
        // A truncated image is compiled again, and replaces the stored one.
        if let Some(image) = kept.filter(|image| is_whole(image)) {
            return Ok(image);
        }
        let image = nvrtc::compile_cubin(text, architecture)?;
        if let Some(store) = &options.store {
            store.put(&key, &image);
        }
        Ok(image)
    })
}

/// Returns the key of a compiled kernel: SHA-256, in hexadecimal digits, over everything that determines its machine
/// code: this library's version, NVRTC's version, the compile options (the architecture is one of them) and the source.
fn cubin_key(source: &str, options: &[String], major: i32, minor: i32) -> String {
    let compiler = format!("nvrtc {major}.{minor}");
    let options = options.iter().map(String::as_str);
    store_key("hostir kernel", [compiler.as_str()].into_iter().chain(options).chain([source]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_source_options_and_compiler() {
        let options = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let key = |source: &str, all: &[&str], minor| cubin_key(source, &options(all), 13, minor);
        let first = key("text", &["-a", "-b"], 0);
        assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(first, key("text", &["-a", "-b"], 0));
        let others = [
            key("texts", &["-a", "-b"], 0),
            key("text", &["-a", "-c"], 0),
            key("text", &["-a-b"], 0),
            key("-btext", &["-a"], 0),
            key("text", &["-a", "-b"], 1),
        ];
        assert!(others.iter().all(|other| *other != first));
    }
}
