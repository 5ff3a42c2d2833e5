//! The options, from a command line or set one by one.

/// What FileCheck's command line says, apart from the two file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Prefixes of directives (`--check-prefix`, `--check-prefixes`).
    pub prefixes: Vec<String>,
    /// Prefixes of comments, in which no directive is seen (`--comment-prefixes`).
    pub comment_prefixes: Vec<String>,
    /// Definitions, `NAME=VALUE` or `#NAME=EXPRESSION`, as they follow `-D`.
    pub defines: Vec<String>,
    /// Patterns that must not occur between positive matches (`--implicit-check-not`).
    pub implicit_check_not: Vec<String>,
    /// Keep horizontal whitespace as it is (`--strict-whitespace`).
    pub strict_whitespace: bool,
    /// Positive patterns cover whole lines (`--match-full-lines`).
    pub match_full_lines: bool,
    /// ASCII letters match in either case (`--ignore-case`).
    pub ignore_case: bool,
    /// The input may be empty (`--allow-empty`).
    pub allow_empty: bool,
    /// Variables without `$` end at each LABEL directive (`--enable-var-scope`).
    pub enable_var_scope: bool,
    /// A prefix without any directive is no error (`--allow-unused-prefixes`).
    pub allow_unused_prefixes: bool,
    /// Matches of a DAG group may overlap (`--allow-deprecated-dag-overlap`).
    pub allow_dag_overlap: bool,
    /// What messages call the input.
    pub input_name: String,
    /// Whether no prefix was named; then implicit checks without any directive are enough.
    pub default_prefixes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            prefixes: vec!["CHECK".to_owned()],
            comment_prefixes: vec!["COM".to_owned(), "RUN".to_owned()],
            defines: Vec::new(),
            implicit_check_not: Vec::new(),
            strict_whitespace: false,
            match_full_lines: false,
            ignore_case: false,
            allow_empty: false,
            enable_var_scope: false,
            allow_unused_prefixes: false,
            allow_dag_overlap: false,
            input_name: "<input>".to_owned(),
            default_prefixes: true,
        }
    }
}

impl Options {
    /// Reads a command line without the command's name. Gives the options, the check file and the
    /// input file where they are named.
    ///
    /// # Errors
    /// A line that says which argument is not understood, or which prefix is not valid.
    pub fn from_args(args: &[String]) -> Result<(Options, Option<String>, Option<String>), String> {
        let mut reader =
            ArgReader { options: Options::default(), check: None, input: None, rest: args.iter() };
        reader.options.prefixes.clear();
        reader.options.comment_prefixes.clear();
        while let Some(arg) = reader.rest.next() {
            reader.argument(arg)?;
        }
        let ArgReader { mut options, check, input, .. } = reader;
        let defaults = Options::default();
        options.default_prefixes = options.prefixes.is_empty();
        if options.prefixes.is_empty() {
            options.prefixes = defaults.prefixes;
        }
        if options.comment_prefixes.is_empty() {
            options.comment_prefixes = defaults.comment_prefixes;
        }
        options.validate()?;
        if let Some(input) = &input {
            options.input_name.clone_from(input);
        }
        Ok((options, check, input))
    }

    /// Whether the prefixes are well formed and all different.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let check = self.prefixes.iter().map(|prefix| ("check", prefix));
        let comment = self.comment_prefixes.iter().map(|prefix| ("comment", prefix));
        let mut seen: Vec<&String> = Vec::new();
        for (kind, prefix) in check.chain(comment) {
            if prefix.is_empty() {
                return Err(format!("supplied {kind} prefix must not be the empty string"));
            }
            if !prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                return Err(format!(
                    "supplied {kind} prefix must contain only alphanumeric characters, hyphens \
                     and underscores: '{prefix}'"
                ));
            }
            if seen.contains(&prefix) {
                return Err(format!(
                    "supplied {kind} prefix must be unique among check and comment prefixes: \
                     '{prefix}'"
                ));
            }
            seen.push(prefix);
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "strict-whitespace" => &mut self.strict_whitespace,
            "match-full-lines" => &mut self.match_full_lines,
            "ignore-case" => &mut self.ignore_case,
            "allow-empty" => &mut self.allow_empty,
            "enable-var-scope" => &mut self.enable_var_scope,
            "allow-unused-prefixes" => &mut self.allow_unused_prefixes,
            "allow-deprecated-dag-overlap" => &mut self.allow_dag_overlap,
            _ => return None,
        })
    }
}

struct ArgReader<'a> {
    options: Options,
    check: Option<String>,
    input: Option<String>,
    rest: std::slice::Iter<'a, String>,
}

impl ArgReader<'_> {
    fn argument(&mut self, arg: &str) -> Result<(), String> {
        if arg == "-" || !arg.starts_with('-') {
            if let Some(first) = &self.check {
                return Err(format!("two check files: '{first}' and '{arg}'"));
            }
            self.check = Some(arg.to_owned());
            return Ok(());
        }
        if let Some(define) = arg.strip_prefix("-D") {
            let define = if define.is_empty() { self.value("-D", None)? } else { define.into() };
            self.options.defines.push(define);
            return Ok(());
        }
        let name = arg.trim_start_matches('-');
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (name, None),
        };
        if let Some(flag) = self.options.flag(name) {
            *flag = boolean(name, value)?;
            return Ok(());
        }
        match name {
            "v" | "vv" | "color" => boolean(name, value).map(|_| ()),
            _ => self.valued(name, value),
        }
    }

    fn valued(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let list = |value: String| -> Vec<String> { value.split(',').map(str::to_owned).collect() };
        match name {
            "check-prefix" => {
                let value = self.value(name, value)?;
                self.options.prefixes.push(value);
            }
            "check-prefixes" => {
                let value = self.value(name, value)?;
                self.options.prefixes.extend(list(value));
            }
            "comment-prefixes" => {
                let value = self.value(name, value)?;
                self.options.comment_prefixes.extend(list(value));
            }
            "implicit-check-not" => {
                let value = self.value(name, value)?;
                self.options.implicit_check_not.push(value);
            }
            "input-file" => self.input = Some(self.value(name, value)?),
            "dump-input" | "dump-input-context" | "dump-input-filter" => {
                self.value(name, value)?;
            }
            _ => return Err(format!("unknown argument '--{name}'")),
        }
        Ok(())
    }

    fn value(&mut self, name: &str, value: Option<&str>) -> Result<String, String> {
        let value = value.or_else(|| self.rest.next().map(String::as_str));
        value.map(str::to_owned).ok_or_else(|| format!("the option '{name}' requires a value"))
    }
}

fn boolean(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("" | "1" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "false" | "FALSE" | "False") => Ok(false),
        Some(value) => Err(format!("'{value}' is no value for the option '--{name}'")),
    }
}
