//! The model's weights while they are loaded, as `model::load`.

use std::cell::RefCell;

use super::{
    decoder::{self, Decoder},
    encoder::{self, Dropouts, Encoder, LayerNorm},
    held::{Held, Memory},
    linear::{Adapter, Linear, Numbers, Weight},
    param::Param,
};
use crate::{
    arch::{Family, Kind, ModelConfig, Module},
    kernels::InstructionSet,
    memory::Category,
    model::CHUNK_ELEMENTS,
    nn,
    options::{Dtype, ModelOptions},
    quant,
};

pub(super) struct Loader<'m, 'c> {
    pub(super) options: &'c ModelOptions,
    /// The instruction set of the trainer's kernels.
    pub(super) instruction_set: InstructionSet,
    pub memory: &'m Memory,
    /// What rows are read into, in float32, and its elements.
    buffer: RefCell<(u64, Option<Held<'m>>)>,
}

impl<'m, 'c> Loader<'m, 'c> {
    pub(super) fn new(options: &'c ModelOptions, instruction_set: InstructionSet, memory: &'m Memory) -> Self {
        Self {
            options,
            instruction_set,
            memory,
            buffer: RefCell::default(),
        }
    }

    pub(super) fn decoder(&self, config: &ModelConfig) -> Decoder<'m> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let embed_tokens = self.dense(&[config.vocab_size, hidden]);
        let block = |_| decoder::Block {
            input_layernorm: self.dense(&[hidden]),
            q_proj: self.linear("q_proj", queries, hidden),
            k_proj: self.linear("k_proj", keys, hidden),
            v_proj: self.linear("v_proj", keys, hidden),
            o_proj: self.linear("o_proj", hidden, queries),
            heads: config.num_attention_heads as u64,
            post_attention_layernorm: self.dense(&[hidden]),
            gate_proj: self.linear("gate_proj", inner, hidden),
            up_proj: self.linear("up_proj", inner, hidden),
            down_proj: self.linear("down_proj", hidden, inner),
        };
        let blocks = (0..config.num_hidden_layers).map(block).collect();
        let norm = self.dense(&[hidden]);
        let lm_head = (!config.tie_word_embeddings).then(|| self.dense(&[config.vocab_size, hidden]));
        let angles = (self.options.max_seq_length * (config.head_dim / 2)) as u64;
        let rope = {
            let _angles = self.memory.tensor(angles, 4);
            [(); 2].map(|()| self.memory.tensor(angles, 4))
        };
        Decoder {
            memory: self.memory,
            numbers: self.numbers(),
            embed_tokens,
            list: self.list::<nn::block::Block>(config.num_hidden_layers),
            blocks,
            norm,
            lm_head,
            rope,
        }
    }

