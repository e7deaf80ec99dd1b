//! The checks of `report.answer`, and where its sentences stand.

use std::sync::Arc;

use base::text::Mistake;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Sources;
use yaml::tree::Node;

use super::answer::AnswerSentence;
use super::entries::nodes;
use super::origin::Origin;

/// The section's name.
const SECTION: &str = "report.answer";

/// The most sentences of an answer: more of them are a report.
const MOST: usize = 4;

/// Keeps where each sentence was written, and checks it. `section` is the node that they were read from.
pub(super) fn check(
    answer: &mut [AnswerSentence],
    section: Option<&Node>,
    sources: &Arc<Sources>,
    mistakes: &mut Mistakes,
) {
    if let Some(node) = section.filter(|_| answer.len() > MOST) {
        let message = format!(
            "{SECTION}: an answer has at most {MOST} sentences, not {}",
            answer.len()
        );
        let help = "the description, the notes of claims and the tables have room for more";
        mistakes.add(Diagnostic::new(message).at(node.place).help(help));
    }
    for (sentence, (index, node)) in answer.iter_mut().zip(nodes(section)) {
        let name = format!("{SECTION}[{index}]");
        sentence.origin = Origin::of(&name, node, sources);
        let texts = [
            (sentence.text_key(), Some(&sentence.sentence)),
            ("holds", sentence.holds.as_ref()),
            ("otherwise", sentence.otherwise.as_ref()),
        ];
        if sentence.otherwise.is_some() && sentence.holds.is_none() {
            let mistake = Mistake::new("there is no condition that can be false").help("add `holds`, or leave it out");
            mistakes.add(Diagnostic::in_section(&name, "otherwise", &mistake, node));
        }
        for (key, text) in texts {
            if text.is_some_and(|text| text.trim().is_empty()) {
                let mistake = Mistake::new("it is empty");
                mistakes.add(Diagnostic::in_section(&name, key, &mistake, node));
            }
        }
    }
}
