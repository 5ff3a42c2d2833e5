//! Check files: parsing them, and their directives over an input.

use crate::directive::{Directive, Finder, Kind, Meaning, pattern_range};
use crate::numeric::SyntaxError;
use crate::pattern::Pattern;
use crate::source::{Severity, Source};
use crate::variables::{Symbols, Variables};
use crate::{Failure, Options};

/// A parsed check file.
#[derive(Debug, Clone)]
pub struct CheckFile {
    /// The check file, then one text per implicit check.
    pub(crate) sources: Vec<Source>,
    pub(crate) checks: Vec<Check>,
    /// What the command line defines.
    pub(crate) variables: Variables,
}

/// A positive directive and what comes before it in the check file.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) directive: Directive,
    /// DAG and NOT directives since the positive directive before.
    pub(crate) before: Vec<Directive>,
}

/// Parses the directives of a check file.
///
/// `name` is what messages call the file. The prefixes, the definitions, the implicit checks and
/// the options about patterns (whitespace, case, full lines) are taken from `options` here.
///
/// # Errors
/// A file without directives, a directive that cannot be parsed, or options that are not valid.
pub fn parse(text: &str, name: &str, options: &Options) -> Result<CheckFile, Failure> {
    options.validate().map_err(|message| Failure::usage(format!("error: {message}\n")))?;
    let mut symbols = Symbols::default();
    let variables = Variables::from_defines(options, &mut symbols).map_err(Failure::usage)?;
    let mut parser = Parser {
        options,
        symbols,
        sources: vec![Source::new(name, text, options.strict_whitespace)],
        checks: Vec::new(),
        implicit: Vec::new(),
        pending: Vec::new(),
    };
    parser.implicit_checks()?;
    parser.directives()?;
    Ok(CheckFile { sources: parser.sources, checks: parser.checks, variables })
}

struct Parser<'a> {
    options: &'a Options,
    symbols: Symbols,
    sources: Vec<Source>,
    checks: Vec<Check>,
    implicit: Vec<Directive>,
    pending: Vec<Directive>,
}

/// Where a directive stands in the check file.
struct Place<'a> {
    prefix: &'a str,
    /// Where its prefix starts.
    start: usize,
    /// Where its pattern starts and ends.
    pattern: (usize, usize),
}

impl Parser<'_> {
    fn failure(&self, offset: usize, message: &str) -> Failure {
        Failure::usage(self.sources[0].render(offset, Severity::Error, message))
    }

    fn implicit_checks(&mut self) -> Result<(), Failure> {
        const OPTION: &str = "--implicit-check-not='";
        for text in &self.options.implicit_check_not {
            let source = Source::new("command line", &format!("{OPTION}{text}'"), true);
            let pattern =
                Pattern::parse(text, Kind::Not, false, None, self.options, &mut self.symbols);
            let pattern = pattern.map_err(|SyntaxError { at, message }| {
                Failure::usage(source.render(OPTION.len() + at, Severity::Error, &message))
            })?;
            self.implicit.push(Directive {
                kind: Kind::Not,
                name: "implicit check-not".to_owned(),
                pattern,
                source: self.sources.len(),
                offset: OPTION.len(),
            });
            self.sources.push(source);
        }
        self.pending.clone_from(&self.implicit);
        Ok(())
    }

    fn directives(&mut self) -> Result<(), Failure> {
        let options = self.options;
        let text = self.sources[0].text().to_owned();
        let mut unused: Vec<&str> = options.prefixes.iter().map(String::as_str).collect();
        let mut at = 0;
        let mut finder = Finder::new(&text, options);
        while let Some(found) = finder.find(at) {
            let pattern = pattern_range(&text, found.end, options);
            let place = Place { prefix: found.prefix, start: found.start, pattern };
            match found.meaning {
                Meaning::Comment => {}
                Meaning::Directive(kind, literal) => {
                    unused.retain(|&prefix| prefix != found.prefix);
                    self.directive(&text, &place, kind, literal)?;
                }
                wrong => return Err(self.wrong_name(&place, &text[..found.end], wrong)),
            }
            at = pattern.1;
        }
        self.check_prefixes(&unused)?;
        if !self.pending.is_empty() {
            self.end_of_input(text.len());
        }
        Ok(())
    }

    fn wrong_name(&self, place: &Place<'_>, text: &str, meaning: Meaning) -> Failure {
        let prefix = place.prefix;
        let message = match meaning {
            Meaning::Misspelled => format!("misspelled directive '{}'", &text[place.start..]),
            Meaning::BadNot => format!("unsupported -NOT combo on prefix '{prefix}'"),
            Meaning::BadCount => {
                format!("invalid count in -COUNT specification on prefix '{prefix}'")
            }
            Meaning::Directive(..) | Meaning::Comment => "unexpected directive".to_owned(),
        };
        self.failure(place.start, &message)
    }

    fn directive(
        &mut self,
        text: &str,
        place: &Place<'_>,
        kind: Kind,
        literal: bool,
    ) -> Result<(), Failure> {
        let (offset, end) = place.pattern;
        let name = format!("{}{}", place.prefix, kind.suffix());
        let line = Some(self.sources[0].line_number(place.start));
        let pattern = Pattern::parse(
            &text[offset..end],
            kind,
            literal,
            line,
            self.options,
            &mut self.symbols,
        );
        let pattern = pattern.map_err(|SyntaxError { at, message }| {
            self.failure(offset + at, &format!("{name}: {message}"))
        })?;
        if kind == Kind::Label && pattern.has_variable() {
            let message = format!("found '{name}:' with variable definition or use");
            return Err(self.failure(place.start, &message));
        }
        if matches!(kind, Kind::Next | Kind::Same | Kind::Empty) && self.checks.is_empty() {
            let message = format!("found '{name}' without previous '{}' line", place.prefix);
            return Err(self.failure(place.start, &message));
        }
        let directive = Directive { kind, name, pattern, source: 0, offset };
        if matches!(kind, Kind::Dag | Kind::Not) {
            self.pending.push(directive);
        } else {
            let before = std::mem::replace(&mut self.pending, self.implicit.clone());
            self.checks.push(Check { directive, before });
        }
        Ok(())
    }

    fn check_prefixes(&self, unused: &[&str]) -> Result<(), Failure> {
        let none_used = unused.len() == self.options.prefixes.len();
        let some_missing = !self.options.allow_unused_prefixes && !unused.is_empty();
        let implicit_suffice = self.options.default_prefixes && !self.implicit.is_empty();
        if (none_used || some_missing) && !implicit_suffice {
            let quoted: Vec<String> = unused.iter().map(|prefix| format!("'{prefix}:'")).collect();
            let plural = if unused.len() > 1 { "es" } else { "" };
            let list = quoted.join(", ");
            return Err(Failure::usage(format!(
                "error: no check strings found with prefix{plural} {list}\n"
            )));
        }
        Ok(())
    }

    fn end_of_input(&mut self, offset: usize) {
        let prefix = self.options.prefixes.first().map_or("CHECK", String::as_str);
        let directive = Directive {
            kind: Kind::End,
            name: format!("{prefix}{}", Kind::End.suffix()),
            pattern: Pattern::end_of_input(),
            source: 0,
            offset,
        };
        self.checks.push(Check { directive, before: std::mem::take(&mut self.pending) });
    }
}
