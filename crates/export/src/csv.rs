//! CSV: a line for each event that changes an allocation.

use std::io::{self, Write};

use results::timeline::{Allocation, Recording, State};
use trace::recording::Kind;

/// Writes the events below a header. `bytes` is the change, and `allocated_bytes` the sum of live bytes after it. A new
/// label takes two lines: the allocation leaves one category and enters the other.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(recording: &Recording, mut out: impl Write) -> io::Result<()> {
    writeln!(
        out,
        "time_ns,step,phase,event,bytes,allocation,address,category,module,dtype,shape,allocated_bytes"
    )?;
    let mut state = State::new(&recording.names);
    let mut step = None;
    for event in &recording.events {
        let before = match event.kind {
            Kind::Move => state.last_resized(),
            _ => state.live.get(&event.address).cloned(),
        };
        // `read` has replayed all events.
        if state.apply(event).is_err() {
            break;
        }
        let after = state.live.get(&event.address);
        let lines: Vec<(&str, &Allocation, i64)> = match (event.kind, &before, after) {
            (Kind::StepBegin, ..) => {
                step = Some(event.bytes);
                continue;
            }
            (Kind::Alloc, _, Some(made)) => vec![("alloc", made, made.bytes as i64)],
            (Kind::Free, Some(gone), _) => vec![("free", gone, -(event.bytes as i64))],
            (Kind::Resize, Some(before), Some(after)) => {
                let name = if after.bytes < before.bytes { "shrink" } else { "grow" };
                vec![(name, after, after.bytes as i64 - before.bytes as i64)]
            }
            (Kind::Move, _, Some(moved)) => vec![("move", moved, 0)],
            (Kind::Relabel, before, after) => {
                let left = before.iter().map(|before| ("relabel", before, -(event.bytes as i64)));
                left.chain(after.map(|after| ("relabel", after, event.bytes as i64)))
                    .collect()
            }
            _ => continue,
        };
        for (name, allocation, bytes) in lines {
            let shape = after
                .or(before.as_ref())
                .and_then(|allocation| allocation.shape.as_ref());
            writeln!(
                out,
                "{},{},{},{name},{bytes},{},{:#x},{},{},{},{},{}",
                event.nanos,
                step.map(|step| step.to_string()).unwrap_or_default(),
                state.phase.name(),
                allocation.number,
                event.address,
                allocation.category.name(),
                recording.names[usize::from(allocation.module)],
                shape.map_or("", |shape| shape.dtype),
                shape.map(|shape| format!("\"{shape}\"")).unwrap_or_default(),
                state.allocated(),
            )?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn lines_add_up() {
        let mut bytes = Vec::new();
        write(&sample::recording(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..5],
            [
                "1500,,idle,alloc,4096,0,0x1000,parameter,model.embed_tokens,,,4096",
                "9000,1,forward,alloc,48,1,0x3000,temporary,model.layers.0.mlp,,,4144",
                "13500,1,forward,relabel,-48,1,0x3000,temporary,model.layers.0.mlp,float32,\"[4, 3]\",4144",
                "13500,1,forward,relabel,48,1,0x3000,activation,model.layers.0.mlp,float32,\"[4, 3]\",4144",
            ]
        );
        let sum: i64 = lines[1..]
            .iter()
            .map(|line| line.split(',').nth(4).unwrap().parse::<i64>().unwrap())
            .sum();
        assert_eq!(sum, 4096);
        assert!(lines.last().unwrap().ends_with(",4096"));
    }
}
