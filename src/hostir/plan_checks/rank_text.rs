//! Texts of ranks, and groups of ranks at one position.

/// `rank 2`, `ranks 1 to 3`, `ranks 0, 2 and 5 to 7`. The ranks are in order.
pub(super) fn rank_ranges(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let texts = ranges.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        1 if ranges.len() == 1 => format!("{first} and {last}"),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    let texts: Vec<String> = texts.collect();
    let name = if ranks.len() == 1 { "rank" } else { "ranks" };
    match texts.split_last() {
        None => "no rank".to_owned(),
        Some((only, [])) => format!("{name} {only}"),
        Some((last, first)) => format!("{name} {} and {last}", first.join(", ")),
    }
}

/// Ranks at one place.
#[derive(Debug)]
pub(super) struct RankGroup<P, D> {
    /// The place.
    pub(super) place: P,
    /// The ranks, in order.
    pub(super) ranks: Vec<u32>,
    /// Further notes on the first rank.
    pub(super) detail: D,
}

/// Groups of ranks, in the order of their first ranks.
#[derive(Debug)]
pub(super) struct RankGroups<P, D> {
    /// The groups.
    pub(super) groups: Vec<RankGroup<P, D>>,
}

impl<P, D> Default for RankGroups<P, D> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

impl<P, D> RankGroups<P, D> {
    /// Adds a rank to the group of its place.
    pub(super) fn add_rank(
        &mut self,
        rank: u32,
        detail: D,
        place: P,
        is_same: impl Fn(&P, &P) -> bool,
    ) -> &mut RankGroup<P, D> {
        let found = self.groups.iter().position(|group| is_same(&group.place, &place));
        let at = found.unwrap_or_else(|| {
            self.groups.push(RankGroup { place, ranks: Vec::new(), detail });
            self.groups.len() - 1
        });
        self.groups[at].ranks.push(rank);
        &mut self.groups[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ranks() {
        assert_eq!(rank_ranges(&[2]), "rank 2");
        assert_eq!(rank_ranges(&[1, 2]), "ranks 1 and 2");
        assert_eq!(rank_ranges(&[1, 2, 3]), "ranks 1 to 3");
        assert_eq!(rank_ranges(&[0, 2, 5, 6, 7]), "ranks 0, 2 and 5 to 7");
        assert_eq!(rank_ranges(&[0, 1, 4]), "ranks 0, 1 and 4");
    }
}
