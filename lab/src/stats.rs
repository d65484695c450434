//! Medians, ranges, ratios and quantiles.

/// Median, minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle number, or the mean of the two middle numbers.
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of numbers in any order. Returns `None` without numbers.
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

    /// Computes the spread of the ratios of pairs, one pair per round. A disturbance that slows a whole round cancels out.
    pub(crate) fn of_ratios(rounds: impl IntoIterator<Item = (f64, f64)>) -> Option<Spread> {
        Spread::of(rounds.into_iter().map(|(number, base)| number / base))
    }
}

/// Returns the smallest number that at least this share of the numbers does not exceed. The numbers are sorted, and not empty.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    type MedianMinMax = Option<[f64; 3]>;

    #[test]
    fn median_is_the_middle_number() {
        #[rustfmt::skip]
        let cases: &[(&str, &[f64], MedianMinMax)] = &[
            // case          numbers                     median, min, max
            ("none",         &[],                        None),
            ("one",          &[7.0],                     Some([7.0, 7.0, 7.0])),
            ("two",          &[1.0, 4.0],                Some([2.5, 1.0, 4.0])),
            ("any order",    &[9.0, 1.0, 5.0],           Some([5.0, 1.0, 9.0])),
            ("an outlier",   &[2.0, 3.0, 2.5, 1e9, 2.0], Some([2.5, 2.0, 1e9])),
            ("even count",   &[4.0, 1.0, 3.0, 2.0],      Some([2.5, 1.0, 4.0])),
        ];
        for (name, numbers, want) in cases {
            let spread = Spread::of(numbers.iter().copied());
            assert_eq!(spread.map(|s| [s.median, s.min, s.max]), *want, "{name}");
        }
    }

    #[test]
    fn ratios_are_computed_within_each_round() {
        // The second round ran at half speed: the ratio of the medians would be 0.4.
        let rounds = [(40.0, 100.0), (25.0, 50.0), (60.0, 100.0)];
        assert_eq!(Spread::of_ratios(rounds), Some(Spread { median: 0.5, min: 0.4, max: 0.6 }));
    }

    #[test]
    fn quantile_is_one_of_the_numbers() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (share, want) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)] {
            assert_eq!(quantile(&hundred, share), want, "{share}");
        }
        assert_eq!(quantile(&[7], 0.99), 7);
    }
}
