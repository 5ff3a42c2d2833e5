//! Communications: posts, groups and waits.

use super::handles::{HandleRef, report_no_element};
use super::program::ProgramReader;
use super::report;
use super::report_calls::{self, PostName};
use super::word_table::PostWord;
use crate::diag::{Diag, Message, PartKind, codes, message};
use crate::hir2::defaults::keyword;
use crate::hir2::defaults::{COMMUNICATION_WORDS, DEFAULT_BACKEND, default_team};
use crate::ir::{
    AttrKey, AttrValue, Op, OpId, OpKind, OpLayout, OwnForm, RootAs, TEAM_CUT, TensorId, Value, set_root_as,
};
use crate::ops::ArgKind;
use crate::ops::comm::{
    COMMUNICATION, P2P_COMMUNICATION, collective_op, collective_permute_op, group_end_op, group_start_op,
    memory_exchange_op, message_op, wait_op,
};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, NameSyntax, NodeRange, StmtForm, TargetSyntax};
use smallvec::{SmallVec, smallvec};

/// The keys of a communication, each with the attribute that it fills.
const KEYS: &[(&str, AttrKey)] = &[
    ("team", AttrKey::Team),
    ("over", AttrKey::Over),
    ("root", AttrKey::Root),
    ("root_as", AttrKey::RootAs),
    ("op", AttrKey::RedOp),
    ("via", AttrKey::Backend),
    ("comm", AttrKey::Comm),
    ("protocol", AttrKey::Protocol),
    ("to", AttrKey::Peer),
    ("from", AttrKey::Peer),
];

/// The keys of a collective.
const COLLECTIVE_KEYS: &[&str] = &["team", "over", "root", "root_as", "op", "via", "comm"];

/// The arguments of a communication with two sides.
struct TransferSides<'a> {
    input: TensorId,
    output: TensorId,
    keyed: &'a [ArgNode],
}

impl<'a> ProgramReader<'a> {
    /// Whether a call starts a communication.
    pub(super) fn is_post(&self, name: NameSyntax, args: NodeRange) -> bool {
        let has_arrow = || {
            let first = self.file.args[args.indices()].first();
            first.is_some_and(|arg| matches!(*self.file.expr(arg.value), ExprNode::Arrow(..)))
        };
        match self.post_word(name.name) {
            PostWord::Never => false,
            PostWord::Unless => !self.kernels.by_name.contains_key(&name.name),
            PostWord::WithArrow => has_arrow(),
            PostWord::Always => true,
        }
    }

    /// Returns true if a collective has an operand but no arrow, as a function of PyTorch: `G = allgather(A)`.
    pub(super) fn is_collective_result(&self, name: NameSyntax, args: NodeRange) -> bool {
        let file = self.file;
        let positional = || file.args[args.indices()].iter().filter(|arg| arg.key.is_none());
        let has_arrow = positional().any(|arg| matches!(file.expr(arg.value), ExprNode::Arrow(..)));
        let is_collective = COMMUNICATION_WORDS.iter().any(|(word, _)| *word == self.name_text(name.name));
        is_collective && self.is_post(name, args) && positional().count() == 1 && !has_arrow
    }

    /// `G = allgather(A)`: the result is inside.
    pub(super) fn report_collective_result(&mut self, target: &TargetSyntax, name: NameSyntax, args: NodeRange) {
        let place = |span: Span| self.source.get(span.as_usize_range()).unwrap_or_default();
        let result = place(self.file.expr_span(target.value));
        let operand = self.file.args[args.indices()].iter().find(|arg| arg.key.is_none());
        let operand = operand.map_or("A", |arg| place(arg.span));
        let keyed = self.file.args[args.indices()].iter().filter(|arg| {
            let key = arg.key.map(|key| self.file.symbol_text(key.name));
            key.is_some_and(|key| COLLECTIVE_KEYS.contains(&key))
        });
        let keyed: String = keyed.map(|arg| format!(", {}", place(arg.span))).collect();
        let memory = match target.ty {
            _ if self.names_tensor(target.value) => String::new(),
            Some(ty) => format!(", after `{result}: {} = alloc`", place(self.file.tensor_type(ty).span)),
            None => format!(", after an `alloc` that gives `{result}` its type"),
        };
        let word = self.name_text(name.name);
        let note = message!("write `wait {}({} -> {}{})`{}", PartKind::Op.quote(word), operand, result, keyed, memory);
        report::report_collective_result(word, note, name.span, self.diags);
    }

