//! Variables: what directives declare while they are parsed, and their values while they match.

use std::collections::{BTreeMap, BTreeSet};

use crate::Options;
use crate::numeric::{Format, NumericBlock, SyntaxError, parse_block, parse_name};

/// A numeric variable as its first definition (or use) declares it.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// How its value is written.
    pub(crate) format: Format,
    /// The line of the directive that first defined it.
    pub(crate) line: Option<usize>,
}

/// The names declared so far, while a check file is parsed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Symbols {
    /// String variables.
    pub(crate) strings: BTreeSet<String>,
    /// Numeric variables.
    pub(crate) numerics: BTreeMap<String, Declared>,
}

/// The values of variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    /// String variables.
    pub(crate) strings: BTreeMap<String, String>,
    /// Numeric variables.
    pub(crate) numerics: BTreeMap<String, i128>,
}

impl Variables {
    /// Forgets the variables whose names do not start with `$`.
    pub(crate) fn clear_local(&mut self) {
        self.strings.retain(|name, _| name.starts_with('$'));
        self.numerics.retain(|name, _| name.starts_with('$'));
    }

    /// One line that says the value of every variable, or nothing when there is none.
    pub(crate) fn describe(&self) -> Option<String> {
        let strings = self.strings.iter().map(|(name, value)| format!("{name} = {value:?}"));
        let numerics = self.numerics.iter().map(|(name, value)| format!("#{name} = {value}"));
        let all: Vec<String> = strings.chain(numerics).collect();
        (!all.is_empty()).then(|| format!("variables: {}\n", all.join(", ")))
    }

    /// Evaluates the definitions of the command line; the error is a rendered line.
    pub(crate) fn from_defines(
        options: &Options,
        symbols: &mut Symbols,
    ) -> Result<Variables, String> {
        let mut variables = Variables::default();
        for define in &options.defines {
            variables
                .define(define, symbols)
                .map_err(|message| format!("error: in the definition '{define}': {message}\n"))?;
        }
        Ok(variables)
    }

    fn define(&mut self, define: &str, symbols: &mut Symbols) -> Result<(), String> {
        let Some((name, value)) = define.split_once('=') else {
            return Err("missing equal sign in global definition".to_owned());
        };
        match name.strip_prefix('#') {
            Some(name) => self.define_numeric(&format!("{name}:{value}"), symbols),
            None => self.define_string(name, value, symbols),
        }
    }

    fn define_numeric(&mut self, block: &str, symbols: &mut Symbols) -> Result<(), String> {
        let describe = |error: SyntaxError| error.message;
        let block = parse_block(block, false, None, symbols).map_err(describe)?;
        let NumericBlock { format, expression: Some(expression), defines: Some(name) } = block
        else {
            return Err("a name and a value are needed".to_owned());
        };
        let value = expression.evaluate(self, None)?;
        symbols.numerics.entry(name.clone()).or_insert(Declared { format, line: None });
        self.numerics.insert(name, value);
        Ok(())
    }

    fn define_string(
        &mut self,
        name: &str,
        value: &str,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        let length = parse_name(name).map_err(|error| error.message)?;
        if name.starts_with('@') || length != name.len() {
            return Err(format!("invalid name in string variable definition '{name}'"));
        }
        if symbols.numerics.contains_key(name) {
            return Err(format!("numeric variable with name '{name}' already exists"));
        }
        symbols.strings.insert(name.to_owned());
        // The first definition on the command line wins.
        self.strings.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        Ok(())
    }
}
