//! Pipelines as text: `canonicalize,stream-parallel-type{allgather=ring},dce`.
//!
//! Passes are separated by commas; options are in braces, separated by commas or blanks, each `key=value` or a bare
//! `key`; a value may be a list in braces. The parser reports every error of a text, at its place in the text. Spans in
//! this file are places in the pipeline text, not in a program.
//!
//! A pipeline pass takes options for its steps, `overlap-lower{host-ir-lower={allgather=ring}}`: the name of a step with
//! options in braces. Names of steps never clash with names of options, whose values are in braces only for lists.

use crate::framework::options::{GivenOption, OPTION_TWICE, OptionType, Options, UNKNOWN_OPTION, is_same_name};
use crate::framework::pass::{OptionFault, PassInfo};
use crate::framework::registry::PassRegistry;
use hostir::diag::message;
use hostir::diag::{Diag, DiagLabel, Diags, Message, Span, nearest_candidate};

/// A pipeline that names an unknown pass.
const UNKNOWN_PASS: &str = "H0301";
/// A malformed pipeline.
const PIPELINE_SYNTAX: &str = "H0302";

/// One pass of a pipeline with its options.
#[derive(Clone, Debug)]
pub struct PipelineStep {
    /// The pass.
    pub pass: &'static PassInfo,
    /// Its options.
    pub options: Options,
}

/// Passes in the order they run.
#[derive(Clone, Default, Debug)]
pub struct Pipeline {
    /// The steps.
    pub steps: Vec<PipelineStep>,
}

impl Pipeline {
    /// The number of ranks that the first pass with such an option asks for: `resize-mesh{devices=8}`. A text whose
    /// meshes are given by sizes is read for it.
    pub fn wanted_devices(&self) -> Option<u32> {
        let step = self.steps.iter().find(|step| step.options.is_given("devices"))?;
        u32::try_from(step.options.int_value("devices")).ok().filter(|&devices| devices > 0)
    }

    /// Adds to the error of a step the places of its options in the text of the pipeline.
    pub fn locate_fault(&self, step: usize, fault: &OptionFault) -> Diag {
        let mut diag = fault.diag.clone();
        let Some(options) = self.steps.get(step).map(|step| &step.options) else { return diag };
        for span in fault.options.iter().filter_map(|option| options.option_span(option)) {
            let label = DiagLabel { span, text: String::new().into() };
            match diag.primary {
                None => diag.primary = Some(label),
                Some(_) => diag.labels.push(label),
            }
        }
        diag
    }
}

/// The text that [`parse_pipeline`] reads back.
impl std::fmt::Display for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}{}", step.pass.name, step.options)?;
        }
        Ok(())
    }
}

/// Reads a pipeline over these passes.
///
/// # Errors
/// Fails with every error of the text: its syntax, unknown passes, and options that a pass does not have.
pub fn parse_pipeline(text: &str, passes: impl Into<PassRegistry>) -> Result<Pipeline, Diags> {
    let mut parser = PipelineParser { text, at: 0, passes: passes.into(), diags: Diags::default() };
    let pipeline = parser.parse_steps();
    if parser.diags.has_errors() { Err(parser.diags) } else { Ok(pipeline) }
}

/// The pass of a name (`-` and `_` are equivalent), or a diagnostic at `span` with the nearest name.
///
/// # Errors
/// Fails if no pass has the name; the error proposes the nearest one.
pub fn find_pass(name: &str, span: Span, passes: PassRegistry) -> Result<&'static PassInfo, Diag> {
    let names = passes.passes().map(|info| info.name);
    if let Some(info) = passes.passes().find(|info| info.is_named(name)) {
        return Ok(info);
    }
    let diag = Diag::error(UNKNOWN_PASS, span, message!("unknown pass `{}`", name));
    let dashed = name.replace('_', "-");
    let near = nearest_candidate(&dashed, names.clone()).or_else(|| {
        names.clone().find(|known| is_class_name(known, name) || sorted_words(known) == sorted_words(&dashed))
    });
    Err(match near {
        // `--pass=dce{a=1,b=2}` without quotes: the shell has split it into two words.
        Some(near) if name.starts_with(near) => diag
            .with_primary_text(message!("did you mean `{}`?", near))
            .with_note(message!("quote options to protect them from the shell: --pass='{}{{name=value}}'", near)),
        Some(near) => diag.with_primary_text(message!("did you mean `{}`?", near)),
        None => diag.with_note("`hir-opt --list-passes` lists all passes"),
    })
}

/// The words of a name, sorted: those of `lower-host-ir` are those of `host-ir-lower`.
fn sorted_words(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = name.split('-').collect();
    words.sort_unstable();
    words
}

