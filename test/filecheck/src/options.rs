//! The options, from a command line or set one by one.

/// The options of FileCheck's command line, apart from the names of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Prefixes of directives (`--check-prefix`, `--check-prefixes`); `CHECK` if there are none.
    pub prefixes: Vec<String>,
    /// Prefixes of comments, in which no directive is seen (`--comment-prefixes`); `COM` and `RUN` if there are none.
    pub comment_prefixes: Vec<String>,
    /// Keep horizontal whitespace as it is (`--strict-whitespace`).
    pub strict_whitespace: bool,
    /// Positive patterns cover whole lines (`--match-full-lines`).
    pub match_full_lines: bool,
    /// The input may be empty (`--allow-empty`).
    pub allow_empty: bool,
    /// Letters match in both cases (`--ignore-case`).
    pub ignore_case: bool,
    /// Variables without a `$` end at the next LABEL directive (`--enable-var-scope`).
    pub enable_var_scope: bool,
    /// Some prefixes may have no directive (`--allow-unused-prefixes`).
    pub allow_unused_prefixes: bool,
    /// Matches of a group of DAG directives may overlap (`--allow-deprecated-dag-overlap`).
    pub allow_dag_overlap: bool,
    /// Patterns that do not occur between positive matches (`--implicit-check-not`).
    pub implicit_check_nots: Vec<String>,
    /// Variables with values, `NAME=VALUE` or `#NAME=EXPRESSION` (`-D`).
    pub definitions: Vec<String>,
    /// The reports.
    pub output: OutputOptions,
    /// The name of the input in messages.
    pub input_name: String,
}

/// The reports and their form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// The amount of output about matches (`-v`, `-vv`).
    pub verbosity: Verbosity,
    /// When the input is printed with notes (`--dump-input`).
    pub dump_input: DumpInput,
    /// Its lines; all if the dump is always printed, otherwise those with errors (`--dump-input-filter`).
    pub dump_filter: Option<DumpFilter>,
    /// The number of lines around those (`--dump-input-context`).
    pub dump_context: usize,
    /// Use the colours of a terminal (`--color`).
    pub color: bool,
}

/// The amount of output about matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    /// Nothing.
    #[default]
    Errors,
    /// Each match (`-v`).
    Matches,
    /// Also what is found and left, and what is rightly not found (`-vv`).
    Everything,
}

/// When the input is printed with notes. A later value has precedence over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DumpInput {
    /// Never.
    Never,
    /// If the input does not match.
    #[default]
    Fail,
    /// Always.
    Always,
    /// The format of the dump is explained, and nothing is compared.
    Help,
}

/// Lines of the input that are printed. A later value has precedence over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DumpFilter {
    /// Lines at which an error starts.
    Error,
    /// Lines at which a note starts.
    Annotation,
    /// Lines with notes.
    AnnotationFull,
    /// All lines.
    All,
}

impl Default for OutputOptions {
    fn default() -> OutputOptions {
        OutputOptions {
            verbosity: Verbosity::Errors,
            dump_input: DumpInput::Fail,
            dump_filter: None,
            dump_context: 5,
            color: false,
        }
    }
}

impl OutputOptions {
    /// The lines of the input that are printed.
    pub(crate) fn shown_lines(&self) -> DumpFilter {
        let is_always = self.dump_input == DumpInput::Always;
        self.dump_filter.unwrap_or(if is_always { DumpFilter::All } else { DumpFilter::Error })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            prefixes: Vec::new(),
            comment_prefixes: Vec::new(),
            strict_whitespace: false,
            match_full_lines: false,
            allow_empty: false,
            ignore_case: false,
            enable_var_scope: false,
            allow_unused_prefixes: false,
            allow_dag_overlap: false,
            implicit_check_nots: Vec::new(),
            definitions: Vec::new(),
            output: OutputOptions::default(),
            input_name: "<stdin>".to_owned(),
        }
    }
}

const DEFAULT_PREFIX: &str = "CHECK";
const DEFAULT_COMMENT_PREFIXES: [&str; 2] = ["COM", "RUN"];

impl Options {
    /// The prefixes of directives that count.
    pub fn check_prefixes(&self) -> Vec<&str> {
        match self.prefixes.is_empty() {
            true => vec![DEFAULT_PREFIX],
            false => self.prefixes.iter().map(String::as_str).collect(),
        }
    }

    /// The prefixes of comments that count.
    pub(crate) fn comment_prefixes(&self) -> Vec<&str> {
        match self.comment_prefixes.is_empty() {
            true => DEFAULT_COMMENT_PREFIXES.to_vec(),
            false => self.comment_prefixes.iter().map(String::as_str).collect(),
        }
    }

    /// True if blanks at both ends of a pattern count.
    pub(crate) fn keeps_outer_blanks(&self) -> bool {
        self.strict_whitespace && self.match_full_lines
    }

    /// Refuses prefixes that are not well formed or not different, and definitions without a name or a value.
    ///
    /// # Errors
    /// A description of the first one.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for definition in &self.definitions {
            match definition.find('=') {
                None => return Err(format!("missing equal sign in command-line definition '-D{definition}'")),
                Some(0) => return Err(format!("missing variable name in command-line definition '-D{definition}'")),
                Some(_) => {}
            }
        }
        let mut known = Vec::new();
        if self.prefixes.is_empty() {
            known.push(DEFAULT_PREFIX);
        }
        if self.comment_prefixes.is_empty() {
            known.extend(DEFAULT_COMMENT_PREFIXES);
        }
        validate_prefixes("check", &self.prefixes, &mut known)?;
        validate_prefixes("comment", &self.comment_prefixes, &mut known)
    }
}

fn validate_prefixes<'a>(kind: &str, prefixes: &'a [String], known: &mut Vec<&'a str>) -> Result<(), String> {
    for prefix in prefixes {
        if prefix.is_empty() {
            return Err(format!("supplied {kind} prefix must not be the empty string"));
        }
        if !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(format!(
                "supplied {kind} prefix must start with a letter and contain only alphanumeric characters, hyphens, \
                 and underscores: '{prefix}'"
            ));
        }
        if known.contains(&prefix.as_str()) {
            return Err(format!("supplied {kind} prefix must be unique among check and comment prefixes: '{prefix}'"));
        }
        known.push(prefix);
    }
    Ok(())
}
