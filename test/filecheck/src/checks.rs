//! Check files: their directives, and the variables and patterns of the command line.

use crate::directive::{DirectiveFinder, DirectiveKind, NameMeaning, pattern_range};
use crate::failure::{Failure, PatternError};
use crate::near_miss::find_near_misses;
use crate::numeric::{BlockPlace, parse_block};
use crate::options::Options;
use crate::paint::Paint;
use crate::pattern::{Pattern, PatternPlace, parse_pattern};
use crate::source::{Message, Place, Severity, Source};
use crate::variables::{DeclaredNames, VariableValues, parse_name};

/// A parsed check file.
#[derive(Debug, Clone)]
pub struct CheckFile {
    /// The file itself, and the texts of the command line that directives or definitions come from.
    pub(crate) sources: Vec<Source>,
    /// The number of the first source with an implicit NOT pattern.
    pub(crate) first_implicit: usize,
    pub(crate) checks: Vec<Check>,
    /// The values that the command line gives.
    pub(crate) values: VariableValues,
    /// Rendered warnings.
    pub(crate) warnings: String,
}

/// One directive with its pattern.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) kind: DirectiveKind,
    /// The prefix as it is written, for messages.
    pub(crate) prefix: String,
    /// The name as it is written, with its modifiers.
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
    /// The start of the pattern.
    pub(crate) place: Place,
}

impl Directive {
    fn new(kind: DirectiveKind, prefix: &str, is_literal: bool, pattern: Pattern, place: Place) -> Directive {
        let modifiers = if is_literal { "{LITERAL}" } else { "" };
        let name = match kind {
            DirectiveKind::End => "implicit EOF".to_owned(),
            kind => format!("{prefix}{}{modifiers}", kind.name_suffix()),
        };
        Directive { kind, prefix: prefix.to_owned(), name, pattern, place }
    }
}

/// A positive directive and those before it in the check file.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) directive: Directive,
    /// DAG and NOT directives since the positive directive before.
    pub(crate) before: Vec<Directive>,
}

/// Parses the directives of a check file.
///
/// `name` is what messages call the file. The options about prefixes, patterns and variables are taken from `options`
/// here.
///
/// # Errors
/// A file without directives, a directive that cannot be parsed, or options that are not valid.
pub fn parse_checks(text: impl AsRef<[u8]>, name: &str, options: &Options) -> Result<CheckFile, Failure> {
    options.validate().map_err(|message| Failure::usage(format!("error: {message}\n")))?;
    let sources = vec![Source::new(name, text.as_ref(), options.strict_whitespace)];
    let file = CheckFile {
        sources,
        first_implicit: 1,
        checks: Vec::new(),
        values: VariableValues::default(),
        warnings: String::new(),
    };
    let mut parser =
        CheckParser { options, file, names: DeclaredNames::default(), implicit: Vec::new(), pending: Vec::new() };
    parser.define_variables()?;
    parser.add_implicit_nots()?;
    parser.read_directives()?;
    Ok(parser.file)
}

impl CheckFile {
    /// Rendered warnings about the check file: lines that look like directives and are none.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

struct CheckParser<'a> {
    options: &'a Options,
    file: CheckFile,
    names: DeclaredNames,
    /// The NOT directives of the command line, which are part of every check.
    implicit: Vec<Directive>,
    pending: Vec<Directive>,
}

/// The place of a directive in the check file.
struct DirectivePlace<'a> {
    prefix: &'a str,
    /// The start of the prefix.
    start: usize,
    /// The end of the name.
    name_end: usize,
    /// The start and the end of the pattern.
    pattern: (usize, usize),
}

