//! One JSON object a diagnostic, one a line.

use super::view::LineIndex;
use hostir::diag::files::{PlacedDiag, TextFiles};
use hostir::diag::{Applicability, Diag, Fix, Message, Severity, Span, TextEdit, visible};
use hostir::verdict::ProofVerdict;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Writes all diagnostics. Lines and columns count from 1 (columns in characters); `start` and `end`
/// are byte offsets. `line`, `column` and `end` are null where there is no place in the text.
///
/// # Errors
/// Those of the writer.
pub(super) fn write_json(out: &mut dyn Write, name: &str, text: &str, diags: &[Diag]) -> io::Result<()> {
    let files = TextFiles::new(name, text);
    let mut lines: Option<LineIndex<'_>> = None;
    for diag in diags {
        let PlacedDiag { name, text, diag } = files.place_diag(diag);
        let lines = match lines.take().filter(|lines| std::ptr::eq(lines.whole_text(), text)) {
            Some(same) => lines.insert(same),
            None => lines.insert(LineIndex::new(text)),
        };
        writeln!(out, "{}", visible::escape_json(&diag_object(&name, lines, &diag).to_string()))?;
    }
    Ok(())
}

/// Writes the verdict about a program as one line (`docs/language.md`, "Proof").
///
/// # Errors
/// Those of the writer.
pub fn write_verdict(out: &mut dyn Write, name: &str, text: &str, verdict: &ProofVerdict) -> io::Result<()> {
    let lines = LineIndex::new(text);
    let trusted = verdict.trusted.iter().map(|launch| {
        let mut entry = location_fields(&lines, launch.span);
        for (key, value) in [("kernel_file", &launch.file), ("kernel", &launch.entry)] {
            entry.insert(key.to_owned(), value.as_str().into());
        }
        for (key, tensors) in [("reads", &launch.reads), ("writes", &launch.writes)] {
            entry.insert(key.to_owned(), tensors.as_slice().into());
        }
        Value::Object(entry)
    });
    let object = json!({
        "trusted": trusted.collect::<Value>(),
        "verdict": verdict.outcome.word(),
        "file": name,
        "program": verdict.program,
        "sizes": verdict.sizes,
        "ranks": verdict.ranks,
        "streams": verdict.streams,
        "errors": verdict.errors,
        "warnings": verdict.warnings,
        "rules": verdict.rules,
    });
    writeln!(out, "{}", visible::escape_json(&object.to_string()))
}

fn diag_object(name: &str, lines: &LineIndex<'_>, diag: &Diag) -> Value {
    let severity = match diag.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Remark => "remark",
    };
    let mut object = Map::new();
    object.insert("code".to_owned(), diag.code.into());
    object.insert("severity".to_owned(), severity.into());
    object.insert("message".to_owned(), diag.message.as_str().into());
    object.insert("file".to_owned(), name.into());
    let place = diag.primary.as_ref().map(|label| location_fields(lines, label.span)).unwrap_or_default();
    for key in ["line", "column", "start", "end"] {
        object.insert(key.to_owned(), place.get(key).cloned().unwrap_or(Value::Null));
    }
    let texts = diag.primary.iter().filter(|label| !label.text.is_empty()).chain(&diag.labels);
    let labels = texts.map(|label| {
        let mut entry = self::location_fields(lines, label.span);
        entry.insert("text".to_owned(), label.text.as_str().into());
        Value::Object(entry)
    });
    object.insert("labels".to_owned(), labels.collect());
    let (in_words, fixes): (Vec<&Fix>, Vec<&Fix>) =
        diag.fixes.iter().partition(|fix| fix.applicability == Applicability::InWords);
    let notes = diag.notes.iter().chain(in_words.into_iter().map(|fix| &fix.message));
    object.insert("notes".to_owned(), notes.clone().map(|note| Value::from(note.as_str())).collect());
    object.insert("fixes".to_owned(), fixes.into_iter().map(|fix| fix_object(lines, fix)).collect());
    let notes: Value = notes.map(part_objects).collect();
    object.insert("parts".to_owned(), json!({"message": part_objects(&diag.message), "notes": notes}));
    Value::Object(object)
}

/// The typed parts of a message; `start` and `end` are bytes of its text.
fn part_objects(message: &Message) -> Value {
    let parts = message.parts().iter();
    let objects = parts.map(|part| {
        json!({
            "kind": part.kind.word(),
            "text": &message.as_str()[part.start..part.end],
            "start": part.start,
            "end": part.end,
        })
    });
    objects.collect()
}

fn fix_object(lines: &LineIndex<'_>, fix: &Fix) -> Value {
    let mut object = Map::new();
    object.insert("message".to_owned(), fix.message.as_str().into());
    object.insert("applicability".to_owned(), fix.applicability.word().into());
    let edits = fix.edits.iter().map(|TextEdit { span, text }| {
        let mut entry = self::location_fields(lines, *span);
        entry.insert("replacement".to_owned(), text.as_str().into());
        Value::Object(entry)
    });
    object.insert("edits".to_owned(), edits.collect());
    Value::Object(object)
}

fn location_fields(lines: &LineIndex<'_>, span: Span) -> Map<String, Value> {
    let (line, column) = lines.line_and_column(span.start as usize);
    let mut entry = Map::new();
    entry.insert("line".to_owned(), (line + 1).into());
    entry.insert("column".to_owned(), (column + 1).into());
    entry.insert("start".to_owned(), span.start.into());
    entry.insert("end".to_owned(), span.end.into());
    entry
}