    pub(super) fn encoder(&self, config: &ModelConfig) -> Encoder<'m> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let modules = config.family.description().block.iter();
        let modules = modules.filter(|module| module.kind == Kind::Linear);
        let names: Vec<&str> = modules.map(Module::name).collect();
        let words = self.dense(&[config.vocab_size, hidden]);
        let positions = self.dense(&[config.max_position_embeddings, hidden]);
        let types = config.type_vocab_size;
        let token_types = (types > 0).then(|| self.dense(&[types, hidden]));
        let embedding_norm = self.layer_norm(hidden);
        let block = |_| encoder::Block {
            query: self.affine(names[0], hidden, hidden),
            key: self.affine(names[1], hidden, hidden),
            value: self.affine(names[2], hidden, hidden),
            attention_output: self.affine(names[3], hidden, hidden),
            heads: config.num_attention_heads as u64,
            attention_norm: self.layer_norm(hidden),
            intermediate: self.affine(names[4], inner, hidden),
            output: self.affine(names[5], hidden, inner),
            output_norm: self.layer_norm(hidden),
        };
        let blocks = (0..config.num_hidden_layers).map(block).collect();
        let dense = match config.family {
            Family::Bert => self.affine("dense", hidden, hidden),
            _ => self.trained_affine(hidden, hidden),
        };
        Encoder {
            memory: self.memory,
            numbers: self.numbers(),
            words,
            positions,
            token_types,
            embedding_norm,
            list: self.list::<nn::encoder_block::EncoderBlock>(config.num_hidden_layers),
            blocks,
            dense,
            classifier: self.trained_affine(config.num_labels, hidden),
            dropout: Dropouts {
                hidden: config.hidden_dropout > 0.0,
                attention_output: config.hidden_dropout > 0.0 && config.family == Family::Bert,
                classifier: config.classifier_dropout > 0.0,
            },
        }
    }

    /// A list that was filled one by one, without what its elements point to.
    fn list<T>(&self, len: usize) -> Held<'m> {
        // Rust's vectors begin with four elements, unless these are large.
        let least = if size_of::<T>() > 1024 { 1 } else { 4 };
        let room = len.next_power_of_two().max(least);
        self.memory.temporary((room * size_of::<T>()) as u64)
    }

    fn numbers(&self) -> Numbers {
        let hidden = dense_bytes(self.options.dtype);
        let is_bfloat16 = matches!(self.options.dtype, Dtype::Bfloat16 | Dtype::Int4 | Dtype::Int8);
        let native = is_bfloat16 && self.instruction_set >= InstructionSet::Avx512Bf16;
        Numbers {
            hidden,
            product: if native { 2 } else { 4 },
            lora_dropout: self.options.lora.as_ref().is_some_and(|lora| lora.dropout > 0.0),
        }
    }

    /// Reads a tensor's rows: room for as many as are read at a time stays.
    fn read(&self, rows: u64, columns: u64) {
        let at_a_time = (CHUNK_ELEMENTS as u64 / columns).max(1).min(rows);
        let needed = at_a_time * columns;
        let mut buffer = self.buffer.borrow_mut();
        if needed > buffer.0 {
            let room = needed.max(2 * buffer.0);
            drop(buffer.1.take());
            *buffer = (room, Some(self.memory.temporary(room * 4)));
        }
    }

    fn param(&self, shape: &[usize], trainable: bool) -> Param<'m> {
        let element = dense_bytes(self.options.dtype);
        let elements: usize = shape.iter().product();
        let values = self.memory.tensor_of(elements as u64 * element, Category::Parameter);
        let columns = shape[shape.len() - 1] as u64;
        self.read(elements as u64 / columns, columns);
        Param::new(self.memory, shape, element, trainable, values)
    }

    fn dense(&self, shape: &[usize]) -> Param<'m> {
        self.param(shape, self.options.lora.is_none())
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Linear<'m> {
        let weight = match self.format() {
            None => Weight::Dense(self.dense(&[outputs, inputs])),
            Some(format) => Weight::Quantized(self.quantized(format, outputs, inputs)),
        };
        let lora = self.options.lora.as_ref();
        let target = lora.filter(|lora| lora.target_modules.contains(name));
        let factor = |shape: &[usize; 2]| {
            let values = self
                .memory
                .tensor_of((shape[0] * shape[1]) as u64 * 4, Category::Adapter);
            Param::new(self.memory, shape, 4, true, values)
        };
        Linear {
            inputs: inputs as u64,
            outputs: outputs as u64,
            weight,
            adapter: target.map(|lora| Adapter {
                a: factor(&[lora.rank, inputs]),
                b: factor(&[outputs, lora.rank]),
            }),
            bias: None,
        }
    }

    fn affine(&self, name: &str, outputs: usize, inputs: usize) -> Linear<'m> {
        Linear {
            bias: Some(self.dense(&[outputs])),
            ..self.linear(name, outputs, inputs)
        }
    }

    fn trained_affine(&self, outputs: usize, inputs: usize) -> Linear<'m> {
        Linear {
            inputs: inputs as u64,
            outputs: outputs as u64,
            weight: Weight::Dense(self.param(&[outputs, inputs], true)),
            adapter: None,
            bias: Some(self.param(&[outputs], true)),
        }
    }

    fn layer_norm(&self, columns: usize) -> LayerNorm<'m> {
        LayerNorm {
            weight: self.dense(&[columns]),
            bias: self.dense(&[columns]),
        }
    }

    fn format(&self) -> Option<quant::Format> {
        match self.options.dtype {
            Dtype::Int4 => Some(quant::Format::Nf4 {
                double_quant: self.options.bnb_4bit_use_double_quant,
            }),
            Dtype::Int8 => Some(quant::Format::Int8),
            _ => None,
        }
    }

    /// What stays of a quantised matrix, and while it is made, its scales in float32.
    fn quantized(&self, format: quant::Format, rows: usize, columns: usize) -> Vec<Held<'m>> {
        let bytes = format.bytes(rows, columns) as u64;
        let hold = |bytes| self.memory.hold(bytes, Category::Parameter);
        match format {
            quant::Format::Nf4 { double_quant: true } => {
                let codes = (rows * columns).div_ceil(2) as u64;
                let kept = hold(codes);
                let _absmax = hold((rows * columns).div_ceil(quant::nf4::BLOCK) as u64 * 4);
                self.read(rows as u64, columns as u64);
                vec![kept, hold(bytes - codes)]
            }
            _ => {
                let kept = hold(bytes);
                self.read(rows as u64, columns as u64);
                vec![kept]
            }
        }
    }
}

/// Bytes of an element of what is not quantised.
fn dense_bytes(dtype: Dtype) -> u64 {
    crate::model::dense_dtype(dtype).size_in_bytes() as u64
}
