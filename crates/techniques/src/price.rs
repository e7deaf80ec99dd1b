//! The price of a change.

use std::cmp::Ordering;
use std::ops::Add;

/// The kinds of harm, the mildest first. However much there is of one, it is milder than the least of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harm {
    /// None: the same numbers in the same time. Its amount counts the changes.
    None,
    /// Smaller products; the share by which a micro-batch is smaller.
    SmallerProducts,
    /// Arithmetic that is done again, as a share of a step's.
    Recomputation,
    /// Copies between the tiers of memory, or requests to the driver; the share of what is kept there.
    Transfers,
    /// Bits of optimizer states, adapters, and of what is computed; the share that is lost.
    StatePrecision,
    /// Bits of the base weights; the share that is lost.
    WeightPrecision,
    /// Another algorithm, whose hyperparameters are to be tuned.
    Algorithm,
    /// Trained weights; the share that is lost.
    Capacity,
    /// Tokens of a sample or samples of a step; the share that is lost.
    Data,
}

impl Harm {
    /// Every kind, the mildest first.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::SmallerProducts,
        Self::Recomputation,
        Self::Transfers,
        Self::StatePrecision,
        Self::WeightPrecision,
        Self::Algorithm,
        Self::Capacity,
        Self::Data,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SmallerProducts => "smaller_products",
            Self::Recomputation => "recomputation",
            Self::Transfers => "transfers",
            Self::StatePrecision => "state_precision",
            Self::WeightPrecision => "weight_precision",
            Self::Algorithm => "algorithm",
            Self::Capacity => "capacity",
            Self::Data => "data",
        }
    }

    /// True if training gives the same losses, but for the order of sums.
    pub fn keeps_results(self) -> bool {
        self < Self::StatePrecision
    }
}

/// The amounts of all kinds of harm that changes do.
///
/// Prices are compared by the worst kind of harm, then by the next.
#[derive(Debug, Clone, Copy)]
pub struct Price([f64; Harm::ALL.len()]);

impl Price {
    /// Of no change.
    pub const NOTHING: Self = Self([0.0; Harm::ALL.len()]);

    /// An amount of one kind; what is gained counts as nothing.
    pub fn new(harm: Harm, amount: f64) -> Self {
        let mut price = Self::NOTHING;
        // Not the zero below zero, which would sort before it.
        price.0[harm as usize] = if amount > 0.0 { amount } else { 0.0 };
        price
    }

    /// A change without harm.
    pub fn free() -> Self {
        Self::new(Harm::None, 1.0)
    }

    /// The amount of one kind.
    pub fn amount(&self, harm: Harm) -> f64 {
        self.0[harm as usize]
    }

    /// The worst of the kinds that there is any of.
    pub fn worst(&self) -> Harm {
        let harms = Harm::ALL.into_iter().rev();
        harms
            .into_iter()
            .find(|&harm| self.amount(harm) > 0.0)
            .unwrap_or(Harm::None)
    }
}

impl Ord for Price {
    fn cmp(&self, other: &Self) -> Ordering {
        let kinds = self.0.iter().zip(&other.0).rev();
        let orders = kinds.map(|(a, b)| a.total_cmp(b));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Price {}

impl PartialEq for Price {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Add for Price {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (sum, amount) in self.0.iter_mut().zip(other.0) {
            *sum += amount;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_mild_changes_cost_less_than_a_harsh_one() {
        let mild = Price::free() + Price::new(Harm::SmallerProducts, 0.9) + Price::new(Harm::Recomputation, 0.5);
        let harsh = Price::new(Harm::Data, 0.01);
        assert!(mild < harsh);
        assert_eq!(
            (mild.worst(), harsh.worst(), Price::NOTHING.worst()),
            (Harm::Recomputation, Harm::Data, Harm::None)
        );
    }

    #[test]
    fn the_milder_kind_decides_among_equals() {
        let with = |recomputed| Price::new(Harm::WeightPrecision, 0.5) + Price::new(Harm::Recomputation, recomputed);
        assert!(with(0.1) < with(0.3));
        assert_eq!(with(0.1), with(0.1));
        assert_eq!(Price::new(Harm::Capacity, -1.0), Price::NOTHING);
    }

    #[test]
    fn kinds_stand_in_their_order() {
        assert!(Harm::ALL.is_sorted());
        assert!(
            Harm::ALL
                .iter()
                .enumerate()
                .all(|(index, &harm)| harm as usize == index)
        );
        assert!(Harm::Transfers.keeps_results() && !Harm::StatePrecision.keeps_results());
    }
}
