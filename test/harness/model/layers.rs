//! Layers of Llama on two GPUs: the model's times of their regions, beside measured ones, and the step that follows.
//!
//! A region is a matmul with the collective beside it, as torch has it (all rows gathered, then multiplied; products,
//! their sum, a reduce-scatter) and as `overlap-lower` writes it. The regions' times are those of
//! docs/measurements/2026-11-24-torch-layers.md, without gradients of weights but where the region is a joint one; the
//! steps' are those of the pages of 2026-11-26 and 2026-11-27, as graphs, on all pairs of H100s from pair H on that have
//! both (of several rows of a pair, the last). What is outside of the regions is not modelled: a step of programs is
//! predicted as that of torch less what the regions save.

use hostir::backend::simulation::simulate_run;
use hostir::lower::{SizeSettings, prepare_program, stream_count};
use hostir::machine::Machine;
use hostir::plan::cost::CostModel;
use hostir_passes::PASSES;
use hostir_passes::manager::{Config, SilentObserver, run_pipeline};
use hostir_passes::pipeline::parse_pipeline;
use std::fmt::Write as _;

/// The rows of a part: 8,192 tokens on two GPUs.
const ROWS: usize = 4096;

/// The extents of a layer on one of two GPUs.
struct LayerSizes {
    name: &'static str,
    layers: f64,
    hidden: usize,
    /// The columns of the queries, and of the keys, which are those of the values.
    heads: [usize; 2],
    inner: usize,
    /// Milliseconds of measured steps: of `torch.compile` and of the programs.
    steps: &'static [(&'static str, [f64; 2])],
}

const LAYERS: [LayerSizes; 2] = [
    LayerSizes {
        name: "8B, 4 layers",
        layers: 4.0,
        hidden: 4096,
        heads: [2048, 512],
        inner: 7168,
        steps: &[
            ("H", [51.05, 48.18]),
            ("J", [50.37, 47.84]),
            ("K", [50.48, 47.67]),
            ("L", [50.41, 47.89]),
            ("M", [51.02, 48.54]),
            ("N", [50.80, 48.09]),
            ("O", [50.40, 48.29]),
            ("P", [50.74, 48.19]),
            ("Q", [50.42, 46.39]),
            ("V", [50.69, 46.30]),
        ],
    },
    LayerSizes {
        name: "70B, 2 layers",
        layers: 2.0,
        hidden: 8192,
        heads: [4096, 512],
        inner: 14336,
        steps: &[
            ("H", [81.64, 78.51]),
            ("I", [80.74, 77.86]),
            ("J", [80.03, 77.10]),
            ("L", [80.30, 76.82]),
            ("M", [81.55, 77.68]),
            ("P", [80.60, 77.09]),
            ("Q", [79.94, 75.12]),
        ],
    },
];

/// The measured regions of 8B: milliseconds as torch has them, and as programs.
const MEASURED: [(&str, [f64; 2]); 8] = [
    ("gather, q, k and v", [0.434, 0.322]),
    ("output projection, reduce-scatter", [0.404, 0.235]),
    ("gather, gate and up", [1.396, 1.284]),
    ("down projection, reduce-scatter", [0.822, 0.664]),
    ("gather, gradients of and through down", [1.383, 1.242]),
    ("gradient through gate and up", [1.444, 1.286]),
    ("gather, gradients of and through output", [0.510, 0.382]),
    ("gradient through q, k and v", [0.561, 0.396]),
];

/// A region with gathered rows, or one whose products are scattered.
enum Region {
    /// The columns of the products, and of the left factor of a gradient of a weight.
    Gather(Vec<usize>, Option<usize>),
    /// The depths of the products, which are added.
    Scatter(Vec<usize>),
}

/// The regions in the order of [`MEASURED`].
fn layer_regions(sizes: &LayerSizes) -> [Region; 8] {
    let ([queries, keys], inner) = (sizes.heads, sizes.inner);
    [
        Region::Gather(vec![queries, keys, keys], None),
        Region::Scatter(vec![queries]),
        Region::Gather(vec![inner, inner], None),
        Region::Scatter(vec![inner]),
        Region::Gather(vec![inner], Some(inner)),
        Region::Scatter(vec![inner, inner]),
        Region::Gather(vec![queries], Some(queries)),
        Region::Scatter(vec![queries, keys, keys]),
    ]
}

