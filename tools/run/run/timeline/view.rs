//! A timeline as all its forms show it: rows of spans, equal ranks in one, and the parts of each span.

use super::line_sums::{LineSum, sum_lines};
use super::span_names::SpanNames;
use hostir::backend::critical_path::{PathSegment, find_critical_path};
use hostir::backend::rendezvous::{Rendezvous, TracedMessage};
use hostir::backend::time_ranges::{TimeRange, merge_ranges, ranges_within, subtract_ranges, total_duration};
use hostir::backend::trace::{SpanKind, Trace, TraceSpan};
use hostir::backend::usage::{self, RankUsage};
use hostir::lower::PreparedProgram;
use hostir::plan::cost::{CostModel, time_text};
use std::collections::{BTreeMap, BTreeSet};

/// The look of a part of a span. Those before [`PartKind::PeerWait`] are work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PartKind {
    /// GEMMs, kernels, fills.
    Compute,
    /// Copies within a rank.
    Copy,
    /// Communication beside which the rank computes.
    Hidden,
    /// Communication beside which it does not.
    Exposed,
    /// Communication in which nothing moves, because a peer is not there yet.
    PeerWait,
    /// A stream that waits.
    Wait,
}

impl PartKind {
    /// All of them.
    pub(super) const ALL: [PartKind; 6] =
        [PartKind::Compute, PartKind::Copy, PartKind::Hidden, PartKind::Exposed, PartKind::PeerWait, PartKind::Wait];

    /// The words of a legend.
    pub(super) fn legend_text(self) -> &'static str {
        match self {
            PartKind::Compute => "compute",
            PartKind::Copy => "copy",
            PartKind::Hidden => "communication",
            PartKind::Exposed => "exposed communication",
            PartKind::PeerWait => "waiting for a peer",
            PartKind::Wait => "wait",
        }
    }

    /// The class of its elements in pictures and pages.
    pub(super) fn css_class(self) -> &'static str {
        match self {
            PartKind::Compute => "compute",
            PartKind::Copy => "copy",
            PartKind::Hidden => "hidden",
            PartKind::Exposed => "exposed",
            PartKind::PeerWait => "peer",
            PartKind::Wait => "wait",
        }
    }

    /// Whether something happens in it.
    pub(super) fn is_work(self) -> bool {
        self < PartKind::PeerWait
    }
}

/// A part of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpanPart {
    pub(super) kind: PartKind,
    pub(super) time: TimeRange,
}

/// The row of a track that has spans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TrackRow {
    /// Its position among the rows of its rank.
    pub(super) position: usize,
    /// The track's position on its rank.
    pub(super) track: usize,
    /// `stream 1`, `NCCL 0 1`.
    pub(super) name: String,
    /// Positions of its spans in the trace, in order of time.
    pub(super) spans: Vec<usize>,
}

/// Ranks with equal spans, drawn once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RankGroup {
    /// In order. The spans are those of the first.
    pub(super) ranks: Vec<usize>,
    /// Its rows.
    pub(super) rows: Vec<TrackRow>,
}

impl RankGroup {
    /// The rank whose spans are drawn.
    pub(super) fn first_rank(&self) -> usize {
        self.ranks.first().copied().unwrap_or(0)
    }

    /// `rank 0`, `ranks 0-3`, `ranks 0 2 4`.
    pub(super) fn label(&self) -> String {
        let word = if self.ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{word} {}", rank_list(&self.ranks))
    }
}

/// Ranks in order, runs of three or more as `0-3`.
pub(super) fn rank_list(ranks: &[usize]) -> String {
    let mut words = Vec::new();
    for run in ranks.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [first, _, .., last] => words.push(format!("{first}-{last}")),
            few => words.extend(few.iter().map(usize::to_string)),
        }
    }
    words.join(" ")
}

/// A timeline with what follows from it.
pub(super) struct TimelineView<'a> {
    pub(super) trace: &'a Trace,
    pub(super) names: &'a SpanNames<'a>,
    /// By rank.
    pub(super) usage: Vec<RankUsage>,
    /// The other sides of communications.
    pub(super) rendezvous: Rendezvous,
    /// The run's critical path.
    pub(super) path: Vec<PathSegment>,
    /// The drawn spans that it leads over.
    pub(super) critical: BTreeSet<usize>,
    /// By line of the program: the times of its statements.
    pub(super) line_sums: BTreeMap<usize, LineSum>,
    /// True if each send is joined to its receive; then no ranks are folded.
    pub(super) pairs: bool,
    /// By rank: the exposed time, merged.
    exposed: Vec<Vec<TimeRange>>,
    /// By rank: the exposed time in which all its communications wait for peers.
    pub(super) exposed_peer_waits: Vec<u64>,
    pub(super) groups: Vec<RankGroup>,
    /// By span: the equal one that is drawn.
    shown: Vec<usize>,
    /// By rank: the tracks of its rows.
    row_tracks: Vec<Vec<usize>>,
}

