//! What docs/language.md has from files: programs, and the grammar, printed from the one that lalrpop reads: rules without
//! their actions, in EBNF.

use hostir_test::tree;
use std::fmt::Write;

/// The lines in front of the grammar, and the one after each block.
const START: &str =
    "<!-- The grammar is printed from grammar/reference/src/hir2.lalrpop by `tools/bless`. -->\n\n```\n";
const END: &str = "```\n";
/// The widest line of a rule whose alternatives stand on one line.
const WIDTH: usize = 110;

/// The page with the grammar and the programs of docs/statements in their places.
pub(crate) fn with_generated(page: &str) -> String {
    let mut page = with_block(page, START, &print_grammar(hostir_grammar_reference::GRAMMAR));
    for path in tree::files(&tree::root().join("docs/statements"), ".hir") {
        let start = format!("<!-- {} -->\n\n```\n", tree::relative(&path));
        page = with_block(&page, &start, &tree::read(&path));
    }
    page
}

/// The page with a text between `start` and the end of its block; without such a place it is at the end.
fn with_block(page: &str, start: &str, text: &str) -> String {
    let (before, rest) = page.split_once(start).unwrap_or((page, END));
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    format!("{before}{start}{text}{END}{after}")
}

/// The words with which alternatives of these rules begin, each once.
pub(crate) fn first_words(rules: &[&str]) -> Vec<String> {
    let rules: Vec<String> = rules.iter().map(|name| rule_name(name)).collect();
    let (_, text) = printed_parts(hostir_grammar_reference::GRAMMAR);
    let mut reader = RuleReader { lexemes: lexemes(text), at: 0 };
    let mut found: Vec<String> = Vec::new();
    while reader.peek() != &Lexeme::End {
        if reader.skip(&Lexeme::Section) {
            continue;
        }
        let rule = reader.read_rule();
        for (alternative, _) in rule.alternatives.iter().filter(|_| rules.contains(&rule.name)) {
            let first = alternative.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
            let word = first.map(|(word, _)| word.to_owned());
            found.extend(word.filter(|word| !found.contains(word)));
        }
    }
    found
}

/// The words of the language, in the order of its terminals.
pub(crate) fn keywords() -> Vec<String> {
    let (head, _) = printed_parts(hostir_grammar_reference::GRAMMAR);
    let words = head.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Tok::Word("));
    words.map(|(word, _)| word.to_owned()).collect()
}

/// The terminals of a grammar, and its rules up to those that are not printed.
fn printed_parts(grammar: &str) -> (&str, &str) {
    let (head, rules) = grammar.split_once("// ---- files ----").unwrap_or_default();
    (head, rules.split("// ---- not printed ----").next().unwrap_or_default())
}

/// The rules of a grammar up to those that are not printed, and its terminals that have a note.
fn print_grammar(grammar: &str) -> String {
    let (head, rules) = printed_parts(grammar);
    let mut reader = RuleReader { lexemes: lexemes(rules), at: 0 };
    let mut out = String::new();
    while reader.peek() != &Lexeme::End {
        if reader.skip(&Lexeme::Section) {
            out.push('\n');
            continue;
        }
        let rule = reader.read_rule();
        rule.print(&mut out);
    }
    out.push('\n');
    let terminals = head.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => "));
    for (terminal, rest) in terminals {
        if let Some((_, note)) = rest.split_once("// -- ") {
            let _ = writeln!(out, "{terminal:<10}-- {note}");
        }
    }
    out.trim_start().to_owned()
}

/// A word or sign of the grammar's text.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Lexeme {
    Word(String),
    Terminal(String),
    /// A comment that is printed.
    Note(String),
    /// A comment that begins a section.
    Section,
    Arrow,
    Sign(char),
    End,
}

fn lexemes(text: &str) -> Vec<Lexeme> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let end = rest[1..].find('"').map_or(rest.len(), |end| end + 1);
                found.push(Lexeme::Terminal(rest[1..end].to_owned()));
                end + 1
            }
            '/' if rest.starts_with("//") => {
                let line = rest.lines().next().unwrap_or_default();
                match line.strip_prefix("// -- ") {
                    Some(note) => found.push(Lexeme::Note(note.to_owned())),
                    None if line.starts_with("// ----") => found.push(Lexeme::Section),
                    None => {}
                }
                line.len()
            }
            '=' if rest.starts_with("=>") => {
                found.push(Lexeme::Arrow);
                // The action of `=>?` may fail.
                if rest[2..].starts_with('?') { 3 } else { 2 }
            }
            _ if first.is_alphanumeric() || first == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                found.push(Lexeme::Word(rest[..end].to_owned()));
                end
            }
            _ => {
                if !first.is_whitespace() {
                    found.push(Lexeme::Sign(first));
                }
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found.push(Lexeme::End);
    found
}

/// A rule: its name, the note above it, and its alternatives with theirs.
struct Rule {
    name: String,
    note: Option<String>,
    alternatives: Vec<(String, Option<String>)>,
}

impl Rule {
    fn print(&self, out: &mut String) {
        let line = self.alternatives.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" | ");
        let is_plain = self.alternatives.iter().all(|(_, note)| note.is_none()) && line.len() <= WIDTH;
        if is_plain || self.alternatives.len() == 1 {
            let note = self.note.as_ref().or(self.alternatives[0].1.as_ref());
            return print_line(out, &self.name, '=', &line, note);
        }
        for (place, (text, note)) in self.alternatives.iter().enumerate() {
            match place {
                0 => print_line(out, &self.name, '=', text, note.as_ref().or(self.note.as_ref())),
                _ => print_line(out, "", '|', text, note.as_ref()),
            }
        }
    }
}

