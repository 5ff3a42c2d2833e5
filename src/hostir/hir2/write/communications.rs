//! Communications: collectives, sends and receives, groups, shared memory handles.

use super::ProgramWriter;
use super::statements::LINE_WIDTH;
use crate::hir2::defaults::{COMMUNICATION_WORDS, DEFAULT_BACKEND, default_team, is_post};
use crate::ir::{AttrKey, AttrValue, CommentPlace, CommunicationEffect, Op, OpId, RootAs, Value};

impl ProgramWriter<'_> {
    /// `h = ` if something else names the handle.
    pub(super) fn write_handle_target(&mut self, op: &Op) {
        let Some(number) = op.number() else { return };
        let element = op.expr_attr(AttrKey::Element);
        let is_named = element.is_some() || self.tables.names.handle_name(number).is_some();
        if is_named || self.tables.occurring.handles.get(&number).is_some_and(|count| *count > 1) {
            self.write_handle(number, element);
            self.push(" = ");
        }
    }

    /// A post without its handle.
    pub(super) fn write_post(&mut self, op: &Op) {
        let program = self.program;
        let word = op.word_attr(AttrKey::Type).map_or("", |word| program.name(word));
        let collective = COMMUNICATION_WORDS.iter().find(|(_, ty)| *ty == word).map(|(word, _)| *word);
        match (op.kind.communication(), op.operands.as_slice(), op.results.as_slice()) {
            (Some(CommunicationEffect::Collective), [input], [output]) if collective.is_some() => {
                self.write_transfer(collective.unwrap_or_default(), *input, *output);
                self.write_team(op);
                self.write_collective_keys(op);
            }
            (Some(CommunicationEffect::Message), [buffer], []) if word == "send" => {
                self.push("send(");
                self.write_operand(*buffer, 0);
                self.write_expr_key(op, "to", AttrKey::Peer);
            }
            (Some(CommunicationEffect::Message), [], [buffer]) if word == "recv" => {
                self.push("recv(");
                self.write_operand(*buffer, 0);
                self.write_expr_key(op, "from", AttrKey::Peer);
            }
            (Some(CommunicationEffect::Permute), [input], [output]) => {
                self.write_transfer("permute", *input, *output);
                self.write_expr_key(op, "to", AttrKey::SendPeer);
                self.write_expr_key(op, "from", AttrKey::RecvPeer);
                self.write_team(op);
            }
            _ => {
                self.push(op.kind.name());
                self.push("(");
                self.write_arguments(op);
                return self.push(")");
            }
        }
        self.write_backend(op);
        if let Some(protocol) = op.word_attr(AttrKey::Protocol) {
            self.push(", protocol=");
            self.push(program.name(protocol));
        }
        if let Some(name) = program.comm_name(op) {
            self.push(", comm=");
            self.push(name);
        }
        self.push(")");
    }

    /// `allgather(A -> B`
    fn write_transfer(&mut self, word: &str, input: Value, output: Value) {
        self.push(word);
        self.push("(");
        self.write_operand(input, 0);
        self.push(" -> ");
        self.write_operand(output, 0);
    }

    fn write_expr_key(&mut self, op: &Op, word: &str, key: AttrKey) {
        if let Some(expr) = op.expr_attr(key) {
            self.push(", ");
            self.push(word);
            self.push("=");
            self.write_expr(expr);
        }
    }

    fn write_team(&mut self, op: &Op) {
        self.write_expr_key(op, "over", AttrKey::Over);
        let program = self.program;
        let computed = program.computed_team(op).map(|members| program.team_attr(members));
        match computed.as_ref().or_else(|| op.attr(AttrKey::Team)) {
            Some(AttrValue::Ints(team)) if default_team(program, op).as_deref() != Some(team) => {
                self.push(", team=");
                self.write_integers(team);
            }
            Some(AttrValue::Exprs(members)) => {
                self.push(", team=[");
                for (at, &member) in members.iter().enumerate() {
                    self.push(if at > 0 { ", " } else { "" });
                    self.write_expr(member);
                }
                self.push("]");
            }
            _ => {}
        }
    }

    fn write_collective_keys(&mut self, op: &Op) {
        self.write_expr_key(op, "root", AttrKey::Root);
        if op.attr(AttrKey::Root).is_some() && self.program.root_as(op) == RootAs::Position {
            self.push(", root_as=position");
        }
        if let Some(word) = op.word_attr(AttrKey::RedOp) {
            self.push(", op=");
            self.push(self.program.name(word));
        }
    }

    fn write_backend(&mut self, op: &Op) {
        let backend = op.word_attr(AttrKey::Backend).map(|word| self.program.name(word));
        if let Some(backend) = backend.filter(|backend| *backend != DEFAULT_BACKEND) {
            self.push(", via=");
            self.push(backend);
        }
    }

    /// `h = { send(..); recv(..) }`: from StartCoalescing to EndCoalescing.
    pub(super) fn write_group(&mut self, ops: &[OpId], waited: bool) {
        let [start, members @ .., end] = ops else { return };
        if waited {
            self.push("wait ");
        } else if let Some(number) = self.program.op(*end).number() {
            self.write_handle(number, self.program.op(*end).expr_attr(AttrKey::Element));
            self.push(" = ");
        }
        let commented =
            |id: &OpId| self.has_comments(CommentPlace::Above(*id)) || self.has_comments(CommentPlace::Trailing(*id));
        let multiline = members.iter().any(commented)
            || self.has_comments(CommentPlace::Trailing(*start))
            || self.has_comments(CommentPlace::Above(*end));
        let written = self.out.len();
        if !multiline {
            self.write_group_line(members);
            let line = self.out.rfind('\n').map_or(0, |at| at + 1);
            if self.out[line..].chars().count() <= LINE_WIDTH {
                return;
            }
            self.out.truncate(written);
        }
        self.push("{");
        self.end_line(CommentPlace::Trailing(*start));
        let first = self.out.len();
        self.indent += 2;
        for &id in members {
            self.write_comment_lines(CommentPlace::Above(id), first);
            self.begin_line();
            self.write_simple(id, self.program.op(id));
            self.end_line(CommentPlace::Trailing(id));
        }
        self.write_end_comments(CommentPlace::Above(*end), first);
        self.indent -= 2;
        self.begin_line();
        self.push("}");
    }

    /// `{ a; b }`
    fn write_group_line(&mut self, members: &[OpId]) {
        self.push("{ ");
        for (index, &id) in members.iter().enumerate() {
            if index > 0 {
                self.push("; ");
            }
            self.write_simple(id, self.program.op(id));
        }
        self.push(" }");
    }

    /// `share { send(..); recv(..) }`
    pub(super) fn write_share(&mut self, op: &Op) {
        self.push("share { ");
        let mut separator = "";
        for value in &op.operands {
            let Value::Op(inner) = value else { continue };
            let inner = self.program.op(*inner);
            self.push(separator);
            if is_post(inner) {
                self.write_handle_target(inner);
            }
            self.write_post(inner);
            separator = "; ";
        }
        self.push(" }");
    }
}
