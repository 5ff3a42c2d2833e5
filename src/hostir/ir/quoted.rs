//! The names of a program's parts as messages quote them: typed, and in the spelling of each notation.

use super::hir2_words::{argument_word, collective_word, statement_word, word_of_dtype};
use super::ids::{ExprId, MeshId, OpId, TensorId};
use super::op::AttrKey;
use super::program::Program;
use super::short_expr::{STREAM_COUNT, short_expr_text};
use super::statement_label::{handle_label, op_display_name, statement_label};
use super::tensor::IterDomain;
use super::text::{domain_text, expr_text};
use super::types::{DType, IterType, ParallelType};
use crate::diag::{PartKind, Quoted};

impl Program {
    /// The tensor's name in a message.
    pub fn quoted_tensor(&self, tensor: TensorId) -> Quoted {
        Quoted::new(PartKind::Tensor, self.tensor_name(tensor))
    }
    /// A mesh in a message: `d`, `DeviceMesh{0 1}` or `[0, 1]`, or `no mesh`.
    pub fn quoted_mesh(&self, mesh: Option<MeshId>) -> Quoted {
        let printed = self.mesh_name(mesh);
        let devices = printed.strip_prefix("DeviceMesh{").and_then(|rest| rest.strip_suffix('}'));
        match devices.map(|devices| format!("[{}]", devices.replace(' ', ", "))) {
            Some(short) => Quoted::spelled(PartKind::Mesh, printed, short),
            None => Quoted::new(PartKind::Mesh, printed),
        }
    }
}

/// A statement in a message: its label ([`statement_label`]).
pub fn quoted_statement(program: &Program, id: OpId) -> Quoted {
    Quoted::new(PartKind::Statement, statement_label(program, id))
}

/// The word of an op in a message: `Communication`, or `allgather`.
pub fn quoted_op(program: &Program, id: OpId) -> Quoted {
    let printed = op_display_name(program, id).to_owned();
    let posted = program.op(id).word_attr(AttrKey::Type).and_then(|kind| collective_word(program.name(kind)));
    match posted.or_else(|| statement_word(&printed)) {
        Some(word) => Quoted::spelled(PartKind::Op, printed, word),
        None => Quoted::new(PartKind::Op, printed),
    }
}

/// The head word of a statement in backquotes, or the type of a communication: `ALLOCATE`, or `alloc`. A template
/// writes the backquotes.
pub fn quoted_head(head: &str) -> Quoted {
    match statement_word(head) {
        Some(word) => Quoted::spelled(PartKind::Op, head.to_owned(), word),
        None => Quoted::new(PartKind::Op, head.to_owned()),
    }
}

/// The head word of a statement, or the type of a communication, in a sentence: `ALLOCATE`, or `alloc` in backquotes.
pub fn bare_head(head: &str) -> Quoted {
    match statement_word(head).or_else(|| collective_word(head)) {
        Some(word) => Quoted::spelled(PartKind::Op, head.to_owned(), format!("`{word}`")),
        None => Quoted::new(PartKind::Op, head.to_owned()),
    }
}

/// An element type in a message: `float`, or `f32`.
pub fn quoted_type(dtype: DType) -> Quoted {
    Quoted::spelled(PartKind::Type, dtype.name(), word_of_dtype(dtype))
}

/// An axis in a message: `ideviceIdx.x10{4}`, or `x:4`.
pub fn quoted_axis(program: &Program, domain: &IterDomain) -> Quoted {
    let axis = axis_of_text(domain, domain_text(program, domain));
    let is_plain = domain.start.is_none() && domain.stop.is_none() && domain.expanded.is_none();
    match short_axis_words(domain).filter(|_| is_plain) {
        Some(words) => {
            let short = format!("{words}{}", short_expr_text(program, domain.extent));
            Quoted::spelled(PartKind::Axis, axis.printed().to_owned(), short)
        }
        None => axis,
    }
}

/// A broadcast in a message as one that is expanded to its extent: `bS0{1 ex 4}`, or `b.1 ex 4`.
pub fn quoted_expanded(program: &Program, domain: &IterDomain) -> Quoted {
    axis_of_text(domain, domain_text(program, domain).replacen('{', "{1 ex ", 1))
}

fn axis_of_text(domain: &IterDomain, printed: String) -> Quoted {
    match short_axis(domain, &printed) {
        Some(short) => Quoted::spelled(PartKind::Axis, printed, short),
        None => Quoted::new(PartKind::Axis, printed),
    }
}

/// An axis as types of `hir 2` write it; `None` for one that these cannot write.
fn short_axis(domain: &IterDomain, printed: &str) -> Option<String> {
    let (_, extent) = printed.strip_suffix('}')?.split_once('{')?;
    Some(format!("{}{}", short_axis_words(domain)?, without_brackets(extent)))
}

