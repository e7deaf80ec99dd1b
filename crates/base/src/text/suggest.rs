//! Suggestions for misspelt words.

/// The candidate that resembles `word` most; `None` if none is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase().replace('-', "_");
    if folded.len() > 100 {
        return None;
    }
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&folded, &candidate.to_lowercase().replace('-', "_")),
                candidate,
            )
        })
        .min_by_key(|&(distance, _)| distance)?;
    (distance <= (best.len().max(folded.len()) / 3).max(1) && distance < folded.len().max(2)).then_some(best)
}

/// `did you mean …?`
pub fn did_you_mean(word: &str) -> String {
    format!("did you mean `{word}`?")
}

/// [`did_you_mean`] with the nearest of `candidates`; `None` if none is near.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(did_you_mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typing_errors_and_nothing_far() {
        let keys = ["gradient_checkpointing", "rank", "dtype", "all-linear"];
        assert_eq!(nearest("gradient_checkpoint", keys), Some("gradient_checkpointing"));
        assert_eq!(nearest("rnak", keys), Some("rank"));
        assert_eq!(nearest("all_linear", keys), Some("all-linear"));
        assert_eq!(nearest("Gib", ["GB", "GiB"]), Some("GiB"));
        assert_eq!(nearest("banana", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
