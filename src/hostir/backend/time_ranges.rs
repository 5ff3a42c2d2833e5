//! Sets of moments as sorted, separate ranges of time: unions, intersections, differences.

/// A range of time in nanoseconds, without its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeRange {
    /// Its first moment.
    pub start_ns: u64,
    /// The moment after its last one; never before the start.
    pub end_ns: u64,
}

impl TimeRange {
    /// Nanoseconds.
    pub fn duration_ns(self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The moments of both ranges, if there are any.
    pub fn common_part(self, other: TimeRange) -> Option<TimeRange> {
        let (start_ns, end_ns) = (self.start_ns.max(other.start_ns), self.end_ns.min(other.end_ns));
        (start_ns < end_ns).then_some(TimeRange { start_ns, end_ns })
    }
}

/// The union of ranges: sorted, none touching the next.
pub fn merge_ranges(mut ranges: Vec<TimeRange>) -> Vec<TimeRange> {
    ranges.sort_unstable();
    let mut joined: Vec<TimeRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start_ns <= last.end_ns => last.end_ns = last.end_ns.max(range.end_ns),
            _ => joined.push(range),
        }
    }
    joined
}

/// The nanoseconds of merged ranges.
pub fn total_duration(ranges: &[TimeRange]) -> u64 {
    ranges.iter().map(|range| range.duration_ns()).sum()
}

/// The moments of both of two merged lists.
pub fn common_ranges(a: &[TimeRange], b: &[TimeRange]) -> Vec<TimeRange> {
    let (mut i, mut j, mut common) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        common.extend(x.common_part(*y));
        if x.end_ns <= y.end_ns { i += 1 } else { j += 1 }
    }
    common
}

/// The moments of `all` that are not in `without`, both merged.
pub fn subtract_ranges(all: &[TimeRange], without: &[TimeRange]) -> Vec<TimeRange> {
    let mut left = Vec::new();
    let mut next = 0;
    for range in all {
        let mut start_ns = range.start_ns;
        while without.get(next).is_some_and(|hole| hole.end_ns <= start_ns) {
            next += 1;
        }
        for hole in without[next..].iter().take_while(|hole| hole.start_ns < range.end_ns) {
            if start_ns < hole.start_ns {
                left.push(TimeRange { start_ns, end_ns: hole.start_ns });
            }
            start_ns = hole.end_ns;
        }
        if start_ns < range.end_ns {
            left.push(TimeRange { start_ns, end_ns: range.end_ns });
        }
    }
    left
}

/// The moments of merged ranges within a span, found by bisection.
pub fn ranges_within(ranges: &[TimeRange], span: TimeRange) -> impl Iterator<Item = TimeRange> {
    let first = ranges.partition_point(|range| range.end_ns <= span.start_ns);
    let parts = ranges[first..].iter().take_while(move |range| range.start_ns < span.end_ns);
    parts.filter_map(move |range| range.common_part(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set of the moments from 0 to 63 in ranges, as bits.
    fn moment_bits(ranges: &[TimeRange]) -> u64 {
        let mut bits = 0;
        for range in ranges {
            (range.start_ns..range.end_ns).for_each(|ns| bits |= 1 << ns);
        }
        bits
    }

    /// Pseudo-random ranges of at most 12 moments, from a linear congruential generator.
    fn random_ranges(seed: &mut u64, count: usize) -> Vec<TimeRange> {
        let mut draw = |below: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % below
        };
        (0..count)
            .map(|_| {
                let start_ns = draw(52);
                TimeRange { start_ns, end_ns: start_ns + draw(12) }
            })
            .collect()
    }

    #[test]
    fn operations_are_those_of_sets_of_bits() {
        let mut seed = 7;
        for round in 0..500 {
            let (a, b) = (random_ranges(&mut seed, round % 7), random_ranges(&mut seed, round % 5));
            let (bits_a, bits_b) = (moment_bits(&a), moment_bits(&b));
            let (a, b) = (merge_ranges(a), merge_ranges(b));
            let separate = a.windows(2).all(|pair| pair[0].end_ns < pair[1].start_ns);
            assert!(separate, "{a:?}");
            assert_eq!((moment_bits(&a), moment_bits(&b)), (bits_a, bits_b));
            assert_eq!(total_duration(&a), u64::from(bits_a.count_ones()));
            assert_eq!(moment_bits(&common_ranges(&a, &b)), bits_a & bits_b);
            assert_eq!(moment_bits(&subtract_ranges(&a, &b)), bits_a & !bits_b);
            let span = TimeRange { start_ns: 10, end_ns: 20 };
            let within: Vec<TimeRange> = ranges_within(&a, span).collect();
            assert_eq!(moment_bits(&within), bits_a & moment_bits(&[span]));
        }
    }
}