const HEAD: &str = "hir 2\nmesh d = 0..2\n\n";

impl Region {
    /// The text as torch has it and the pass that lowers it, and the same for a program.
    fn texts(&self, hidden: usize) -> [(String, &'static str); 2] {
        match self {
            Self::Gather(columns, gradient) => [
                (gathered_text(hidden, columns, *gradient), ""),
                (gathering_text(hidden, columns, *gradient), "overlap-lower"),
            ],
            Self::Scatter(depths) => [
                (scattered_text(hidden, depths, false), "host-ir-lower"),
                (scattered_text(hidden, depths, true), "overlap-lower"),
            ],
        }
    }
}

/// All rows in one buffer, which the products read.
fn gathered_text(hidden: usize, columns: &[usize], gradient: Option<usize>) -> String {
    let (mut inputs, mut outputs) = (format!("X: bf16[x:2, {ROWS}, {hidden}]"), Vec::new());
    let mut body = format!("  G: bf16[2, {ROWS}, {hidden}] = alloc\n  wait allgather(X -> G)\n");
    for (number, columns) in columns.iter().enumerate() {
        let _ = write!(inputs, ", W{number}: bf16[x:2, b.1, {hidden}, {columns}]");
        outputs.push(format!("Y{number}: bf16[x:2, 2, {ROWS}, {columns}]"));
        let _ = writeln!(body, "  Y{number} = alloc\n  Y{number}[own] = matmul(G, W{number}[own, 0])");
    }
    if let Some(inner) = gradient {
        let _ = write!(inputs, ", V: bf16[x:2, 1, 2 * {ROWS}, {inner}]");
        outputs.push(format!("dW: bf16[x:2, 1, {inner}, {hidden}]"));
        let _ = writeln!(body, "  R: bf16[2 * {ROWS}, {hidden}] = alloc(share=G)");
        body += "  T = Set.Permute(V, perm=[0, 1, 3, 2])\n  dW = alloc\n  dW[own, 0] = matmul(T[own, 0], R)\n";
    }
    format!("{HEAD}region({inputs}) -> ({}) on d:\n{body}", outputs.join(", "))
}

/// The same in plain math.
fn gathering_text(hidden: usize, columns: &[usize], gradient: Option<usize>) -> String {
    let (mut inputs, mut outputs) = (format!("X: bf16[x:2, {ROWS}, {hidden}]"), Vec::new());
    let mut body = "  G = broadcast(X, flags=[true, false, false, false])\n".to_owned();
    for (number, columns) in columns.iter().enumerate() {
        let _ = write!(inputs, ", W{number}: bf16[x:2, b.1, {hidden}, {columns}]");
        outputs.push(format!("Y{number}: bf16[x:2, 2, {ROWS}, {columns}, r.{hidden}]"));
        let _ = writeln!(body, "  Y{number} = matmul(G, W{number})");
    }
    if let Some(inner) = gradient {
        let _ = write!(inputs, ", V: bf16[x:2, 2, {ROWS}, {inner}]");
        outputs.push(format!("dW: bf16[x:2, r.2, {inner}, {hidden}]"));
        let _ = writeln!(body, "  T = Set.Permute(V, perm=[0, 1, 3, 2])");
        let _ = writeln!(body, "  P: bf16[x:2, 2, {inner}, {hidden}, r.{ROWS}] = matmul(T, G)");
        body += "  dW = reduction(P, op=add, init=bf16(0), allreduce=false)\n";
    }
    format!("{HEAD}region({inputs}) -> ({}) on d:\n{body}", outputs.join(", "))
}

/// Products whose sum is scattered: each adds to the one before it, or all are added by kernels.
fn scattered_text(hidden: usize, depths: &[usize], accumulates: bool) -> String {
    let (mut inputs, mut body, mut sum) = (Vec::new(), String::new(), "P0".to_owned());
    for (number, depth) in depths.iter().enumerate() {
        inputs.push(format!("X{number}: bf16[x:2, 2, {ROWS}, {depth}], W{number}: bf16[x:2, b.1, {depth}, {hidden}]"));
        let (op, added) =
            if accumulates && number > 0 { ("matmul_add", format!(", {sum}")) } else { ("matmul", String::new()) };
        let product = format!("P{number}: bf16[x:2, 2, {ROWS}, {hidden}, r.{depth}]");
        let _ = writeln!(body, "  {product} = {op}(X{number}, W{number}{added})");
        if accumulates {
            sum = format!("P{number}");
        } else if number > 0 {
            let _ = writeln!(body, "  S{number} = {sum} + P{number}");
            sum = format!("S{number}");
        }
    }
    let _ = writeln!(body, "  Y = reduction({sum}, op=add, init=bf16(0), allreduce=false)");
    format!("{HEAD}region({}) -> (Y: bf16[r.2, x:2, {ROWS}, {hidden}]) on d:\n{body}", inputs.join(", "))
}

/// The modelled milliseconds of a text as a graph.
fn modelled_ms((text, passes): &(String, &str), model: &CostModel) -> f64 {
    let (mut programs, diags) = hostir::load(text);
    assert!(!diags.has_errors(), "{diags:?}\n{text}");
    let mut program = programs.remove(0);
    if !passes.is_empty() {
        let pipeline = parse_pipeline(passes, PASSES).unwrap();
        let ran = run_pipeline(&mut program, &pipeline, &Config::default(), &mut SilentObserver);
        assert!(ran.is_ok(), "{:?}\n{text}", ran.err().map(|failure| failure.errors));
    }
    let streams = stream_count(&program, None);
    let sizes = SizeSettings { streams, memory_limit: u64::MAX, ..SizeSettings::default() };
    let prepared = prepare_program(&program, &sizes).unwrap_or_else(|diags| panic!("{diags:?}\n{text}"));
    simulate_run(&prepared, model).unwrap().end_ns() as f64 / 1e6
}

/// The errors of regions, and those of steps.
pub(crate) struct LayerErrors {
    pub(crate) regions: Vec<f64>,
    pub(crate) steps: Vec<f64>,
    pub(crate) text: String,
}

/// Compares the model of a machine with the measured regions and steps.
pub(crate) fn compare_layers(machine: &Machine) -> LayerErrors {
    let model = CostModel::of_machine(machine.clone());
    let mut found = LayerErrors { regions: Vec::new(), steps: Vec::new(), text: String::new() };
    for sizes in &LAYERS {
        let _ = writeln!(found.text, "Llama {} on two GPUs, model of {}", sizes.name, machine.name);
        let mut saved = 0.0;
        for (region, (name, measured)) in layer_regions(sizes).iter().zip(MEASURED) {
            let [torch, program] = region.texts(sizes.hidden).map(|text| modelled_ms(&text, &model));
            saved += torch - program;
            let _ = write!(found.text, "  {name:42} torch {torch:6.3} ms, program {program:6.3} ms");
            // The other layers' regions were not kept.
            if sizes.hidden == LAYERS[0].hidden {
                let errors = [torch / measured[0] - 1.0, program / measured[1] - 1.0];
                found.regions.extend(errors.map(f64::abs));
                let [torch, program] = errors.map(|error| error * 100.0);
                let [of_torch, of_program] = measured;
                let _ =
                    write!(found.text, ", measured {of_torch:.3} ({torch:+.1}%) and {of_program:.3} ({program:+.1}%)");
            }
            found.text.push('\n');
        }
        for (pair, [compiled, programs]) in sizes.steps {
            let predicted = compiled - sizes.layers * saved;
            let error = predicted / programs - 1.0;
            found.steps.push(error.abs());
            let _ = writeln!(
                found.text,
                "  step of pair {pair}: {predicted:.2} ms predicted, {programs:.2} measured ({:+.1}%), {compiled:.2} without programs",
                error * 100.0
            );
        }
    }
    found
}
