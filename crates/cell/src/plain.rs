//! The one way of writing each setting that stands in an id.

use options::{DEFAULT_LABEL_COLUMN, DataFormat, ExcludedModules};

use super::{Checkpointing, Data, Offload, OffloadedBlocks, TargetModules};

/// The value, unless it is this one.
pub(super) fn unless<T: PartialEq>(value: Option<T>, default: &T) -> Option<T> {
    value.filter(|value| value != default)
}

pub(super) fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}

pub(super) fn plain_targets(targets: TargetModules) -> TargetModules {
    match targets {
        TargetModules::Names(names) => TargetModules::Names(sorted(names)),
        other => other,
    }
}

pub(super) fn plain_excluded(excluded: ExcludedModules) -> ExcludedModules {
    match excluded {
        ExcludedModules::Names(names) => ExcludedModules::Names(sorted(names)),
        pattern @ ExcludedModules::Pattern(_) => pattern,
    }
}

pub(super) fn plain_blocks(checkpointing: Checkpointing) -> Checkpointing {
    match checkpointing {
        Checkpointing::Layers(layers) if layers.iter().copied().eq(0..layers.len()) => {
            Checkpointing::First(layers.len())
        }
        other => other,
    }
}

pub(super) fn plain_offload(offload: Offload) -> Offload {
    let weights = match offload.weights {
        Some(OffloadedBlocks::Blocks(indices)) => Some(OffloadedBlocks::Blocks(sorted(indices))),
        other => other,
    };
    Offload { weights, ..offload }
}

pub(super) fn plain_data(mut data: Data) -> Data {
    if let Data::File(file) = &mut data {
        let paths = &file.path;
        let by_extension = |format| paths.iter().all(|path| DataFormat::of_path(path) == Some(format));
        file.format = file.format.filter(|&format| !by_extension(format));
        file.completion_only_loss = file.completion_only_loss.filter(|only| !only);
        file.assistant_only_loss = file.assistant_only_loss.filter(|only| *only);
        file.split = file.split.take().filter(|split| split != "train");
        file.label_column = file.label_column.take().filter(|column| column != DEFAULT_LABEL_COLUMN);
    }
    data
}
