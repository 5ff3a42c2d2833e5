//! The order that events give the streams of a schedule: which are forked, and what each is known to follow.

/// A recorded event: its stream, and the number of earlier events on that stream.
#[derive(Clone, Copy)]
struct EventPosition {
    stream: usize,
    number: usize,
}

/// The events of a schedule, and what the streams have waited for.
pub(super) struct StreamOrder {
    events: Vec<EventPosition>,
    /// By stream: the number of its events.
    counts: Vec<usize>,
    /// For each pair of streams: the number of the second one's events that the first has waited for.
    reached: Vec<Vec<usize>>,
    /// By stream: true once it has been forked.
    forked: Vec<bool>,
}

impl StreamOrder {
    /// So many streams, of which the first is forked from the start.
    pub(super) fn new(streams: usize) -> Self {
        Self {
            events: Vec::new(),
            counts: vec![0; streams],
            reached: vec![vec![0; streams]; streams],
            forked: (0..streams).map(|stream| stream == 0).collect(),
        }
    }

    /// Adds a stream.
    pub(super) fn add_stream(&mut self) {
        self.reached.push(vec![0; self.counts.len()]);
        self.counts.push(0);
        self.forked.push(false);
        self.reached.iter_mut().for_each(|counts| counts.push(0));
    }

    /// Adds an event at the end of a stream so far; returns its number.
    pub(super) fn add_event(&mut self, stream: usize) -> usize {
        self.counts[stream] += 1;
        self.events.push(EventPosition { stream, number: self.counts[stream] });
        self.events.len() - 1
    }

    /// The number of events.
    pub(super) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// A stream is to follow an event. Returns false if an earlier wait implies it.
    pub(super) fn follow_event(&mut self, event: usize, stream: usize) -> bool {
        let EventPosition { stream: other, number } = self.events[event];
        if other == stream || self.reached[stream][other] >= number {
            return false;
        }
        self.reached[stream][other] = number;
        true
    }

    /// A stream is used; returns true if it was forked before.
    pub(super) fn fork(&mut self, stream: usize) -> bool {
        std::mem::replace(&mut self.forked[stream], true)
    }

    /// Returns true once a stream has been forked.
    pub(super) fn is_forked(&self, stream: usize) -> bool {
        self.forked[stream]
    }
}
