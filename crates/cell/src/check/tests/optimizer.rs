//! What optimizers are refused for.

use super::refused;
use crate::{Cell, Optimizer};

#[test]
fn an_optimizer_has_its_keys() {
    let lion = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.optim = Optimizer::Lion;
            change(cell);
        })
    };
    assert_eq!(
        lion(|cell| (cell.adam_beta1, cell.adam_beta2) = (0.95, Some(0.98))),
        None
    );
    assert_eq!(lion(|cell| cell.adam_epsilon = 1e-6).as_deref(), Some("adam_epsilon"));
    assert_eq!(lion(|cell| cell.optim_rank = Some(4)).as_deref(), Some("optim_rank"));
}

#[test]
fn low_rank_state_has_its_keys() {
    assert_eq!(refused(|cell| cell.optim_rank = Some(4)).as_deref(), Some("optim_rank"));
    assert_eq!(
        refused(|cell| cell.update_proj_gap = Some(9)).as_deref(),
        Some("update_proj_gap")
    );
    assert_eq!(
        refused(|cell| cell.galore_scale = Some(1.0)).as_deref(),
        Some("galore_scale")
    );
    for optim in [Optimizer::Galore, Optimizer::Rsvd] {
        let with = |change: fn(&mut Cell)| {
            refused(|cell| {
                cell.optim = optim;
                change(cell);
            })
        };
        assert_eq!(with(|_| ()), None);
        assert_eq!(
            with(|cell| (cell.optim_rank, cell.update_proj_gap) = (Some(15), Some(1))),
            None
        );
        assert_eq!(
            with(|cell| cell.optim_rank = Some(16)).as_deref(),
            Some("optim_rank"),
            "rank 16"
        );
        assert_eq!(with(|cell| cell.optim_rank = Some(0)).as_deref(), Some("optim_rank"));
        assert_eq!(
            with(|cell| cell.update_proj_gap = Some(0)).as_deref(),
            Some("update_proj_gap")
        );
        let scaled = with(|cell| cell.galore_scale = Some(1.0));
        assert_eq!(scaled.is_none(), optim == Optimizer::Galore);
    }
    for scale in [0.0, -1.0, f64::NAN] {
        let bad = refused(|cell| (cell.optim, cell.galore_scale) = (Optimizer::Galore, Some(scale)));
        assert_eq!(bad.as_deref(), Some("galore_scale"), "{scale}");
    }
}
