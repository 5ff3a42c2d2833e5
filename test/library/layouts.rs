//! One program in many layouts: texts that differ only in indentation, braces, line breaks and white
//! space print the same canonical text. All `.hir` files of the tree, and all of `HIR_DUMPS`.

use crate::effort;
use crate::random::{Random, canonical, programs};
use hostir::diag::render;

/// The layouts of one round.
struct Layout {
    /// Blanks (or one tab) for each two of the canonical text.
    unit: &'static str,
    break_at_commas: bool,
    join: bool,
    tight: bool,
    braces: bool,
    semicolons: bool,
    blank_lines: bool,
    trailing: bool,
    carriage_returns: bool,
}

impl Layout {
    fn random(random: &mut Random) -> Self {
        let mut coin = || random.below(3) == 0;
        Layout {
            break_at_commas: coin(),
            join: coin(),
            tight: coin(),
            braces: coin(),
            semicolons: coin(),
            blank_lines: coin(),
            trailing: coin(),
            carriage_returns: coin(),
            unit: [" ", "  ", "   ", "\t", "        "][random.below(5)],
        }
    }

    fn apply(&self, text: &str, random: &mut Random) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if self.join {
            lines = joined(&lines, random);
        }
        if self.braces {
            lines = braced(&lines, random);
        }
        let mut out = String::new();
        for line in &lines {
            out.push_str(&self.line(line, random));
            if self.trailing && !line.is_empty() {
                out.push_str("  ");
            }
            out.push_str(if self.carriage_returns { "\r\n" } else { "\n" });
            if self.blank_lines && random.below(4) == 0 && line.starts_with("  ") {
                out.push('\n');
            }
        }
        out
    }

    fn line(&self, line: &str, random: &mut Random) -> String {
        let body = line.trim_start_matches(' ');
        let blanks = line.len() - body.len();
        let mut out = self.unit.repeat(blanks / 2);
        out.push_str(&" ".repeat(blanks % 2));
        if line.contains("//") || is_section(line) {
            return out + body;
        }
        let mut body = body.to_owned();
        if self.tight {
            body = body.replace("( ", "(").replace(" )", ")").replace(", ", ",");
        }
        if self.break_at_commas {
            body = broken(&body, random);
        }
        let statement = body.starts_with(|c: char| c.is_ascii_uppercase() && c != 'T');
        if self.semicolons && statement && body.ends_with(')') && !body.starts_with("ShareMem") {
            body.push(';');
        }
        out + &body
    }
}

/// Lines of a section's frame, which stand for themselves.
fn is_section(line: &str) -> bool {
    ["%", "HostUnit", "Inputs:", "Outputs:", "Aliases:", "Index definitions:", "hir "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Line breaks after some commas inside of brackets.
fn broken(body: &str, random: &mut Random) -> String {
    let mut depth = 0;
    let mut out = String::new();
    for c in body.chars() {
        out.push(c);
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth > 0 && random.below(3) == 0 => {
                out.push('\n');
                out.push_str(&" ".repeat(random.below(30)));
            }
            _ => {}
        }
    }
    out
}

/// Some lines that continue a statement, put after the line before them.
fn joined(lines: &[String], random: &mut Random) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for line in lines {
        let body = line.trim_start();
        let continues = body.starts_with(['=', '+', '*', '/', ',', ')']) && !body.starts_with("//");
        match out.last_mut() {
            Some(last) if continues && !last.contains("//") && random.below(2) == 0 => {
                last.push(' ');
                last.push_str(body);
            }
            _ => out.push(line.clone()),
        }
    }
    out
}

/// Some blocks in braces. A text with comments stays as it is: a comment after the last statement
/// belongs to another block then.
fn braced(lines: &[String], random: &mut Random) -> Vec<String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let comment = |line: &String| line.contains("//") && !line.starts_with('}');
    if lines.iter().any(comment) {
        return lines.to_vec();
    }
    let mut out = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for line in lines {
        while open.last().is_some_and(|&header| depth(line) <= header || line.is_empty()) {
            let header = open.pop().unwrap_or(0);
            out.push(format!("{}}}", " ".repeat(header)));
        }
        let body = line.trim_start();
        let header = ["FOR ", "IF ", "ELSE:"].iter().any(|word| body.starts_with(word));
        if header && line.ends_with(':') && random.below(2) == 0 {
            open.push(depth(line));
            out.push(format!("{} {{", if random.below(2) == 0 { line.trim_end_matches(':') } else { line }));
        } else {
            out.push(line.clone());
        }
    }
    out
}

fn without_blank_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

/// The text as it prints if all its programs are valid.
fn valid(text: &str) -> Option<String> {
    let (programs, mut diags) = hostir::load(text);
    programs.iter().for_each(|program| hostir::verify::verify(program, &mut diags));
    if diags.has_errors() { None } else { canonical(text) }
}

#[test]
fn layouts_print_the_canonical_text() {
    // The number of other layouts of each program.
    let rounds = effort::cases("HIR_LAYOUTS", 24, 500);
    let mut random = Random(effort::seed(11));
    let mut tried = 0;
    for (name, text) in programs().into_iter().filter(|(_, text)| !hostir::hir2::is_hir2(text)) {
        let Some(expected) = valid(&text) else { continue };
        for round in 0..rounds {
            let layout = Layout::random(&mut random);
            let other = layout.apply(&expected, &mut random);
            let (programs, diags) = hostir::load(&other);
            let rendered = render::to_string(&name, &other, &diags.items);
            assert!(diags.is_empty(), "{name} round {round}\n{other}\n{rendered}");
            let printed: String = programs.iter().map(hostir::print::print_to_string).collect();
            assert_eq!(without_blank_lines(&printed), without_blank_lines(&expected), "{name} round {round}\n{other}");
            tried += 1;
        }
    }
    assert!(tried > 20 * rounds, "only {tried} layouts were tried");
}

/// The short form says the same.
#[test]
fn short_form_reads_back() {
    for (name, text) in programs().into_iter().filter(|(_, text)| !hostir::hir2::is_hir2(text)) {
        let Some(expected) = valid(&text) else { continue };
        let (programs, _) = hostir::load(&text);
        let mut short = String::new();
        for program in &programs {
            let options = hostir::print::PrintOptions { form: hostir::print::PrintForm::Short, ..Default::default() };
            hostir::print::print_into(program, options, &mut short);
        }
        assert!(short.len() <= expected.len(), "{name}");
        assert_eq!(canonical(&short), Some(expected), "{name}\n{short}");
    }
}
