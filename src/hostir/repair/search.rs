//! The search for a fix: tries candidates in order; the first that leaves no error wins.

use super::candidates::{is_lost_write, list_candidates};
use super::judge::{TextJudge, TextVerdict};
use super::lines::is_word;
use super::refuted::{is_of_change, is_refutable, retract_fixes};
use super::related::are_related;
use super::text_change::{Candidate, CandidateIdea};
use super::weighing::{FixPrice, RacePair, WeighedChange, choose_change, choose_order, is_slow, with_price};
use crate::diag::fix::line_edits;
use crate::diag::{Applicability, Diag, Fix, Message, PartKind, Severity, TextEdit, codes};
use crate::hir2::is_hir2;
use crate::ops::OpRegistry;
use rustc_hash::FxHashMap;

/// The maximum number of texts that are tried for all diagnostics of a text together.
const MOST_TRIALS: u32 = 400;

/// The maximum number of texts that are tried for one diagnostic.
const MOST_EACH: u32 = 120;

/// The maximum number of instructions of all tried plans together.
const MOST_INSTRUCTIONS: u64 = 1_000_000;

/// Bytes of text whose reading counts as an instruction.
const BYTES: u64 = 64;

/// The changes that one fix may consist of.
const MOST_STEPS: u32 = 3;

/// The maximum number of changes of a fix that a tool may apply.
const MOST_SURE_STEPS: u32 = 2;

/// The candidates that are tried after the first one that works, where another one may cost less time.
const MOST_COMPARED: u32 = 24;

/// The maximum number of changes that repair one error and cause another, and from which the search continues.
const MOST_BRANCHES: usize = 4;

/// Returns true if the changes that repair a diagnostic are compared by the time that they cost.
fn is_weighed(diag: &Diag) -> bool {
    const WEIGHED: &[&str] = &[
        codes::RACE,
        codes::POSTS,
        codes::ELEMENT_NOT_STARTED,
        codes::ELEMENT_AGAIN,
        codes::DEADLOCK,
        codes::DISAGREEMENT,
        codes::POST_ORDER,
    ];
    WEIGHED.contains(&diag.code)
}

/// Whether a diagnostic is an error.
pub(super) fn is_error(diag: &Diag) -> bool {
    diag.severity == Severity::Error
}

/// The words that identify a diagnostic across texts.
type DiagWords = (&'static str, bool, Message);

/// The number of times that the same is said.
#[derive(Clone, Default)]
struct DiagCounts {
    counts: FxHashMap<DiagWords, usize>,
}

impl DiagCounts {
    fn of_diags<'d>(diags: impl Iterator<Item = &'d Diag>) -> Self {
        let mut counts: FxHashMap<DiagWords, usize> = FxHashMap::default();
        diags.for_each(|diag| *counts.entry(diag_words(diag)).or_default() += 1);
        Self { counts }
    }

    fn count_of(&self, diag: &Diag) -> usize {
        self.counts.get(&diag_words(diag)).copied().unwrap_or(0)
    }
}

/// The number of times that diagnostics say the same as one.
pub(super) fn count_words(diags: &[Diag], diag: &Diag) -> usize {
    let words = diag_words(diag);
    diags.iter().filter(|other| diag_words(other) == words).count()
}

fn diag_words(diag: &Diag) -> DiagWords {
    (diag.code, is_error(diag), diag.message.clone())
}

/// Returns true for the words of a race that propose a statement: ``add `sync 0` before ..``.
pub(super) fn is_wait_in_words(diag: &Diag, fix: &Fix) -> bool {
    let mut parts = fix.message.parts().iter();
    let is_race = [codes::RACE, codes::UNJOINED].contains(&diag.code);
    is_race && fix.applicability == Applicability::InWords && parts.any(|part| part.kind == PartKind::Statement)
}

/// The effect of a change on a diagnostic.
enum TrialOutcome {
    /// It is gone, and there is no new error.
    Repaired(RestOfErrors),
    /// It is gone, and there are other errors, but no more than before; the first is this one.
    Traded(Box<Diag>),
    /// It is left, or there are more errors than before; the first new one is this one.
    Failed(Option<Box<Diag>>),
}

/// The rest of what is said after a repair: the less, the better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RestOfErrors {
    /// Errors about the same statements.
    related: usize,
    warnings: usize,
}

/// A change that was tried.
struct TriedChange {
    text: String,
    edits: Vec<TextEdit>,
    message: String,
    /// The number of candidates that it consists of.
    steps: u32,
    /// True if it may give the program another meaning than the author intended.
    is_doubtful: bool,
    /// `None` if it is hardly slower than any other change.
    price: Option<FixPrice>,
}

