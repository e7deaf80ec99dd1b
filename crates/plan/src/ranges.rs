//! What a plan cannot know of a run, as the runs that are possible.

use cell::{Cell, Upcast};
use options::{Data, DataOptions, Lengths, LogNormal};
use torch::{Configuration, LoadOrder, Ranks};

use super::batches::Depth;

/// Loads that are as possible as the one that is planned.
#[derive(Default)]
pub(super) struct OtherLoads {
    pub(super) configurations: Vec<Configuration>,
    /// The fact that would decide between them.
    pub(super) reason: &'static str,
}

/// The other ways in which the weights of `cell` may come onto the GPU; none if its keys leave one alone.
pub(super) fn other_loads(cell: &Cell, configuration: &Configuration) -> OtherLoads {
    let mut others = OtherLoads::default();
    if !cell.dtype.is_quantised() {
        // What FSDP and ZeRO share is loaded by the CPU.
        if cell.torch.device_map.is_none() && !cell.is_fsdp() && !cell.shares_weights_by_zero() {
            others.reason = "way of loading, by a device_map or by model.to";
            others.configurations.push(Configuration {
                device_map: true,
                ..configuration.clone()
            });
        }
        return others;
    }
    if configuration.transformers.load_order == LoadOrder::THREADS {
        others.reason = "order of loading by threads";
        others.configurations.extend(LoadOrder::OTHER_THREADS.map(|order| {
            let mut other = configuration.clone();
            other.transformers.load_order = order;
            other
        }));
        return others;
    }
    let mut older = configuration.clone();
    if cell.torch.transformers_version.is_none() {
        older.transformers.load_order = LoadOrder::THREADS;
    }
    if cell.torch.peft_version.is_none() && cell.upcast != Upcast::None {
        older.peft.empties_cache = false;
    }
    if older != *configuration {
        others.reason = "order of loading, by the releases of transformers and PEFT";
        others.configurations.push(older);
    }
    others
}

/// A lead of the CPU that is as possible as the one that is planned.
pub(super) struct OtherLead {
    pub(super) configuration: Configuration,
    /// The fact that would decide between them.
    pub(super) reason: &'static str,
}

/// A training in which the CPU keeps step with NCCL; `None` if its lead keeps no memory.
pub(super) fn other_lead(configuration: &Configuration) -> Option<OtherLead> {
    let mut configuration = configuration.clone();
    let reason = match &mut configuration.ranks {
        Some(Ranks::Ddp(_)) if configuration.pytorch.records_streams => {
            "lead of the CPU over NCCL while weights are broadcast"
        }
        Some(Ranks::Fsdp(fsdp)) if !fsdp.per_parameter => {
            fsdp.cpu_leads = false;
            "lead of the CPU over the GPU"
        }
        _ => return None,
    };
    configuration.pytorch.records_streams = false;
    Some(OtherLead { configuration, reason })
}

/// Data that is as possible as the one that is planned.
pub(super) struct OtherLengths {
    pub(super) data: Vec<(DataOptions, Depth)>,
    /// The fact that would decide between them.
    pub(super) reason: String,
}

/// Data of lengths that are not known: all samples as short as any may be, all as long, and as they are assumed but for
/// the longest, which is as long as any may be. Of the latter a few steps show how much more it is: nobody knows the
/// order of samples either. `None` if lengths are known.
pub(super) fn other_lengths(options: &DataOptions) -> Option<OtherLengths> {
    let Data::Synthetic(synthetic) = &options.data else {
        return None;
    };
    let [fewest, most] = synthetic.between?.map(|length| length.min(options.max_seq_length));
    let equal = |length| (Lengths::List(vec![length]), Depth::Replayed);
    let mut lengths = [fewest, most].map(equal).to_vec();
    match &synthetic.lengths {
        Lengths::Fixed | Lengths::Uniform => {}
        Lengths::List(list) => {
            let longest = list.iter().max().filter(|_| list.len() > 1);
            let longer = |longest| {
                list.iter()
                    .map(move |length| if length == longest { most } else { *length })
            };
            lengths.extend(longest.map(|longest| (Lengths::List(longer(longest).collect()), Depth::Few)));
        }
        Lengths::LogNormal(distribution) => {
            let longest = Some(most);
            let longer = Lengths::LogNormal(LogNormal {
                longest,
                ..*distribution
            });
            lengths.push((longer, Depth::Few));
        }
    }
    let of = |(lengths, depth)| {
        let mut synthetic = synthetic.clone();
        synthetic.lengths = lengths;
        let data = DataOptions {
            data: Data::Synthetic(synthetic),
            ..options.clone()
        };
        (data, depth)
    };
    Some(OtherLengths {
        data: lengths.into_iter().map(of).collect(),
        reason: format!("lengths of samples, which are not known: {fewest} to {most} tokens"),
    })
}

#[cfg(test)]
mod tests {
    use cell::{Padding, Stack, Synthetic};

    use super::*;
    use crate::{Options, Planner};

    fn cell(lengths: Lengths, between: Option<[usize; 2]>) -> Cell {
        Cell {
            stack: Stack::Torch,
            padding: Padding::Longest,
            max_seq_length: 512,
            max_steps: Some(3),
            data: Data::Synthetic(Synthetic {
                lengths,
                between,
                samples: 8,
            }),
            ..Cell::default()
        }
    }

    /// Each end is the plan of a cell whose lengths are known.
    #[test]
    fn ends_are_plans_of_known_lengths() {
        let predict = |lengths: &[usize], between| {
            let planner = Planner::new(std::path::Path::new(""), Options::default());
            planner
                .predict(&cell(Lengths::List(lengths.to_vec()), between))
                .unwrap()
        };
        let known = predict(&[100, 200], None);
        assert_eq!((known.allocated_low_bytes, known.allocated_high_bytes), (None, None));
        let unknown = predict(&[100, 200], Some([10, 600]));
        let peak = |lengths: &[usize]| predict(lengths, None).allocated_peak_bytes;
        assert_eq!(unknown.allocated_low_bytes, Some(peak(&[10])));
        let longest = peak(&[512]).max(peak(&[100, 512]));
        assert_eq!(
            unknown.allocated_high_bytes,
            Some(longest),
            "samples are cut to 512 tokens"
        );
        assert_eq!(unknown.allocated_peak_bytes, known.allocated_peak_bytes);
        assert!(unknown.needed_low_bytes < Some(unknown.needed_bytes));
        assert!(unknown.needed_high_bytes > Some(unknown.needed_bytes));
        let reason = unknown.range_reason.unwrap();
        assert!(
            reason.contains("lengths of samples, which are not known: 10 to 512 tokens"),
            "{reason}"
        );
    }

    #[test]
    fn the_longest_of_a_list_may_be_longer() {
        let options = cell(Lengths::List(vec![20, 40, 40]), Some([10, 50])).data_options();
        let lengths = |(data, _): &(DataOptions, Depth)| match &data.data {
            Data::Synthetic(synthetic) => synthetic.lengths.clone(),
            _ => unreachable!(),
        };
        let others: Vec<_> = other_lengths(&options).unwrap().data.iter().map(lengths).collect();
        assert_eq!(others, [vec![10], vec![50], vec![20, 50, 50]].map(Lengths::List));
        assert!(other_lengths(&cell(Lengths::Fixed, None).data_options()).is_none());
    }
}
