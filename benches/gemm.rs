//! Matrix products at the models' shapes, in TFLOP/s, as the layers take them: the output in the operands' format.
//!
//!     cargo bench --bench gemm [-- avx2 2048x576x576 …]
//!
//! An instruction set holds the products to it; without a shape, there are those of the models.

use expctl::kernels::Dispatch as _;
use std::time::Instant;

use expctl::kernels::{
    Element, InstructionSet,
    gemm::{
        Dense, Operand, OperandReader, Segment, Term,
        epilogue::{Output, Replace},
        multiply::Multiply,
        product,
    },
};
use expctl::memory::ProcessAllocator;
use half::bf16;

/// Outputs begin at cache lines, as a trainer's do.
#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

/// Rows, depth, columns.
type Shape = [usize; 3];

const SHAPES: [Shape; 9] = [
    [2048, 576, 576],
    [2048, 576, 960],
    [2048, 576, 3072],
    [2048, 1536, 576],
    [2048, 3072, 576],
    [352, 576, 49152],
    [352, 49152, 576],
    [512, 2048, 8192],
    [512, 8192, 2048],
];
/// Runs of each, of which the median counts.
const RUNS: usize = 7;

fn main() {
    let mut asked = Vec::new();
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        if let Some(level) = InstructionSet::named(&argument) {
            assert!(level.choose(), "this CPU has no `{argument}`");
        } else {
            let shape = shape(&argument);
            asked.push(
                shape.unwrap_or_else(|| panic!("`{argument}` is neither a shape such as `2048x576x3072` nor a level")),
            );
        }
    }
    println!(
        "instruction set: {}, threads: {}",
        InstructionSet::current().name(),
        rayon::current_num_threads()
    );
    println!(
        "{:>20}  {:>12}  {:>12}  {:>12}",
        "rows x depth x cols", "bf16 x·Wᵀ", "bf16 dy·W", "f32 x·Wᵀ"
    );
    for shape in if asked.is_empty() { &SHAPES[..] } else { &asked } {
        let [rows, depth, cols] = *shape;
        let bfloat16 = |along_depth| match bf16::is_native(InstructionSet::current()) {
            true => format!("{:.3} TF/s", tera::<bf16>(*shape, along_depth)),
            false => "not native".to_owned(),
        };
        println!(
            "{:>20}  {:>12}  {:>12}  {:>7.3} TF/s",
            format!("{rows} x {depth} x {cols}"),
            bfloat16(true),
            bfloat16(false),
            tera::<f32>(*shape, true),
        );
    }
}

/// Parses `2048x576x3072`.
fn shape(argument: &str) -> Option<Shape> {
    let sizes: Result<Vec<usize>, _> = argument.split('x').map(str::parse).collect();
    sizes.ok()?.try_into().ok()
}

/// Tera-operations a second of the product of `x [rows, depth]` and a weight that is stored along the depth, or across it.
fn tera<P: Multiply + Element>([rows, depth, cols]: Shape, along_depth: bool) -> f64
where
    for<'a> Dense<'a, P>: OperandReader<P>,
{
    let (x, weight) = (vec![P::narrow(0.5); rows * depth], vec![P::narrow(0.25); cols * depth]);
    let x = Dense::new(&x, depth);
    let weight = Dense::new(&weight, if along_depth { depth } else { cols });
    let right = if along_depth {
        Operand::depth_last(&weight)
    } else {
        Operand::depth_first(&weight)
    };
    let mut out = vec![P::narrow(0.0); rows * cols];
    let mut seconds: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let store = Replace {
                out: Output::new(&mut out, cols),
                scale: 1.0,
            };
            let term = Term {
                left: Operand::depth_last(&x),
                right,
                depth,
            };
            let start = Instant::now();
            product(
                rows,
                &[Segment {
                    cols,
                    terms: vec![term],
                    epilogue: &store,
                }],
            );
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    2e-12 * (rows * depth * cols) as f64 / seconds[RUNS / 2]
}
