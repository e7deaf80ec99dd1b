//! The figures of a prediction.

use std::collections::BTreeMap;

use base::text::{counted, format};
use records::prediction::{Prediction, ROUNDING, Verdict};
use torch::caching_allocator::Reserved;
use trace::Account;
use trace::{ByCategory, Phase};

/// What lies on a device, in bytes.
pub(super) struct Needed {
    /// The most while the model trains.
    pub(super) training: u64,
    /// The most while the model is loaded.
    pub(super) loading: u64,
    /// Beside both.
    pub(super) context: u64,
}

/// A prediction with the verdict on what is needed: the device must hold the load as well as the training.
pub(super) fn with_verdict(needed: &Needed, budget_bytes: Option<u64>, mut prediction: Prediction) -> Prediction {
    let &Needed {
        training,
        loading,
        context: beside,
    } = needed;
    if loading > training {
        let [loading, training] = [loading, training].map(|bytes| format::bytes((bytes as f64).into()));
        prediction
            .notes
            .push(format!("loading the model takes {loading}, and training it {training}"));
    }
    let needed_with = |training: u64| beside + training.max(loading);
    let needed = needed_with(training);
    let verdict = |budget| {
        if needed <= budget {
            Verdict::Fits
        } else {
            Verdict::Oversize
        }
    };
    let [low, high] = [prediction.reserved_low_bytes, prediction.reserved_high_bytes];
    let [low, high] = [low, high].map(|reserved| needed_with(reserved.unwrap_or(training)));
    // Beside what the allocator holds lies the context alone.
    let context = (
        prediction.context_low_bytes,
        prediction.context_bytes,
        prediction.context_high_bytes,
    );
    let [less, more] = match context {
        (Some(low), Some(likely), Some(high)) => [likely - low, high - likely],
        _ => [0, 0],
    };
    let prediction = with_context_reason(prediction);
    Prediction {
        verdict: budget_bytes.map(verdict),
        budget_bytes,
        needed_bytes: needed,
        needed_low_bytes: Some(low - less),
        needed_high_bytes: Some(high + more),
        ..prediction
    }
}

/// A prediction whose range has the reason that the context is not known, if it is not.
fn with_context_reason(mut prediction: Prediction) -> Prediction {
    if prediction.context_low_bytes < prediction.context_high_bytes {
        let reason = "CUDA context, which is an estimate for this GPU";
        prediction.range_reason = Some(match prediction.range_reason {
            Some(known) => format!("{known}; by the {reason}"),
            None => reason.to_owned(),
        });
    }
    prediction
}

/// A prediction with the figures of an account.
pub(super) fn prediction_from(account: &Account) -> Prediction {
    let peak = &account.peak;
    Prediction {
        binding_phase: peak.phase.unwrap_or(Phase::Idle).name().to_owned(),
        binding_module: peak.module.map(|module| module.to_string()),
        allocated_peak_bytes: peak.bytes,
        allocated_peak_by_category: named(&peak.by_category),
        allocated_peak_loss_bytes: peak.of_loss,
        allocated_peak_in_phase: account.in_phase.named(),
        allocated_mean_bytes: account.after_steps.bytes(),
        ..Prediction::default()
    }
}

/// The bytes of tensors by the names of their categories.
fn named(by_category: &ByCategory) -> BTreeMap<String, u64> {
    let tensors = by_category.iter().filter(|(category, _)| category.is_tensor());
    tensors
        .map(|(category, bytes)| (category.name().to_owned(), bytes))
        .collect()
}

/// The bytes of tensors by category, with the difference to `allocated`: blocks of PyTorch's allocator are larger than
/// the requests.
pub(super) fn with_rounding(by_category: &ByCategory, allocated: u64) -> BTreeMap<String, u64> {
    let mut named = named(by_category);
    let requested: u64 = named.values().sum();
    named.insert(ROUNDING.to_owned(), allocated - requested);
    named
}

/// A prediction with what PyTorch's allocator holds, and with the bytes that the process holds beside it.
pub(super) fn with_reserved(mut prediction: Prediction, reserved: &Reserved, context: u64) -> Prediction {
    let (peak, held) = (&reserved.allocated_peak, reserved.peak.bytes);
    if reserved.stats.retries > 0 {
        prediction.notes.push(returned_cache(reserved.stats.retries));
    }
    Prediction {
        binding_phase: peak.moment.phase.unwrap_or(Phase::Idle).name().to_owned(),
        binding_module: peak.moment.module.map(|module| module.to_string()),
        allocated_peak_bytes: peak.bytes,
        allocated_peak_by_category: with_rounding(&peak.by_category, peak.bytes),
        allocated_peak_loss_bytes: peak.of_loss,
        allocated_peak_in_phase: reserved.allocated_in_phase.named(),
        allocated_mean_bytes: reserved.allocated_after_steps.bytes(),
        allocated_end_bytes: Some(reserved.stats.all.allocated.current),
        reserved_peak_bytes: Some(held),
        reserved_low_bytes: Some(held),
        reserved_high_bytes: Some(held),
        reserved_after_first_step_bytes: reserved.after_steps.first().copied(),
        reserved_after_last_step_bytes: reserved.after_steps.last().copied(),
        fragmentation_bytes: Some(held - peak.bytes),
        segments: Some(reserved.stats.all.segments.peak),
        process_peak_bytes: Some(held + context),
        ..prediction
    }
}

/// The note on a cell that fits because the allocator returns its cache.
fn returned_cache(times: u64) -> String {
    format!(
        "the memory is full: the allocator returns its cache and asks again, {} in the planned steps, which takes time",
        counted(times as usize, "time")
    )
}