    /// A post as a statement of its own.
    pub(super) fn read_call_alone(&mut self, call: ast::ExprId, span: Span) -> Option<()> {
        if let ExprNode::Group(block) = *self.file.expr(call) {
            return self.read_group(block, None, span);
        }
        let ExprNode::Call(name, args) = *self.file.expr(call) else { return None };
        if self.is_post(name, args) {
            return self.read_post(name, args, None, span).map(|_| ());
        }
        let layout = self.table_op(name.name).map(OpKind::layout);
        if layout == Some(OpLayout::Own(OwnForm::LaunchKernel)) {
            return self.read_call(name, args, &[], span);
        }
        let text = self.name_text(name.name);
        if self.is_op_call(name) {
            report::report_no_target(text, span, self.diags);
        } else {
            report::report_unknown_op(self.shared.ops, self.file, &self.kernels.by_name, text, name.span, self.diags);
        }
        None
    }

    /// A post; gives back its handle.
    pub(super) fn read_post(
        &mut self,
        name: NameSyntax,
        args: NodeRange,
        handle: Option<HandleRef>,
        span: Span,
    ) -> Option<HandleRef> {
        let (op, handle) = self.make_post(name, args, handle, span)?;
        self.emit(op, span);
        Some(handle)
    }

    fn make_post(
        &mut self,
        name: NameSyntax,
        args: NodeRange,
        handle: Option<HandleRef>,
        span: Span,
    ) -> Option<(Op, HandleRef)> {
        let word = self.name_text(name.name);
        let op = match word {
            "send" | "recv" => self.read_message(word, args, span),
            "permute" => self.read_permute(args, span),
            "Dispatch" | "Combine" => {
                let file = self.file;
                let kind = self.table_op(name.name);
                kind.and_then(|kind| self.read_table_arguments(kind, &file.args[args.indices()], span))
            }
            _ => self.read_collective(word, args, span),
        };
        let handle = handle.unwrap_or_else(|| self.unnamed_handle());
        let mut op = op?;
        if handle.element.is_some() && !op.kind.spec().has_argument(AttrKey::Element.word()) {
            report_no_element(word, span, self.diags);
            return None;
        }
        handle.note_in(&mut op);
        Some((op, handle))
    }

    /// `send(A, to=p)`, `recv(B, from=p)`.
    fn read_message(&mut self, word: &str, args: NodeRange, span: Span) -> Option<Op> {
        let file = self.file;
        let list = &file.args[args.indices()];
        let side = if word == "send" { "to" } else { "from" };
        let [buffer, keyed @ ..] = list else {
            report::report_post_form(word, span, self.diags);
            return None;
        };
        if buffer.key.is_some() || matches!(*file.expr(buffer.value), ExprNode::Arrow(..)) {
            report::report_post_form(word, span, self.diags);
            return None;
        }
        let tensor = self.tensor_operand(buffer.value);
        let kind = self.program.names.intern(word);
        let found = self.read_keys(keyed, &[side, "via", "protocol", "comm"], word)?;
        let Some(AttrValue::Expr(peer)) = found.get(AttrKey::Peer) else {
            report::report_post_form(word, span, self.diags);
            return None;
        };
        let mut op = message_op(kind, peer, self.backend(&found));
        op.attrs.extend(found.get(AttrKey::Protocol).map(|protocol| (AttrKey::Protocol, protocol)));
        op.attrs.extend(found.get(AttrKey::Comm).map(|comm| (AttrKey::Comm, comm)));
        let buffer = Value::Tensor(tensor?);
        Some(if word == "send" { op.with_operand(buffer) } else { op.with_result(buffer) })
    }

    /// `allgather(A -> B, team=[0, 1])`.
    fn read_collective(&mut self, word: &str, args: NodeRange, span: Span) -> Option<Op> {
        let sides = self.read_sides(word, args, span)?;
        let mut op = collective_op(sides.input, sides.output);
        let found = self.read_keys(sides.keyed, COLLECTIVE_KEYS, word)?;
        let kind = COMMUNICATION_WORDS.iter().find(|(known, _)| *known == word).map_or("", |(_, kind)| kind);
        op.attrs.push((AttrKey::Type, self.word(kind)));
        self.read_team(&found, &mut op, span)?;
        op.attrs.extend(found.get(AttrKey::Root).map(|root| (AttrKey::Root, root)));
        op.attrs.extend(found.get(AttrKey::RedOp).map(|reduction| (AttrKey::RedOp, reduction)));
        op.attrs.push((AttrKey::Backend, self.backend(&found)));
        op.attrs.extend(found.get(AttrKey::Comm).map(|comm| (AttrKey::Comm, comm)));
        if let Some(AttrValue::Word(word)) = found.get(AttrKey::RootAs) {
            let is_position = self.program.names.get(word) == RootAs::Position.word();
            set_root_as(&mut op, is_position.then_some(word));
        }
        Some(op)
    }

