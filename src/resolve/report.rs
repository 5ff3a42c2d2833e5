//! The errors of this layer, each in one place.

use super::Resolver;
use crate::diag::{Diag, Span, codes, nearest};
use crate::ir::functions;
use crate::ir::{AttrKey, Id, TensorId};
use crate::ops;
use crate::ops::{ArgKind, ArgSpec, OpSpec};
use hostir_grammar::ast::{self, Arg, Expr, Stmt, Symbol, Unit, Value};

impl Resolver<'_> {
    /// Records an error; of very many only the first.
    fn report(&mut self, diag: Diag) {
        let most = hostir_grammar::MAX_ERRORS;
        match self.diags.items.len() {
            found if found < most => self.diags.push(diag),
            found if found == most => {
                let message = format!("this program has {most} errors or more");
                let span = diag.primary.map(|label| label.span).unwrap_or_default();
                let note = "what stands behind this place was not looked at";
                self.diags.push(Diag::error("H0023", span, message).note(note));
            }
            _ => {}
        }
    }

    pub(super) fn unknown_statement<T>(&mut self, stmt: &Stmt) -> Option<T> {
        if self.diags.items.len() > hostir_grammar::MAX_ERRORS {
            return None;
        }
        let name = self.ast.str(stmt.name);
        let functions = || functions::FUNCTIONS.iter().filter(|f| !f.operator).map(|f| f.name);
        let mut diag =
            Diag::error(codes::UNKNOWN_OP, stmt.name_span, format!("unknown statement `{name}`"));
        if let Some((of, method)) = name.rsplit_once('.') {
            let note = self.method_note(stmt, of, method);
            self.report(diag.note(note));
            return None;
        }
        let near = nearest(name, ops::head_words().chain(functions()));
        diag = match near {
            Some(near) => diag.note(format!("did you mean `{near}`?")),
            None => diag.note(infix_note(name)),
        };
        self.report(diag);
        None
    }

    /// The right spelling of `torch.relu(T0)` and `T0.relu()`.
    fn method_note(&self, stmt: &Stmt, of: &str, method: &str) -> String {
        let functions = functions::FUNCTIONS.iter().filter(|f| !f.operator).map(|f| f.name);
        let known = ops::head_words().chain(functions).any(|name| name == method);
        let behind = self.source.get(stmt.name_span.end as usize..stmt.span.end as usize);
        let arguments = behind.unwrap_or("").trim().trim_end_matches(';');
        let pair =
            arguments.trim_matches(['(', ')']).split_once(',').filter(|(_, b)| !b.contains(','));
        if let (Some((a, b)), Some(sign)) = (pair, sign_of(method)) {
            return format!("write `{} {sign} {}`", a.trim(), b.trim());
        }
        let tensor = of.strip_prefix('T').is_some_and(|number| number.parse::<u32>().is_ok());
        match (known, tensor, arguments.trim_start_matches('(').trim_start()) {
            (false, ..) => infix_note(method).to_owned(),
            (true, false, _) => format!("write `{method}{arguments}`"),
            (true, true, rest) if rest.starts_with(')') => format!("write `{method}({of}{rest}`"),
            (true, true, rest) => format!("write `{method}({of}, {rest}`"),
        }
    }

    pub(super) fn unknown_function(&mut self, name: &str, span: Span) {
        let functions = functions::FUNCTIONS.iter().filter(|f| !f.operator).map(|f| f.name);
        let casts = functions::CASTS.iter().map(|(new, _)| *new);
        let diag = Diag::error(
            codes::UNKNOWN_FUNCTION,
            span,
            format!("unknown function `{name}` in a scalar"),
        );
        if let Some((_, method)) = name.rsplit_once('.')
            && functions::find(method, 1).is_some()
        {
            self.report(diag.note(format!("write `{method}(..)`")));
            return;
        }
        let diag = match nearest(name, functions.chain(casts).chain(["getMetaData"])) {
            Some(near) => diag.note(format!("did you mean `{near}`?")),
            None => diag.note(
                "scalars take operators and functions such as `ceilDiv(a, b)` and `where(a, b, c)`",
            ),
        };
        self.report(diag);
    }

    /// `*a` and `&a`.
    pub(super) fn prefix_operator(&mut self, symbol: &str, operand: ast::ExprId, span: Span) {
        let message = format!("`{symbol}` cannot stand in front of an operand");
        let text = self.source.get(self.ast.exprs[operand.index()].1.range()).unwrap_or("a");
        let note = format!("write `{text}` alone: a host program has no pointers");
        self.report(Diag::error(codes::PREFIX_OPERATOR, span, message).note(note));
    }

    /// `a ** b`, which the grammar reads as `a * (*b)`; says how it is written.
    pub(super) fn is_power(&mut self, symbol: Symbol, a: ast::ExprId, b: ast::ExprId) -> bool {
        let ast = self.ast;
        let Expr::Unary(second, b) = ast.exprs[b.index()].0 else { return false };
        if ast.str(symbol) != "*" || ast.str(second) != "*" {
            return false;
        }
        let (left, right) = (ast.exprs[a.index()].1, ast.exprs[b.index()].1);
        let text = |span: Span| self.source.get(span.range()).unwrap_or("a");
        let note = format!("a power is written `pow({}, {})`", text(left), text(right));
        let diag =
            Diag::error(codes::PREFIX_OPERATOR, left.join(right), "there is no operator `**`");
        self.report(diag.note(note));
        true
    }

    pub(super) fn wrong_arity(&mut self, name: &str, needed: usize, found: usize, span: Span) {
        let message = format!("`{name}` takes {}, found {found}", count(needed, "operand"));
        let operands = ["a", "b", "c", "d"][..needed.min(4)].join(", ");
        let note = format!("write `{name}({operands})`");
        self.report(Diag::error(codes::WRONG_ARITY, span, message).note(note));
    }

    pub(super) fn wrong_kind(&mut self, title: &str, needed: &str, arg: &Arg) {
        let found = self.found(arg);
        let what =
            if title == "operand" { "this operand".to_owned() } else { format!("`{title}`") };
        let message = format!("{what} needs {needed}, found {found}");
        let diag = Diag::error(codes::WRONG_KIND, self.value_span(arg), message);
        let text = self.source.get(self.value_span(arg).range()).unwrap_or("");
        let note = match arg.value {
            Value::Expr(_) if needed == "`true` or `false`" => {
                nearest(text, ["true", "false"]).map(|near| format!("did you mean `{near}`?"))
            }
            Value::Expr(expr)
                if needed == "a tensor"
                    && matches!(self.ast.exprs[expr.index()].0, Expr::Name(_)) =>
            {
                Some("tensors are called `T0`, `T1` and so on; other names are scalars".to_owned())
            }
            Value::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                Expr::Index(of, _) => self.slice_note(self.ast.exprs[of.index()].1),
                _ => None,
            },
            _ => None,
        };
        self.report(match note {
            Some(note) => diag.note(note),
            None => diag,
        });
    }

    /// How to write the slice that `T3[i]` is elsewhere; `tensor` is where `T3` stands.
    fn slice_note(&self, tensor: Span) -> Option<String> {
        let name = self.source.get(tensor.range())?;
        let name = name.split('_').next().filter(|name| name.starts_with('T'))?;
        let inside = self.source.get(tensor.end as usize..)?.trim_start().strip_prefix('[')?;
        let at = inside.split([']', '\n']).next().filter(|at| !at.is_empty())?;
        Some(format!(
            "a slice is written `T9_l_float[..] = HirAliasSelect( {name}, axis = 0, index = {at} )`"
        ))
    }

    /// Where the value of an argument stands, without its key.
    fn value_span(&self, arg: &Arg) -> Span {
        match arg.value {
            Value::Expr(expr) => self.ast.exprs[expr.index()].1,
            _ => arg.span,
        }
    }

    /// What an argument is, in words.
    fn found(&self, arg: &Arg) -> &'static str {
        match arg.value {
            Value::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                Expr::Tensor(_) => "a tensor",
                Expr::Int(_) => "an integer",
                Expr::Bool(..) => "a truth value",
                Expr::Name(_) => "a name",
                _ => "a scalar",
            },
            Value::Domain(_) => "an iteration domain",
            Value::Stream(_) => "a stream",
            Value::Handle(..) => "a handle",
            Value::List(_) => "a list",
            Value::Team(..) => "a team",
            Value::Stmt(_) => "a statement",
            Value::Error => "an error",
        }
    }

    pub(super) fn unknown_word(&mut self, title: &str, word: &str, words: &[&str], arg: &Arg) {
        let span = self.value_span(arg);
        let diag = Diag::error(codes::UNKNOWN_WORD, span, format!("unknown {title} `{word}`"));
        self.report(did_you_mean(diag, word, words));
    }

    pub(super) fn unknown_predicate(&mut self, word: &str, words: &[&str], stmt: &Stmt) {
        let message = format!("unknown predicate `{word}`");
        let diag = Diag::error(codes::UNKNOWN_WORD, stmt.name_span, message);
        self.report(did_you_mean(diag, word, words));
    }

    pub(super) fn no_condition(&mut self, stmt: &Stmt) {
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.span, "this IF has no condition")
            .note("write `IF Manual ( StreamIdx == rank ):`");
        self.report(diag);
    }

    pub(super) fn missing(&mut self, spec: &OpSpec, declared: &ArgSpec, stmt: &Stmt) {
        let message = match declared.word {
            Some(word) => format!("`{}` needs `{word}=`", spec.identity.name),
            None => format!("`{}` needs {}", spec.identity.name, declared.kind.describe()),
        };
        let memory = (declared.key == Some(AttrKey::MemType)).then(|| self.result_memory(stmt));
        let example = match memory.flatten() {
            Some(word) => format!("`mem_type={word}`"),
            None => example(declared),
        };
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.name_span, message)
            .note(format!("add {example}"))
            .note(format!("its arguments are {}", signature(spec)));
        self.report(diag);
    }

    /// The word for the memory of the tensor in front of `=`.
    fn result_memory(&self, stmt: &Stmt) -> Option<&'static str> {
        let Value::Expr(expr) = self.ast.args(stmt.results).first()?.value else { return None };
        let Expr::Tensor(tensor) = self.ast.exprs[expr.index()].0 else { return None };
        let number = self.ast.tensors[tensor.index()].number;
        let tensor = self.latest.get(&number)?;
        Some(self.program.tensors[*tensor].memory.word())
    }

    pub(super) fn missing_word(&mut self, spec: &OpSpec, word: &str, stmt: &Stmt) {
        let message = format!("`{}` needs `{word}`", spec.identity.name);
        let diag = Diag::error(codes::MISSING_ARGUMENT, stmt.name_span, message);
        self.report(diag.note(format!("its form is `{}`", form(spec.identity.name))));
    }

    pub(super) fn unknown_argument(&mut self, spec: &OpSpec, key: &str, arg: &Arg) {
        let words: Vec<&str> = spec.args.iter().filter_map(|declared| declared.word).collect();
        let message = format!("`{}` has no argument `{key}`", spec.identity.name);
        let diag = Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message);
        let diag = match nearest(key, words.iter().copied()) {
            Some(near) => diag.note(format!("did you mean `{near}`?")),
            None if spec.args.is_empty() => diag.note("remove it"),
            None => diag.note(format!("its arguments are {}", signature(spec))),
        };
        self.report(diag);
    }

    pub(super) fn unknown_list(&mut self, spec: &OpSpec, key: &str, arg: &Arg) {
        let message = format!("`{}` has no argument `{key}`", spec.identity.name);
        let diag = Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message);
        self.report(did_you_mean(diag, key, &["Inputs", "Outputs"]));
    }

    pub(super) fn duplicate(&mut self, spec: &OpSpec, at: usize, first: &Arg, arg: &Arg) {
        let message = format!("`{}` has `{}` twice", spec.identity.name, spec.args[at].title());
        let diag = Diag::error(codes::DUPLICATE_ARGUMENT, arg.span, message);
        self.report(diag.label(first.span, "the first one").note("remove one of them"));
    }

    pub(super) fn duplicate_list(&mut self, spec: &OpSpec, first: &Arg, arg: &Arg) {
        let key = arg.key.map_or("", |key| self.ast.str(key));
        let message = format!("`{}` has `{key}` twice", spec.identity.name);
        let diag = Diag::error(codes::DUPLICATE_ARGUMENT, arg.span, message);
        self.report(diag.label(first.span, "the first one").note("remove one of them"));
    }

    pub(super) fn extra_operand(&mut self, spec: &OpSpec, arg: &Arg) {
        let needed = spec.args.iter().filter(|declared| declared.word.is_none()).count();
        let message = format!(
            "`{}` takes {}, this is one more",
            spec.identity.name,
            count(needed, "operand")
        );
        let diag = Diag::error(codes::EXTRA_OPERAND, arg.span, message);
        let diag = if spec.args.is_empty() {
            diag
        } else {
            diag.note(format!("its arguments are {}", signature(spec)))
        };
        self.report(diag);
    }

    pub(super) fn wrong_results(&mut self, name: &str, needed: usize, stmt: &Stmt) {
        let found = stmt.results.len();
        let span = match self.ast.args(stmt.results) {
            [first, .., last] => first.span.join(last.span),
            [only] => only.span,
            [] => stmt.name_span,
        };
        let message = format!("`{name}` has {}, found {found}", count(needed, "result"));
        let diag = Diag::error(codes::WRONG_RESULTS, span, message);
        let diag = match needed {
            0 => diag.note(format!("write `{name}` without `=`")),
            _ => diag.note(format!("write `T1_g_float[iS0{{i0}}] = {name}...`")),
        };
        self.report(diag);
    }

    pub(super) fn wrong_number(&mut self, name: &str, needed: bool, stmt: &Stmt) {
        let diag = if needed {
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, format!("`{name}` needs a number"))
                .note(format!("write `{name} 1`; `Wait Communication 1` names it"))
        } else if matches!(name, "Synchronize" | "SetCurrentStream" | "GetCurrentStream") {
            let number = stmt.number.unwrap_or_default();
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, format!("`{name}` needs a stream"))
                .note(format!("write `Stream {number}` behind it"))
        } else if name == "Wait" {
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, "`Wait` needs a communication")
                .note("write `Wait Communication 1`")
        } else {
            Diag::error(codes::WRONG_NUMBER, stmt.name_span, format!("`{name}` has no number"))
                .note("remove the number behind it")
        };
        self.report(diag);
    }

    /// Once for each number: one declaration repairs all uses.
    pub(super) fn undefined_tensor(&mut self, number: u32, span: Span) {
        if self.header_failed || !self.undefined.insert((self.scope, number)) {
            return;
        }
        let mut near: Vec<u32> = self.latest.keys().copied().collect();
        near.sort_unstable();
        let texts: Vec<String> = near.iter().map(|number| format!("T{number}")).collect();
        let name = format!("T{number}");
        let diag = Diag::error(
            codes::UNDEFINED_TENSOR,
            span,
            format!("`{name}` has not been written in full before"),
        )
        .note(format!(
            "write it in full where it stands first, such as `{name}_g_float[iS0{{i0}}]`"
        ));
        let diag = match nearest(&name, texts.iter().map(String::as_str)) {
            Some(near) => diag.note(format!("did you mean `{near}`?")),
            None => diag,
        };
        self.report(diag);
    }

    pub(super) fn unsupported_type(&mut self, word: &str, span: Span) {
        let diag = Diag::error(
            codes::UNSUPPORTED_TYPE,
            span,
            format!("type `{word}` is not supported in a host program"),
        );
        self.report(
            diag.note("element types are numbers such as `float`, `__bfloat` and `int64_t`"),
        );
    }

    pub(super) fn no_tensor_attribute(&mut self, arg: &Arg) {
        let key = arg.key.map_or("", |key| self.ast.str(key));
        let diag = Diag::error(
            codes::UNKNOWN_ARGUMENT,
            arg.span,
            format!("a tensor has no attribute `{key}`"),
        );
        self.report(did_you_mean(diag, key, &["axes", "logical"]));
    }

    pub(super) fn wrong_axes(&mut self, rank: usize, arg: &Arg) {
        let message = format!("`axes=` is not an order of the {}", count(rank, "printed domain"));
        let note = match rank {
            0 => "remove it: the tensor has no axes".to_owned(),
            _ => format!(
                "it lists each of the positions 0 to {} once, the outermost axis first",
                rank - 1
            ),
        };
        self.report(Diag::error(codes::TENSOR_AXES, self.value_span(arg), message).note(note));
    }

    pub(super) fn axes_beside_logical(&mut self, arg: &Arg) {
        let message = "`axes=` and `logical=` both say what the axes are";
        let note = "keep `logical=` where the domains come from splits, and `axes=` where they are the axes";
        self.report(Diag::error(codes::TENSOR_AXES, arg.span, message).note(note));
    }

    pub(super) fn no_unit_attribute(&mut self, arg: &Arg) {
        let text = match arg.key {
            Some(key) => self.ast.str(key),
            None => &self.source[arg.span.range()],
        };
        let message = format!("a HostUnit has no attribute `{text}`");
        self.report(Diag::error(codes::UNKNOWN_ARGUMENT, arg.span, message).note("remove it"));
    }

    pub(super) fn no_struct(&mut self, arg: &Arg) {
        let diag = Diag::error(codes::WRONG_KIND, arg.span, "a scalar's operands have no names");
        self.report(diag.note("structs are not supported in a host program"));
    }

    /// Once for each statement.
    pub(super) fn tensor_in_scalar(&mut self, span: Span) {
        if std::mem::replace(&mut self.nested_reported, true) {
            return;
        }
        let diag = Diag::error(
            codes::NESTED_TENSOR_OP,
            span,
            "a tensor cannot stand inside a scalar expression",
        );
        let note = self.slice_note(span).unwrap_or_else(|| {
            "a statement does one operation on tensors; give the inner one a statement of its own"
                .to_owned()
        });
        self.report(diag.note(note));
    }

    pub(super) fn no_operation(&mut self, arg: &Arg) {
        let found = self.found(arg);
        let diag = Diag::error(
            codes::WRONG_KIND,
            arg.span,
            format!("a tensor needs an operation, found {found}"),
        );
        let slice = match arg.value {
            Value::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                Expr::Index(of, _) => self.slice_note(self.ast.exprs[of.index()].1),
                _ => None,
            },
            _ => None,
        };
        let text = self.source.get(self.value_span(arg).range()).filter(|_| found == "a tensor");
        let copy = || {
            let text = text.and_then(|text| text.split('_').next()).unwrap_or("T0");
            format!("a copy is written `Set( {text}, cache_op=Streaming )`")
        };
        self.report(diag.note(slice.unwrap_or_else(copy)));
    }

    pub(super) fn no_such_axis(&mut self, at: i64, tensor: TensorId, arg: &Arg) {
        let name = self.program.tensor_name(tensor);
        let domains = self.program.domains(tensor);
        let axes = domains.iter().filter(|domain| !domain.is_reduction()).count();
        let message = format!("`{name}` has {}, found position {at}", count(axes, "axis"));
        let span = self.program.source.tensors.get(tensor).copied().unwrap_or_default();
        debug_assert!(tensor.index() < self.program.tensors.len());
        let diag = Diag::error(codes::NO_SUCH_AXIS, arg.span, message);
        let diag = if axes == 0 {
            diag
        } else {
            diag.note(format!("positions are 0 to {}; reductions do not count", axes - 1))
        };
        self.report(diag.label(span, format!("`{name}`")));
    }

    pub(super) fn other_buffer(&mut self, stmt: &Stmt, buffer: TensorId, result: Option<TensorId>) {
        let buffer = self.program.tensor_name(buffer);
        let result = result.map(|result| self.program.tensor_name(result)).unwrap_or_default();
        let same = buffer == result;
        let message = if same {
            format!("ALLOCATE writes the type of `{buffer}` in two ways")
        } else {
            format!("ALLOCATE makes `{result}`, but its buffer is `{buffer}`")
        };
        let diag = Diag::error(codes::OTHER_BUFFER, stmt.span, message);
        self.report(diag.note("write the same tensor in front of `=` and behind `buffer=`"));
    }

    pub(super) fn unit_lists_differ(&mut self, unit: &Unit, title: &str) {
        let message = format!("HostUnit{} lists its {title} in two ways", unit.number);
        let lists = [unit.fusion_inputs, unit.fusion_outputs];
        let list = self.ast.args(lists[usize::from(title == "Outputs")]);
        let span = match list {
            [first, .., last] => first.span.join(last.span),
            [only] => only.span,
            [] => Span { end: unit.span.start, ..unit.span },
        };
        let diag = Diag::error(codes::UNIT_LISTS, span, message);
        self.report(
            diag.note(format!("the lines under `{title}:` repeat what stands in `{title}={{..}}`")),
        );
    }
}