impl CheckParser<'_> {
    fn render(&self, place: Place, severity: Severity, text: &str) -> String {
        let message = Message { range: place.offset..place.offset, severity, text };
        self.file.sources[place.source].render(&message, Paint::from_choice(self.options.output.color))
    }

    fn failure_at(&self, offset: usize, text: &str) -> Failure {
        Failure::usage(self.render(Place { source: 0, offset }, Severity::Error, text))
    }

    /// Adds a text of the command line and gives its number.
    fn add_source(&mut self, name: &str, text: String) -> usize {
        self.file.sources.push(Source::verbatim(name, text.into_bytes()));
        self.file.sources.len() - 1
    }

    fn define_variables(&mut self) -> Result<(), Failure> {
        let mut text = String::new();
        let mut errors = Vec::new();
        for (index, definition) in self.options.definitions.iter().enumerate() {
            text.push_str(&format!("Global define #{}: ", index + 1));
            let defined = match definition.strip_prefix('#') {
                Some(numeric) => {
                    let block = numeric.replacen('=', ":", 1);
                    text.push_str(&format!("{definition} (parsed as: [[#"));
                    let at = text.len();
                    text.push_str(&format!("{block}]])"));
                    self.define_number(&block, at)
                }
                None => {
                    let at = text.len();
                    text.push_str(definition);
                    self.define_string(definition, at)
                }
            };
            text.push('\n');
            errors.extend(defined.err().into_iter().flatten());
        }
        if !text.is_empty() {
            self.add_source("Global defines", text);
        }
        let source = self.file.sources.len() - 1;
        self.file.first_implicit = self.file.sources.len();
        let errors = errors
            .into_iter()
            .map(|PatternError { at, message }| self.render(Place { source, offset: at }, Severity::Error, &message));
        let errors: String = errors.collect();
        if errors.is_empty() { Ok(()) } else { Err(Failure::usage(errors)) }
    }

    /// `NAME=VALUE`
    fn define_string(&mut self, definition: &str, at: usize) -> Result<(), Vec<PatternError>> {
        let (name, value) = definition.split_once('=').unwrap_or((definition, ""));
        let found = parse_name(name.as_bytes(), at).map_err(|error| vec![error])?;
        let message = if found.is_pseudo || found.name != name {
            format!("invalid name in string variable definition '{name}'")
        } else if !self.names.declare_string(name) {
            format!("numeric variable with name '{name}' already exists")
        } else {
            // Of two definitions of a name the first counts.
            if self.file.values.string(name).is_none() {
                self.file.values.set_string(name, value.as_bytes());
            }
            return Ok(());
        };
        Err(vec![PatternError { at, message }])
    }

    /// `NAME:EXPRESSION`
    fn define_number(&mut self, definition: &str, at: usize) -> Result<(), Vec<PatternError>> {
        let place = BlockPlace { at, line: None, is_legacy: false };
        let block = parse_block(definition.as_bytes(), place, &mut self.names).map_err(|error| vec![error])?;
        let error = |at: usize, message: String| Err(vec![PatternError { at, message }]);
        let (Some(name), Some(expression)) = (block.defined, block.expression) else {
            return error(at, "missing a name or an expression in the definition of a numeric variable".to_owned());
        };
        match expression.evaluate(&self.file.values) {
            Ok(value) => {
                self.file.values.set_number(&name, value);
                Ok(())
            }
            Err(reasons) => Err(reasons.into_iter().map(|reason| reason.describe(at)).collect()),
        }
    }

    fn add_implicit_nots(&mut self) -> Result<(), Failure> {
        const PREFIX: &str = "IMPLICIT-CHECK";
        for text in &self.options.implicit_check_nots {
            let head = "-implicit-check-not='";
            let source = self.add_source("command line", format!("{head}{text}'"));
            let place = PatternPlace {
                at: head.len(),
                line: None,
                prefix: PREFIX,
                kind: DirectiveKind::Not,
                is_literal: false,
            };
            let pattern = parse_pattern(text.as_bytes(), place, self.options, &mut self.names);
            let pattern = pattern.map_err(|PatternError { at, message }| {
                Failure::usage(self.render(Place { source, offset: at }, Severity::Error, &message))
            })?;
            let place = Place { source, offset: head.len() };
            self.implicit.push(Directive::new(DirectiveKind::Not, PREFIX, false, pattern, place));
        }
        self.pending.clone_from(&self.implicit);
        Ok(())
    }

    fn read_directives(&mut self) -> Result<(), Failure> {
        let options = self.options;
        let text = self.file.sources[0].content().to_owned();
        let mut unused = options.check_prefixes();
        let mut at = 0;
        let mut finder = DirectiveFinder::new(&text, options);
        while let Some(found) = finder.next_name(at) {
            let pattern = pattern_range(&text, found.end, options);
            let place = DirectivePlace { prefix: found.prefix, start: found.start, name_end: found.end, pattern };
            match found.meaning {
                NameMeaning::Comment => {}
                NameMeaning::Directive(kind, literal) => {
                    unused.retain(|&prefix| prefix != found.prefix);
                    self.add_directive(&text, &place, kind, literal)?;
                }
                wrong => return Err(self.name_failure(&place, &text, wrong)),
            }
            at = pattern.1;
        }
        self.add_warnings(&text);
        self.check_unused_prefixes(&unused)?;
        if !self.pending.is_empty() {
            self.add_end_of_input(finder.searched());
        }
        Ok(())
    }

    fn add_warnings(&mut self, text: &[u8]) {
        for miss in find_near_misses(text, self.options) {
            let place = Place { source: 0, offset: miss.at };
            let warning = self.render(place, Severity::Warning, &miss.message);
            self.file.warnings.push_str(&warning);
        }
    }

    fn name_failure(&self, place: &DirectivePlace<'_>, text: &[u8], meaning: NameMeaning) -> Failure {
        let prefix = place.prefix;
        match meaning {
            NameMeaning::Misspelled => {
                let name = String::from_utf8_lossy(&text[place.start..place.name_end]);
                self.failure_at(place.start, &format!("misspelled directive '{name}'"))
            }
            NameMeaning::BadNot => {
                self.failure_at(place.name_end, &format!("unsupported -NOT combo on prefix '{prefix}'"))
            }
            NameMeaning::BadCount | NameMeaning::Directive(..) | NameMeaning::Comment => {
                let message = format!("invalid count in -COUNT specification on prefix '{prefix}'");
                self.failure_at(place.name_end, &message)
            }
        }
    }

    fn add_directive(
        &mut self,
        text: &[u8],
        place: &DirectivePlace<'_>,
        kind: DirectiveKind,
        is_literal: bool,
    ) -> Result<(), Failure> {
        let prefix = place.prefix;
        let (offset, end) = place.pattern;
        let line = Some(self.file.sources[0].line_number(place.start));
        let pattern_place = PatternPlace { at: offset, line, prefix, kind, is_literal };
        let pattern = parse_pattern(&text[offset..end], pattern_place, self.options, &mut self.names);
        let pattern = pattern.map_err(|PatternError { at, message }| self.failure_at(at, &message))?;
        if kind == DirectiveKind::Label && pattern.has_variable() {
            let message = format!("found '{prefix}-LABEL:' with variable definition or use");
            return Err(self.failure_at(place.start, &message));
        }
        let is_relative = matches!(kind, DirectiveKind::Next | DirectiveKind::Same | DirectiveKind::Empty);
        if is_relative && self.file.checks.is_empty() {
            let message = format!("found '{prefix}{}' without previous '{prefix}: line", kind.name_suffix());
            return Err(self.failure_at(place.start, &message));
        }
        let directive = Directive::new(kind, prefix, is_literal, pattern, Place { source: 0, offset });
        if matches!(kind, DirectiveKind::Dag | DirectiveKind::Not) {
            self.pending.push(directive);
        } else {
            let before = std::mem::replace(&mut self.pending, self.implicit.clone());
            self.file.checks.push(Check { directive, before });
        }
        Ok(())
    }

    fn check_unused_prefixes(&self, unused: &[&str]) -> Result<(), Failure> {
        let options = self.options;
        let is_none_used = unused.len() == options.check_prefixes().len();
        let is_problem = is_none_used || !unused.is_empty() && !options.allow_unused_prefixes;
        let is_excused = options.prefixes.is_empty() && !self.implicit.is_empty();
        if !is_problem || is_excused {
            return Ok(());
        }
        let mut quoted: Vec<String> = unused.iter().map(|prefix| format!("'{prefix}:'")).collect();
        quoted.sort_unstable();
        let plural = if unused.len() > 1 { "es" } else { "" };
        let list = quoted.join(", ");
        let warnings = &self.file.warnings;
        Err(Failure::usage(format!("{warnings}error: no check strings found with prefix{plural} {list}\n")))
    }

    fn add_end_of_input(&mut self, offset: usize) {
        let prefix = self.options.check_prefixes().first().copied().unwrap_or_default();
        let place = Place { source: 0, offset };
        let directive = Directive::new(DirectiveKind::End, prefix, false, Pattern::EndOfInput, place);
        self.file.checks.push(Check { directive, before: std::mem::take(&mut self.pending) });
    }
}
