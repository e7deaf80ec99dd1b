//! The commands, one file each.
//!
//! Exit codes: 0 for success; 1 if a cell failed or a check did not hold; 2 for wrong input: the command line, the
//! spec, or the place of the results; 3 if a plan does not fit. Every error means 2, so commands return the others as
//! `Ok`.

mod accuracy;
mod cell;
mod cell_summary;
mod cells;
mod claims;
mod commands;
mod compare;
mod comparison_verdict;
mod comparison_view;
mod completions;
mod data;
mod devices;
mod export;
mod fetch;
mod fit;
mod fit_chart;
mod fit_limits;
mod fit_view;
mod gpus;
mod import;
mod init;
mod inputs;
mod list;
mod machine;
mod merge;
mod models;
mod output;
mod plan;
mod plan_answer;
mod plan_batches;
mod plan_gate;
mod plan_oom;
mod plan_oom_alone;
mod plan_report;
mod prediction_view;
mod recipes;
mod replan;
mod report;
mod report_frames;
mod requirements;
mod resolved;
mod run;
mod run_output;
mod schema;
mod screen;
mod show;
mod sources;
mod studies;
mod study_report;
mod subject;
mod unknown_flag;
mod validate;
mod verdicts;
mod version;

pub use commands::Cli;
pub use output::{FAILED, INVALID_INPUT, describe};
pub(crate) use output::{Format, ended_by, exit_code, fits_or_not, print, warn};
