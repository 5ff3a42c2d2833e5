//! Records: the tags that each step of a schedule finds in memory.
//!
//! Every write leaves its tag. A read records the tag that it finds; a write records the tag that it replaces, and the
//! steps that have read that tag. If two schedules of a program leave different records, the order of two accesses is
//! open, and at least one of them writes: a race, whatever the values.

use super::memory::AccessTable;
use super::schedules::mix_bits;
use super::steps::StepId;

/// The tag of memory that nothing has written.
const UNWRITTEN: u64 = 0;
/// The tag of the initial contents of the caller's inputs.
const GIVEN: u64 = u64::MAX;

/// A class that a step reads before any write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnwrittenRead {
    /// The step.
    pub(super) step: StepId,
    /// The class.
    pub(super) class: u32,
}

/// The findings of a schedule's steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ScheduleRecords {
    /// By step.
    pub(super) found: Vec<u64>,
    /// In the order of the schedule.
    pub(super) unwritten: Vec<UnwrittenRead>,
}

/// The last write of a class, and the set of reads since.
#[derive(Clone, Copy)]
struct ClassTags {
    writer: u64,
    readers: u64,
}

/// Takes the steps in this order and records what each finds.
pub(super) fn record_schedule(table: &AccessTable, order: &[StepId]) -> ScheduleRecords {
    let start = |class: usize| {
        let writer = if table.object_of(class as u32).filled { GIVEN } else { UNWRITTEN };
        ClassTags { writer, readers: 0 }
    };
    let mut tags: Vec<ClassTags> = (0..table.classes.len()).map(start).collect();
    let mut records = ScheduleRecords { found: vec![0; order.len()], unwritten: Vec::new() };
    for &step in order {
        let tag = u64::from(step.0) + 1;
        let mut found = 0;
        for access in table.accesses_of(step) {
            let class = &mut tags[access.class as usize];
            if access.writes {
                found = mix_bits(found ^ mix_bits(class.writer)).wrapping_add(class.readers);
                *class = ClassTags { writer: tag, readers: 0 };
                continue;
            }
            if class.writer == UNWRITTEN {
                records.unwritten.push(UnwrittenRead { step, class: access.class });
            }
            found = mix_bits(found ^ mix_bits(class.writer));
            // The order of reads among each other does not matter.
            class.readers = class.readers.wrapping_add(mix_bits(tag));
        }
        records.found[step.0 as usize] = found;
    }
    records
}