/// Searches fixes for the diagnostics of one text.
pub(super) struct RepairSearch<'a> {
    text: &'a str,
    judge: &'a mut dyn TextJudge,
    /// The ops that the text may name.
    ops: OpRegistry,
    /// All that is said about the text.
    verdict: TextVerdict,
    /// Errors of later stages, which show once the others are repaired.
    further: Vec<Diag>,
    trials: u32,
    instructions: u64,
}

impl<'a> RepairSearch<'a> {
    pub(super) fn new(text: &'a str, judge: &'a mut dyn TextJudge) -> Self {
        let (verdict, ops) = (judge.judge_text(text), judge.read_options().ops);
        Self { text, judge, ops, verdict, further: Vec::new(), trials: 0, instructions: 0 }
    }

    /// The search for a text about which more is known than a judge says: errors of later stages are not new.
    pub(super) fn with_known(mut self, diags: &[Diag]) -> Self {
        let known = DiagCounts::of_diags(self.verdict.diags.iter());
        self.further = diags.iter().filter(|diag| is_error(diag) && known.count_of(diag) == 0).cloned().collect();
        self
    }

    /// All that is said about the text.
    pub(super) fn known_diags(&self) -> &[Diag] {
        &self.verdict.diags
    }

    /// Tries the fixes of a diagnostic; searches one if it has none but words. Returns the price of the one that it adds.
    pub(super) fn add_fix(&mut self, diag: &mut Diag) -> Option<FixPrice> {
        let known = DiagCounts::of_diags(self.verdict.diags.iter());
        let is_beside_errors = !is_error(diag) && count_errors(&self.verdict.diags) > 0;
        if known.count_of(diag) == 0 || is_beside_errors {
            return None;
        }
        let limit = self.trials + MOST_EACH;
        if diag.fixes.iter().any(|fix| !fix.edits.is_empty()) {
            self.try_own_fixes(diag);
            return None;
        }
        let trial = Trial { target: diag.clone(), limit };
        let Some(found) = self.find_change(&trial, self.text, diag, MOST_STEPS) else {
            // A wait in words has been tried, among others.
            if self.trials < limit.min(MOST_TRIALS)
                && self.instructions + self.verdict.instructions <= MOST_INSTRUCTIONS
            {
                let refuted: Vec<bool> = diag.fixes.iter().map(|fix| is_wait_in_words(diag, fix)).collect();
                let mut refuted = refuted.into_iter();
                diag.fixes.retain(|_| refuted.next() != Some(true));
            }
            return None;
        };
        // An order that takes so many changes may not be the intended one.
        let is_doubtful = found.is_doubtful
            || found.steps > MOST_SURE_STEPS
            || is_lost_write(self.text, diag, self.ops)
            || found.steps > 1 && self.loses_write(diag, &found.text);
        let applicability = match is_doubtful {
            true => Applicability::MaybeIncorrect,
            false => Applicability::MachineApplicable,
        };
        let message = with_price(found.message, found.price.as_ref()).into();
        diag.fixes.retain(|fix| fix.applicability != Applicability::InWords);
        diag.fixes.push(Fix { message, edits: found.edits, applicability });
        found.price
    }

    /// Returns true if a text in which a race has been ordered by several changes loses a write of the race.
    fn loses_write(&mut self, diag: &Diag, changed: &str) -> bool {
        let Some(race) = RacePair::of_diag(self.text, diag, self.ops) else { return false };
        race.loses_write(changed, self.judge.weigh_text(changed).as_ref())
    }

    /// Returns true if a text has no errors.
    fn is_right(&mut self, text: &str) -> bool {
        self.trials += 1;
        count_errors(&self.judge.judge_text(text).diags) == 0
    }

    /// The first of several fixes that repairs a diagnostic; the author may mean another one.
    pub(super) fn first_repair(&mut self, diag: &Diag, fixes: Vec<Fix>) -> Option<Fix> {
        // An error that others hide is not in the verdict of any change.
        if DiagCounts::of_diags(self.verdict.diags.iter()).count_of(diag) == 0 {
            return None;
        }
        let trial = Trial { target: diag.clone(), limit: self.trials + MOST_EACH };
        for fix in fixes {
            let Some(text) = fix.apply_to(self.text) else { continue };
            if let TrialOutcome::Repaired(_) = self.try_text(&trial, &text)? {
                return Some(fix);
            }
        }
        None
    }

