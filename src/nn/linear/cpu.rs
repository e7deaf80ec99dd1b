//! Linear layers on the CPU. Weights are dequantised panel by panel while they are multiplied, the adapter's second
//! product is a term of the weight's, and layers that share an input share the work on it.

use candle_core::{DType, Result, Tensor};

use super::layer::{Linear, RankGradients};
use crate::kernels::{
    buffer::written,
    gemm::{
        Operand, Segment, Source, Store, Term,
        multiply::Multiply,
        product,
        store::{AddScaled, Biased, Output, Replace, Residual, Transposed},
    },
};
use crate::nn::{
    host::{self, Format, for_format, for_number},
    lora::Lora,
    operand::{Masked, Masks, Stack, Stored},
    param::Param,
    pass::Pass,
    weight::Weight,
};

/// The outputs, in the dtype of `x`; `residual`, of the only layer's output's shape, is added to it, and so are the biases,
/// one a layer or none at all.
pub(in crate::nn) fn forward(
    linears: &[&Linear],
    biases: &[&Param],
    x: &Tensor,
    residual: Option<&Tensor>,
    pass: &Pass,
) -> Result<Vec<Tensor>> {
    if linears.iter().any(|linear| linear.rank() != linears[0].rank()) {
        let alone = |(at, linear): (usize, &&Linear)| {
            let biases = biases.get(at..=at).unwrap_or_default();
            Ok(forward(&[linear], biases, x, None, pass)?.remove(0))
        };
        return linears.iter().enumerate().map(alone).collect();
    }
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => forward_as::<E, P>(linears, biases, x, residual, pass)))
}

fn forward_as<E: Format, P: Multiply>(
    linears: &[&Linear],
    biases: &[&Param],
    x: &Tensor,
    residual: Option<&Tensor>,
    pass: &Pass,
) -> Result<Vec<Tensor>>
where
    for<'a> Stored<'a>: Source<P>,
{
    let (tokens, inputs) = x.dims2()?;
    let ranks = Ranks::of(linears);
    let h = rank_products::<E, P>(linears, &ranks, x, pass)?;
    let h = ranks.windows(&h)?;
    let x = Stored::tensor(x)?;
    let weights = linears
        .iter()
        .map(|linear| Stored::weight(&linear.weight))
        .collect::<Result<Vec<_>>>()?;
    let b = adapters(linears, |adapter| Stored::tensor(&adapter.b.value))?;
    let biases = biases.iter().map(|bias| bias.f32()).collect::<Result<Vec<_>>>()?;
    let biases = biases.iter().map(host::values::<f32>).collect::<Result<Vec<_>>>()?;
    let outputs = linears
        .iter()
        .map(|linear| Ok(linear.weight.shape()?.0))
        .collect::<Result<Vec<_>>>()?;
    let mut values: Vec<Vec<E>> = outputs
        .iter()
        .map(|outputs| written(tokens * outputs, |_: &mut [E]| ()))
        .collect();
    {
        let residual = residual.map(host::values::<E>).transpose()?;
        let outs = values
            .iter_mut()
            .zip(&outputs)
            .map(|(values, outputs)| Output::new(values, *outputs));
        let residual = residual.as_deref();
        let stores: Vec<Box<dyn Store + '_>> = outs
            .enumerate()
            .map(|(at, out)| -> Box<dyn Store> {
                match (residual, biases.get(at)) {
                    (Some(residual), None) => Box::new(Residual { out, residual }),
                    (None, None) => Box::new(Replace { out, scale: 1.0 }),
                    (residual, Some(bias)) => Box::new(Biased { out, bias, residual }),
                }
            })
            .collect();
        let segments: Vec<Segment<P>> = (0..linears.len())
            .map(|at| {
                let weight = Term {
                    left: Operand::depth_last(&x),
                    right: Operand::depth_last(&weights[at]),
                    depth: inputs,
                };
                let adapter = b[at].as_ref().map(|b| Term {
                    left: Operand::depth_last(&h[at]),
                    right: Operand::depth_last(b),
                    depth: ranks.of[at],
                });
                Segment {
                    cols: outputs[at],
                    terms: std::iter::once(weight).chain(adapter).collect(),
                    store: &*stores[at],
                }
            })
            .collect();
        product(tokens, &segments);
    }
    let tensors = values.into_iter().zip(outputs);
    tensors
        .map(|(values, outputs)| host::new(values, (tokens, outputs)))
        .collect()
}