fn print_line(out: &mut String, name: &str, sign: char, text: &str, note: Option<&String>) {
    let note = note.map_or_else(String::new, |note| format!("   -- {note}"));
    let _ = writeln!(out, "{name:<12} {sign} {text}{note}");
}

/// Reads rules.
struct RuleReader {
    lexemes: Vec<Lexeme>,
    at: usize,
}

impl RuleReader {
    fn peek(&self) -> &Lexeme {
        self.lexemes.get(self.at).unwrap_or(&Lexeme::End)
    }

    fn next(&mut self) -> Lexeme {
        let lexeme = self.peek().clone();
        self.at += 1;
        lexeme
    }

    fn skip(&mut self, lexeme: &Lexeme) -> bool {
        let found = self.peek() == lexeme;
        self.at += usize::from(found);
        found
    }

    fn take_note(&mut self) -> Option<String> {
        let Lexeme::Note(note) = self.peek().clone() else { return None };
        self.at += 1;
        Some(note)
    }

    /// `// -- note`, `pub Name: Type = { .. };`
    fn read_rule(&mut self) -> Rule {
        let note = self.take_note();
        self.skip(&Lexeme::Word("pub".to_owned()));
        let name = match self.next() {
            Lexeme::Word(name) => rule_name(&name),
            lexeme => format!("{lexeme:?}"),
        };
        while !matches!(self.next(), Lexeme::Sign('=') | Lexeme::End) {}
        let mut alternatives = Vec::new();
        if !self.skip(&Lexeme::Sign('{')) {
            alternatives.push((self.read_alternative(), None));
            self.skip(&Lexeme::Sign(';'));
            return Rule { name, note, alternatives };
        }
        while !self.skip(&Lexeme::Sign('}')) && self.peek() != &Lexeme::End {
            let text = self.read_alternative();
            self.skip(&Lexeme::Sign(','));
            alternatives.push((text, self.take_note()));
        }
        self.skip(&Lexeme::Sign(';'));
        Rule { name, note, alternatives }
    }

    /// Symbols and their action, up to the sign after it.
    fn read_alternative(&mut self) -> String {
        while self.skip(&Lexeme::Sign('#')) {
            while !matches!(self.next(), Lexeme::Sign(']') | Lexeme::End) {}
        }
        let text = self.read_symbols();
        if self.skip(&Lexeme::Arrow) {
            self.skip_action();
        }
        text
    }

    fn skip_action(&mut self) {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                Lexeme::Sign(',' | ';' | '}') if depth == 0 => return,
                Lexeme::Sign('(' | '[' | '{') => depth += 1,
                Lexeme::Sign(')' | ']' | '}') => depth -= 1,
                Lexeme::End => return,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Symbols, up to a sign that is none.
    fn read_symbols(&mut self) -> String {
        let mut symbols: Vec<String> = Vec::new();
        loop {
            match self.peek().clone() {
                Lexeme::Terminal(text) => {
                    self.at += 1;
                    symbols.push(terminal_text(&text));
                }
                Lexeme::Word(word) => {
                    self.at += 1;
                    symbols.push(self.read_nonterminal(&word));
                }
                Lexeme::Sign('<') => {
                    self.at += 1;
                    symbols.extend(self.read_named());
                }
                Lexeme::Sign('(') => {
                    self.at += 1;
                    let inner = self.read_symbols();
                    self.skip(&Lexeme::Sign(')'));
                    symbols.push(format!("({inner})"));
                }
                Lexeme::Sign('@') => self.at += 2,
                Lexeme::Sign(sign @ ('?' | '*' | '+')) => {
                    self.at += 1;
                    if let Some(symbol) = symbols.last_mut() {
                        symbol.push(sign);
                    }
                }
                _ => return symbols.join(" "),
            }
        }
    }

    /// `name:Symbol>`; nothing for a place.
    fn read_named(&mut self) -> Option<String> {
        if self.lexemes.get(self.at + 1) == Some(&Lexeme::Sign(':')) {
            self.at += 2;
        }
        let text = self.read_symbols();
        self.skip(&Lexeme::Sign('>'));
        Some(text).filter(|text| !text.is_empty())
    }

    /// A rule's name, or a list of one.
    fn read_nonterminal(&mut self, word: &str) -> String {
        let repeats = match word {
            "Comma" => ",*",
            "List" => ",+",
            _ => return rule_name(word),
        };
        self.skip(&Lexeme::Sign('<'));
        let item = self.read_symbols();
        self.skip(&Lexeme::Sign('>'));
        format!("{item}{repeats}")
    }
}

/// The printed name of a rule.
fn rule_name(word: &str) -> String {
    match word {
        "AnyName" => "NAME".to_owned(),
        "GroupValue" => "group".to_owned(),
        _ => {
            let mut name = String::new();
            for (place, character) in word.char_indices() {
                if character.is_uppercase() && place > 0 {
                    name.push('-');
                }
                name.extend(character.to_lowercase());
            }
            name
        }
    }
}

/// Kinds of terminals have names in capitals; what distinguishes signs of one text is left out.
fn terminal_text(text: &str) -> String {
    let is_kind = text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    match is_kind {
        true => text.to_owned(),
        false => format!("'{}'", text.split(' ').next().unwrap_or(text)),
    }
}