    /// Tries the fixes that a diagnostic has: those that do not work are taken back.
    fn try_own_fixes(&mut self, diag: &mut Diag) {
        let trial = Trial { target: diag.clone(), limit: self.trials + MOST_EACH };
        let (mut refuted, mut repairing) = (Vec::new(), Vec::new());
        for number in 0..diag.fixes.len() {
            let fix = &diag.fixes[number];
            let is_untried = fix.applicability == Applicability::Untried;
            if fix.edits.is_empty() || !(is_untried || fix.applicability == Applicability::MaybeIncorrect) {
                continue;
            }
            let Some(text) = fix.apply_to(self.text) else { continue };
            let Some(outcome) = self.try_text(&trial, &text) else { continue };
            let is_spelling = is_untried && diag.code != codes::OWN_INDEX && replaces_words(self.text, fix);
            match outcome {
                // Another declaration is meant only if nothing else is wrong then.
                TrialOutcome::Repaired(_) if is_redeclared(diag, fix) && !self.is_right(&text) => refuted.push(number),
                TrialOutcome::Repaired(_) => repairing.push(number),
                // Other errors of a statement are reported once its words can be read.
                TrialOutcome::Traded(_) if is_spelling => repairing.push(number),
                TrialOutcome::Traded(next) | TrialOutcome::Failed(Some(next)) => {
                    let may_be = is_hir2(self.text) && is_refutable(diag.code);
                    let is_refuted = may_be && is_of_change(self.text, fix, &text, &next);
                    refuted.extend(is_refuted.then_some(number));
                }
                TrialOutcome::Failed(None) => {}
            }
        }
        // Of several edits that work only the author knows the one that is meant.
        let is_only = repairing.len() == 1;
        for &number in &repairing {
            let fix = &mut diag.fixes[number];
            fix.applicability = match fix.applicability {
                Applicability::Untried if is_only => Applicability::MachineApplicable,
                _ => Applicability::MaybeIncorrect,
            };
        }
        retract_fixes(diag, &refuted);
    }

    /// Finds a change of `text` that removes the trial's target and makes nothing else worse than in the source. The
    /// candidates are those for `diag`, which is about `text`.
    fn find_change(&mut self, trial: &Trial, text: &str, diag: &Diag, steps: u32) -> Option<TriedChange> {
        let mut found: Vec<(RestOfErrors, Candidate)> = Vec::new();
        let mut traded: Vec<(Candidate, Box<Diag>)> = Vec::new();
        let mut compared = 0;
        for candidate in list_candidates(text, diag, self.ops) {
            compared += u32::from(!found.is_empty());
            if compared > MOST_COMPARED {
                break;
            }
            match self.try_text(trial, &candidate.text) {
                None => break,
                Some(TrialOutcome::Repaired(rest)) => {
                    found.push((rest, candidate));
                    if rest.warnings == 0 && !is_weighed(diag) {
                        break;
                    }
                }
                Some(TrialOutcome::Traded(next)) => traded.push((candidate, next)),
                Some(TrialOutcome::Failed(_)) => {}
            }
        }
        let overlapping = traded.iter().filter(|(change, _)| change.idea == CandidateIdea::Overlap);
        let overlapping: Vec<String> = overlapping.map(|(change, _)| change.text.clone()).collect();
        if let Some(change) = self.choose_found(text, diag, found, &overlapping) {
            return Some(change);
        }
        let steps = steps.checked_sub(1).filter(|&steps| steps > 0)?;
        traded.into_iter().take(MOST_BRANCHES).find_map(|(first, next)| {
            let rest = self.find_change(trial, &first.text, &next, steps)?;
            let edits = line_edits(self.text, &rest.text);
            let message = format!("{}, and {}", first.message, rest.message);
            let is_doubtful = rest.is_doubtful || first.idea == CandidateIdea::Doubtful;
            Some(TriedChange { message, edits, steps: rest.steps + 1, is_doubtful, ..rest })
        })
    }