    /// `permute(A -> B, to=p, from=q)`.
    fn read_permute(&mut self, args: NodeRange, span: Span) -> Option<Op> {
        let sides = self.read_sides("permute", args, span)?;
        let mut op = collective_permute_op(sides.input, sides.output);
        let (mut send, mut receive, mut rest) = (None, None, Vec::new());
        for arg in sides.keyed {
            match arg.key.map(|key| self.file.symbol_text(key.name)) {
                Some("to") => send = Some(self.scalar(arg.value)?),
                Some("from") => receive = Some(self.scalar(arg.value)?),
                _ => rest.push(*arg),
            }
        }
        let found = self.read_keys(&rest, &["team", "over", "to", "from", "via", "comm"], "permute")?;
        let (Some(send), Some(receive)) = (send, receive) else {
            report::report_post_form("permute", span, self.diags);
            return None;
        };
        self.read_team(&found, &mut op, span)?;
        op.attrs.push((AttrKey::SendPeer, AttrValue::Expr(send)));
        op.attrs.push((AttrKey::RecvPeer, AttrValue::Expr(receive)));
        op.attrs.push((AttrKey::Backend, self.backend(&found)));
        op.attrs.extend(found.get(AttrKey::Comm).map(|comm| (AttrKey::Comm, comm)));
        Some(op)
    }