impl<'a> TimelineView<'a> {
    /// The view of a trace of a program.
    pub(super) fn new(
        trace: &'a Trace,
        prepared: &PreparedProgram,
        names: &'a SpanNames<'a>,
        model: &CostModel,
        pairs: bool,
    ) -> Self {
        let rows = track_rows(trace);
        let path = find_critical_path(trace, prepared);
        let rendezvous = Rendezvous::of_trace(trace, &prepared.plans, model);
        let exposed = usage::exposed_ranges(trace);
        let mut view = Self {
            trace,
            names,
            usage: usage::rank_usages(trace),
            exposed_peer_waits: exposed_peer_waits(trace, &rendezvous, &exposed),
            rendezvous,
            line_sums: sum_lines(trace, prepared, &path, names),
            critical: BTreeSet::new(),
            path,
            pairs,
            exposed,
            row_tracks: rows.iter().map(|rows| rows.iter().map(|row| row.track).collect()).collect(),
            groups: rows.into_iter().enumerate().map(|(rank, rows)| RankGroup { ranks: vec![rank], rows }).collect(),
            shown: (0..trace.spans.len()).collect(),
        };
        view.groups.retain(|group| !group.rows.is_empty());
        if !pairs {
            view.fold_ranks();
        }
        let on_path = view.path.iter().filter_map(|segment| segment.span);
        view.critical = on_path.map(|at| view.shown_span(at)).collect();
        view
    }

    /// The drawn span that is equal to this one.
    pub(super) fn shown_span(&self, at: usize) -> usize {
        self.shown.get(at).copied().unwrap_or(at)
    }

    /// The name of the track of a rank's row.
    pub(super) fn track_name(&self, rank: usize, row: usize) -> Option<&'a str> {
        let track = *self.row_tracks.get(rank)?.get(row)?;
        Some(&self.trace.ranks.get(rank)?.get(track)?.name)
    }

    /// The position of a span's row among those of its rank, if its track is drawn.
    pub(super) fn row_position(&self, span: &TraceSpan) -> Option<usize> {
        self.row_tracks.get(span.rank as usize)?.iter().position(|&track| track == span.track as usize)
    }

    /// `rank 0 to rank 1: send(...)  s=0`.
    pub(super) fn message_text(&self, message: TracedMessage) -> String {
        let (send, receive) = (self.span(message.send), self.span(message.receive));
        let name = self.names.span_name(send.rank, send.origin);
        format!("rank {} to rank {}: {name}", send.rank, receive.rank)
    }

    /// The time from the start of a message's send to the end of its receive.
    pub(super) fn message_time(&self, message: TracedMessage) -> String {
        let (send, receive) = (self.span(message.send), self.span(message.receive));
        time_text(receive.end_ns.saturating_sub(send.start_ns))
    }

    /// A span by its position in the trace.
    pub(super) fn span(&self, at: usize) -> &'a TraceSpan {
        &self.trace.spans[at]
    }

    /// Moves ranks into the group of the first one with equal spans.
    fn fold_ranks(&mut self) {
        let mut folded: Vec<RankGroup> = Vec::new();
        for mut group in std::mem::take(&mut self.groups) {
            let Some(same) = folded.iter().position(|first| self.has_equal_spans(first, &group)) else {
                folded.push(group);
                continue;
            };
            folded[same].ranks.append(&mut group.ranks);
            for (row, other) in folded[same].rows.iter_mut().zip(group.rows) {
                row.spans.iter().zip(&other.spans).for_each(|(&first, &at)| self.shown[at] = first);
                if row.name != other.name && !row.name.ends_with(OTHER_TEAMS) {
                    row.name.push_str(OTHER_TEAMS);
                }
            }
        }
        self.groups = folded;
    }

    fn has_equal_spans(&self, a: &RankGroup, b: &RankGroup) -> bool {
        let rows = a.rows.iter().zip(&b.rows);
        self.stream_flags(a) == self.stream_flags(b)
            && rows.clone().all(|(a, b)| a.spans.len() == b.spans.len())
            && rows.clone().all(|(a, b)| a.spans.iter().zip(&b.spans).all(|(&a, &b)| self.is_equal_span(a, b)))
    }

    /// By row: it is a stream.
    fn stream_flags(&self, group: &RankGroup) -> Vec<bool> {
        let tracks = &self.trace.ranks[group.first_rank()];
        group.rows.iter().map(|row| tracks[row.track].stream).collect()
    }

    fn is_equal_span(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.span(a), self.span(b));
        (x.kind, x.start_ns, x.end_ns, x.bytes, x.flop, x.origin.op)
            == (y.kind, y.start_ns, y.end_ns, y.bytes, y.flop, y.origin.op)
            && self.rendezvous.peer_waits[a] == self.rendezvous.peer_waits[b]
            && self.names.iteration_text(x.rank, x.origin) == self.names.iteration_text(y.rank, y.origin)
    }

    /// The parts of a span, in order of time. A span that takes no time has one.
    pub(super) fn span_parts(&self, at: usize) -> Vec<SpanPart> {
        let span = self.span(at);
        let whole = span.time_range();
        let kind = match span.kind {
            SpanKind::Compute => PartKind::Compute,
            SpanKind::Copy => PartKind::Copy,
            SpanKind::Wait | SpanKind::Event => PartKind::Wait,
            SpanKind::Communication => {
                let parts = self.communication_parts(at);
                return if parts.is_empty() { vec![SpanPart { kind: PartKind::Hidden, time: whole }] } else { parts };
            }
        };
        vec![SpanPart { kind, time: whole }]
    }

    fn communication_parts(&self, at: usize) -> Vec<SpanPart> {
        let span = self.span(at);
        let waits = &self.rendezvous.peer_waits[at];
        let moving = subtract_ranges(&[span.time_range()], waits);
        let exposed = self.exposed.get(span.rank as usize).map_or(&[][..], Vec::as_slice);
        let mut parts: Vec<SpanPart> = waits.iter().map(|&time| SpanPart { kind: PartKind::PeerWait, time }).collect();
        for &time in &moving {
            let open: Vec<TimeRange> = ranges_within(exposed, time).collect();
            let hidden = subtract_ranges(&[time], &open);
            parts.extend(open.into_iter().map(|time| SpanPart { kind: PartKind::Exposed, time }));
            parts.extend(hidden.into_iter().map(|time| SpanPart { kind: PartKind::Hidden, time }));
        }
        parts.sort_by_key(|part| part.time);
        parts
    }

    /// The time of a row's spans that is of a kind.
    pub(super) fn row_time(&self, row: &TrackRow, kind: PartKind) -> u64 {
        let parts = row.spans.iter().flat_map(|&at| self.span_parts(at));
        parts.filter(|part| part.kind == kind).map(|part| part.time.duration_ns()).sum()
    }
}

