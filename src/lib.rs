//! Host IR: a language for host programs that drive several devices, with a verifier, plans and backends.
//!
//! Data flows in one direction: text -> AST (`hostir_grammar`) -> [`resolve`] -> [`ir`] -> [`verify`] -> passes
//! -> [`mod@print`], or [`lower`] -> [`plan`] -> [`backend`].
//!
//! Reading, verifying and running a program on the CPU backend:
//!
//! ```
//! use hostir::backend::cpu;
//! use hostir::data::HostTensor;
//! use hostir::diag::render;
//! use hostir::ir::DType;
//! use hostir::lower::{SizeSettings, assemble_output, prepare_program, shard_input};
//!
//! // Rank r has row r of T0; afterwards both ranks have all of T1.
//! let text = "\
//! %HostIrContainer { (T0_g_float[ideviceIdx.x0{i0}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1})) :
//!   T1 = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
//!   Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
//!   Wait Communication 1
//! } // %HostIrContainer
//! ";
//! let (programs, mut diags) = hostir::load(text);
//! let program = &programs[0];
//! hostir::verify::verify(program, &mut diags);
//! assert!(!diags.has_errors(), "{}", render::to_string("allgather.hir", text, &diags.items));
//!
//! let mut sizes = SizeSettings::default();
//! sizes.set.insert("i1".to_owned(), 4);
//! let prepared = prepare_program(program, &sizes).expect("the mesh gives i0, the settings give i1");
//!
//! let mut whole = HostTensor::zeros(DType::Float, &[2, 4]);
//! whole.set_f64(5, 1.5);
//! let inputs = (0..prepared.ranks).map(|rank| vec![shard_input(&prepared, 0, rank, &whole)]).collect();
//! let result = cpu::run_plans(&prepared, inputs).expect("the ranks do not wait for each other in a circle");
//!
//! // Both ranks must have the same T1.
//! let outputs = (0..).zip(result.outputs).filter_map(|(rank, mut outputs)| Some((rank, outputs.remove(0)?)));
//! let gathered = assemble_output(&prepared, 0, outputs.collect()).expect("replicas are equal");
//! assert_eq!(gathered.bytes(), whole.bytes());
//! ```

pub mod analysis;
pub mod axes;
pub mod backend;
pub mod data;
pub mod diag;
pub mod hir2;
pub mod ir;
pub mod lower;
pub mod ops;
pub mod plan;
pub mod plan_checks;
pub mod print;
pub mod repair;
pub mod resolve;
pub mod style;
pub mod verify;

use diag::{Diag, DiagLabel, Diags};
use hostir_grammar::SyntaxError;

/// Reads a text. Returns one program for each container, and all diagnostics in text order.
///
/// Never fails: if there are errors, the programs hold everything that could be read.
///
/// ```
/// let (programs, diags) = hostir::load("%HostIrContainer { () -> () :\n  Wait Comunication 1\n} // %HostIrContainer\n");
/// assert_eq!(programs.len(), 1);
/// assert!(diags.has_errors());
/// ```
pub fn load(text: &str) -> (Vec<ir::Program>, Diags) {
    let parsed = hostir_grammar::parse(text);
    let mut diags = Diags { items: parsed.errors.into_iter().map(syntax_error).collect() };
    let containers = 0..parsed.ast.containers.len();
    let programs = containers.map(|at| resolve::resolve(&parsed.ast, at, text, &mut diags)).collect();
    diags.sort_by_place();
    (programs, diags)
}

/// Converts an error of the grammar to a diagnostic.
pub fn syntax_error(error: SyntaxError) -> Diag {
    let labels = error.others.into_iter().map(|other| DiagLabel { span: other.span, text: other.text });
    let mut diag = Diag::error(error.code, error.span, error.message).with_primary_text(error.label);
    diag.labels.extend(labels);
    diag.notes = error.notes;
    diag
}
