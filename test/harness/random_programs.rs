//! Writes random programs into a folder: `random_programs FOLDER COUNT [SEED]`.
//!
//! They are those that the test `lowering` lowers. The first line of each is a `// RUN:` line with the sizes that it
//! runs with.
#![allow(clippy::print_stderr, reason = "a program's own output")]

mod lowering {
    //! The generator.
    #[allow(dead_code, reason = "tests look at more of a program than its text and sizes")]
    pub(crate) mod generate;
}

use lowering::generate::program;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().ok();
    let (folder, count, seed) = match words.as_slice() {
        [folder, count] => (folder, number(count), Some(1)),
        [folder, count, seed] => (folder, number(count), number(seed)),
        _ => return usage(),
    };
    let (Some(count), Some(seed)) = (count, seed) else { return usage() };
    match write(Path::new(folder), count, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("random_programs: {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: random_programs FOLDER COUNT [SEED]");
    ExitCode::from(2)
}

fn write(folder: &Path, count: u64, seed: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for index in 0..count {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let generated = program(&mut rng);
        let sizes = generated.set.iter().map(|(name, value)| format!(" --set {name}={value}"));
        let sizes: String = sizes.collect();
        let text = format!("// RUN: hir-run %s{sizes}\n{}", generated.text);
        std::fs::write(folder.join(format!("{index:05}.hir")), text)?;
    }
    Ok(())
}
