//! V17 to V20 and V56: numbers of communications, Waits, and groups of point-to-point operations.

use crate::diag::message;
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes};
use crate::ir::{
    AttrKey, BlockId, OpId, Program, Value, bare_head, coalescing_group, handle_phrase, quoted_head, quoted_op,
};

/// The maximum count of numbers that a note lists.
const NEAREST: usize = 3;

/// Checks the host program.
pub(super) fn check_posts(program: &Program, diags: &mut Diags) {
    let mut posts: Vec<(u32, OpId)> = Vec::new();
    let mut waits: Vec<(u32, OpId)> = Vec::new();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        if op.kind.is_wait() {
            waits.extend(op.operands.iter().filter_map(|value| match value {
                Value::Handle(number) => Some((*number, id)),
                _ => None,
            }));
        } else if op.kind.is_post() || op.kind.is_group_end() {
            posts.extend(op.number().map(|number| (number, id)));
        }
    });
    posts.sort_by_key(|(number, _)| *number);
    for pair in posts.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let both = [pair[0].1, pair[1].1];
        match both.map(|post| has_element(program, post)) {
            [true, true] => {}
            [false, false] => report_posted_twice(program, pair[0].0, both, diags),
            [_, is_element] => report_array(program, pair[0].0, both, is_element, diags),
        }
    }
    for (number, id) in waits {
        let first = posts.partition_point(|(other, _)| *other < number);
        match posts.get(first).filter(|(other, _)| *other == number) {
            None => report_unknown_post(program, number, id, &posts, diags),
            Some((_, post)) if has_element(program, id) && !has_element(program, *post) => {
                report_array(program, number, [*post, id], true, diags);
            }
            Some(_) => {}
        }
    }
    GroupChecker { program, diags }.check_block(program.body());
}

/// Returns true if a statement names an element of an array of handles.
fn has_element(program: &Program, id: OpId) -> bool {
    program.op(id).attr(AttrKey::Element).is_some()
}

/// V56: a handle is an array everywhere or nowhere; only a Wait for a whole array has no element.
fn report_array(program: &Program, number: u32, [first, second]: [OpId; 2], is_element: bool, diags: &mut Diags) {
    let name = handle_phrase(program, number);
    let (message, label) = match is_element {
        true => (message!("{} is not an array of handles, but has an element here", name), "it has no element here"),
        false => (message!("{} is an array of handles, but has no element here", name), "it has an element here"),
    };
    let (element, short) = ("element=i", format!("{}[i] = ..", program.handle_name(number)));
    let element = Quoted::spelled(PartKind::Handle, element, short);
    let note = match program.op(second).kind.is_wait() {
        true => message!("leave the element out here, or write `{}` where the communication starts", element),
        false => message!("write `{}` wherever a communication of the array starts", element),
    };
    diags.push(
        Diag::error(codes::HANDLE_ARRAY, program.op_span(second), message)
            .with_label(program.op_span(first), label)
            .with_note(note),
    );
}

/// V18.
fn report_posted_twice(program: &Program, number: u32, [first, second]: [OpId; 2], diags: &mut Diags) {
    let (message, note) = match program.written_handle(number) {
        Some(name) => (
            message!("two communications are called `{}`", Quoted::new(PartKind::Handle, name.clone())),
            match is_in_later_loop(program, [first, second]) {
                true => message!(
                    "one statement starts `{}`: to be one step ahead, use an array, `{}[0] = ..` and `{}[i + 1] = ..`, or \
                     make a loop of n steps one of n + 1 steps, with `if i > 0: wait {}`, then `if i < n: {} = ..`",
                    name,
                    name,
                    name,
                    name,
                    name
                ),
                false if is_in_one_block(program, [first, second]) => {
                    message!("one statement starts `{}`: give each a name and a `wait` of its own", name)
                }
                false => {
                    "give each its own name, and wait for it in the branch that starts it, `if c: wait send(..)`".into()
                }
            },
        ),
        None => (
            message!("two communications have the number {}", number),
            message!("give each communication its own number, which a {} names", bare_head("Wait")),
        ),
    };
    diags.push(
        Diag::error(codes::DUPLICATE_NUMBER, program.op_span(second), message)
            .with_label(program.op_span(first), "the first one is here")
            .with_note(note),
    );
}

