//! Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), with the counter
//! as nvFuser and cuRAND form it, and what random numbers are made of its words.

/// The multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The amount that a round adds to the key.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The four words of a counter under a key.
fn philox_words(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let products =
            [u64::from(MULTIPLIERS[0]) * u64::from(counter[0]), u64::from(MULTIPLIERS[1]) * u64::from(counter[2])];
        let [high, low] = [products.map(|product| (product >> 32) as u32), products.map(|product| product as u32)];
        counter = [high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0]];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// The four words of a seed: the low half of the counter is the offset, the high half the subsequence.
fn words_of_seed(seed: i64, subsequence: i64, offset: i64) -> [u32; 4] {
    let halves = |value: i64| [value as u32, (value >> 32) as u32];
    let ([c0, c1], [c2, c3]) = (halves(offset), halves(subsequence));
    philox_words([c0, c1, c2, c3], halves(seed))
}

/// `philox`: the first two words, the first one in the low half.
pub(super) fn first_words(seed: i64, subsequence: i64, offset: i64) -> i64 {
    let [low, high, ..] = words_of_seed(seed, subsequence, offset);
    (u64::from(low) | u64::from(high) << 32).cast_signed()
}

/// 32 random bits for the element with a linear index: each subsequence has those of four elements.
pub(super) fn random_bits_32(seed: i64, offset: i64, index: i64) -> i64 {
    words_of_seed(seed, index.div_euclid(4), offset)[index.rem_euclid(4) as usize].into()
}

/// 53 random bits for the element with a linear index: each subsequence has those of two elements.
pub(super) fn random_bits_53(seed: i64, offset: i64, index: i64) -> i64 {
    let words = words_of_seed(seed, index.div_euclid(2), offset);
    let first = 2 * index.rem_euclid(2) as usize;
    i64::from(words[first]) ^ i64::from(words[first + 1]) << 21
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors of Random123 (`kat_vectors`): counter, key, words.
    #[test]
    fn words_are_those_of_random123() {
        let vectors: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, words) in vectors {
            assert_eq!(philox_words(counter, key), words);
        }
    }
}