/// The gradient of the input in `dtype`, summed over the layers, from those of the outputs; and that of the adapters'
/// inner products, for [`accumulate`].
pub(super) fn input_gradient(
    linears: &[&Linear],
    dys: &[&Tensor],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, RankGradients)> {
    let masked = is_masked(linears, pass);
    if masked && dtype != DType::F32 {
        let (dx, dh) = input_gradient(linears, dys, pass, DType::F32)?;
        return Ok((host::narrow(&dx, dtype)?, dh));
    }
    for_format!(dys[0].dtype(), E => for_number!(dys[0].dtype(), P => {
        for_format!(dtype, O => input_gradient_as::<E, O, P>(linears, dys, pass, masked))
    }))
}

fn input_gradient_as<E: Format, O: Format, P: Multiply>(
    linears: &[&Linear],
    dys: &[&Tensor],
    pass: &Pass,
    masked: bool,
) -> Result<(Tensor, RankGradients)>
where
    for<'a> Stored<'a>: Source<P>,
{
    let tokens = dys[0].dim(0)?;
    let inputs = linears[0].weight.shape()?.1;
    let ranks = Ranks::of(linears);
    let sources = dys.iter().map(|dy| Stored::tensor(dy)).collect::<Result<Vec<_>>>()?;
    let weights = linears
        .iter()
        .map(|linear| Stored::weight(&linear.weight))
        .collect::<Result<Vec<_>>>()?;
    let dh = ranks.tensor(tokens, |values: &mut [E]| {
        for (at, linear) in linears.iter().enumerate() {
            let Some(adapter) = &linear.adapter else { continue };
            let b = Stored::tensor(&adapter.b.value)?;
            let term = Term::<P> {
                left: Operand::depth_last(&sources[at]),
                right: Operand::depth_first(&b),
                depth: dys[at].dim(1)?,
            };
            let out = Output::window(values, ranks.total, ranks.start(at));
            let scale = adapter.scale as f32;
            one_product(tokens, ranks.of[at], vec![term], &Replace { out, scale });
        }
        Ok(())
    })?;
    let dh_source = Stored::tensor(&dh)?;
    let a = Stack::new(stacked(linears, |adapter| Stored::tensor(&adapter.a.value))?);
    let mut terms: Vec<Term<P>> = sources
        .iter()
        .zip(&weights)
        .zip(dys)
        .map(|((dy, weight), values)| {
            Ok(Term {
                left: Operand::depth_last(dy),
                right: Operand::depth_first(weight),
                depth: values.dim(1)?,
            })
        })
        .collect::<Result<_>>()?;
    if ranks.total > 0 && !masked {
        terms.push(Term {
            left: Operand::depth_last(&dh_source),
            right: Operand::depth_first(&a),
            depth: ranks.total,
        });
    }
    let mut dx: Vec<O> = written(tokens * inputs, |dx| {
        let out = Output::new(dx, inputs);
        one_product(tokens, inputs, terms, &Replace { out, scale: 1.0 });
    });
    if masked {
        let windows = ranks.windows(&dh)?;
        for (at, linear) in linears.iter().enumerate() {
            let Some(adapter) = &linear.adapter else { continue };
            let a = Stored::tensor(&adapter.a.value)?;
            let masks = masks(adapter, pass, inputs);
            let term = Term::<P> {
                left: Operand::depth_last(&windows[at]),
                right: Operand::depth_first(&a),
                depth: ranks.of[at],
            };
            let factor = |row, col| masks.as_ref().map_or(1.0, |masks| masks.factor(row, col));
            let out = Output::new(&mut dx, inputs);
            one_product(tokens, inputs, vec![term], &AddScaled { out, factor });
        }
    }
    drop(dh_source);
    let dx = host::new(dx, (tokens, inputs))?;
    Ok((dx, RankGradients(Some(dh))))
}

/// Adds the gradients of what is trained.
pub(super) fn accumulate(
    linears: &mut [&mut Linear],
    x: &Tensor,
    dys: &[&Tensor],
    dh: RankGradients,
    pass: &Pass,
) -> Result<()> {
    let RankGradients(Some(dh)) = dh else {
        candle_core::bail!("the adapters' gradients were not computed on the CPU")
    };
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => accumulate_as::<E, P>(linears, x, dys, &dh, pass)))
}