/// Returns true if two ops stand in one block.
fn is_in_one_block(program: &Program, both: [OpId; 2]) -> bool {
    let mut blocks = program.blocks.ids();
    blocks.any(|block| both.iter().all(|op| program.block(block).ops.contains(op)))
}

/// Whether a loop holds the second of two ops and not the first.
fn is_in_later_loop(program: &Program, [first, second]: [OpId; 2]) -> bool {
    let mut found = false;
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let mut holds = [false; 2];
        for &block in op.blocks.iter().filter(|_| op.kind.is_loop()) {
            program.walk(block, &mut |inner| {
                holds = [holds[0] || inner == first, holds[1] || inner == second];
            });
        }
        found |= holds == [false, true];
    });
    found
}

/// V17.
fn report_unknown_post(program: &Program, number: u32, id: OpId, posts: &[(u32, OpId)], diags: &mut Diags) {
    let name = handle_phrase(program, number);
    let message = message!("{} for {}, but no communication has that number", bare_head("Wait"), name);
    let mut numbers: Vec<u32> = posts.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    numbers.sort_by_key(|n| (n.abs_diff(number), *n));
    numbers.truncate(NEAREST);
    let note = match numbers[..] {
        [] => "the program has no communications".to_owned(),
        [one] => format!("the only communication has number {}", program.handle_name(one)),
        _ => {
            let list: Vec<String> = numbers.iter().map(|number| program.handle_name(*number)).collect();
            format!("the closest numbers are {}", list.join(", "))
        }
    };
    diags.push(Diag::error(codes::UNKNOWN_WAIT, program.op_span(id), message).with_note(note));
}

struct GroupChecker<'a> {
    program: &'a Program,
    diags: &'a mut Diags,
}

impl GroupChecker<'_> {
    /// Checks a block: a group opens and closes in one block (V19) and contains communications only (V20).
    fn check_block(&mut self, block: BlockId) {
        let program = self.program;
        let mut open: Option<OpId> = None;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            match open {
                Some(outer) if op.kind.is_group_start() => self.report_nested(id, outer),
                None if op.kind.is_group_start() => open = Some(id),
                Some(_) if op.kind.is_group_end() => open = None,
                None if op.kind.is_group_end() => self.report_missing_start(id),
                Some(start) if !op.kind.is_message() && !op.kind.is_collective() => self.report_foreign_op(id, start),
                _ => {}
            }
            for &inner in &op.blocks {
                self.check_block(inner);
            }
        }
        if let Some(start) = open {
            let message = "StartCoalescing has no EndCoalescing in the same block";
            self.diags.push(
                Diag::error(codes::START_WITHOUT_END, program.op_span(start), message)
                    .with_note("end the group with `EndCoalescing N`, and wait for N"),
            );
        }
    }

    fn report_nested(&mut self, id: OpId, outer: OpId) {
        self.diags.push(
            Diag::error(codes::NESTED_START, self.program.op_span(id), "StartCoalescing inside an open group")
                .with_label(self.program.op_span(outer), "the group starts here")
                .with_note("end the first group before the second starts"),
        );
    }

    fn report_missing_start(&mut self, id: OpId) {
        let message = "EndCoalescing has no StartCoalescing before it in the same block";
        self.diags.push(
            Diag::error(codes::END_WITHOUT_START, self.program.op_span(id), message).with_note(message!(
                "write `{}` before the group, or remove this line",
                quoted_head("StartCoalescing")
            )),
        );
    }

    fn report_foreign_op(&mut self, id: OpId, start: OpId) {
        let name = quoted_op(self.program, id);
        let message =
            message!("`{}` is not allowed in a {}, which only contains communications", name, coalescing_group());
        self.diags.push(
            Diag::error(codes::OP_IN_GROUP, self.program.op_span(id), message)
                .with_label(self.program.op_span(start), "the group starts here")
                .with_note(Message::advice(
                    "move it before StartCoalescing or after EndCoalescing",
                    "move it to a line of its own, before the group or after it",
                )),
        );
    }
}
