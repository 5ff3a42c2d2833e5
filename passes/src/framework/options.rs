//! Pass options: declared with a type and a default, parsed once, read by name.

use hostir::diag::message;
use hostir::diag::{Diag, Diags, Span, nearest_candidate};

/// An unknown option of a pass, or options for a step that it does not have.
pub(crate) const UNKNOWN_OPTION: &str = "H0303";
/// An option whose value is not of its type.
const OPTION_VALUE: &str = "H0304";
/// An option, or the options of a step, that are given twice.
pub(crate) const OPTION_TWICE: &str = "H0305";
/// A missing option that has no default.
const OPTION_MISSING: &str = "H0306";

/// The name of the spec that stands for options of any other name; their values are integers.
pub const ANY_NAME: &str = "NAME";

/// One option of a pass.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// `communicator_backend`; in a pipeline `-` and `_` are equivalent. [`ANY_NAME`] stands for all others.
    pub name: &'static str,
    /// The type of its value.
    pub ty: OptionType,
    /// The default, as a user would write it; `None` for a required option.
    pub default: Option<&'static str>,
    /// One sentence.
    pub help: &'static str,
}

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionType {
    /// `true` or `false`; the bare name means `true`.
    Bool,
    /// An integer from `min` to `max`.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// Any word.
    Word,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `{a,b}`
    Words,
}

impl OptionType {
    /// The type as messages and documentation name it.
    pub fn type_description(self) -> String {
        match self {
            OptionType::Bool => "true or false".to_owned(),
            OptionType::Int { min: i64::MIN, max: i64::MAX } => "an integer".to_owned(),
            OptionType::Int { min, max: i64::MAX } => format!("an integer of at least {min}"),
            OptionType::Int { min, max } => format!("an integer from {min} to {max}"),
            OptionType::Word => "a word".to_owned(),
            OptionType::Choice(words) => format!("one of {}", words.join(", ")),
            OptionType::Words => "a list of words such as {a,b}".to_owned(),
        }
    }
    /// The values of a type that has few.
    pub fn words(self) -> Option<&'static [&'static str]> {
        match self {
            OptionType::Bool => Some(&["true", "false"]),
            OptionType::Choice(words) => Some(words),
            OptionType::Int { .. } | OptionType::Word | OptionType::Words => None,
        }
    }
    /// The value of a text; `None` if it does not fit the type.
    pub fn parse_value(self, text: &str) -> Option<OptionValue> {
        match self {
            OptionType::Bool => match text {
                "true" | "1" => Some(OptionValue::Bool(true)),
                "false" | "0" => Some(OptionValue::Bool(false)),
                _ => None,
            },
            OptionType::Int { min, max } => {
                let value = text.parse::<i64>().ok()?;
                (min..=max).contains(&value).then_some(OptionValue::Int(value))
            }
            OptionType::Word => is_word(text).then(|| OptionValue::Word(text.to_owned())),
            OptionType::Choice(words) => {
                words.iter().find(|word| is_same_name(word, text)).map(|word| OptionValue::Word((*word).to_owned()))
            }
            OptionType::Words => list_items(text)
                .map(|item| is_word(item).then(|| item.to_owned()))
                .collect::<Option<Vec<_>>>()
                .map(OptionValue::Words),
        }
    }
}

/// Compares two names; `-` and `_` are equivalent.
pub(crate) fn is_same_name(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes().zip(b.bytes()).all(|pair| matches!(pair, (b'-' | b'_', b'-' | b'_')) || pair.0 == pair.1)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(['{', '}', ',', '=']) && !text.contains(char::is_whitespace)
}

/// The items of `{a,b}` or of the bare `a`.
fn list_items(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    inner.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty())
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// Of a [`OptionType::Bool`].
    Bool(bool),
    /// Of a [`OptionType::Int`].
    Int(i64),
    /// Of a [`OptionType::Word`] or [`OptionType::Choice`].
    Word(String),
    /// Of a [`OptionType::Words`].
    Words(Vec<String>),
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionValue::Bool(value) => write!(f, "{value}"),
            OptionValue::Int(value) => write!(f, "{value}"),
            OptionValue::Word(value) => write!(f, "{value}"),
            OptionValue::Words(values) => write!(f, "{{{}}}", values.join(",")),
        }
    }
}

/// One `key=value` of a pipeline text.
#[derive(Clone, Copy, Debug)]
pub struct GivenOption<'a> {
    /// The key.
    pub key: &'a str,
    /// The place of the key.
    pub key_span: Span,
    /// The value; `None` for a bare key.
    pub value: Option<(&'a str, Span)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct OptionSlot {
    name: &'static str,
    value: Option<OptionValue>,
    /// The place of the key, if the user gave the option.
    given: Option<Span>,
    /// The place of the value; for a bare key, of the key.
    at: Option<Span>,
}

