//! Delta debugging: removes as many of several parts as possible, large groups first.
//!
//! Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002; as in most reducers since, only
//! complements are tried, from the end, since what uses a part follows it.

/// Removes parts by number, 0 to `count`. `holds` tries the text without the parts that are marked; a mark stays if it
/// does.
pub(crate) fn remove_parts(count: usize, holds: &mut dyn FnMut(&[bool]) -> bool) {
    let mut removed = vec![false; count];
    let mut size = count;
    while size > 0 {
        let found = remove_groups(size, &mut removed, holds);
        // Parts that others needed may go once these are gone.
        if !(found && size == 1) {
            size /= 2;
        }
    }
}

fn remove_groups(size: usize, removed: &mut Vec<bool>, holds: &mut dyn FnMut(&[bool]) -> bool) -> bool {
    let mut found = false;
    let mut end = removed.len();
    while end > 0 {
        let start = end.saturating_sub(size);
        if removed[start..end].contains(&false) {
            let mut trial = removed.clone();
            trial[start..end].fill(true);
            if holds(&trial) {
                *removed = trial;
                found = true;
            }
        }
        end = start;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::remove_parts;

    /// The result is minimal: without any further part the test fails.
    #[test]
    fn the_result_is_minimal() {
        let mut best = Vec::new();
        let mut tests = 0;
        remove_parts(40, &mut |removed| {
            tests += 1;
            let holds = [2, 7, 31].iter().all(|&part: &usize| !removed[part]);
            if holds {
                best = removed.to_vec();
            }
            holds
        });
        let left: Vec<usize> = (0..40).filter(|&part| !best[part]).collect();
        assert_eq!(left, [2, 7, 31]);
        assert!(tests < 80, "{tests}");
    }

    /// Parts that others hold in place go after these.
    #[test]
    fn parts_go_after_their_users() {
        let mut best = Vec::new();
        remove_parts(5, &mut |removed| {
            // Each part needs the next one.
            let holds = (0..4).all(|part| removed[part] || !removed[part + 1]);
            if holds {
                best = removed.to_vec();
            }
            holds
        });
        assert_eq!(best, [true; 5]);
    }
}
