//! Errors with their causes.

use std::error::Error;

use super::visible;

/// An error and its causes in one line. A cause that the message already ends with is not repeated. What steers a terminal
/// is written out: messages quote files.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text += &format!(": {message}");
        }
        source = cause.source();
    }
    visible(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] std::fmt::Error);

    #[test]
    fn a_cause_is_not_repeated() {
        let cause = std::fmt::Error;
        assert_eq!(
            with_causes(&Outer("cannot print", cause)),
            format!("cannot print: {cause}")
        );
        let whole: &'static str = format!("cannot print: {cause}").leak();
        assert_eq!(with_causes(&Outer(whole, cause)), whole);
    }
}
