//! The last segment against autograd, and the kernels against candle's ops.

use candle_core::Device;

use super::*;
use crate::linear::Projection;
use crate::testing::{
    assert_close, assert_gradients, autograd, dropout_pass, linear, param, pass, rms_norm, take_gradients, tensor,
    uniform, uniform_tensor, values_of, with_plain_ops,
};

#[test]
fn the_target_of_a_row_is_the_next_token() {
    let targets = Targets::new(&[5, 6, 7, 8, 9, 0], 3, [0, 1, 3].into_iter());
    assert_eq!(targets.rows.values(), [0, 1, 3]);
    assert_eq!(targets.next.values(), [6, 7, 9]);
}

#[test]
fn loss_and_gradients_agree_with_autograd() {
    check_by_autograd(None);
    check_by_autograd(Some(SoftCap(2.0)));
}

fn check_by_autograd(cap: Option<SoftCap>) {
    // Three panels of the head, three chunks of rows.
    let (tokens, hidden, vocabulary) = (80, 64, 70);
    let x = uniform("x", &[tokens, hidden]);
    let (mut norm, head) = (rms_norm("w", hidden, true), uniform("head", &[vocabulary, hidden]));
    let targets = Targets {
        rows: Buffer::from_fn(70, |at| at as u32 + 3),
        next: Buffer::from_fn(70, |at| (at * 31 % 70) as u32),
    };
    let oracle = |inputs: &[Candle]| {
        let rows = Candle::new(targets.rows.values(), &Device::Cpu).unwrap();
        let next = Candle::new(targets.next.values(), &Device::Cpu).unwrap();
        let next = next.unsqueeze(1).unwrap();
        let x = inputs[0].index_select(&rows, 0).unwrap();
        let inverse = (x.sqr().unwrap().mean_keepdim(1).unwrap() + 1e-5)
            .unwrap()
            .sqrt()
            .unwrap()
            .recip()
            .unwrap();
        let normed = x.broadcast_mul(&inverse).unwrap().broadcast_mul(&inputs[1]).unwrap();
        let logits = normed.matmul(&inputs[2].t().unwrap()).unwrap();
        let logits = match cap.map(|cap| f64::from(cap.0)) {
            Some(cap) => ((logits / cap).unwrap().tanh().unwrap() * cap).unwrap(),
            None => logits,
        };
        let sums = logits.exp().unwrap().sum_keepdim(1).unwrap().log().unwrap();
        (sums - logits.gather(&next, 1).unwrap()).unwrap().sum_all().unwrap()
    };
    let scale = Candle::new(0.2f32, &Device::Cpu).unwrap();
    let w = values_of(&mut norm).remove(0);
    let want = oracle(&[x.clone(), w.clone(), head.clone()])
        .to_scalar::<f32>()
        .unwrap();
    let gradients = autograd(&[&x, &w, &head], &scale, |inputs| oracle(inputs));

    let (mut head, pass) = (Head::Plain(param("head", &head, true)), pass(1, tokens));
    let mut check = |way| {
        let x = tensor(&x);
        let of = CausalLoss { way, cap };
        let (loss, dx) = of
            .forward_backward(&x, (&mut norm, &mut head), &targets, 0.2, &pass, &mut || ())
            .unwrap();
        assert!((loss as f32 - want).abs() < 1e-4, "{loss} against {want}");
        assert!((of.evaluate(&x, &norm, &head, &targets, &pass).unwrap() - loss).abs() < 1e-4);
        assert_close(&dx, &gradients[0], 1e-5, "dx");
        assert_gradients(&mut norm, &gradients[1..2], 1e-5);
        let head = head.weight_mut().unwrap();
        assert_close(head.gradient().unwrap(), &gradients[2], 1e-5, "head");
        head.release_gradient();
    };
    for way in [Loss::Chunked, Loss::Full] {
        check(way);
        with_plain_ops(|| check(way));
    }
}

#[test]
fn full_logits_are_rounded_to_the_format_of_products() {
    let targets = Targets::new(&[1, 2, 3, 4, 5, 6, 7, 0, 9, 0], 6, (0..4).chain(5..7));
    for (dtype, tolerance) in [(DType::BF16, 2e-2), (DType::F16, 2e-3)] {
        let x = uniform("x", &[10, 33]).to_dtype(dtype).unwrap();
        let head = uniform("head", &[70, 33]).to_dtype(dtype).unwrap();
        let run = |way, trainable| {
            let (mut norm, head) = (rms_norm("w", 33, false), param("head", &head, trainable));
            let (mut head, pass) = (Head::Plain(head), pass(1, 10));
            let of = CausalLoss { way, cap: None };
            let result = of.forward_backward(&tensor(&x), (&mut norm, &mut head), &targets, 0.1, &pass, &mut || ());
            (
                result.unwrap(),
                head.weight()
                    .unwrap()
                    .gradient()
                    .map(|gradient| gradient.to_candle().unwrap()),
            )
        };
        for trainable in [false, true] {
            let ((loss, dx), d_head) = run(Loss::Chunked, trainable);
            let kernels = run(Loss::Full, trainable);
            let plain = with_plain_ops(|| run(Loss::Full, trainable));
            for ((full, full_dx), full_head) in [kernels, plain] {
                assert!(
                    (full / loss - 1.0).abs() < f64::from(tolerance),
                    "{dtype:?}: {full}, {loss}"
                );
                assert_close(&full_dx, &dx, tolerance, "dx");
                assert_eq!(full_head.is_some(), trainable);
                if let (Some(full), Some(chunked)) = (&full_head, &d_head) {
                    assert_close(full, chunked, tolerance, "head");
                }
            }
        }
    }
}

