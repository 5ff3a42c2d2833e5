//! Which spelling features a file uses.
//!
//! What a file shows decides; for what it does not show, the era that fits what it does show.

use crate::ir::{Cast, Era, StreamSpelling, Style};
use crate::ops::pointwise::CASTS;
use hostir_grammar::ast::{Ast, Shape, Unit};

/// The features of a file.
pub(super) fn detect(ast: &Ast) -> Style {
    let has = |text: &str| ast.strings.find(text).is_some();
    let stream = stream_spelling(ast);
    let call_form = call_form(ast);
    let reshape = has("reshape");
    let era = if call_form == Some(true) || reshape {
        Era::E2026_04
    } else if stream == Some(StreamSpelling::LowerStreamIdx) {
        Era::E2025_10
    } else if stream == Some(StreamSpelling::Stream) {
        Era::E2025_01
    } else {
        Era::E2025_06
    };
    let base = era.style();
    Style {
        stream: stream.unwrap_or(base.stream),
        call_form: call_form.unwrap_or(base.call_form),
        tight_stream_index: tight_stream_index(ast).unwrap_or(base.tight_stream_index),
        cast: cast(ast).unwrap_or(base.cast),
        reshape: (base.reshape || reshape) && !has("view"),
        short_max: base.short_max || has("max") || has("min"),
        unit_lines: units(ast).all(|unit| unit.listed),
        ..base
    }
}

fn units(ast: &Ast) -> impl Iterator<Item = &Unit> {
    ast.containers.iter().flat_map(|container| &container.units)
}

/// From the domains, or from the name of the loop index.
fn stream_spelling(ast: &Ast) -> Option<StreamSpelling> {
    let spelling = |text: &str| match text {
        "Stream" => Some(StreamSpelling::Stream),
        "StreamIdx" => Some(StreamSpelling::StreamIdx),
        "streamIdx" => Some(StreamSpelling::LowerStreamIdx),
        _ => None,
    };
    let domains = ast.domains.iter().find_map(|domain| spelling(ast.str(domain.parallel)));
    domains.or_else(|| {
        let named = |text: &str| ast.strings.find(text).and_then(|_| spelling(text));
        named("StreamIdx").or_else(|| named("streamIdx"))
    })
}

fn call_form(ast: &Ast) -> Option<bool> {
    let words = ["Synchronize", "SetCurrentStream", "GetCurrentStream", "Wait"];
    let symbols = words.map(|word| ast.strings.find(word));
    if symbols.iter().all(Option::is_none) {
        return None;
    }
    let stmt = ast.stmts.iter().find(|stmt| symbols.contains(&Some(stmt.name)))?;
    Some(stmt.shape == Shape::Call)
}

fn tight_stream_index(ast: &Ast) -> Option<bool> {
    let key = ast.strings.find("stream_index");
    key?;
    ast.args.iter().find(|arg| arg.key == key).map(|arg| !arg.spaced)
}

fn cast(ast: &Ast) -> Option<Cast> {
    let has = |text: &str| ast.strings.find(text).is_some();
    if CASTS.iter().any(|(new, _)| has(new)) {
        return Some(Cast::To);
    }
    CASTS.iter().any(|(_, old)| has(old)).then_some(Cast::C)
}