/// The words in front of an axis's extent: `r.x:`.
fn short_axis_words(domain: &IterDomain) -> Option<String> {
    let kind = match domain.iter {
        IterType::Iteration => "",
        IterType::Reduction => "r.",
        IterType::Broadcast => "b.",
        _ => return None,
    };
    let place = match domain.parallel {
        ParallelType::Serial => "",
        ParallelType::DIDx => "x:",
        ParallelType::DIDy => "y:",
        ParallelType::DIDz => "z:",
        ParallelType::Stream => "st:",
        _ => return None,
    };
    Some(format!("{kind}{place}"))
}

/// The devices or streams that an axis is distributed over, in a message: `deviceIdx.x`, or `x`.
pub fn quoted_parallel_type(parallel: ParallelType) -> Quoted {
    let printed = parallel.name();
    match parallel {
        ParallelType::DIDx | ParallelType::DIDy | ParallelType::DIDz => {
            Quoted::spelled(PartKind::Word, printed, printed.trim_start_matches("deviceIdx."))
        }
        _ => Quoted::new(PartKind::Word, printed),
    }
}

/// An expression in a message: `( i % numberOfStreams )`, or `( i % streams )`.
pub fn quoted_expr(program: &Program, expr: ExprId) -> Quoted {
    Quoted::spelled(PartKind::Scalar, expr_text(program, expr), short_expr_text(program, expr))
}

/// An expression in a message, without its outer brackets.
pub fn quoted_bare_expr(program: &Program, expr: ExprId) -> Quoted {
    let printed = expr_text(program, expr);
    Quoted::spelled(PartKind::Scalar, without_brackets(&printed).to_owned(), short_expr_text(program, expr))
}

/// A scalar or the text of an expression in a message.
pub fn quoted_scalar(printed: String) -> Quoted {
    match printed.as_str() {
        "deviceIdx.x" => Quoted::spelled(PartKind::Scalar, printed, "x"),
        text if text.contains(STREAM_COUNT) => {
            let short = text.replace(STREAM_COUNT, "streams");
            Quoted::spelled(PartKind::Scalar, printed, short)
        }
        _ => Quoted::new(PartKind::Scalar, printed),
    }
}

/// An argument of a statement in a message, with its value: `mem_type=global`, or `mem=global`.
pub fn quoted_argument(key: &str, value: &str) -> Quoted {
    let kind = if key == "backend" { PartKind::Communicator } else { PartKind::Word };
    let printed = format!("{key}={value}");
    match argument_word(key) {
        Some(word) => Quoted::spelled(kind, printed, format!("{word}={value}")),
        None => Quoted::new(kind, printed),
    }
}

/// A word of the language in a message: `numberOfStreams`, or `streams`.
pub fn quoted_word(printed: &'static str) -> Quoted {
    match argument_word(printed) {
        Some(word) => Quoted::spelled(PartKind::Word, printed, word),
        None => Quoted::new(PartKind::Word, printed),
    }
}

/// The name of the sends and receives that start together: a coalescing group, or a group.
pub fn coalescing_group() -> Quoted {
    Quoted::spelled(PartKind::Word, "coalescing group", "group")
}

/// Devices in a message: `(0 1)`, or `[0, 1]`.
pub fn quoted_team(devices: &[i64]) -> Quoted {
    let list: Vec<String> = devices.iter().map(i64::to_string).collect();
    if list.len() < 2 {
        return Quoted::new(PartKind::Team, format!("({})", list.concat()));
    }
    Quoted::spelled(PartKind::Team, format!("({})", list.join(" ")), format!("[{}]", list.join(", ")))
}

/// The statement that waits for a stream: `Synchronize Stream 0`, or `sync 0`.
pub fn quoted_synchronize(stream: &str) -> Quoted {
    let short = format!("sync {}", without_brackets(stream).replace(STREAM_COUNT, "streams"));
    Quoted::spelled(PartKind::Statement, format!("Synchronize Stream {stream}"), short)
}

/// The statement that waits for a communication or group, in backquotes. In `hir 2` one without a name gets it with the
/// wait.
pub fn quoted_wait(program: &Program, number: u32) -> Quoted {
    let printed = format!("`Wait Communication {number}`");
    let short = match program.given_names().handles.contains_key(&number) {
        true => format!("`wait {}`", handle_label(program, number)),
        false => "`wait h`, and `h =` in front of what it waits for,".to_owned(),
    };
    Quoted::spelled(PartKind::Statement, printed, short)
}

/// An expression without its outer brackets.
fn without_brackets(text: &str) -> &str {
    text.strip_prefix("( ").and_then(|rest| rest.strip_suffix(" )")).unwrap_or(text)
}
