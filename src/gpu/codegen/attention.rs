//! Attention by one kernel with an online softmax, in the manner of FlashAttention-2 (Dao, 2023): neither scores nor
//! their exponentials are stored, so that memory does not grow with the number of keys.
//!
//! It multiplies by `mma.sync`, which GPUs have from compute capability 8.0 on.

use super::{KernelJob, KernelLaunch};
use crate::operand::SymbolicAddress;
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{AttentionInst, BufferView};
use std::fmt::Write as _;

/// Queries of a block, 16 for each warp.
const ROWS: usize = 64;
/// Keys of a tile.
const KEYS: usize = 64;
/// The threads of a block.
const THREADS: u32 = 2 * ROWS as u32;
/// Blocks for which a multiprocessor has registers.
const BLOCKS_PER_SM: usize = 3;
/// Elements of a row in shared memory, for narrow and wide heads.
const PITCHES: [usize; 2] = [64, 128];

/// The job that computes attention.
///
/// # Errors
/// [`Unsupported`] for extents that no valid plan holds.
pub fn generate_attention(attention: &AttentionInst) -> Result<KernelJob, Unsupported> {
    let Ok([rows, heads]) = grid(attention) else {
        return Err(Unsupported::Malformed("attention with more rows or heads than a grid has"));
    };
    let views = attention.factors().into_iter().chain(attention.results());
    let params = views.map(|view| SymbolicAddress::View(view.clone())).collect();
    let text = source(attention)?;
    let launch = KernelLaunch { text, params, grid: [rows, heads, 1], block: [THREADS, 1, 1] };
    let job = KernelJob { launches: vec![launch], ..KernelJob::default() };
    Ok(job.noted("attention", |note| note.attention(attention)))
}

/// Blocks of rows, and heads of all batches.
fn grid(attention: &AttentionInst) -> Result<[u32; 2], std::num::TryFromIntError> {
    let heads: usize = attention.outer_extents().iter().product();
    Ok([attention.rows().div_ceil(ROWS).try_into()?, heads.try_into()?])
}

/// CUDA C++: the settings, and the text that is the same for all.
fn source(attention: &AttentionInst) -> Result<String, Unsupported> {
    let [elements, width] = attention.widths();
    let pitch = PITCHES.into_iter().find(|&pitch| elements.max(width) <= pitch);
    let pitch = pitch.ok_or(Unsupported::Malformed("attention of wide heads"))?;
    let [_, middle, inner] = attention.outer_extents();
    let mut text = String::new();
    let numbers = [
        ("ROWS", ROWS),
        ("KEYS", KEYS),
        ("BLOCKS_PER_SM", BLOCKS_PER_SM),
        ("PITCH", pitch),
        ("QUERY_ELEMENTS", elements),
        ("VALUE_ELEMENTS", width),
        ("QUERIES", attention.rows()),
        ("ALL_KEYS", attention.columns()),
        ("EXTENT_1", middle),
        ("EXTENT_2", inner),
        ("IS_CAUSAL", usize::from(attention.is_causal)),
        ("IS_BF16", usize::from(attention.query.dtype == DType::BFloat16)),
    ];
    for (name, value) in numbers {
        let _ = writeln!(text, "#define {name} {value}");
    }
    for (name, factor) in [("SCALE", attention.scale), ("SCALE_LOG2", attention.scale * std::f64::consts::LOG2_E)] {
        let _ = writeln!(text, "#define {name} {:e}f", factor as f32);
    }
    let names = ["QUERY", "KEY", "VALUE", "RESULT", "LOGSUMEXP"];
    for (name, view) in names.into_iter().zip(attention.factors().into_iter().chain(attention.results())) {
        define_steps(&mut text, name, view);
    }
    Ok(text + include_str!("attention.cu"))
}

/// The elements from one index to the next of the outer axes and the rows.
fn define_steps(text: &mut String, name: &str, view: &BufferView) {
    for (axis, dim) in view.dims.iter().take(4).enumerate() {
        let _ = writeln!(text, "#define {name}_STEP_{axis} {}ll", dim.stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::{BufferId, row_major};

    fn attention(rows: usize, columns: usize, [elements, width]: [usize; 2]) -> AttentionInst {
        let view = |number: u32, dtype: DType, shape: &[usize]| BufferView {
            buffer: BufferId(number),
            offset: 0,
            dims: row_major(shape),
            dtype,
        };
        let half = |number: u32, rows: usize, width: usize| view(number, DType::Half, &[2, 3, 1, rows, width]);
        AttentionInst {
            query: half(0, rows, elements),
            key: half(1, columns, elements),
            value: half(2, columns, width),
            result: half(3, rows, width),
            logsumexp: view(4, DType::Float, &[2, 3, 1, rows]),
            is_causal: false,
            scale: 0.125,
            composition: Vec::new(),
        }
    }

    #[test]
    fn a_block_takes_64_rows_of_one_head() {
        let job = generate_attention(&attention(130, 70, [64, 40])).expect("a job");
        let [launch] = &job.launches[..] else { panic!("one launch") };
        assert_eq!((launch.grid, launch.block), ([3, 6, 1], [128, 1, 1]));
        assert_eq!(crate::codegen::parameter_count(&launch.text), launch.params.len());
    }

    #[test]
    fn the_settings_are_in_the_text() {
        let text = source(&attention(130, 70, [64, 72])).expect("a text");
        let has = |line: &str| text.lines().any(|other| other == line);
        assert!(has("#define PITCH 128") && has("#define QUERIES 130") && has("#define ALL_KEYS 70"));
        assert!(has("#define SCALE 1.25e-1f") && has("#define KEY_STEP_0 13440ll") && has("#define KEY_STEP_3 64ll"));
        assert!(has("#define LOGSUMEXP_STEP_1 130ll") && has("#define IS_BF16 0"));
    }

    #[test]
    fn heads_that_do_not_fit_are_refused() {
        assert!(generate_attention(&attention(8, 8, [136, 64])).is_err());
    }
}
