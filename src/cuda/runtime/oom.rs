//! Out-of-memory diagnostics: the device memory that a rank needs.

use hostir::diag::{Diag, Message, Span, codes};
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferId, BufferKind, InstKind, Plan};

/// The error of a rank whose allocation failed. `message` has the requested and the free bytes; the notes add the op of
/// the rank's largest buffer, its size, and the peak memory of the plan.
pub(crate) fn out_of_memory_diag(message: impl Into<Message>, prepared: &PreparedProgram, plan: &Plan) -> Diag {
    let (place, largest) = largest_buffer(prepared, plan).unzip();
    let mut diag = match place.flatten() {
        Some(span) => Diag::error(codes::DEVICE_MEMORY, span, message).with_primary_text("the largest buffer"),
        None => Diag::global_error(codes::DEVICE_MEMORY, message),
    };
    diag.notes.extend(largest.map(Message::from));
    let peak = format!("rank {}: the plan's peak memory is {}", plan.rank, bytes_text(plan.peak_bytes));
    diag.with_note(peak).with_note(
        "reduce the sizes, or shard tensors over more devices; `--check-only` prints the peak memory of the plan without a device",
    )
}

/// The place and the description of a plan's largest buffer.
fn largest_buffer(prepared: &PreparedProgram, plan: &Plan) -> Option<(Option<Span>, String)> {
    // The first of equals.
    let id = plan.buffers.ids().rev().max_by_key(|&id| buffer_bytes(plan, id))?;
    let (labels, buffer) = (&prepared.labels, &plan.buffers[id]);
    let tensor = labels.tensor_name(buffer.tensor);
    let what = format!("rank {}: the largest buffer is {tensor}, {}", plan.rank, bytes_text(buffer_bytes(plan, id)));
    if let BufferKind::Input(number) = buffer.kind {
        let span = labels.tensor_span(buffer.tensor);
        return Some((Some(span), format!("{what}, input number {number}")));
    }
    let Some(inst) = plan.iter().find(|inst| makes_buffer(&inst.kind, id)) else { return Some((None, what)) };
    let place = labels.origin_text(plan, inst.origin);
    Some((Some(labels.op_span(inst.origin.op)), format!("{what}, made by {place}")))
}

fn buffer_bytes(plan: &Plan, id: BufferId) -> u64 {
    let buffer = &plan.buffers[id];
    (buffer.elements as u64).saturating_mul(buffer.dtype.byte_size() as u64)
}

/// Returns true if an instruction allocates a buffer or writes it.
fn makes_buffer(kind: &InstKind, id: BufferId) -> bool {
    match kind {
        InstKind::Alloc { buffer } => *buffer == id,
        kind => kind.written_views().iter().any(|view| view.buffer == id),
    }
}

/// `12 bytes`, `4.0 MiB (4194304 bytes)`.
fn bytes_text(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let steps = (count.max(1).ilog2() / 10).min(4) as usize;
    match steps {
        0 => format!("{count} bytes"),
        steps => {
            let part = count as f64 / (1u64 << (10 * steps)) as f64;
            format!("{part:.1} {} ({count} bytes)", UNITS[steps - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::lower::{SizeSettings, prepare_program};

    fn reported(text: &str) -> (String, String) {
        let (programs, diags) = hostir::load(text);
        assert!(diags.is_empty(), "{diags:?}");
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let diag = out_of_memory_diag("no device memory".to_owned(), &prepared, &prepared.plans[0]);
        assert_eq!(diag.code, "H0521");
        let place = diag.primary.map_or("", |label| &text[label.span.as_usize_range()]);
        (place.to_owned(), diag.notes.join("; "))
    }

    #[test]
    fn the_largest_buffer_is_named() {
        let text = "%HostIrContainer { (T0_g_float[iS0{1024}, iS1{1}], T1_g_float[iS2{1}, iS3{2048}]) -> (T2_g_float[iS4{1024}, iS5{2048}, rS6{1}]) :
  T2_g_float[iS4{1024}, iS5{2048}, rS6{1}]
     = matmul(T0_g_float[iS0{1024}, iS1{1}],
              T1_g_float[iS2{1}, iS3{2048}])
} // %HostIrContainer
";
        let (place, notes) = reported(text);
        assert!(place.contains("matmul"), "{place}");
        assert!(
            notes.starts_with(
                "rank 0: the largest buffer is T2, 8.0 MiB (8388608 bytes), made by `T2 = matmul`; rank 0: the plan's peak memory is 8.0 MiB (8400896 bytes); reduce the sizes"
            ),
            "{notes}"
        );
    }

    #[test]
    fn an_input_may_be_the_largest() {
        let text = "%HostIrContainer { (T0_g_float[iS0{64}, iS1{4}]) -> (T1_g_float[iS2{64}, rS3{4}]) :
  T1_g_float[iS2{64}, rS3{4}]
     = reduction( T0_g_float[iS0{64}, iS1{4}], op = add, initial value = double(0), allreduce = false )
} // %HostIrContainer
";
        let (place, notes) = reported(text);
        assert!(place.starts_with("T0_g_float"), "{place}");
        let first = "rank 0: the largest buffer is T0, 1.0 KiB (1024 bytes), input number 0; ";
        assert!(notes.starts_with(first), "{notes}");
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(1023), "1023 bytes");
        assert_eq!(bytes_text(3 << 39), "1.5 TiB (1649267441664 bytes)");
    }
}
