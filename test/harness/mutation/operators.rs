//! The operators of the mutation table.

use super::statements::{PrintedStatement, StatementSort, block_end, join_statements, split_statements};
use regex::Regex;
use std::collections::BTreeSet;

/// A changed program.
#[derive(Clone, Debug)]
pub(crate) struct MutantProgram {
    /// The operator: `delete wait`, `retarget peer`.
    pub(crate) operator: String,
    /// The change in words.
    pub(crate) change: String,
    /// The program.
    pub(crate) text: String,
}

/// An operator that changes part of a statement.
struct RetargetRule {
    name: &'static str,
    /// Finds the part: its first group.
    pattern: &'static str,
    /// Other values of the part beside those that the program has elsewhere; `@` stands for the value.
    values: &'static [&'static str],
}

/// The parts of statements that are retargeted: each gets each other value that the program has in such a place.
const RETARGETS: &[RetargetRule] = &[
    RetargetRule { name: "retarget synchronization", pattern: r"^Synchronize Stream (.*)$", values: &["0", "1"] },
    RetargetRule { name: "retarget stream switch", pattern: r"^SetCurrentStream to Stream (.*)$", values: &["0", "1"] },
    RetargetRule { name: "retarget stream read", pattern: r"^GetCurrentStream into Stream (.*)$", values: &["1"] },
    RetargetRule { name: "retarget wait", pattern: r"^Wait Communication (\S+)", values: &[] },
    RetargetRule {
        name: "retarget peer",
        pattern: r"peer=(.*?), backend",
        values: &["0", "1", "rank", "( ( @ + 1 ) % numberOfRanks )"],
    },
    RetargetRule {
        name: "retarget slice index",
        pattern: r"index = (.*) \)$",
        values: &["0", "1", "rank", "( ( @ + 1 ) % numberOfRanks )"],
    },
    RetargetRule { name: "retarget root", pattern: r"root=(?:DeviceIdx )?([^,)]+)", values: &["0", "1"] },
    RetargetRule { name: "retarget team", pattern: r"team=\(([^)]*)\)", values: &["0", "0 1", "1 0"] },
    RetargetRule {
        name: "retarget free",
        pattern: r"^Deallocate \{\s*(T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule {
        name: "retarget allocated buffer",
        pattern: r"ALLOCATE\(buffer=(T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule { name: "retarget communication kind", pattern: r"^Communication.*\(type=(\w+)", values: &[] },
    RetargetRule { name: "retarget direction", pattern: r"^P2P.*\(type=(\w+)", values: &["send", "recv"] },
    RetargetRule {
        name: "retarget view",
        pattern: r"= (?:HirAliasSelect|Set|ViewOp|permute)\( (T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule {
        name: "retarget input",
        pattern: r"input=(T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule {
        name: "retarget output",
        pattern: r"output=(T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule {
        name: "retarget buffer",
        pattern: r"type=\w+, buffer=(T\w+\[[^\]]*\](?: \(DeviceMesh\{[^}]*\}\))?)",
        values: &[],
    },
    RetargetRule { name: "retarget backend", pattern: r"backend=(\w+)", values: &["NCCL", "CUDA"] },
    RetargetRule { name: "retarget reduction", pattern: r"red_op=(\w+)", values: &["sum", "max"] },
];

/// All mutants of a printed program, in the order of operators and statements.
pub(crate) fn list_mutants(text: &str, ranks: u32) -> Vec<MutantProgram> {
    let statements = split_statements(text);
    let mut mutants = Vec::new();
    for at in 0..statements.len() {
        if statements[at].sort != StatementSort::Structure {
            add_moves(&statements, at, &mut mutants);
        }
    }
    for rule in RETARGETS {
        add_retargets(&statements, rule, ranks, &mut mutants);
    }
    let mut seen = BTreeSet::from([join_statements(&statements)]);
    mutants.retain(|mutant| seen.insert(mutant.text.clone()));
    mutants
}

/// Adds the mutants that delete, double and move a statement.
fn add_moves(statements: &[PrintedStatement], at: usize, mutants: &mut Vec<MutantProgram>) {
    let statement = &statements[at];
    let mut add = |action: &str, changed: Vec<PrintedStatement>| {
        mutants.push(MutantProgram {
            operator: format!("{action} {}", statement.sort.sort_name()),
            change: format!("{action}: {}", statement.lines[0]),
            text: join_statements(&changed),
        });
    };
    let without = remove_statement(statements, at);
    let moved = |place: usize, indent: usize| insert_statement(&without, place, indent, statement);
    add("delete", without.clone());
    let mut doubled = statements.to_vec();
    doubled.insert(at + 1, statement.clone());
    add("duplicate", doubled);
    if is_closed(statements, at + 1) {
        // The statement is the last one of its block.
        if let Some(outer) = outer_indent(statements, at) {
            add("move out of the end of its block", moved(at, outer));
        }
    } else {
        let end = block_end(&without, at);
        add("move down", moved(end, statement.indent));
        if end > at + 1 {
            add("move into the next block", moved(at + 1, without[at + 1].indent));
            add("move into the end of the next block", moved(end, without[at + 1].indent));
        }
    }
    let Some(before) = sibling_before(statements, at) else {
        if let Some(outer) = outer_indent(statements, at) {
            add("move out of the start of its block", moved(at - 1, outer));
        }
        return;
    };
    add("move up", moved(before, statement.indent));
    if before + 1 < at {
        add("move into the end of the block before", moved(at, statements[before + 1].indent));
    } else if let Some(earlier) = sibling_before(statements, before) {
        add("move up twice", moved(earlier, statement.indent));
    }
    if let Some(twin) = next_of_sort(statements, at) {
        let mut swapped = statements.to_vec();
        swapped[at].lines = statements[twin].lines.clone();
        swapped[twin].lines = statement.lines.clone();
        add("swap with the next", swapped);
    }
}

fn remove_statement(statements: &[PrintedStatement], at: usize) -> Vec<PrintedStatement> {
    let mut without = statements.to_vec();
    without.remove(at);
    without
}

fn insert_statement(
    without: &[PrintedStatement],
    place: usize,
    indent: usize,
    statement: &PrintedStatement,
) -> Vec<PrintedStatement> {
    let mut changed = without.to_vec();
    changed.insert(place, PrintedStatement { indent, ..statement.clone() });
    changed
}

/// Whether the block of the statement before ends here.
fn is_closed(statements: &[PrintedStatement], at: usize) -> bool {
    statements.get(at).is_none_or(|next| next.indent < statements[at - 1].indent)
}

/// The indentation of the block around a statement's block, if that is not the program.
fn outer_indent(statements: &[PrintedStatement], at: usize) -> Option<usize> {
    let outer = statements[..at].iter().rev().find(|other| other.indent < statements[at].indent)?;
    (outer.indent > 0).then_some(outer.indent)
}

/// The statement before another in the same block.
fn sibling_before(statements: &[PrintedStatement], at: usize) -> Option<usize> {
    let indent = statements[at].indent;
    let before = statements[..at].iter().rposition(|other| other.indent <= indent)?;
    (statements[before].indent == indent && indent > 0).then_some(before)
}

/// The next statement of the same sort.
fn next_of_sort(statements: &[PrintedStatement], at: usize) -> Option<usize> {
    let after = statements[at + 1..].iter().position(|other| other.sort == statements[at].sort)?;
    Some(at + 1 + after)
}

/// Adds the mutants of a rule.
fn add_retargets(statements: &[PrintedStatement], rule: &RetargetRule, ranks: u32, mutants: &mut Vec<MutantProgram>) {
    let Ok(pattern) = Regex::new(rule.pattern) else { return };
    let first_lines = statements.iter().map(|statement| statement.lines.join("\n"));
    let texts: Vec<String> = first_lines.collect();
    let mut found: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        if let Some(part) = pattern.captures(text).and_then(|groups| groups.get(1)) {
            found.push((at, part.range()));
        }
    }
    let known: BTreeSet<&str> = found.iter().map(|(at, range)| &texts[*at][range.clone()]).collect();
    for (at, range) in &found {
        let old = &texts[*at][range.clone()];
        let given =
            rule.values.iter().map(|value| value.replace('@', old).replace("numberOfRanks", &ranks.to_string()));
        let values: BTreeSet<String> = given.chain(known.iter().map(|value| (*value).to_owned())).collect();
        for value in values.iter().filter(|value| *value != old) {
            let mut line = texts[*at].clone();
            line.replace_range(range.clone(), value);
            let mut changed = statements.to_vec();
            changed[*at].lines = line.lines().map(str::to_owned).collect();
            mutants.push(MutantProgram {
                operator: rule.name.to_owned(),
                change: format!("{} to {value}: {}", rule.name, statements[*at].lines[0]),
                text: join_statements(&changed),
            });
        }
    }
}