    /// Chooses the change to propose among those that work, of which those that repair more of the same cause are better.
    /// Others with more overlap that do not work show its price.
    fn choose_found(
        &mut self,
        text: &str,
        diag: &Diag,
        mut found: Vec<(RestOfErrors, Candidate)>,
        overlapping: &[String],
    ) -> Option<TriedChange> {
        if found.is_empty() || !is_weighed(diag) {
            return found.into_iter().min_by_key(|(rest, _)| *rest).map(|(_, candidate)| candidate.into());
        }
        let least = found.iter().map(|(rest, _)| rest.related).min();
        found.retain(|(rest, _)| Some(rest.related) == least);
        let weighed = found.into_iter().map(|(rest, change)| {
            let weight = self.judge.weigh_text(&change.text);
            WeighedChange { change, warnings: rest.warnings, weight }
        });
        let weighed = weighed.collect();
        let chosen = match RacePair::of_diag(text, diag, self.ops) {
            Some(race) => choose_order(weighed, &race)?,
            None => choose_change(weighed)?,
        };
        let ends_overlap = diag.code == codes::POSTS && chosen.change.idea == CandidateIdea::Plain;
        let price = chosen.time_ns.filter(|_| ends_overlap).and_then(|time| self.overlap_price(time, overlapping));
        let is_doubtful = chosen.is_doubtful || price.is_some();
        Some(TriedChange { is_doubtful, price, ..chosen.change.into() })
    }

    /// The price of a change that takes so long; `None` if it is hardly slower than texts with more overlap.
    fn overlap_price(&mut self, time_ns: u64, overlapping: &[String]) -> Option<FixPrice> {
        let times = overlapping.iter().filter_map(|text| Some(self.judge.weigh_text(text)?.time_ns));
        let fastest_ns = times.min()?;
        is_slow(time_ns, fastest_ns).then_some(FixPrice { time_ns, fastest_ns })
    }

    /// Judges a changed text; `None` if enough has been tried.
    fn try_text(&mut self, trial: &Trial, text: &str) -> Option<TrialOutcome> {
        let spent = self.trials >= trial.limit.min(MOST_TRIALS);
        // The verdict so far shows the cost of the next one.
        if spent || self.instructions + self.verdict.instructions > MOST_INSTRUCTIONS {
            return None;
        }
        let verdict = self.judge.judge_text(text);
        self.trials += 1;
        self.instructions += verdict.instructions + text.len() as u64 / BYTES;
        let before = [self.verdict.diags.as_slice(), &self.further].concat();
        Some(trial.compare_verdicts(&before, &verdict.diags))
    }
}

/// The diagnostic for which a fix is searched, and the limits of the search.
struct Trial {
    target: Diag,
    limit: u32,
}

impl Trial {
    fn compare_verdicts(&self, before: &[Diag], after: &[Diag]) -> TrialOutcome {
        let (old, new) = (DiagCounts::of_diags(before.iter()), DiagCounts::of_diags(after.iter()));
        if new.count_of(&self.target) >= old.count_of(&self.target) {
            return TrialOutcome::Failed(None);
        }
        let (errors, warnings): (Vec<&Diag>, Vec<&Diag>) = after.iter().partition(|diag| is_error(diag));
        let is_more = errors.len() > count_errors(before);
        match errors.into_iter().find(|diag| new.count_of(diag) > old.count_of(diag)) {
            None => {
                let related = before.iter().filter(|diag| are_related(&self.target, diag) && new.count_of(diag) > 0);
                TrialOutcome::Repaired(RestOfErrors { related: related.count(), warnings: warnings.len() })
            }
            Some(first) if !is_more => TrialOutcome::Traded(Box::new(first.clone())),
            Some(first) => TrialOutcome::Failed(Some(Box::new(first.clone()))),
        }
    }
}

/// Returns true if a diagnostic occurs less often than before, and no error occurs more often.
pub(super) fn is_repaired(target: &Diag, before: &[Diag], after: &[Diag]) -> bool {
    let trial = Trial { target: target.clone(), limit: 0 };
    matches!(trial.compare_verdicts(before, after), TrialOutcome::Repaired(_))
}

/// Returns true if a fix only replaces words: a misspelt word shows which one is meant.
fn replaces_words(text: &str, fix: &Fix) -> bool {
    let mut edits = fix.edits.iter();
    edits.all(|edit| is_word(&edit.text) && text.get(edit.span.as_usize_range()).is_some_and(is_word))
}

/// Returns true for a fix of an index that changes the declaration instead.
fn is_redeclared(diag: &Diag, fix: &Fix) -> bool {
    let index = diag.primary.as_ref().map(|label| label.span);
    diag.code == codes::OWN_INDEX && fix.edits.first().map(|edit| edit.span) != index
}

/// The number of errors.
pub(super) fn count_errors(diags: &[Diag]) -> usize {
    diags.iter().filter(|diag| is_error(diag)).count()
}

impl From<Candidate> for TriedChange {
    fn from(Candidate { text, edits, message, idea }: Candidate) -> Self {
        Self { text, edits, message, steps: 1, is_doubtful: idea == CandidateIdea::Doubtful, price: None }
    }
}