#[test]
fn kernel_and_plain_ops_agree() {
    // A head that is not trained takes one pass over the logits, unless they are too far apart.
    for (trainable, size, cap) in [
        (true, 20.0, None),
        (false, 20.0, None),
        (false, 800.0, None),
        (true, 20.0, Some(SoftCap(6.0))),
        (false, 20.0, Some(SoftCap(6.0))),
    ] {
        let of = CausalLoss {
            way: Loss::Chunked,
            cap,
        };
        let targets = Targets {
            rows: Buffer::from_fn(9, |at| at as u32),
            next: vec![0, 30, 1, 2, 3, 4, 5, 6, 7].into(),
        };
        let values = (uniform("head", &[31, 7]) * size).unwrap();
        let run = || {
            let (mut norm, head) = (rms_norm("w", 7, false), param("head", &values, trainable));
            let (mut head, pass) = (Head::Plain(head), pass(1, 9));
            let x = uniform_tensor("x", &[9, 7]);
            let (loss, dx) = of
                .forward_backward(&x, (&mut norm, &mut head), &targets, 0.1, &pass, &mut || ())
                .unwrap();
            let gradient = head.weight().unwrap().gradient();
            let gradient = gradient.map(|gradient| gradient.to_candle().unwrap());
            (loss, dx, gradient, of.logits(&x, &head, &pass).unwrap())
        };
        let (kernels, plain) = (run(), with_plain_ops(run));
        assert!(
            (kernels.0 - plain.0).abs() < 1e-5 * plain.0.abs(),
            "{size}: {} by kernels, {} by plain ops",
            kernels.0,
            plain.0
        );
        let tolerance = 1e-5 * size as f32 / 20.0;
        assert_close(&kernels.1, &plain.1, tolerance, "dx");
        assert_close(&kernels.3, &plain.3, tolerance, "logits");
        assert_eq!(kernels.2.is_some(), trainable);
        if let (Some(kernels), Some(plain)) = (&kernels.2, &plain.2) {
            assert_close(kernels, plain, 1e-5, "head");
        }
    }
}

/// Panels of a head in the host's memory begin within its vocabulary, with logits that need a second pass and without.
#[test]
fn a_head_in_the_hosts_memory_gives_the_same_bits() {
    let (tokens, hidden, vocabulary) = (7, 8, 5000);
    let mut norm = rms_norm("w", hidden, false);
    let targets = Targets {
        rows: Buffer::from_fn(6, |at| at as u32),
        next: Buffer::from_fn(6, |at| (at * 983) as u32),
    };
    for (factor, way) in [(1.0, Loss::Chunked), (1e3, Loss::Chunked), (1.0, Loss::Full)] {
        let x = (uniform("x", &[tokens, hidden]) * factor).unwrap();
        let values = (uniform("head", &[vocabulary, hidden]) * factor).unwrap();
        let mut numbers = |is_offloaded: bool| {
            let (mut head, x) = (param("head", &values, false), tensor(&x));
            if is_offloaded {
                head = Param::offloaded(head.name, head.value);
            }
            let (mut head, pass) = (Head::Plain(head), pass(1, tokens));
            let of = CausalLoss { way, cap: None };
            let (loss, dx) = of
                .forward_backward(&x, (&mut norm, &mut head), &targets, 0.2, &pass, &mut || ())
                .unwrap();
            let logits = of.logits(&x, &head, &pass).unwrap().to_vec_f32().unwrap();
            let evaluated = of.evaluate(&x, &norm, &head, &targets, &pass).unwrap();
            (loss.to_bits(), evaluated.to_bits(), dx.to_vec_f32().unwrap(), logits)
        };
        assert!(numbers(true) == numbers(false), "factor {factor}, {way:?}");
    }
}

/// Chunks drop what the whole drops, though their rows are some of two sequences', and the kernels what plain ops do.
#[test]
fn a_head_with_an_adapter_is_computed_in_chunks_or_whole() {
    let (len, hidden, vocabulary) = (40, 33, 70);
    let x = uniform_tensor("x", &[2 * len, hidden]);
    let counted: Vec<u32> = (3..20).chain(25..39).chain(41..79).collect();
    let targets = Targets {
        next: Buffer::from_fn(counted.len(), |at| (at * 31 % vocabulary) as u32),
        rows: counted.into(),
    };
    for (pass, cap) in [(dropout_pass(2, len, 5), None), (pass(2, len), Some(SoftCap(2.0)))] {
        let run = |way| {
            let (mut norm, of) = (rms_norm("w", hidden, true), CausalLoss { way, cap });
            let mut head = Head::Adapted(Projection::of(linear("head", vocabulary, hidden, 4, false)));
            let of_both = (&mut norm, &mut head);
            let (loss, dx) = of
                .forward_backward(&x, of_both, &targets, 0.2, &pass, &mut || ())
                .unwrap();
            let gradients = [take_gradients(&mut norm), take_gradients(&mut head)].concat();
            let evaluated = of.evaluate(&x, &norm, &head, &targets, &pass).unwrap();
            assert!((evaluated - loss).abs() < 1e-4 * loss, "{evaluated}, {loss}");
            (loss, dx, gradients)
        };
        let whole = run(Loss::Full);
        let others = [Loss::Full, Loss::Chunked].map(|way| with_plain_ops(|| run(way)));
        for (loss, dx, gradients) in others.into_iter().chain([run(Loss::Chunked)]) {
            assert!((loss - whole.0).abs() < 1e-4 * loss, "{loss}, {}", whole.0);
            assert_close(&dx, &whole.1, 1e-5, "dx");
            assert_eq!((gradients.len(), whole.2.len()), (3, 3));
            for (got, want) in gradients.iter().zip(&whole.2) {
                assert_close(got, want, 1e-5, "gradient");
            }
        }
    }
}