/// The operator for what other tools have as a function of two operands.
fn sign_of(name: &str) -> Option<&'static str> {
    let signs = [("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")];
    signs.iter().find(|(known, _)| *known == name).map(|(_, sign)| *sign)
}

/// How to write what other tools have as a function and we as an operator.
fn infix_note(name: &str) -> &'static str {
    match name {
        "add" => "write `T2 = T0 + T1;`",
        "sub" => "write `T2 = T0 - T1;`",
        "mul" => "write `T2 = T0 * T1;`",
        "div" => "write `T2 = T0 / T1;`",
        "neg" => "write `T1 = -T0;`",
        _ => "docs/language.md lists all statements",
    }
}

fn did_you_mean(diag: Diag, word: &str, words: &[&str]) -> Diag {
    match nearest(word, words.iter().copied()) {
        Some(near) => diag.note(format!("did you mean `{near}`?")),
        None => diag.note(format!("known are {}", words.join(", "))),
    }
}

fn count(number: usize, what: &str) -> String {
    match (number, what) {
        (0, _) => format!("no {what}"),
        (1, _) => format!("1 {what}"),
        (_, "axis") => format!("{number} axes"),
        _ => format!("{number} {what}s"),
    }
}

/// The declared arguments in words.
fn signature(spec: &OpSpec) -> String {
    let parts: Vec<String> = spec
        .args
        .iter()
        .map(|declared| {
            let text = match declared.word {
                Some(word) => format!("`{word}=`"),
                None => declared.kind.describe().to_owned(),
            };
            let optional = declared.presence == ops::Presence::Optional;
            if optional { format!("{text} (optional)") } else { text }
        })
        .collect();
    parts.join(", ")
}