/// The options of one run of a pass: the given ones, and defaults for the rest.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Options {
    slots: Vec<OptionSlot>,
    /// Options under [`ANY_NAME`].
    named: Vec<(String, i64)>,
    /// Options of the steps of a pipeline pass, by their names.
    steps: Vec<(&'static str, Options)>,
}

impl Options {
    /// The defaults of `specs`.
    pub fn from_defaults(specs: &'static [OptionSpec]) -> Self {
        let slots = specs.iter().map(|spec| OptionSlot {
            name: spec.name,
            value: spec.default.and_then(|text| spec.ty.parse_value(text)),
            given: None,
            at: None,
        });
        Self { slots: slots.collect(), named: Vec::new(), steps: Vec::new() }
    }

    /// Checks the options that the user gave to `pass` (at `pass_span`). Reports every error; spans are those of the
    /// pipeline text.
    pub fn parse_given(
        pass: &str,
        pass_span: Span,
        specs: &'static [OptionSpec],
        given: &[GivenOption<'_>],
        diags: &mut Diags,
    ) -> Self {
        let options = Self::parse_some(pass, specs, given, diags);
        for (spec, slot) in specs.iter().zip(&options.slots) {
            if spec.default.is_none() && slot.given.is_none() {
                let message = message!("`{}` needs the option `{}`", pass, spec.name);
                diags.push(
                    Diag::error(OPTION_MISSING, pass_span, message)
                        .with_primary_text(message!("write `{}{{{}=...}}`", pass, spec.name))
                        .with_note(describe_option(spec)),
                );
            }
        }
        options
    }

    /// Checks options as [`Self::parse_given`] does, of which required ones may be missing: another place gives them.
    pub(crate) fn parse_some(
        pass: &str,
        specs: &'static [OptionSpec],
        given: &[GivenOption<'_>],
        diags: &mut Diags,
    ) -> Self {
        let mut options = Self::from_defaults(specs);
        for one in given {
            match specs.iter().position(|spec| is_same_name(spec.name, one.key)) {
                None if specs.iter().any(|spec| spec.name == ANY_NAME) => options.add_named(pass, one, diags),
                None => diags.push(unknown_option(pass, specs, one)),
                Some(index) => options.fill_slot(index, pass, &specs[index], one, diags),
            }
        }
        options
    }

    /// Adds options for a step of a pipeline pass. Returns false if it has some already.
    pub(crate) fn add_step(&mut self, step: &'static str, options: Options) -> bool {
        let is_new = !self.steps.iter().any(|(known, _)| *known == step);
        if is_new {
            self.steps.push((step, options));
        }
        is_new
    }
    /// Takes over what is given for a step of this name in the options of a pipeline pass.
    pub(crate) fn adopt_step(&mut self, step: &str, pipeline: &Options) {
        let Some((_, given)) = pipeline.steps.iter().find(|(known, _)| *known == step) else { return };
        for (slot, new) in self.slots.iter_mut().zip(&given.slots).filter(|(_, new)| new.given.is_some()) {
            slot.clone_from(new);
        }
        self.named.retain(|(name, _)| !given.named.iter().any(|(new, _)| new == name));
        self.named.extend(given.named.iter().cloned());
        self.steps.extend(given.steps.iter().cloned());
    }

    fn fill_slot(&mut self, index: usize, pass: &str, spec: &OptionSpec, given: &GivenOption<'_>, diags: &mut Diags) {
        if let Some(first) = self.slots[index].given {
            let message = message!("the option `{}` of `{}` is given twice", spec.name, pass);
            diags.push(Diag::error(OPTION_TWICE, given.key_span, message).with_label(first, "first given here"));
            return;
        }
        self.slots[index].given = Some(given.key_span);
        self.slots[index].at = Some(given.value.map_or(given.key_span, |(_, span)| span));
        let parsed = match given.value {
            Some((text, _)) => spec.ty.parse_value(text),
            None => (spec.ty == OptionType::Bool).then_some(OptionValue::Bool(true)),
        };
        match parsed {
            Some(value) => self.slots[index].value = Some(value),
            None => diags.push(wrong_value(pass, spec, given)),
        }
    }

    /// Adds an option under [`ANY_NAME`].
    fn add_named(&mut self, pass: &str, given: &GivenOption<'_>, diags: &mut Diags) {
        if self.named.iter().any(|(name, _)| name == given.key) {
            let message = message!("the option `{}` of `{}` is given twice", given.key, pass);
            diags.push(Diag::error(OPTION_TWICE, given.key_span, message));
            return;
        }
        match given.value.and_then(|(text, _)| text.parse().ok()) {
            Some(value) => self.named.push((given.key.to_owned(), value)),
            None => {
                let span = given.value.map_or(given.key_span, |(_, span)| span);
                let message = message!("the option `{}` of `{}` needs an integer", given.key, pass);
                diags.push(Diag::error(OPTION_VALUE, span, message));
            }
        }
    }

    /// The options under [`ANY_NAME`], in the order given.
    pub fn named_values(&self) -> &[(String, i64)] {
        &self.named
    }
    /// The given or default value of an option; `None` if it has neither or was never declared.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        let slot = self.slots.iter().find(|slot| slot.name == name);
        debug_assert!(slot.is_some(), "no option {name} is declared");
        slot?.value.as_ref()
    }
    /// Whether the user gave the option.
    pub fn is_given(&self, name: &str) -> bool {
        self.slots.iter().any(|slot| slot.name == name && slot.given.is_some())
    }
    /// The place of the option's value in the pipeline text, if the user gave it to the pass or to a step of it.
    pub fn option_span(&self, name: &str) -> Option<Span> {
        let own = self.slots.iter().find(|slot| slot.name == name).and_then(|slot| slot.at);
        own.or_else(|| self.steps.iter().find_map(|(_, options)| options.option_span(name)))
    }
    /// A boolean option.
    pub fn bool_value(&self, name: &str) -> bool {
        matches!(self.get(name), Some(OptionValue::Bool(true)))
    }
    /// An integer option; 0 if it has no value.
    pub fn int_value(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(OptionValue::Int(value)) => *value,
            _ => 0,
        }
    }
    /// A word option; empty if it has no value.
    pub fn word_value(&self, name: &str) -> &str {
        match self.get(name) {
            Some(OptionValue::Word(value)) => value,
            _ => "",
        }
    }
    /// A list of words; empty if it has no value.
    pub fn word_list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(OptionValue::Words(values)) => values,
            _ => &[],
        }
    }
}