/// Returns true if `text` is nvFuser's spelling (`StreamParallelType`) of a pass name.
fn is_class_name(name: &str, text: &str) -> bool {
    name.bytes().filter(|byte| *byte != b'-').eq(text.bytes().map(|byte| byte.to_ascii_lowercase()))
}

/// The options in the braces of a pass.
#[derive(Default)]
struct GivenOptions<'a> {
    own: Vec<GivenOption<'a>>,
    steps: Vec<StepOptions<'a>>,
}

/// Options for a step of a pipeline pass.
struct StepOptions<'a> {
    step: &'static PassInfo,
    /// The place of the step's name.
    span: Span,
    given: GivenOptions<'a>,
}

/// Whether `key` with a value in braces stands for a step of `pass`: it is no option of the pass that has such values,
/// and none at all if there is no such pass.
fn may_name_step(pass: &PassInfo, key: &str, passes: PassRegistry) -> bool {
    let option = pass.options.iter().find(|option| is_same_name(option.name, key));
    let is_pipeline = pass.action.pipeline_steps().is_some();
    is_pipeline
        && option.is_none_or(|option| option.ty != OptionType::Words && passes.passes().any(|step| step.is_named(key)))
}

/// The names of the passes of a pipeline text, each once.
fn step_names(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut names = Vec::new();
    let parts = text.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts {
        let name = part.split('{').next().unwrap_or_default().trim();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

struct PipelineParser<'a> {
    text: &'a str,
    at: usize,
    passes: PassRegistry,
    diags: Diags,
}

impl<'a> PipelineParser<'a> {
    fn parse_steps(&mut self) -> Pipeline {
        let mut steps = Vec::new();
        self.skip_blanks();
        if self.at == self.text.len() {
            return Pipeline { steps };
        }
        loop {
            self.skip_blanks();
            steps.extend(self.parse_step());
            self.skip_blanks();
            match self.peek() {
                None => return Pipeline { steps },
                Some(',') => self.at += 1,
                Some(found) => {
                    self.add_error(format!("expected `,` before the next pass, found `{found}`"));
                    if !self.skip_to_comma() {
                        return Pipeline { steps };
                    }
                }
            }
        }
    }

    fn parse_step(&mut self) -> Option<PipelineStep> {
        let start = self.at;
        let name = self.take_word(&[',', '{', '}', '(', ')', '<', '>', '=', '\'', '"']);
        let span = Span::new(start, self.at);
        match self.peek() {
            Some('(') => return self.reject_nested(name, start),
            Some('<') => return self.reject_angle_options(name, start),
            _ => {}
        }
        if name.is_empty() {
            let found = self.found_text();
            self.add_error(format!("expected the name of a pass, found {found}"));
            self.skip_to_comma_inside();
            return None;
        }
        let pass = find_pass(name, span, self.passes);
        let known = pass.as_ref().ok().copied();
        let given = if self.peek() == Some('{') { self.parse_options(name, known) } else { GivenOptions::default() };
        match pass {
            Ok(pass) => {
                let mut options = Options::parse_given(pass.name, span, pass.options, &given.own, &mut self.diags);
                self.add_steps(pass, &mut options, given.steps);
                Some(PipelineStep { pass, options })
            }
            Err(diag) => {
                self.diags.push(diag);
                None
            }
        }
    }

    /// Gives a pipeline pass the options of its steps.
    fn add_steps(&mut self, pass: &'static PassInfo, options: &mut Options, steps: Vec<StepOptions<'a>>) {
        let Some(text) = pass.action.pipeline_steps() else { return };
        // A pass that stands for itself, or for passes that do not exist, is a bug that the manager reports.
        let own = text(options);
        let names: Vec<&str> = step_names(&own);
        for StepOptions { step, span, given } in steps {
            if !names.contains(&step.name) {
                let message = message!("`{}` is not a step of `{}`", step.name, pass.name);
                let note = message!("with these options its steps are {}", names.join(", "));
                self.diags.push(Diag::error(UNKNOWN_OPTION, span, message).with_note(note));
                continue;
            }
            let mut of_step = Options::parse_some(step.name, step.options, &given.own, &mut self.diags);
            self.add_steps(step, &mut of_step, given.steps);
            if !options.add_step(step.name, of_step) {
                let message = message!("options for the step `{}` of `{}` are given twice", step.name, pass.name);
                self.diags.push(Diag::error(OPTION_TWICE, span, message));
            }
        }
    }

    fn parse_options(&mut self, pass: &str, known: Option<&'static PassInfo>) -> GivenOptions<'a> {
        let open = self.at;
        self.at += 1;
        let mut given = GivenOptions::default();
        loop {
            while let Some(c) = self.peek().filter(|c| *c == ',' || c.is_whitespace()) {
                self.at += c.len_utf8();
            }
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return given;
                }
                None => {
                    let message = message!("the options of `{}` have no closing `}}`", pass);
                    let span = Span::new(open, open + 1);
                    self.diags.push(Diag::error(PIPELINE_SYNTAX, span, message));
                    return given;
                }
                Some(_) => self.parse_option(known, &mut given),
            }
        }
    }

    fn parse_option(&mut self, pass: Option<&'static PassInfo>, given: &mut GivenOptions<'a>) {
        let start = self.at;
        let key = self.take_word(&[',', '{', '}', '=']);
        let key_span = Span::new(start, self.at);
        if key.is_empty() {
            let found = self.found_text();
            self.add_error(format!("expected the name of an option, found {found}"));
            self.balanced_text();
            return;
        }
        self.skip_blanks();
        if self.peek() != Some('=') {
            given.own.push(GivenOption { key, key_span, value: None });
            return;
        }
        self.at += 1;
        self.skip_blanks();
        if self.peek() == Some('{') && pass.is_some_and(|pass| may_name_step(pass, key, self.passes)) {
            let step = find_pass(key, key_span, self.passes);
            let of_step = self.parse_options(key, step.as_ref().ok().copied());
            match step {
                Ok(step) => given.steps.push(StepOptions { step, span: key_span, given: of_step }),
                Err(diag) => self.diags.push(diag),
            }
            return;
        }
        let start = self.at;
        let value = if self.peek() == Some('{') { self.balanced_text() } else { self.take_word(&[',', '}']) };
        given.own.push(GivenOption { key, key_span, value: Some((value, Span::new(start, self.at))) });
    }

    /// The text of one bracketed group, or of one character.
    fn balanced_text(&mut self) -> &'a str {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        &self.text[start..self.at]
    }

    /// Rejects `builtin.module(cse)`, MLIR's nesting by op, with the right spelling.
    fn reject_nested(&mut self, name: &str, start: usize) -> Option<PipelineStep> {
        let open = self.at;
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        if find_pass(name, Span::new(start, open), self.passes).is_ok() {
            let inner = self.text[open..self.at].trim_matches(['(', ')']);
            let message = message!("the options of `{}` must be in braces", name);
            let diag = Diag::error(PIPELINE_SYNTAX, Span::new(start, self.at), message);
            self.diags.push(diag.with_primary_text(message!("write `{}{{{}}}`", name, inner)));
            return None;
        }
        let inner = flatten_pipeline(&self.text[open..self.at]);
        let message = if name.is_empty() {
            "a pipeline does not contain parentheses".to_owned()
        } else {
            format!("passes cannot be nested in ops as in MLIR's `{name}(...)`")
        };
        let diag = Diag::error(PIPELINE_SYNTAX, Span::new(start, self.at), message);
        self.diags.push(diag.with_primary_text(message!("write `{}`", inner)));
        None
    }

    /// `cse<a=1>`: LLVM's options.
    fn reject_angle_options(&mut self, name: &str, start: usize) -> Option<PipelineStep> {
        let open = self.at + 1;
        let rest = &self.text[open..];
        let inner = &rest[..rest.find('>').unwrap_or(rest.len())];
        self.at = (open + inner.len() + 1).min(self.text.len());
        let message = message!("the options of `{}` must be in braces", name);
        let diag = Diag::error(PIPELINE_SYNTAX, Span::new(start, self.at), message);
        self.diags.push(diag.with_primary_text(message!("write `{}{{{}}}`", name, inner.replace(';', ","))));
        None
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }
    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }
    fn take_word(&mut self, ends: &[char]) -> &'a str {
        let start = self.at;
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && !ends.contains(c)) {
            self.at += c.len_utf8();
        }
        &self.text[start..self.at]
    }
    fn found_text(&self) -> String {
        self.peek().map_or_else(|| "the end".to_owned(), |c| format!("`{c}`"))
    }
    fn add_error(&mut self, message: impl Into<Message>) {
        let end = self.at + self.peek().map_or(0, char::len_utf8);
        self.diags.push(Diag::error(PIPELINE_SYNTAX, Span::new(self.at, end), message));
    }
    /// Skips to the next comma outside of braces without consuming it.
    fn skip_to_comma_inside(&mut self) {
        while self.peek().is_some_and(|c| c != ',') {
            self.balanced_text();
        }
    }
    /// Skips past the next comma outside of braces; returns false at the end.
    fn skip_to_comma(&mut self) -> bool {
        self.skip_to_comma_inside();
        let found = self.peek().is_some();
        self.at += usize::from(found);
        found
    }
}

/// `(func.func(cse,dce),canonicalize)` -> `cse,dce,canonicalize`: drops anchors and parentheses.
fn flatten_pipeline(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '(' => {
                let keep = out.rfind(',').map_or(0, |comma| comma + 1);
                out.truncate(keep);
            }
            ')' => {}
            _ => out.push(c),
        }
    }
    out
}