fn accumulate_as<E: Format, P: Multiply>(
    linears: &mut [&mut Linear],
    x: &Tensor,
    dys: &[&Tensor],
    dh: &Tensor,
    pass: &Pass,
) -> Result<()>
where
    for<'a> Stored<'a>: Source<P>,
{
    let (tokens, inputs) = x.dims2()?;
    let source = Stored::tensor(x)?;
    for (linear, dy) in linears.iter_mut().zip(dys) {
        if let Weight::Dense(param) = &mut linear.weight
            && param.trainable
        {
            let (outputs, dy) = (dy.dim(1)?, Stored::tensor(dy)?);
            let term = token_sum::<P>(&dy, &source, tokens);
            let dw = written(outputs * inputs, |dw| {
                let out = Output::new(dw, inputs);
                one_product(outputs, inputs, vec![term], &Replace::<f32> { out, scale: 1.0 });
            });
            param.accumulate(host::new(dw, (outputs, inputs))?)?;
        }
    }
    let shared: Vec<&Linear> = linears.iter().map(|linear| &**linear).collect();
    let ranks = Ranks::of(&shared);
    if ranks.total == 0 {
        return Ok(());
    }
    let h = rank_products::<E, P>(&shared, &ranks, x, pass)?;
    let (h, dh) = (ranks.windows(&h)?, ranks.windows(dh)?);

    // With dropout, each layer has its own input; without, the rows of all A's gradients are one product.
    let groups: Vec<_> = if is_masked(&shared, pass) {
        (0..shared.len()).map(|at| at..at + 1).collect()
    } else {
        std::iter::once(0..shared.len()).collect()
    };
    let mut da = Vec::with_capacity(ranks.total * inputs);
    for group in groups {
        let rows: usize = ranks.of[group.clone()].iter().sum();
        if rows == 0 {
            continue;
        }
        let masked = masked(&source, shared[group.start], pass, inputs);
        let input: &dyn Source<P> = masked.as_ref().map_or(&source as &dyn Source<P>, |masked| masked);
        let term = Term {
            left: Operand::depth_first(&dh[group.start]),
            right: Operand::depth_first(input),
            depth: tokens,
        };
        let start = da.len();
        da.resize(start + rows * inputs, 0f32);
        let out = Output::new(&mut da[start..], inputs);
        one_product(rows, inputs, vec![term], &Replace { out, scale: 1.0 });
    }
    let mut gradients = Vec::new();
    for (at, linear) in shared.iter().enumerate() {
        if linear.adapter.is_none() {
            continue;
        }
        let (outputs, rank) = (dys[at].dim(1)?, ranks.of[at]);
        let dy = Stored::tensor(dys[at])?;
        let term = token_sum::<P>(&h[at], &dy, tokens);
        let db = written(outputs * rank, |db| {
            one_product(
                rank,
                outputs,
                vec![term],
                &Transposed {
                    out: Output::new(db, rank),
                },
            );
        });
        let da = da[ranks.start(at) * inputs..][..rank * inputs].to_vec();
        gradients.push((host::new(da, (rank, inputs))?, host::new(db, (outputs, rank))?));
    }
    drop(shared);
    for (adapter, (da, db)) in linears
        .iter_mut()
        .filter_map(|linear| linear.adapter.as_mut())
        .zip(gradients)
    {
        adapter.a.accumulate(da)?;
        adapter.b.accumulate(db)?;
    }
    Ok(())
}

/// `left ᵀ · right`, both `[tokens, …]`.
fn token_sum<'a, P>(left: &'a dyn Source<P>, right: &'a dyn Source<P>, tokens: usize) -> Term<'a, P> {
    Term {
        left: Operand::depth_first(left),
        right: Operand::depth_first(right),
        depth: tokens,
    }
}

fn one_product<P: Multiply>(rows: usize, cols: usize, terms: Vec<Term<P>>, store: &dyn Store) {
    product(rows, &[Segment { cols, terms, store }]);
}

