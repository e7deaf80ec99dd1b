//! Builds a model.

use arch::ModelConfig;
use candle_core::Device;
use options::ModelOptions;

use super::error::LoadError;
use super::families::{self, Model};
use super::loader::Loader;
use super::source::Source;

/// Builds the model of `source` on `device`, for sequences of up to `options.max_seq_length` tokens.
///
/// # Errors
/// If the source cannot be read, or the device refuses a tensor.
pub fn load(options: &ModelOptions, source: &Source, device: &Device) -> Result<Model, LoadError> {
    let config = source.config();
    families::build(&mut Loader::new(options, config, Some(source), device), config)
}

/// Builds the model of `config` in a dry run, which needs no weights.
///
/// # Errors
/// If the family is not trained here.
pub fn load_dry(options: &ModelOptions, config: &ModelConfig) -> Result<Model, LoadError> {
    families::build(&mut Loader::new(options, config, None, &Device::Cpu), config)
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use options::{
        Attention, Autocast, DEFAULT_BLOCK_SIZE, Dtype, InstructionSet, Loss, QuantType, Task, Upcast, Weights,
    };

    use super::*;
    use crate::Model;

    #[test]
    fn a_matrix_of_one_row_stays_a_matrix() {
        let config = ModelConfig {
            type_vocab_size: 1,
            num_labels: 1,
            ..Preset::named("bert-base").unwrap().config()
        };
        let options = ModelOptions {
            name: "bert-base".into(),
            weights: Weights::Random,
            task: Task::SequenceClassification,
            num_labels: 1,
            dtype: Dtype::Float32,
            bnb_4bit_quant_type: QuantType::Nf4,
            bnb_4bit_blocksize: DEFAULT_BLOCK_SIZE,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            llm_int8_threshold: None,
            upcast: Upcast::None,
            autocast: Autocast::None,
            attn_implementation: Attention::Sdpa,
            loss: Loss::Chunked,
            adapter: None,
            trainable: None,
            offloaded_blocks: None,
            offloads_embeddings: false,
            max_seq_length: 16,
            seed: 0,
        };
        memory::dry_run(InstructionSet::Portable, 0, || {
            let mut model = load_dry(&options, &config).unwrap();
            let dims = |name: &str, model: &mut Model| {
                let params = model.trainable();
                let param = params.into_iter().find(|param| param.name.to_string() == name);
                param.unwrap().value.dims().to_vec()
            };
            let types = "bert.embeddings.token_type_embeddings.weight";
            assert_eq!(dims(types, &mut model), [1, config.hidden_size]);
            assert_eq!(dims("classifier.weight", &mut model), [1, config.hidden_size]);
            assert_eq!(dims("classifier.bias", &mut model), [1]);
        });
    }
}
