//! The Hugging Face Hub: names of models and data sets, and the files of a commit in the cache that Python's
//! `huggingface_hub` shares.
//!
//! hf-hub gives the cache's layout, the addresses and the trait for progress. Its own downloads retry without
//! `Retry-After`, append any answer and check no content. `client` and `download` are there in their place.

mod cache;
mod client;
mod configs;
mod download;
mod error;
mod listing;
mod name;
mod parts;
mod repository;
mod roots;
mod settings;
mod splits;
mod wanted;

pub use error::{HubError, SplitError};
pub use hf_hub::api::Progress;
pub use name::HubName;
pub use repository::{Hub, Repository};
pub use roots::{Revision, Roots, Snapshot};
pub use settings::{Patience, Settings};
pub use splits::{files_of_folder, files_of_split, is_glob, is_same_split};
pub use wanted::{Wanted, check_weights, data_files, fetch_model, path_or_file};