/// `scale · dropout(x) · Aᵀ` of each layer, side by side.
fn rank_products<E: Format, P: Multiply>(linears: &[&Linear], ranks: &Ranks, x: &Tensor, pass: &Pass) -> Result<Tensor>
where
    for<'a> Stored<'a>: Source<P>,
{
    let (tokens, inputs) = x.dims2()?;
    let x = Stored::tensor(x)?;
    ranks.tensor(tokens, |values: &mut [E]| {
        let same_scale = |linear: &&Linear| linear.adapter.as_ref().map(|adapter| adapter.scale);
        let together = !is_masked(linears, pass)
            && linears
                .iter()
                .all(|linear| same_scale(linear) == same_scale(&linears[0]));
        let groups: Vec<_> = if together {
            std::iter::once(0..linears.len()).collect()
        } else {
            (0..linears.len()).map(|at| at..at + 1).collect()
        };
        for group in groups {
            let Some(adapter) = &linears[group.start].adapter else {
                continue;
            };
            let masked = masked(&x, linears[group.start], pass, inputs);
            let input: &dyn Source<P> = masked.as_ref().map_or(&x as &dyn Source<P>, |masked| masked);
            let a = Stack::new(stacked(&linears[group.clone()], |adapter| {
                Stored::tensor(&adapter.a.value)
            })?);
            let term = Term {
                left: Operand::depth_last(input),
                right: Operand::depth_last(&a),
                depth: inputs,
            };
            let cols = ranks.of[group.clone()].iter().sum();
            let out = Output::window(values, ranks.total, ranks.start(group.start));
            one_product(
                tokens,
                cols,
                vec![term],
                &Replace {
                    out,
                    scale: adapter.scale as f32,
                },
            );
        }
        Ok(())
    })
}

/// The ranks of layers whose inner products stand side by side.
struct Ranks {
    of: Vec<usize>,
    total: usize,
}

impl Ranks {
    fn of(linears: &[&Linear]) -> Self {
        let of: Vec<usize> = linears.iter().map(|linear| linear.rank()).collect();
        Self {
            total: of.iter().sum(),
            of,
        }
    }

    /// The column that a layer's part begins at.
    fn start(&self, at: usize) -> usize {
        self.of[..at].iter().sum()
    }

    /// `[tokens, total]`, written by `fill`.
    fn tensor<E: Format>(&self, tokens: usize, fill: impl FnOnce(&mut [E]) -> Result<()>) -> Result<Tensor> {
        let mut filled = Ok(());
        let values = written(tokens * self.total, |values| filled = fill(values));
        filled?;
        host::new(values, (tokens, self.total))
    }

    /// Each layer's part of `[tokens, total]`.
    fn windows<'a>(&self, side_by_side: &'a Tensor) -> Result<Vec<Stored<'a>>> {
        let window = |at| Ok(Stored::Dense(host::matrix(side_by_side)?.skip_columns(self.start(at))));
        (0..self.of.len()).map(window).collect()
    }
}

/// Something of each layer's adapter.
fn adapters<'a, T>(linears: &[&'a Linear], of: impl Fn(&'a Lora) -> Result<T>) -> Result<Vec<Option<T>>> {
    linears
        .iter()
        .map(|linear| linear.adapter.as_ref().map(&of).transpose())
        .collect()
}

/// A matrix of each adapter that there is, with its rank.
fn stacked<'a>(
    linears: &[&'a Linear],
    of: impl Fn(&'a Lora) -> Result<Stored<'a>>,
) -> Result<Vec<(usize, Stored<'a>)>> {
    let with_adapter = linears
        .iter()
        .filter_map(|linear| linear.adapter.as_ref().map(|adapter| (linear.rank(), adapter)));
    with_adapter.map(|(rank, adapter)| Ok((rank, of(adapter)?))).collect()
}

/// Whether some adapter's input is not its layer's own.
fn is_masked(linears: &[&Linear], pass: &Pass) -> bool {
    let mut adapters = linears.iter().filter_map(|linear| linear.adapter.as_ref());
    adapters.any(|adapter| adapter.dropout_of(pass).is_some())
}

fn masks(adapter: &Lora, pass: &Pass, features: usize) -> Option<Masks> {
    adapter.dropout_of(pass).map(|at| Masks {
        samples: at
            .samples
            .iter()
            .map(|&sample| adapter.dropout.mask(at.step, sample))
            .collect(),
        len: pass.len,
        features,
    })
}

/// The input of a layer's adapter, where that is not the layer's own.
fn masked<'a>(x: &'a Stored<'a>, linear: &Linear, pass: &Pass, features: usize) -> Option<Masked<'a>> {
    let adapter = linear.adapter.as_ref()?;
    Some(Masked {
        x,
        masks: masks(adapter, pass, features)?,
    })
}
