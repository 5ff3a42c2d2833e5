//! The errors of the resolver, each in one function.

use super::Resolver;
use super::report_texts::{
    NeededValue, count_or_none, did_you_mean, example_text, infix_note, name_near, operator_of, signature_text,
    written_form,
};
use crate::diag::{Diag, Message, PartKind, Span, codes, message, nearest_candidate, nearest_function, syntax_error};
use crate::ir::functions;
use crate::ir::{AttrKey, DType, Id, TensorId, result_count_text};
use crate::ops::{ArgKind, ArgSpec, OpRegistry, OpSpec};
use hostir_grammar::ast::{self, ArgSyntax, ExprSyntax, HostUnitSyntax, StmtSyntax, Symbol, ValueSyntax};
use std::ops::RangeInclusive;

impl Resolver<'_> {
    /// Reports a program whose tensors have no element types.
    pub(super) fn report_untyped(&mut self) {
        let Some((number, span)) = self.element_types.first else { return };
        let word = self.element_types.element_type.name();
        let message = message!(
            "`{}` and other tensors have no element type, and are read as `{}`",
            PartKind::Tensor.quote(format!("T{number}")),
            PartKind::Type.quote(word)
        );
        let note = "nvFuser printed no element types before December 2024; another one is chosen with `--element-type`";
        self.diags.push(Diag::error(codes::NO_ELEMENT_TYPE, span, message).with_note(note).into_remark());
    }

    /// Records an error; only the first of very many.
    pub(super) fn report_error(&mut self, diag: Diag) {
        let most = hostir_grammar::MAX_ERRORS;
        match self.diags.items.len() {
            found if found < most => self.diags.push(diag),
            found if found == most => {
                let message = message!("the program has at least {} errors; checking stops here", most);
                let span = diag.primary.map(|label| label.span).unwrap_or_default();
                let note = "the text after this place is not checked";
                self.diags.push(Diag::error("H0023", span, message).with_note(note));
            }
            _ => {}
        }
    }

    /// The place of a word in a part of the text.
    fn word_place(&self, part: Span, word: &str) -> Option<Span> {
        let found = self.source.get(part.as_usize_range())?.find(word)?;
        let start = part.start as usize + found;
        Some(Span::new(start, start + word.len()))
    }

    pub(super) fn report_unknown_statement<T>(&mut self, stmt: &StmtSyntax) -> Option<T> {
        if self.diags.items.len() > hostir_grammar::MAX_ERRORS {
            return None;
        }
        let name = self.ast.symbol_text(stmt.name);
        let mut diag = Diag::error(
            codes::UNKNOWN_OP,
            stmt.name_span,
            message!("unknown statement `{}`", PartKind::Op.quote(name)),
        );
        if let Some((of, method)) = name.rsplit_once('.') {
            let note = self.method_note(stmt, of, method);
            self.report_error(diag.with_note(note));
            return None;
        }
        let near = nearest_function(
            name,
            OpRegistry::of_program(&self.program).head_words().chain(functions::function_names()),
        );
        diag = match near {
            Some(near) => name_near(diag, self.word_place(stmt.name_span, name), name, near),
            None => diag.with_note(infix_note(name)),
        };
        self.report_error(diag);
        None
    }

    /// The right spelling of `torch.relu(T0)` and `T0.relu()`.
    fn method_note(&self, stmt: &StmtSyntax, of: &str, method: &str) -> Message {
        let words = OpRegistry::of_program(&self.program).head_words();
        let known = words.chain(functions::function_names()).any(|name| name == method);
        let after = self.source.get(stmt.name_span.end as usize..stmt.span.end as usize);
        let arguments = after.unwrap_or("").trim().trim_end_matches(';');
        let pair = arguments.trim_matches(['(', ')']).split_once(',').filter(|(_, b)| !b.contains(','));
        if let (Some((a, b)), Some(sign)) = (pair, operator_of(method)) {
            return message!("write `{} {} {}`", a.trim(), sign, b.trim());
        }
        let tensor = of.strip_prefix('T').is_some_and(|number| number.parse::<u32>().is_ok());
        match (known, tensor, arguments.trim_start_matches('(').trim_start()) {
            (false, ..) => infix_note(method).into(),
            (true, false, _) => message!("write `{}{}`", PartKind::Op.quote(method), arguments),
            (true, true, rest) if rest.starts_with(')') => {
                message!("write `{}({}{}`", PartKind::Op.quote(method), of, rest)
            }
            (true, true, rest) => message!("write `{}({}, {}`", PartKind::Op.quote(method), of, rest),
        }
    }

    pub(super) fn report_unknown_function(&mut self, name: &str, span: Span) {
        let casts = functions::CASTS.iter().map(|(new, _)| *new);
        let diag = Diag::error(
            codes::UNKNOWN_FUNCTION,
            span,
            message!("unknown function `{}` in a scalar", PartKind::Op.quote(name)),
        );
        if let Some((_, method)) = name.rsplit_once('.')
            && functions::find_function(method, 1).is_some()
        {
            self.report_error(diag.with_note(message!("write `{}(..)`", PartKind::Op.quote(method))));
            return;
        }
        let diag = match nearest_function(name, functions::function_names().chain(casts).chain(["getMetaData"])) {
            Some(near) => name_near(diag, self.word_place(span, name), name, near),
            None => diag.with_note(
                "scalar expressions use operators and functions such as `ceilDiv(a, b)` and `where(a, b, c)`",
            ),
        };
        self.report_error(diag);
    }

    /// `*a` and `&a`.
    pub(super) fn report_prefix_operator(&mut self, symbol: &str, operand: ast::ExprId, span: Span) {
        let message = message!("`{}` is not a prefix operator", PartKind::Word.quote(symbol));
        let text = self.source.get(self.ast.exprs[operand.index()].1.as_usize_range()).unwrap_or("a");
        let note = message!("write `{}` alone: host programs have no pointers", text);
        self.report_error(Diag::error(codes::PREFIX_OPERATOR, span, message).with_note(note));
    }

    /// Returns true for `a ** b`, which the grammar reads as `a * (*b)`, and reports its spelling.
    pub(super) fn is_power(&mut self, symbol: Symbol, a: ast::ExprId, b: ast::ExprId) -> bool {
        let ast = self.ast;
        let ExprSyntax::Unary(second, b) = ast.exprs[b.index()].0 else { return false };
        if ast.symbol_text(symbol) != "*" || ast.symbol_text(second) != "*" {
            return false;
        }
        let (left, right) = (ast.exprs[a.index()].1, ast.exprs[b.index()].1);
        let [base, exponent] = [left, right].map(|span| self.source.get(span.as_usize_range()).unwrap_or("a"));
        let note = message!("a power is written `pow({}, {})`", base, exponent);
        let diag = Diag::error(codes::PREFIX_OPERATOR, left.join(right), "the operator `**` does not exist");
        self.report_error(diag.with_note(note));
        true
    }

    pub(super) fn report_wrong_arity(&mut self, name: &str, needed: usize, found: usize, span: Span) {
        let message =
            message!("`{}` takes {}, found {}", PartKind::Op.quote(name), count_or_none(needed, "operand"), found);
        let operands = ["a", "b", "c", "d"][..needed.min(4)].join(", ");
        let note = message!("write `{}({})`", PartKind::Op.quote(name), operands);
        self.report_error(Diag::error(codes::WRONG_ARITY, span, message).with_note(note));
    }

    /// Reports an operand of another kind than the needed one.
    pub(super) fn report_wrong_operand<'n>(&mut self, needed: impl Into<NeededValue<'n>>, arg: &ArgSyntax) {
        self.report_wrong_value(None, needed.into(), arg);
    }

    /// Reports the value with the name `title` of another kind than the needed one.
    pub(super) fn report_wrong_kind<'n>(&mut self, title: &str, needed: impl Into<NeededValue<'n>>, arg: &ArgSyntax) {
        self.report_wrong_value(Some(title), needed.into(), arg);
    }

    pub(super) fn report_wrong_value(&mut self, title: Option<&str>, needed: NeededValue<'_>, arg: &ArgSyntax) {
        let what = match title {
            Some(title) => PartKind::Word.quote(title).in_backquotes().into(),
            None => Message::from("this operand"),
        };
        let message = message!("{} needs {}, found {}", what, needed.describe(), self.describe_arg(arg));
        let diag = Diag::error(codes::WRONG_KIND, self.value_span(arg), message);
        let text = self.source.get(self.value_span(arg).as_usize_range()).unwrap_or("");
        let note = match arg.value {
            ValueSyntax::Expr(_) if needed == NeededValue::Kind(ArgKind::Bool) => {
                nearest_candidate(text, ["true", "false"])
                    .map(|near| message!("did you mean `{}`?", PartKind::Word.quote(near)))
            }
            ValueSyntax::Expr(expr)
                if needed == NeededValue::Kind(ArgKind::Tensor)
                    && matches!(self.ast.exprs[expr.index()].0, ExprSyntax::Name(_)) =>
            {
                Some("tensors are named `T0`, `T1` and so on; other names are scalars".into())
            }
            ValueSyntax::Text(word) => Some(message!(
                "words are written without quotes: `{}`",
                PartKind::Word.quote(self.ast.symbol_text(word))
            )),
            ValueSyntax::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                ExprSyntax::Index(of, _) => self.slice_note(self.ast.exprs[of.index()].1),
                _ => None,
            },
            _ => None,
        };
        self.report_error(match note {
            Some(note) => diag.with_note(note),
            None => diag,
        });
    }

    /// Returns a note with the spelling of a slice that other tools write as `T3[i]`; `tensor` is the span of `T3`.
    fn slice_note(&self, tensor: Span) -> Option<Message> {
        let name = self.source.get(tensor.as_usize_range())?;
        let name = name.split('_').next().filter(|name| name.starts_with('T'))?;
        let inside = self.source.get(tensor.end as usize..)?.trim_start().strip_prefix('[')?;
        let at = inside.split([']', '\n']).next().filter(|at| !at.is_empty())?;
        Some(message!("write a slice as `T9_l_float[..] = HirAliasSelect( {}, axis = 0, index = {} )`", name, at))
    }

    /// Returns the span of an argument's value, without its key.
    pub(super) fn value_span(&self, arg: &ArgSyntax) -> Span {
        match arg.value {
            ValueSyntax::Expr(expr) => self.ast.exprs[expr.index()].1,
            _ => arg.span,
        }
    }

    /// Returns true for the reference of a tensor.
    fn is_tensor(&self, arg: &ArgSyntax) -> bool {
        let ValueSyntax::Expr(expr) = arg.value else { return false };
        matches!(self.ast.exprs[expr.index()].0, ExprSyntax::Tensor(_))
    }

    /// Describes an argument in words.
    fn describe_arg(&self, arg: &ArgSyntax) -> &'static str {
        match arg.value {
            ValueSyntax::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                ExprSyntax::Tensor(_) => "a tensor",
                ExprSyntax::Int(_) => "an integer",
                ExprSyntax::Bool(..) => "a truth value",
                ExprSyntax::Name(_) => "a name",
                _ => "a scalar",
            },
            ValueSyntax::Domain(_) => "an iteration domain",
            ValueSyntax::Stream(_) => "a stream",
            ValueSyntax::Handle(..) => "a handle",
            ValueSyntax::List(_) => "a list",
            ValueSyntax::Team(..) => "a team",
            ValueSyntax::Text(_) => "a text",
            ValueSyntax::Stmt(_) => "a statement",
            ValueSyntax::Error => "an error",
        }
    }

    pub(super) fn report_unknown_word(&mut self, title: &str, word: &str, words: &[&str], arg: &ArgSyntax) {
        let span = self.value_span(arg);
        let diag =
            Diag::error(codes::UNKNOWN_WORD, span, message!("unknown {} `{}`", title, PartKind::Word.quote(word)));
        let place = self.word_place(span, word);
        self.report_error(did_you_mean(diag, place, word, words));
    }

    pub(super) fn report_unknown_predicate(&mut self, word: &str, words: &[&str], stmt: &StmtSyntax) {
        let message = message!("unknown predicate `{}`", PartKind::Word.quote(word));
        let diag = Diag::error(codes::UNKNOWN_WORD, stmt.name_span, message);
        let place = self.word_place(stmt.span, word);
        self.report_error(did_you_mean(diag, place, word, words));
    }

    pub(super) fn report_no_condition(&mut self, stmt: &StmtSyntax) {
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.span, "the IF has no condition")
            .with_note("write `IF Manual ( StreamIdx == rank ):`");
        self.report_error(diag);
    }

    pub(super) fn report_missing(&mut self, spec: &OpSpec, declared: &ArgSpec, stmt: &StmtSyntax) {
        let message = match declared.word {
            Some(word) => {
                message!("`{}` needs `{}=`", PartKind::Op.quote(spec.identity.name), PartKind::Word.quote(word))
            }
            None => message!("`{}` needs {}", PartKind::Op.quote(spec.identity.name), declared.kind.describe()),
        };
        let memory = (declared.key == Some(AttrKey::MemType)).then(|| self.result_memory(stmt));
        let example = match memory.flatten() {
            Some(word) => format!("`mem_type={word}`"),
            None => example_text(declared),
        };
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.name_span, message)
            .with_note(message!("add {}", example))
            .with_note(message!("its arguments are {}", signature_text(spec)));
        self.report_error(diag);
    }

    /// The word for the memory of the tensor in front of `=`.
    fn result_memory(&self, stmt: &StmtSyntax) -> Option<&'static str> {
        let ValueSyntax::Expr(expr) = self.ast.args_in(stmt.results).first()?.value else {
            return None;
        };
        let ExprSyntax::Tensor(tensor) = self.ast.exprs[expr.index()].0 else { return None };
        let number = self.ast.tensors[tensor.index()].number;
        let tensor = self.scope.latest_of_number(number)?;
        Some(self.program.tensors[tensor].memory.word())
    }

    /// Reports a statement in the list of a group that is not one of its members.
    pub(super) fn report_other_member(&mut self, stmt: &StmtSyntax, needed: &str) {
        let found = self.ast.symbol_text(stmt.name);
        let message = match found {
            "" => message!("a member of this group must be a `{}`", PartKind::Op.quote(needed)),
            _ => message!(
                "a member of this group must be a `{}`, found `{}`",
                PartKind::Op.quote(needed),
                PartKind::Op.quote(found)
            ),
        };
        self.report_error(Diag::error(codes::WRONG_KIND, stmt.name_span, message));
    }

    /// Reports an argument of a Welford without a mark, or with another one.
    pub(super) fn report_unknown_tag(&mut self, key: &str, arg: &ArgSyntax) {
        let message = match key {
            "" => "this value of a `Welford` has no mark".into(),
            _ => message!("`Welford` has no values with the mark `({})`", PartKind::Word.quote(key)),
        };
        let note = "the marks are `(Avg)`, `(Var)` and `(Count)`; `(N)` for the count after `initial value =`";
        self.report_error(Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message).with_note(note));
    }

    pub(super) fn report_missing_word(&mut self, spec: &OpSpec, word: &str, stmt: &StmtSyntax) {
        let message = message!("`{}` needs `{}`", PartKind::Op.quote(spec.identity.name), PartKind::Word.quote(word));
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.name_span, message);
        self.report_error(diag.with_note(message!("write `{}`", written_form(spec.identity.name))));
    }

    pub(super) fn report_unknown_argument(&mut self, spec: &OpSpec, key: &str, arg: &ArgSyntax) {
        let words: Vec<&str> = spec.args.iter().filter_map(|declared| declared.word).collect();
        let message =
            message!("`{}` has no argument `{}`", PartKind::Op.quote(spec.identity.name), PartKind::Word.quote(key));
        let diag = Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message);
        let diag = match nearest_candidate(key, words.iter().copied()) {
            Some(near) => name_near(diag, self.word_place(arg.span, key), key, near),
            None if spec.args.is_empty() => diag.with_note("remove it"),
            None => diag.with_note(message!("its arguments are {}", signature_text(spec))),
        };
        self.report_error(diag);
    }

    pub(super) fn report_unknown_list(&mut self, spec: &OpSpec, key: &str, arg: &ArgSyntax) {
        let message =
            message!("`{}` has no argument `{}`", PartKind::Op.quote(spec.identity.name), PartKind::Word.quote(key));
        let diag = Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message);
        self.report_error(did_you_mean(diag, self.word_place(arg.span, key), key, &["Inputs", "Outputs"]));
    }

    pub(super) fn report_duplicate(&mut self, spec: &OpSpec, argument: &str, first: &ArgSyntax, arg: &ArgSyntax) {
        let message = message!(
            "`{}` has the argument `{}` twice",
            PartKind::Op.quote(spec.identity.name),
            PartKind::Word.quote(argument)
        );
        let diag = Diag::error(codes::DUPLICATE_ARGUMENT, arg.span, message);
        self.report_error(diag.with_label(first.span, "first given here").with_note("remove one of them"));
    }

    pub(super) fn report_duplicate_list(&mut self, spec: &OpSpec, first: &ArgSyntax, arg: &ArgSyntax) {
        let key = arg.key.map_or("", |key| self.ast.symbol_text(key));
        self.report_duplicate(spec, key, first, arg);
    }

    pub(super) fn report_extra_operand(&mut self, spec: &OpSpec, arg: &ArgSyntax) {
        let needed = spec.args.iter().filter(|declared| declared.word.is_none()).count();
        let message = message!(
            "`{}` takes {}, and this is one more",
            PartKind::Op.quote(spec.identity.name),
            count_or_none(needed, "operand")
        );
        let diag = Diag::error(codes::EXTRA_OPERAND, arg.span, message);
        let diag = if spec.args.is_empty() {
            diag
        } else {
            diag.with_note(message!("its arguments are {}", signature_text(spec)))
        };
        self.report_error(diag);
    }

    pub(super) fn report_wrong_results(&mut self, name: &str, counts: RangeInclusive<usize>, stmt: &StmtSyntax) {
        let found = stmt.results.len();
        let span = match self.ast.args_in(stmt.results) {
            [first, .., last] => first.span.join(last.span),
            [only] => only.span,
            [] => stmt.name_span,
        };
        let message = message!("`{}` has {}, found {}", PartKind::Op.quote(name), result_count_text(&counts), found);
        let diag = Diag::error(codes::WRONG_RESULTS, span, message);
        let diag = match counts.end() {
            0 => diag.with_note(message!("write `{}` without `=`", PartKind::Op.quote(name))),
            _ => diag.with_note(message!("write `T1_g_float[iS0{{i0}}] = {}...`", PartKind::Op.quote(name))),
        };
        self.report_error(diag);
    }

    pub(super) fn report_wrong_number(&mut self, name: &str, needed: bool, stmt: &StmtSyntax) {
        let diag = if needed {
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, message!("`{}` needs a number", PartKind::Op.quote(name)))
                .with_note(message!("write `{} 1`; `Wait Communication 1` names it", PartKind::Op.quote(name)))
        } else if matches!(name, "Synchronize" | "SetCurrentStream" | "GetCurrentStream") {
            let number = stmt.number.unwrap_or_default();
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, message!("`{}` needs a stream", PartKind::Op.quote(name)))
                .with_note(message!("write `Stream {}` after it", number))
        } else if name == "Wait" {
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, "`Wait` needs a communication")
                .with_note("write `Wait Communication 1`")
        } else {
            Diag::error(
                codes::WRONG_NUMBER,
                stmt.name_span,
                message!("`{}` does not take a number", PartKind::Op.quote(name)),
            )
            .with_note("remove the number")
        };
        self.report_error(diag);
    }

    /// Reports a literal that is cast to a type without its value.
    pub(super) fn report_literal(&mut self, dtype: DType, arg: &ArgSyntax) {
        let text = self.source.get(arg.span.as_usize_range()).unwrap_or_default();
        let error = hostir_grammar::misfit_of_number(dtype.name(), dtype.name(), text, arg.span);
        self.diags.push(syntax_error(error));
    }

    /// Reports each number once: one declaration repairs all uses.
    pub(super) fn report_undefined_tensor(&mut self, number: u32, span: Span) {
        if self.reported.header || !self.reported.undefined.insert((self.tables.scope, number)) {
            return;
        }
        let texts: Vec<String> = self.scope.numbers().iter().map(|number| format!("T{number}")).collect();
        let name = format!("T{number}");
        let diag = Diag::error(
            codes::UNDEFINED_TENSOR,
            span,
            message!("`{}` was not written in full before", PartKind::Tensor.quote(&name)),
        )
        .with_note(message!(
            "write it in full where it occurs first, for example `{}_g_float[iS0{{i0}}]`",
            PartKind::Tensor.quote(&name)
        ));
        let diag = match nearest_candidate(&name, texts.iter().map(String::as_str)) {
            Some(near) => diag.with_note(message!("did you mean `{}`?", PartKind::Word.quote(near))),
            None => diag,
        };
        self.report_error(diag);
    }

    pub(super) fn report_unsupported_type(&mut self, word: &str, span: Span) {
        let diag = Diag::error(
            codes::UNSUPPORTED_TYPE,
            span,
            message!("type `{}` is not supported in a host program", PartKind::Type.quote(word)),
        );
        self.report_error(diag.with_note("valid element types are numbers such as `float`, `__bfloat` and `int64_t`"));
    }

    pub(super) fn report_bad_tensor_attribute(&mut self, arg: &ArgSyntax) {
        let key = arg.key.map_or("", |key| self.ast.symbol_text(key));
        let diag = Diag::error(
            codes::UNKNOWN_ARGUMENT,
            arg.span,
            message!("a tensor has no attribute `{}`", PartKind::Word.quote(key)),
        );
        self.report_error(did_you_mean(diag, self.word_place(arg.span, key), key, &["axes", "logical"]));
    }

    pub(super) fn report_wrong_axes(&mut self, rank: usize, arg: &ArgSyntax) {
        let message = message!("`axes=` is not a permutation of the {}", count_or_none(rank, "printed domain"));
        let note = match rank {
            0 => "remove it: the tensor has no axes".into(),
            _ => message!("list each of the positions 0 to {} once, the outermost axis first", rank - 1),
        };
        self.report_error(Diag::error(codes::TENSOR_AXES, self.value_span(arg), message).with_note(note));
    }

    pub(super) fn report_axes_and_logical(&mut self, arg: &ArgSyntax) {
        let message = "`axes=` and `logical=` cannot be combined: both define the axes";
        let note = "keep `logical=` if the domains result from splits, else `axes=`";
        self.report_error(Diag::error(codes::TENSOR_AXES, arg.span, message).with_note(note));
    }

    pub(super) fn report_bad_unit_attribute(&mut self, arg: &ArgSyntax) {
        let text = match arg.key {
            Some(key) => self.ast.symbol_text(key),
            None => &self.source[arg.span.as_usize_range()],
        };
        let message = message!("a HostUnit has no attribute `{}`", text);
        self.report_error(Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message).with_note("remove it"));
    }

    pub(super) fn report_struct(&mut self, arg: &ArgSyntax) {
        let diag = Diag::error(codes::WRONG_KIND, arg.span, "a scalar operand has no name");
        self.report_error(diag.with_note("the fields of a struct all have names: `{ x = i0, y = 1 }`"));
    }

    pub(super) fn report_ragged_extents(&mut self, arg: &ArgSyntax) {
        let diag =
            Diag::error(codes::WRONG_KIND, arg.span, "the extents of a ragged axis are in a tensor that is ragged");
        self.report_error(diag.with_note("name a tensor of integers whose axes have one extent each"));
    }

    /// Once for each statement.
    pub(super) fn report_tensor_in_scalar(&mut self, span: Span) {
        if std::mem::replace(&mut self.reported.nested_operation, true) {
            return;
        }
        let diag = Diag::error(codes::NESTED_TENSOR_OP, span, "a tensor is not allowed inside a scalar expression");
        let note = self.slice_note(span).unwrap_or_else(|| {
            "a statement has one tensor operation; write the inner one as a separate statement".into()
        });
        self.report_error(diag.with_note(note));
    }

    pub(super) fn report_no_operation(&mut self, arg: &ArgSyntax) {
        let found = self.describe_arg(arg);
        let diag = Diag::error(
            codes::WRONG_KIND,
            arg.span,
            message!("a tensor must be the result of an operation, found {}", found),
        );
        let slice = match arg.value {
            ValueSyntax::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                ExprSyntax::Index(of, _) => self.slice_note(self.ast.exprs[of.index()].1),
                _ => None,
            },
            _ => None,
        };
        let text = self.source.get(self.value_span(arg).as_usize_range()).filter(|_| self.is_tensor(arg));
        let copy = || {
            let text = text.and_then(|text| text.split('_').next()).unwrap_or("T0");
            message!("write a copy as `Set( {}, cache_op=Streaming )`", text)
        };
        self.report_error(diag.with_note(slice.unwrap_or_else(copy)));
    }

    pub(super) fn report_no_such_axis(&mut self, at: i64, tensor: TensorId, arg: &ArgSyntax) {
        let name = self.program.quoted_tensor(tensor);
        let domains = self.program.domains(tensor);
        let axes = domains.iter().filter(|domain| !domain.is_reduction()).count();
        let message = message!("`{}` has {}, found position {}", name, count_or_none(axes, "axis"), at);
        let span = self.program.source.tensors.get(tensor).copied().unwrap_or_default();
        debug_assert!(tensor.index() < self.program.tensors.len());
        let diag = Diag::error(codes::NO_SUCH_AXIS, arg.span, message);
        let diag = if axes == 0 {
            diag
        } else {
            diag.with_note(message!("valid positions are 0 to {}; reduction axes do not count", axes - 1))
        };
        self.report_error(diag.with_label(span, message!("`{}`", name)));
    }

    pub(super) fn report_other_buffer(&mut self, stmt: &StmtSyntax, buffer: TensorId, result: Option<TensorId>) {
        let buffer = self.program.tensor_name(buffer);
        let result = result.map(|result| self.program.tensor_name(result)).unwrap_or_default();
        let same = buffer == result;
        let message = if same {
            message!(
                "the result and the buffer of the ALLOCATE give `{}` different types",
                PartKind::Tensor.quote(buffer)
            )
        } else {
            message!(
                "the result of the ALLOCATE is `{}`, but its buffer is `{}`",
                PartKind::Tensor.quote(result),
                PartKind::Tensor.quote(buffer)
            )
        };
        let diag = Diag::error(codes::OTHER_BUFFER, stmt.span, message);
        self.report_error(diag.with_note("write the same tensor before `=` and after `buffer=`"));
    }

    pub(super) fn report_unit_lists_differ(&mut self, unit: &HostUnitSyntax, title: &str) {
        let message = message!("HostUnit{} has two different lists of {}", unit.number, title);
        let lists = [unit.fusion_inputs, unit.fusion_outputs];
        let list = self.ast.args_in(lists[usize::from(title == "Outputs")]);
        let span = match list {
            [first, .., last] => first.span.join(last.span),
            [only] => only.span,
            [] => Span { end: unit.span.start, ..unit.span },
        };
        let diag = Diag::error(codes::UNIT_LISTS, span, message);
        self.report_error(diag.with_note(message!(
            "the lines under `{}:` must repeat the list of `{}={{..}}`",
            title,
            title
        )));
    }
}