    /// `A -> B`: the output's slices come first.
    fn read_sides(&mut self, word: &str, args: NodeRange, span: Span) -> Option<TransferSides<'a>> {
        let file = self.file;
        let (first, keyed) = match &file.args[args.indices()] {
            [first, keyed @ ..] if first.key.is_none() => (first, keyed),
            _ => {
                report::report_post_form(word, span, self.diags);
                return None;
            }
        };
        let ExprNode::Arrow(input, output) = *file.expr(first.value) else {
            report::report_post_form(word, span, self.diags);
            return None;
        };
        let output = self.tensor_operand(output);
        let input = self.tensor_operand(input);
        Some(TransferSides { output: output?, input: input?, keyed })
    }

    /// The place of the word of a communication, whose argument has this place.
    fn word_before(&self, word: &str, argument: Span) -> Option<Span> {
        let before = self.source.get(..argument.start as usize)?;
        let at = before.rfind(&format!("{word}("))?;
        Some(Span::new(at, at + word.len()))
    }

    fn read_keys(&mut self, args: &[ArgNode], known: &[&str], word: &str) -> Option<PostKeys> {
        let mut found = PostKeys::default();
        for arg in args {
            let text = arg.key.map_or("", |key| self.file.symbol_text(key.name));
            let key = KEYS.iter().find(|(name, _)| *name == text && known.contains(name)).map(|(_, key)| *key);
            let Some(key) = key else {
                let span = arg.key.map_or(arg.span, |key| key.span);
                let post = PostName { word, place: self.word_before(word, span) };
                report_calls::report_post_key(&post, text, known, span, self.diags);
                return None;
            };
            if matches!(key, AttrKey::Over | AttrKey::Comm) {
                self.check_minor_version(arg.span, &format!("`{text}=`"));
            }
            found.values.push((key, self.read_key(key, arg)?));
        }
        Some(found)
    }

    fn read_key(&mut self, key: AttrKey, arg: &ArgNode) -> Option<AttrValue> {
        let file = self.file;
        match (key, *file.expr(arg.value)) {
            (AttrKey::Team, ExprNode::List(members)) => self.read_members(members, arg),
            (AttrKey::Over, ExprNode::Field(base, _)) if self.unknown_mesh(base).is_some() => {
                // Reports that there is no such mesh.
                let name = self.unknown_mesh(base)?;
                self.find_mesh(name)?;
                None
            }
            (AttrKey::Peer | AttrKey::Root | AttrKey::Over, _) => self.scalar(arg.value).map(AttrValue::Expr),
            (AttrKey::Team, _) => {
                report::report_list("devices", "[0, 1, 2, 3]", arg.span, self.diags);
                None
            }
            _ => {
                let row = if key == AttrKey::Protocol { P2P_COMMUNICATION } else { COMMUNICATION };
                let spec = row.args.iter().find(|spec| spec.key == Some(key))?;
                let is_word = matches!(spec.kind, ArgKind::Word(_) | ArgKind::Name);
                debug_assert!(is_word, "{} is a word", keyword(spec));
                self.read_attribute(None, spec, arg, None)
            }
        }
    }

    /// The name in front of `.x`, if it is declared as nothing.
    fn unknown_mesh(&self, base: ast::ExprId) -> Option<NameSyntax> {
        let ExprNode::Name(name) = *self.file.expr(base) else { return None };
        let is_known = self.shared.meshes.contains_key(&name) || self.tables.scope.get(name).is_some();
        let is_printed = self.name_text(name) == "deviceIdx";
        (!is_known && !is_printed).then(|| NameSyntax { name, span: self.file.expr_span(base) })
    }

    /// The members of `team=[0, 1]` or `team=[i, i + 1]`.
    fn read_members(&mut self, members: NodeRange, arg: &ArgNode) -> Option<AttrValue> {
        let members = self.scalars_of(members)?;
        let team = self.program.team_attr(&members);
        if let AttrValue::Ints(devices) = &team
            && let Some(fault) = team_fault(devices)
        {
            self.diags
                .push(Diag::error(codes::BAD_TEAM, arg.span, fault).with_note("write ranks, as in `team=[0, 1]`"));
            return None;
        }
        if matches!(team, AttrValue::Exprs(_)) {
            self.check_minor_version(arg.span, "a team with a member that is computed");
        }
        Some(team)
    }

    fn backend(&mut self, found: &PostKeys) -> AttrValue {
        found.get(AttrKey::Backend).unwrap_or_else(|| self.word(DEFAULT_BACKEND))
    }

    /// Adds the team, the axis of teams, or the usual team.
    fn read_team(&mut self, found: &PostKeys, op: &mut Op, span: Span) -> Option<()> {
        let given = [AttrKey::Team, AttrKey::Over].map(|key| found.get(key).map(|value| (key, value)));
        if given.iter().any(Option::is_some) {
            op.attrs.extend(given.into_iter().flatten());
            return Some(());
        }
        let team = default_team(&self.program, op);
        if team.is_none() {
            self.report_no_team(op, span);
        }
        op.attrs.push((AttrKey::Team, AttrValue::Ints(team?.into())));
        Some(())
    }

    // Groups and waits.

    /// `h = { a; b }`.
    pub(super) fn read_group(&mut self, block: ast::BlockId, handle: Option<HandleRef>, span: Span) -> Option<()> {
        self.read_group_ops(block, handle, span).map(|_| ())
    }

    /// The ops of a group: slices of its members, StartCoalescing, members, EndCoalescing. Returns the handle.
    fn read_group_ops(&mut self, block: ast::BlockId, handle: Option<HandleRef>, span: Span) -> Option<HandleRef> {
        let file = self.file;
        let node = file.blocks.get(block.index())?;
        let outer = std::mem::take(&mut self.ops);
        let mut members = OpList::new();
        let mut good = true;
        for &stmt in &node.stmts {
            let before = self.ops.len();
            let read = self.read_member(&file.stmts[stmt.index()].form, file.stmts[stmt.index()].span);
            good &= read.is_some();
            let own: OpList = match read {
                Some(MemberOps::Post(op)) => smallvec![op],
                // A statement with slices of its own stays whole.
                Some(MemberOps::Statement) => self.ops.drain(before..).collect(),
                None => OpList::new(),
            };
            if let (Some(&first), Some(&last)) = (own.first(), own.last()) {
                self.tables.statements.note_statement(stmt, (first, last));
            }
            members.extend(own);
        }
        self.tables.statements.note_silent_statements(&node.stmts);
        let hoisted = std::mem::replace(&mut self.ops, outer);
        self.ops.extend(hoisted);
        let start = self.emit(group_start_op(), span);
        self.ops.extend(members);
        let handle = handle.unwrap_or_else(|| self.unnamed_handle());
        let mut end = group_end_op(handle.number);
        handle.note_in(&mut end);
        let end = self.emit(end, span);
        self.tables.statements.note_group(block, (start, end));
        good.then_some(handle)
    }

    fn read_member(&mut self, form: &StmtForm, span: Span) -> Option<MemberOps> {
        let file = self.file;
        let (name, args, handle) = match *form {
            StmtForm::Call(call) => match *file.expr(call) {
                ExprNode::Call(name, args) if self.is_post(name, args) => (name, args, None),
                _ => return self.read_member_statement(form, span),
            },
            StmtForm::Assign { targets, value } => match (&file.targets[targets.indices()], *file.expr(value)) {
                ([target], ExprNode::Call(name, args)) if self.is_post(name, args) => {
                    (name, args, Some(self.handle_target(target)?))
                }
                _ => return self.read_member_statement(form, span),
            },
            StmtForm::Wait(value) => match *file.expr(value) {
                ExprNode::Call(name, args) if self.is_post(name, args) => {
                    report::report_wait_in_group(span, file.expr_span(value), self.diags);
                    (name, args, None)
                }
                _ => return self.read_member_statement(form, span),
            },
            _ => return self.read_member_statement(form, span),
        };
        let (op, _) = self.make_post(name, args, handle, span)?;
        Some(MemberOps::Post(self.add_op(op, span)))
    }

    fn read_member_statement(&mut self, form: &StmtForm, span: Span) -> Option<MemberOps> {
        let before = self.ops.len();
        match *form {
            StmtForm::Verbatim(text) => self.read_verbatim(text, span)?,
            StmtForm::Assign { .. }
            | StmtForm::Wait(_)
            | StmtForm::Free(_)
            | StmtForm::Sync(_)
            | StmtForm::Stream(_, None)
            | StmtForm::Declare(..) => {
                self.read_nested_form(form, span)?;
            }
            StmtForm::Error => return None,
            _ => {
                report::report_member(span, self.diags);
                self.ops.truncate(before);
                return None;
            }
        }
        Some(MemberOps::Statement)
    }

    /// `wait h`, `wait allgather(A -> B)`, `wait { .. }`.
    pub(super) fn read_wait(&mut self, value: ast::ExprId, span: Span) -> Option<()> {
        let file = self.file;
        let handle = match *file.expr(value) {
            ExprNode::Group(block) => self.read_group_ops(block, None, span)?,
            ExprNode::Call(name, args) if self.is_post(name, args) => {
                let word = self.name_text(name.name);
                if HANDLELESS.contains(&word) {
                    report::report_wait_for_nothing(word, span, name.span, self.diags);
                    return None;
                }
                self.read_post(name, args, None, span)?
            }
            ExprNode::Name(_) | ExprNode::Index(..) => self.waited_handle(value)?,
            ExprNode::Error => return None,
            ExprNode::Call(name, _) if !self.is_op_call(name) && !self.is_function(name) => {
                report::report_unknown_op(
                    self.shared.ops,
                    file,
                    &self.kernels.by_name,
                    self.name_text(name.name),
                    name.span,
                    self.diags,
                );
                return None;
            }
            _ => {
                self.report_no_communication(value);
                return None;
            }
        };
        let mut wait = wait_op(handle.number);
        wait.attrs.extend(handle.element.map(|element| (AttrKey::Element, AttrValue::Expr(element))));
        self.emit(wait, span);
        Some(())
    }

    /// `share { send(..); recv(..) }`.
    pub(super) fn read_share(&mut self, block: ast::BlockId, span: Span) -> Option<()> {
        let file = self.file;
        let node = file.blocks.get(block.index())?;
        let mut op = memory_exchange_op();
        for &stmt in &node.stmts {
            let member = &file.stmts[stmt.index()];
            match self.read_member(&member.form, member.span)? {
                MemberOps::Post(id) if self.program.ops[id].kind.is_message() => op.operands.push(Value::Op(id)),
                _ => {
                    report::report_member(member.span, self.diags);
                    return None;
                }
            }
        }
        self.emit(op, span);
        Some(())
    }
}

/// Ops that communicate on the stream, and that nothing waits for.
const HANDLELESS: &[&str] = &["Dispatch", "Combine"];

/// A few ops.
type OpList = SmallVec<[OpId; 4]>;

/// The result of a statement of a group.
enum MemberOps {
    /// A communication in no block yet; its slices are in front of the group.
    Post(OpId),
    /// Ops at the end of those that are collected.
    Statement,
}

/// The keyed arguments of a post.
#[derive(Default)]
struct PostKeys {
    values: SmallVec<[(AttrKey, AttrValue); 2]>,
}

impl PostKeys {
    fn get(&self, key: AttrKey) -> Option<AttrValue> {
        self.values.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
    }
}

/// The fault in the devices of a team that the printed form cannot have; a last -1 stands for devices that nvFuser
/// did not print.
fn team_fault(devices: &[i64]) -> Option<Message> {
    let named = devices.strip_suffix(&[TEAM_CUT]).unwrap_or(devices);
    match named.iter().find(|device| **device < 0) {
        Some(negative) => Some(message!("the team contains the negative device {}", negative)),
        None => named.is_empty().then(|| "the team is empty".into()),
    }
}
