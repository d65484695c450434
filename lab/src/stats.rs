//! Medians, ranges and ratios of a few numbers.

/// The middle of some numbers and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The greatest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of numbers in any order; `None` of none.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (min, max) = (*numbers.first()?, *numbers.last()?);
        let middle = numbers.len() / 2;
        let median = if numbers.len() % 2 == 1 {
            numbers[middle]
        } else {
            f64::midpoint(numbers[middle - 1], numbers[middle])
        };
        Some(Spread { median, min, max })
    }

    /// Of the ratios between the numbers of the same round. What slows a round slows both, and drops out.
    pub(crate) fn of_ratios(rounds: impl IntoIterator<Item = (f64, f64)>) -> Option<Spread> {
        Spread::of(rounds.into_iter().map(|(number, base)| number / base))
    }
}

/// The number that a share of all numbers does not exceed; they come in order, and there is one at least.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Option<[f64; 3]>;

    #[test]
    fn a_median_stands_in_the_middle() {
        #[rustfmt::skip]
        let cases: &[(&str, &[f64], Told)] = &[
            // what it shows  numbers                     median, least, greatest
            ("none",          &[],                        None),
            ("one",           &[7.0],                     Some([7.0, 7.0, 7.0])),
            ("two",           &[1.0, 4.0],                Some([2.5, 1.0, 4.0])),
            ("any order",     &[9.0, 1.0, 5.0],           Some([5.0, 1.0, 9.0])),
            ("an outlier",    &[2.0, 3.0, 2.5, 1e9, 2.0], Some([2.5, 2.0, 1e9])),
            ("even",          &[4.0, 1.0, 3.0, 2.0],      Some([2.5, 1.0, 4.0])),
        ];
        for (name, numbers, want) in cases {
            let spread = Spread::of(numbers.iter().copied());
            assert_eq!(spread.map(|s| [s.median, s.min, s.max]), *want, "{name}");
        }
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        // The second round ran at half speed: the ratio of the medians would be 0.4.
        let rounds = [(40.0, 100.0), (25.0, 50.0), (60.0, 100.0)];
        assert_eq!(Spread::of_ratios(rounds), Some(Spread { median: 0.5, min: 0.4, max: 0.6 }));
    }

    #[test]
    fn a_quantile_is_one_of_the_numbers() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (share, want) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)] {
            assert_eq!(quantile(&hundred, share), want, "{share}");
        }
        assert_eq!(quantile(&[7], 0.99), 7);
    }
}
