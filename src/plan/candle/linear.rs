//! Linear layers with their adapters, as `nn::linear`.

use super::{
    held::{Held, Memory},
    param::Param,
};

#[derive(Debug)]
pub(super) struct Linear<'m> {
    pub inputs: u64,
    pub outputs: u64,
    pub weight: Weight<'m>,
    pub adapter: Option<Adapter<'m>>,
    /// An encoder's.
    pub bias: Option<Param<'m>>,
}

#[derive(Debug)]
pub(super) enum Weight<'m> {
    Dense(Param<'m>),
    #[expect(dead_code, reason = "held, never looked at")]
    Quantized(Vec<Held<'m>>),
}

#[derive(Debug)]
pub(super) struct Adapter<'m> {
    pub a: Param<'m>,
    pub b: Param<'m>,
}

/// What a pass's layers have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// Bytes of an element of hidden states.
    pub hidden: u64,
    /// Bytes of the numbers that products are computed from.
    pub product: u64,
    /// Whether adapters' inputs are dropped out.
    pub lora_dropout: bool,
}

impl<'m> Linear<'m> {
    fn rank(&self) -> u64 {
        self.adapter.as_ref().map_or(0, |adapter| adapter.a.rows)
    }

    fn is_masked(&self, numbers: Numbers) -> bool {
        numbers.lora_dropout && self.adapter.is_some()
    }

    pub(super) fn params_mut(&mut self) -> impl Iterator<Item = &mut Param<'m>> {
        let weight = match &mut self.weight {
            Weight::Dense(param) => Some(param),
            Weight::Quantized(_) => None,
        };
        let adapter = self
            .adapter
            .iter_mut()
            .flat_map(|adapter| [&mut adapter.a, &mut adapter.b]);
        weight.into_iter().chain(adapter).chain(&mut self.bias)
    }
}

/// The outputs of layers that share an input.
pub(super) fn forward<'m, const N: usize>(
    memory: &'m Memory,
    layers: [&Linear<'m>; N],
    tokens: u64,
    numbers: Numbers,
) -> [Held<'m>; N] {
    if layers.iter().any(|layer| layer.rank() != layers[0].rank()) {
        return layers.map(|layer| {
            let [y] = forward(memory, [layer], tokens, numbers);
            y
        });
    }
    let ranks: u64 = layers.iter().map(|layer| layer.rank()).sum();
    let _inner = memory.tensor(tokens * ranks, numbers.hidden);
    let _biases = layers.map(|layer| layer.bias.as_ref().and_then(|bias| bias.f32(memory)));
    layers.map(|layer| memory.tensor(tokens * layer.outputs, numbers.hidden))
}

/// The gradient of the input that layers share, of `element` bytes an element, and those of the adapters' inner products.
pub(super) fn input_gradient<'m, const N: usize>(
    memory: &'m Memory,
    layers: [&Linear<'m>; N],
    tokens: u64,
    numbers: Numbers,
    element: u64,
) -> (Held<'m>, Held<'m>) {
    let masked = layers.iter().any(|layer| layer.is_masked(numbers));
    if masked && element != 4 {
        let (dx, ranks) = input_gradient(memory, layers, tokens, numbers, 4);
        let narrow = memory.tensor(tokens * layers[0].inputs, element);
        drop(dx);
        return (narrow, ranks);
    }
    let ranks: u64 = layers.iter().map(|layer| layer.rank()).sum();
    let ranks = memory.tensor(tokens * ranks, numbers.hidden);
    (memory.tensor(tokens * layers[0].inputs, element), ranks)
}

/// Adds the gradients of what is trained of layers that share an input.
pub(super) fn accumulate<'m, const N: usize>(
    memory: &'m Memory,
    mut layers: [&mut Linear<'m>; N],
    tokens: u64,
    ranks: Held<'m>,
    numbers: Numbers,
) {
    for layer in &mut layers {
        if let Some(bias) = layer.bias.as_mut().filter(|bias| bias.trainable) {
            let sums = column_sums(memory, tokens, bias.columns);
            bias.accumulate(memory, sums);
        }
    }
    for layer in &mut layers {
        let elements = layer.outputs * layer.inputs;
        if let Weight::Dense(param) = &mut layer.weight
            && param.trainable
        {
            let gradient = memory.product(elements, 4);
            param.accumulate(memory, gradient);
        }
    }
    let total: u64 = layers.iter().map(|layer| layer.rank()).sum();
    if total == 0 {
        return;
    }
    let inputs = layers[0].inputs;
    let list_of_layers = memory.temporary(8 * N as u64);
    let _inner = memory.tensor(tokens * total, numbers.hidden);
    let _side_by_side = memory.temporary(total * inputs * 4);
    let gradients = layers
        .iter()
        .filter_map(|layer| layer.adapter.as_ref())
        .map(|adapter| {
            let b = memory.tensor(adapter.b.elements(), 4);
            (memory.tensor(adapter.a.elements(), 4), b)
        })
        .collect::<Vec<_>>();
    drop(list_of_layers);
    let adapters = layers.iter_mut().filter_map(|layer| layer.adapter.as_mut());
    for (adapter, (a, b)) in adapters.zip(gradients) {
        adapter.a.accumulate(memory, a);
        adapter.b.accumulate(memory, b);
    }
    drop(ranks);
}

/// The sums of a matrix's columns in float32, which are made of those of some rows each (`kernels::columns`).
pub(super) fn column_sums(memory: &Memory, rows: u64, width: u64) -> Held<'_> {
    let sums = memory.tensor(width, 4);
    drop(memory.temporary(crate::kernels::columns::parts(rows as usize) as u64 * width * 4));
    sums
}
