//! Frames of older versions.

use polars_core::prelude::*;
use torch::gpu::{Gpu, NATIVE_BFLOAT16};

use super::column::column;
use crate::columns::{Kind, key_kinds};
use crate::datum::Datum;

/// Gives the columns of an older version their present names and values. Otherwise a comparison of two versions would
/// report differences of words.
///
/// In version 0.1.0 the keys below `torch` had no prefix, and `autocast` was true or false. Later ones had
/// `torch.loss`.
pub(super) fn translate(mut frame: DataFrame) -> PolarsResult<DataFrame> {
    if frame.column("torch.loss").is_ok() {
        frame.rename("torch.loss", "loss".into())?;
    }
    if frame.columns().iter().any(|column| column.name().starts_with("torch.")) {
        return Ok(frame);
    }
    for (key, _) in key_kinds() {
        if let Some(old) = key.strip_prefix("torch.").filter(|old| frame.column(old).is_ok()) {
            frame.rename(old, key.as_str().into())?;
        }
    }
    if let Ok(autocast) = frame.column("autocast") {
        let autocast = autocast.cast(&DataType::String)?;
        let gpus = frame.column("gpu").and_then(|gpus| gpus.str()).ok();
        let format = |(row, value): (usize, Option<&str>)| match value {
            Some("false") => Datum::from("none"),
            Some("true") => format_on(gpus.and_then(|gpus| gpus.get(row))).into(),
            value => value.into(),
        };
        let formats = column("autocast", Kind::Text, autocast.str()?.iter().enumerate().map(format))?;
        frame.with_column(formats)?;
    }
    Ok(frame)
}

/// The format that `autocast: true` chose: bfloat16, unless the GPU has none.
fn format_on(gpu: Option<&str>) -> &'static str {
    let gpu = gpu.and_then(|name| Gpu::named(name).ok());
    match gpu {
        Some(gpu) if gpu.capability < NATIVE_BFLOAT16 => "float16",
        _ => "bfloat16",
    }
}

#[cfg(test)]
mod tests {
    use polars_core::prelude::{Column, DataFrame};

    use crate::frame::{parquet, read};

    const OLD: &str = "\
cell_id,gpu,autocast,use_cache,keep_outputs,zero_grad,use_reentrant,transformers_version,bitsandbytes_version,torch_version
a,,false,false,step,after_step,,,,
b,T4,true,true,none,before_forward,true,4.37.2,0.41.1,2.1.0
c,L4,true,false,step,after_step,,,,
";
    const NEW: &str = "\
cell_id,gpu,autocast,torch.use_cache,torch.keep_outputs,torch.zero_grad,torch.use_reentrant,torch.transformers_version,\
torch.bitsandbytes_version,torch.torch_version
a,,none,false,step,after_step,,,,
b,T4,float16,true,none,before_forward,true,4.37.2,0.41.1,2.1.0
c,L4,bfloat16,false,step,after_step,,,,
";

    #[test]
    fn an_older_frame_reads_like_a_present_one() {
        let folder = tempfile::tempdir().unwrap();
        let read_from = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read(&path).unwrap().0
        };
        let old = read_from("old.csv", OLD.as_bytes());
        assert!(old.equals_missing(&read_from("new.csv", NEW.as_bytes())), "{old:?}");
        let again = read_from("again.parquet", &parquet(&old).unwrap());
        assert!(again.equals_missing(&old), "{again:?}");

        let flags = [Some(false), Some(true), None];
        let columns = vec![
            Column::new("cell_id".into(), ["a", "b", "c"]),
            Column::new("autocast".into(), flags),
        ];
        let old = DataFrame::new(3, columns).unwrap();
        let old = read_from("old.parquet", &parquet(&old).unwrap());
        let formats: Vec<_> = old.column("autocast").unwrap().str().unwrap().iter().collect();
        assert_eq!(formats, [Some("none"), Some("bfloat16"), None]);
    }
}
