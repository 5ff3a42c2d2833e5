//! Plans whose new memory holds patterns, for backends that do not track initialised memory.

use super::inst::{EventId, Inst, InstKind, StreamSlot, USER_STREAM};
use super::view::{BufferView, row_major};
use super::{Plan, PlanBuffer, ScalarValue};
use crate::ir::DType;
use std::borrow::Cow;

impl Plan {
    /// Returns the plan with all buffers allocated and filled with NaN (integers: with the byte 0xa5) before all other
    /// instructions. Then no two buffers share memory, as long as nothing is freed.
    pub fn poisoned(self) -> Plan {
        let insts = self.iter().map(Cow::into_owned);
        let (allocations, others): (Vec<Inst>, Vec<Inst>) =
            insts.partition(|inst| matches!(inst.kind, InstKind::Alloc { .. }));
        let Some(last) = allocations.last().map(|inst| inst.origin) else {
            return self;
        };
        let mut filled = Vec::with_capacity(2 * allocations.len() + self.streams as usize + others.len());
        for inst in allocations {
            let InstKind::Alloc { buffer } = inst.kind else { continue };
            let entry = &self.buffers[buffer];
            let dims = row_major(&[entry.elements]);
            let fill = poison_value(entry).map(|value| InstKind::Fill {
                dst: Box::new(BufferView { buffer, offset: 0, dims, dtype: entry.dtype }),
                value,
            });
            filled.push(Inst { kind: inst.kind, stream: USER_STREAM, origin: inst.origin });
            filled.extend(fill.map(|kind| Inst { kind, stream: USER_STREAM, origin: inst.origin }));
        }
        let event = EventId(self.events);
        filled.push(Inst { kind: InstKind::Record { event }, stream: USER_STREAM, origin: last });
        filled.extend((1..self.streams).map(|stream| Inst {
            kind: InstKind::WaitEvent { event },
            stream: StreamSlot(stream),
            origin: last,
        }));
        filled.extend(others);
        let bytes = self.buffers.iter().map(|(_, entry)| (entry.elements * entry.dtype.byte_size()) as u64).sum();
        Plan { events: self.events + 1, peak_bytes: bytes, ..self }.with_insts(filled)
    }
}

/// The pattern of a buffer; `None` for one without elements, or of a type without kernels.
fn poison_value(buffer: &PlanBuffer) -> Option<ScalarValue> {
    match buffer.dtype {
        _ if buffer.elements == 0 => None,
        DType::Double
        | DType::Float
        | DType::Half
        | DType::BFloat16
        | DType::Float8E4M3
        | DType::Float8E5M2
        | DType::Float8E8M0 => Some(ScalarValue::Float(f64::NAN)),
        // It has no NaN.
        DType::Float4E2M1 => Some(ScalarValue::Float(-6.0)),
        dtype if dtype.is_integer() => Some(ScalarValue::Int(dtype.wrapped_integer(i64::from_ne_bytes([0xa5; 8])))),
        DType::Bool => Some(ScalarValue::Bool(true)),
        _ => None,
    }
}
