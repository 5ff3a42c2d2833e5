//! The program of a row of the table of constructs: each group has one pattern, so that a row is one line.
//!
//! Patterns of whole statements name tensors as `<<0 float 2 r=3>>`: number, element type, axes. `<<0.sym ..>>` is one in
//! symmetric memory; an axis is an extent, or one with a kind of [`AXIS_KINDS`]; `m2` at the end is a mesh of 2 devices;
//! `\n` breaks the line. Tensors below 30 are inputs, those from 50 outputs, others neither.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Kinds of axes, by their letters in a row.
const AXIS_KINDS: [(&str, &str); 6] =
    [("r", "rS"), ("b", "bS"), ("x", "ideviceIdx.x"), ("rx", "rdeviceIdx.x"), ("s", "iStreamIdx"), ("t", "istreamIdx")];
/// The first number of a tensor that is no input, and the first one of an output.
const LOCALS: u32 = 30;
const OUTPUTS: u32 = 50;

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| regex(r"<<(\d+)(?:\.(\w+))? (\S+?)((?: [^\s>]+)*)>>"));
static TENSOR: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"T(\d+)_(?:sym|[glst])_([a-z_0-9]+(?:::complex<[a-z]+>)?)\[[^\]]*\](?: \(DeviceMesh\{[^)]*\}\))?")
});
static SCALAR: LazyLock<Regex> = LazyLock::new(|| regex(r"(^|[^\w.])((?:f4x2_|ptr|var|[bdficas])\d)\b"));
static RAGGED: LazyLock<Regex> = LazyLock::new(|| regex(r"extents=(T\d+[^\]]*\](?: \(DeviceMesh\{[^)]*\}\))?)"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// A program and how to run it.
pub(super) struct ConstructProgram {
    /// Its text, as nvFuser prints it.
    pub(super) text: String,
    /// The flags of a run on the CPU.
    pub(super) flags: Vec<String>,
}

impl ConstructProgram {
    /// The program for a construct of a group; `None` for an unknown group.
    pub(super) fn of_row(group: &str, construct: &str) -> Option<Self> {
        let text = program_text(group, &expand(construct))?;
        let flags = run_flags(&text);
        Some(Self { text, flags })
    }
}

fn program_text(group: &str, construct: &str) -> Option<String> {
    let words: Vec<&str> = construct.split(' ').collect();
    Some(match (group, words.as_slice()) {
        ("container", _) => format!("\n%HostIrContainer {construct}\n}} // %HostIrContainer\n\n"),
        ("definitions", _) => {
            let container = container("", &[], &[]);
            format!("{container}Index definitions:\n{construct}\n\n")
        }
        ("statement", _) => statements(construct, ""),
        ("communication", _) => statements(&allocated(construct), ""),
        ("unit", _) => {
            let (post, unit) = construct.split_once("\n\n").unwrap_or((construct, ""));
            statements(post, &format!("\n{unit}\n"))
        }
        ("dtype", _) => copy(&typed(0, construct), &[]),
        ("tensor", _) => copy(construct, &[]),
        ("domain", _) => copy_of_domain(construct),
        ("mesh", _) => copy(&format!("{} ({construct})", typed(0, "float")), &[]),
        ("scalar" | "constant" | "inline", _) => filled(construct),
        ("unary" | "cast", [name, from, to]) => pointwise(&[from], to, |args| format!("{name}({})", args[0])),
        ("prefix", [sign, from, to]) => pointwise(&[from], to, |args| format!("{sign}{}", args[0])),
        ("infix", [sign, from, to]) => {
            pointwise(&[from, from], to, |args| format!("{}\n     {sign} {}", args[0], args[1]))
        }
        ("binary" | "ternary", [name, from @ .., to]) => {
            pointwise(from, to, |args| format!("{name}({})", args.join("\n    , ")))
        }
        _ => return None,
    })
}

/// The construct with tensors in the place of their short forms, and line breaks.
fn expand(construct: &str) -> String {
    PLACEHOLDER.replace_all(construct, expand_tensor).replace("\\n", "\n")
}

fn expand_tensor(found: &Captures<'_>) -> String {
    let number: u32 = found[1].parse().unwrap_or_default();
    let memory = found.get(2).map_or("g", |memory| memory.as_str());
    let mut axes: Vec<&str> = found[4].split_whitespace().collect();
    let devices = axes.last().and_then(|last| last.strip_prefix('m')?.parse::<u32>().ok());
    let mesh = devices.map_or(String::new(), |count| {
        axes.pop();
        let devices: Vec<String> = (0..count).map(|device| device.to_string()).collect();
        format!(" (DeviceMesh{{{}}})", devices.join(" "))
    });
    let domains: Vec<String> = (number * 10..)
        .zip(axes)
        .map(|(domain, axis)| {
            let (kind, extent) = axis.split_once('=').unwrap_or(("", axis));
            let kind = AXIS_KINDS.iter().find(|(letters, _)| *letters == kind).map_or("iS", |(_, kind)| kind);
            format!("{kind}{domain}{{{extent}}}")
        })
        .collect();
    format!("T{number}_{memory}_{}[{}]{mesh}", &found[3], domains.join(", "))
}

/// A tensor of two axes with an element type.
fn typed(number: u32, dtype: &str) -> String {
    format!("T{number}_g_{dtype}[iS{}{{2}}, iS{}{{3}}]", number * 10, number * 10 + 1)
}

fn container(body: &str, inputs: &[String], outputs: &[String]) -> String {
    let (inputs, outputs) = (inputs.join(", "), outputs.join(", "));
    format!("\n%HostIrContainer {{ ({inputs}) -> ({outputs}) :\n{body}}} // %HostIrContainer\n\n")
}

/// Statements whose inputs and outputs are the tensors and scalars in them.
fn statements(text: &str, units: &str) -> String {
    let mut inputs = free_scalars(text);
    let mut outputs = Vec::new();
    for found in TENSOR.captures_iter(text) {
        let number: u32 = found[1].parse().unwrap_or_default();
        let list = match number {
            ..LOCALS => &mut inputs,
            OUTPUTS.. => &mut outputs,
            _ => continue,
        };
        if !list.contains(&found[0].to_owned()) {
            list.push(found[0].to_owned());
        }
    }
    container(&format!("  {text}\n{units}"), &inputs, &outputs)
}

/// The scalars of one digit in a text outside of its tensors, in the order of the text.
fn free_scalars(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for scalar in SCALAR.captures_iter(&TENSOR.replace_all(text, "")) {
        if !found.contains(&scalar[2].to_owned()) {
            found.push(scalar[2].to_owned());
        }
    }
    found
}

/// Statements after the allocation of the outputs and locals in them.
fn allocated(text: &str) -> String {
    let mut found: Vec<&str> = TENSOR.find_iter(text).map(|tensor| tensor.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    let is_given = |tensor: &&str| expanded_number(tensor).is_some_and(|number| number < LOCALS);
    let lines = found.into_iter().filter(|tensor| !is_given(tensor));
    let lines: Vec<String> =
        lines.map(|tensor| format!("{tensor} = ALLOCATE(mem_type=global, zero_init=false)\n  ")).collect();
    format!("{}{text}", lines.concat())
}

fn expanded_number(tensor: &str) -> Option<u32> {
    tensor.strip_prefix('T')?.split_once('_')?.0.parse().ok()
}

/// A copy of an input tensor, after other inputs.
fn copy(tensor: &str, others: &[String]) -> String {
    let (_, rest) = tensor.split_once('_').unwrap_or_default();
    let result = format!("T77_{rest}");
    let inputs = [others, &[tensor.to_owned()]].concat();
    container(
        &format!("  {result}\n     = Set( {tensor}, cache_op=Streaming )\n"),
        &inputs,
        std::slice::from_ref(&result),
    )
}

/// A copy of a tensor with an axis; the extents of a ragged one are an input.
fn copy_of_domain(domain: &str) -> String {
    let mesh = match domain.split_once("deviceIdx.").and_then(|(_, axis)| axis.chars().next()) {
        Some('x') => " (DeviceMesh{0 1})",
        Some('y') => " (DeviceMesh{{0}{1}})",
        Some('z') => " (DeviceMesh{{{0}}{{1}}})",
        _ => "",
    };
    let extents: Vec<String> = RAGGED.captures_iter(domain).map(|found| found[1].to_owned()).collect();
    copy(&format!("T0_g_float[{domain}, iS9{{3}}]{mesh}"), &extents)
}

/// A tensor that a scalar fills. The scalars and the tensor `T0` in it are inputs.
fn filled(scalar: &str) -> String {
    let mut inputs = free_scalars(scalar);
    if scalar.contains("(T0)") {
        inputs.push(typed(0, "float"));
    }
    let result = "T50_g_double[iS500{2}]".to_owned();
    container(&format!("  {result}\n     = full({{2}}, {scalar});\n"), &inputs, std::slice::from_ref(&result))
}

/// A pointwise function of tensors of these types.
fn pointwise(from: &[&str], to: &str, call: impl Fn(&[String]) -> String) -> String {
    let inputs: Vec<String> = (0..).zip(from).map(|(number, dtype)| typed(number, dtype)).collect();
    let result = typed(OUTPUTS, to);
    container(&format!("  {result}\n     = {};\n", call(&inputs)), &inputs, std::slice::from_ref(&result))
}

/// Extents are 2; scalars and tensors of integers are 1, which is an index of most axes and divides.
fn run_flags(text: &str) -> Vec<String> {
    let header = text.lines().find(|line| line.starts_with("%HostIrContainer")).unwrap_or_default();
    let inputs = header.split_once(" -> ").map_or(header, |(inputs, _)| inputs);
    let mut sizes = vec!["*=2".to_owned()];
    let numbers = free_scalars(inputs).into_iter().filter(|scalar| !scalar.starts_with(['a', 's', 'p', 'v', 'c']));
    sizes.extend(numbers.map(|scalar| format!("{scalar}=1")));
    let mut flags = vec!["--set".to_owned(), sizes.join(",")];
    for tensor in TENSOR.captures_iter(inputs) {
        if tensor[2].contains("int") {
            flags.extend(["--input".to_owned(), format!("T{}=ones", &tensor[1])]);
        }
    }
    flags
}