fn example(declared: &ArgSpec) -> String {
    let value = match declared.kind {
        ArgKind::Word(words) => words.first().copied().unwrap_or("word"),
        ArgKind::Bool => "false",
        ArgKind::Team => "(0 1 2 3)",
        ArgKind::Expr | ArgKind::Int | ArgKind::Operand => "0",
        ArgKind::Tensor => "T0_g_float[iS0{i0}]",
        ArgKind::Axis => "iS0{i0}",
        ArgKind::Bools => "{true, false}",
        ArgKind::Exprs | ArgKind::Ints => "{1, 0}",
        ArgKind::Ranges => "{ {0, i0, 1} }",
        ArgKind::DType => "float",
        ArgKind::Stream => "Stream 0",
        ArgKind::Handle => "Communication 1",
    };
    match declared.word {
        Some(word) => format!("`{word}={value}`"),
        None => format!("`{value}`"),
    }
}

/// The written form of ops with one of their own.
fn form(name: &str) -> &'static str {
    match name {
        "ALLOCATE" => {
            "T0 = ALLOCATE(buffer=T0, mem_type=global, size=i0, zero_init=false, resets_to_zero=false)"
        }
        "PostOnStream" => "PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, })",
        "LaunchKernel" => "LaunchKernel(Group ID: 0, Inputs: {T0}, Outputs: {T1})",
        _ => "GetCurrentStream into Stream 0",
    }
}