/// `{key=value,...}` with the given options; empty if there are none. A pipeline pass forwards options with it.
impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let given: Vec<String> = self
            .slots
            .iter()
            .filter(|slot| slot.given.is_some())
            .filter_map(|slot| Some(format!("{}={}", slot.name, slot.value.as_ref()?)))
            .chain(self.named.iter().map(|(name, value)| format!("{name}={value}")))
            .chain(self.steps.iter().map(|(step, options)| match options.to_string().as_str() {
                "" => format!("{step}={{}}"),
                text => format!("{step}={text}"),
            }))
            .collect();
        if given.is_empty() { Ok(()) } else { write!(f, "{{{}}}", given.join(",")) }
    }
}

fn unknown_option(pass: &str, specs: &[OptionSpec], given: &GivenOption<'_>) -> Diag {
    let message = message!("`{}` has no option `{}`", pass, given.key);
    let diag = Diag::error(UNKNOWN_OPTION, given.key_span, message);
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let dashed = given.key.replace('-', "_");
    let diag = match nearest_candidate(&dashed, names.iter().copied()) {
        Some(near) => diag.with_primary_text(message!("did you mean `{}`?", near)),
        None => diag,
    };
    if specs.is_empty() {
        return diag.with_note(message!("`{}` takes no options", pass));
    }
    diag.with_note(message!("its options are {}", names.join(", ")))
}

fn wrong_value(pass: &str, spec: &OptionSpec, given: &GivenOption<'_>) -> Diag {
    let what = spec.ty.type_description();
    let Some((text, span)) = given.value else {
        let message = message!("the option `{}` of `{}` needs a value", spec.name, pass);
        return Diag::error(OPTION_VALUE, given.key_span, message).with_note(describe_option(spec));
    };
    let message = message!("`{}` is not a valid value for the option `{}` of `{}`", text, spec.name, pass);
    let diag = Diag::error(OPTION_VALUE, span, message).with_note(describe_option(spec));
    let near = match spec.ty {
        OptionType::Choice(words) => nearest_candidate(text, words.iter().copied()),
        OptionType::Bool => nearest_candidate(text, ["true", "false"]),
        OptionType::Int { .. } | OptionType::Word | OptionType::Words => None,
    };
    diag.with_primary_text(near.map_or_else(|| format!("expected {what}"), |near| format!("did you mean `{near}`?")))
}

fn describe_option(spec: &OptionSpec) -> String {
    let default = spec.default.map_or_else(String::new, |text| format!(", default {text}"));
    format!("`{}` is {}{default}: {}", spec.name, spec.ty.type_description(), spec.help)
}
