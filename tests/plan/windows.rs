//! The masks of sliding windows in plans of PyTorch's stack.

use expctl::arch::ModelConfig;
use expctl::options::{Attention, Dtype};
use expctl::torch::{Backend, Configuration, MicroBatchShape, trace};

use crate::torch;

/// transformers makes both masks of Gemma 2, so the figures are those of two blocks of which one has a window. They are
/// from `make_torch_abstract.py` with these `layer_types`.
#[test]
fn the_mask_of_a_window_is_made_even_if_no_block_has_it() {
    let (full, windowed) = ("full_attention", "sliding_attention");
    for types in [[full, full], [windowed, full], [windowed, windowed]] {
        let json = format!(r#"{{"model_type": "gemma2", "num_hidden_layers": 2, "layer_types": {types:?}}}"#);
        let model = ModelConfig::from_json(json.as_bytes()).expect("a Gemma");
        let configuration = Configuration {
            dtype: Dtype::Bfloat16,
            attn_implementation: Attention::Eager,
            max_grad_norm: 0.0,
            backend: Backend::Cpu,
            ..Configuration::new(model)
        };
        let micro = [MicroBatchShape {
            batch: 2,
            len: 256,
            padded: false,
            apart: 0,
            unpadded: 0,
        }];
        let theirs = [
            2_776_749_056,
            3_825_320_960,
            3_825_320_960,
            1_778_835_968,
            1_510_301_696,
        ];
        assert_eq!(
            torch::figures(&trace(&configuration, &[&micro, &micro])),
            theirs,
            "{types:?}"
        );
    }
}
