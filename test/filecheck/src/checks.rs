//! Check files: parsing them, and their directives over an input.

use crate::directive::{DirectiveFinder, DirectiveKind, NameMeaning, pattern_range};
use crate::failure::Failure;
use crate::options::Options;
use crate::pattern::{Pattern, PatternError};
use crate::source::{Severity, Source};

/// A parsed check file.
#[derive(Debug, Clone)]
pub struct CheckFile {
    pub(crate) source: Source,
    pub(crate) checks: Vec<Check>,
}

/// One directive with its pattern.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) kind: DirectiveKind,
    /// The name as it is written, for messages.
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
    /// The start of the pattern in the check file.
    pub(crate) offset: usize,
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
/// `name` is what messages call the file. The prefixes and the options about patterns (whitespace, full lines) are
/// taken from `options` here.
///
/// # Errors
/// A file without directives, a directive that cannot be parsed, or options that are not valid.
pub fn parse_checks(text: &str, name: &str, options: &Options) -> Result<CheckFile, Failure> {
    options.check_prefixes().map_err(|message| Failure::usage(format!("error: {message}\n")))?;
    let source = Source::new(name, text, options.strict_whitespace);
    let mut parser = Parser { options, source, checks: Vec::new(), pending: Vec::new() };
    parser.read_directives()?;
    Ok(CheckFile { source: parser.source, checks: parser.checks })
}

struct Parser<'a> {
    options: &'a Options,
    source: Source,
    checks: Vec<Check>,
    pending: Vec<Directive>,
}

/// The place of a directive in the check file.
struct DirectivePlace<'a> {
    prefix: &'a str,
    /// The start of the prefix.
    start: usize,
    /// The start and the end of the pattern.
    pattern: (usize, usize),
}

impl Parser<'_> {
    fn failure_at(&self, offset: usize, message: &str) -> Failure {
        Failure::usage(self.source.render(offset, Severity::Error, message))
    }

    fn read_directives(&mut self) -> Result<(), Failure> {
        let options = self.options;
        let text = self.source.text().to_owned();
        let mut unused: Vec<&str> = options.prefixes.iter().map(String::as_str).collect();
        let mut at = 0;
        let mut finder = DirectiveFinder::new(&text, options);
        while let Some(found) = finder.next_name(at) {
            let pattern = pattern_range(&text, found.end, options);
            let place = DirectivePlace { prefix: found.prefix, start: found.start, pattern };
            match found.meaning {
                NameMeaning::Comment => {}
                NameMeaning::Directive(kind, literal) => {
                    unused.retain(|&prefix| prefix != found.prefix);
                    self.add_directive(&text, &place, kind, literal)?;
                }
                wrong => return Err(self.name_failure(&place, &text[..found.end], wrong)),
            }
            at = pattern.1;
        }
        self.check_unused_prefixes(&unused)?;
        if !self.pending.is_empty() {
            self.add_end_of_input(text.len());
        }
        Ok(())
    }

    fn name_failure(&self, place: &DirectivePlace<'_>, text: &str, meaning: NameMeaning) -> Failure {
        let prefix = place.prefix;
        let message = match meaning {
            NameMeaning::Misspelled => format!("misspelled directive '{}'", &text[place.start..]),
            NameMeaning::BadNot => format!("unsupported -NOT combo on prefix '{prefix}'"),
            NameMeaning::BadCount => {
                format!("invalid count in -COUNT specification on prefix '{prefix}'")
            }
            NameMeaning::Directive(..) | NameMeaning::Comment => "unexpected directive".to_owned(),
        };
        self.failure_at(place.start, &message)
    }

    fn add_directive(
        &mut self,
        text: &str,
        place: &DirectivePlace<'_>,
        kind: DirectiveKind,
        literal: bool,
    ) -> Result<(), Failure> {
        let (offset, end) = place.pattern;
        let name = format!("{}{}", place.prefix, kind.name_suffix());
        let pattern = Pattern::parse(&text[offset..end], kind, literal, self.options);
        let pattern = pattern
            .map_err(|PatternError { at, message }| self.failure_at(offset + at, &format!("{name}: {message}")))?;
        if kind == DirectiveKind::Label && pattern.has_variable() {
            let message = format!("found '{name}:' with variable definition or use");
            return Err(self.failure_at(place.start, &message));
        }
        if matches!(kind, DirectiveKind::Next | DirectiveKind::Same | DirectiveKind::Empty) && self.checks.is_empty() {
            let message = format!("found '{name}' without previous '{}' line", place.prefix);
            return Err(self.failure_at(place.start, &message));
        }
        let directive = Directive { kind, name, pattern, offset };
        if matches!(kind, DirectiveKind::Dag | DirectiveKind::Not) {
            self.pending.push(directive);
        } else {
            let before = std::mem::take(&mut self.pending);
            self.checks.push(Check { directive, before });
        }
        Ok(())
    }

    fn check_unused_prefixes(&self, unused: &[&str]) -> Result<(), Failure> {
        if unused.is_empty() {
            return Ok(());
        }
        let quoted: Vec<String> = unused.iter().map(|prefix| format!("'{prefix}:'")).collect();
        let plural = if unused.len() > 1 { "es" } else { "" };
        let list = quoted.join(", ");
        Err(Failure::usage(format!("error: no check strings found with prefix{plural} {list}\n")))
    }

    fn add_end_of_input(&mut self, offset: usize) {
        let prefix = self.options.prefixes.first().map_or("CHECK", String::as_str);
        let directive = Directive {
            kind: DirectiveKind::End,
            name: format!("{prefix}{}", DirectiveKind::End.name_suffix()),
            pattern: Pattern::EndOfInput,
            offset,
        };
        self.checks.push(Check { directive, before: std::mem::take(&mut self.pending) });
    }
}