/// By rank: the exposed time in which all its communications wait for peers.
fn exposed_peer_waits(trace: &Trace, rendezvous: &Rendezvous, exposed: &[Vec<TimeRange>]) -> Vec<u64> {
    let mut moving: Vec<Vec<TimeRange>> = vec![Vec::new(); trace.ranks.len()];
    for (span, waits) in trace.spans.iter().zip(&rendezvous.peer_waits) {
        if let Some(moving) = moving.get_mut(span.rank as usize).filter(|_| span.kind == SpanKind::Communication) {
            moving.extend(subtract_ranges(&[span.time_range()], waits));
        }
    }
    let ranks = exposed.iter().zip(moving);
    ranks.map(|(exposed, moving)| total_duration(&subtract_ranges(exposed, &merge_ranges(moving)))).collect()
}

/// The text after the name of a communicator whose team differs between folded ranks.
const OTHER_TEAMS: &str = ", other teams";

/// By rank: a row for each track with spans that take time.
fn track_rows(trace: &Trace) -> Vec<Vec<TrackRow>> {
    let ranks = trace.ranks.iter().map(|tracks| {
        let rows = tracks.iter().enumerate();
        rows.map(|(track, named)| TrackRow { position: 0, track, name: named.name.clone(), spans: Vec::new() })
            .collect()
    });
    let mut ranks: Vec<Vec<TrackRow>> = ranks.collect();
    for (at, span) in trace.spans.iter().enumerate().filter(|(_, span)| span.kind != SpanKind::Event) {
        let rows = ranks.get_mut(span.rank as usize);
        if let Some(row) = rows.and_then(|rows| rows.get_mut(span.track as usize)) {
            row.spans.push(at);
        }
    }
    for rows in &mut ranks {
        rows.retain(|row| !row.spans.is_empty());
        rows.iter_mut().enumerate().for_each(|(position, row)| row.position = position);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_are_short() {
        let cases: [(&[usize], &str); 4] =
            [(&[0], "0"), (&[0, 1], "0 1"), (&[0, 1, 2, 3, 6, 8, 9, 10], "0-3 6 8-10"), (&[2, 4], "2 4")];
        for (ranks, expected) in cases {
            assert_eq!(rank_list(ranks), expected);
        }
    }
}
