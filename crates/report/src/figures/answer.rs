//! The answer of a spec's author: sentences with figures, each judged by the cells.

use base::text::Dimension;
use base::text::format::percent;
use indexmap::IndexSet;
use results::columns::dimension;
use spec::{AnswerSentence, SpecError};

use super::evaluate::{Figures, NOT_MEASURED, written_by};
use super::units::Written;
use crate::about::About;
use crate::claims::{BoundClaim, ClaimVerdict, Decision, Purpose, Scope, decide};
use crate::group::{Group, Stat, repeats};
use crate::published::{self, ComparedFigure};
use crate::speeds::MOST_NOISE;

/// The text of a figure whose noise leaves it open.
const TOO_NOISY: &str = "(too noisy to say)";

/// A sentence of the answer with its figures, and the verdict on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerResult {
    /// The sentence, in Markdown.
    pub text: String,
    /// Untested if a figure is missing, undecided if noise leaves it open.
    pub verdict: ClaimVerdict,
    /// The reason if it is untested or undecided.
    pub why: Option<String>,
    /// The ids of the cells that it rests on.
    pub cells: Vec<String>,
    /// The columns that it rests on.
    pub columns: Vec<String>,
    /// Its place in the spec.
    pub place: String,
}

/// The sentences of a study's answer.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn answer(about: &About, groups: &[Group], purpose: Purpose) -> Result<Vec<AnswerResult>, SpecError> {
    if about.answer.is_empty() {
        return Ok(Vec::new());
    }
    // Made-up figures and predictions have no spread.
    let repeats = if purpose == Purpose::Report {
        repeats(groups)
    } else {
        Vec::new()
    };
    let judge = Judge {
        about,
        groups,
        purpose,
        compared: published::compare(&about.published, groups),
        repeats: repeats.iter().map(|groups| Scope::of_study(groups, purpose)).collect(),
    };
    about.answer.iter().map(|sentence| judge.result(sentence)).collect()
}

/// What the sentences of an answer are judged by.
struct Judge<'a> {
    about: &'a About,
    groups: &'a [Group],
    purpose: Purpose,
    compared: Vec<ComparedFigure>,
    /// The groups of each seed alone.
    repeats: Vec<Scope>,
}

/// What a sentence has read, and the reason why it is open.
#[derive(Default)]
struct Reads {
    cells: IndexSet<String>,
    columns: IndexSet<String>,
    open: Option<(ClaimVerdict, String)>,
}

impl Reads {
    fn add(&mut self, scope: &Scope) {
        self.cells.extend(scope.read_cells());
        self.columns.extend(scope.read_columns());
    }

    /// Notes the reason why the sentence is open; the first one stays.
    fn leave_open(&mut self, verdict: ClaimVerdict, why: String) {
        self.open.get_or_insert((verdict, why));
    }
}

impl Judge<'_> {
    fn result(&self, sentence: &AnswerSentence) -> Result<AnswerResult, SpecError> {
        let mut reads = Reads::default();
        let mut verdict = self.words(sentence, &mut reads)?;
        let mut text = None;
        if let Some(otherwise) = &sentence.otherwise
            && (verdict == ClaimVerdict::Refuted || self.purpose == Purpose::DryRun)
        {
            text = Some(self.text(otherwise, sentence, "otherwise", &mut reads)?);
            verdict = ClaimVerdict::Supported;
        }
        let text = match text.filter(|_| self.purpose != Purpose::DryRun) {
            Some(text) => text,
            None => self.text(&sentence.sentence, sentence, sentence.text_key(), &mut reads)?,
        };
        let (verdict, why) = match reads.open {
            Some((verdict, why)) => (verdict, Some(why)),
            None => (verdict, None),
        };
        Ok(AnswerResult {
            text: text.trim().to_owned(),
            verdict,
            why,
            cells: reads.cells.into_iter().collect(),
            columns: reads.columns.into_iter().collect(),
            place: sentence.origin.to_string(),
        })
    }

    /// A text of a sentence with its figures. It stands at `key`.
    fn text(&self, text: &str, sentence: &AnswerSentence, key: &str, reads: &mut Reads) -> Result<String, SpecError> {
        written_by(text, &sentence.origin, key, |expression| {
            let scope = Scope::of_study(self.groups, self.purpose);
            let figure = self.over(scope.clone()).figure(expression)?;
            reads.add(&scope);
            let Some(figure) = figure else {
                let why = scope.missing().unwrap_or_else(|| "a figure is missing".to_owned());
                reads.leave_open(ClaimVerdict::Untested, why);
                return Ok(NOT_MEASURED.to_owned());
            };
            let error = self.error(expression, figure, &scope)?;
            if let Some(share) = noise(figure, error, &scope) {
                let why = format!("times and speeds leave a figure open by ±{}", percent(share.into()));
                reads.leave_open(ClaimVerdict::Undecided, why);
                return Ok(TOO_NOISY.to_owned());
            }
            Ok(figure.text(error))
        })
    }

    fn over(&self, scope: Scope) -> Figures {
        Figures::over(self.about, scope, &self.compared)
    }

    /// The verdict on the words between the figures, by their condition.
    fn words(&self, sentence: &AnswerSentence, reads: &mut Reads) -> Result<ClaimVerdict, SpecError> {
        let Some(claim) = sentence.claim() else {
            return Ok(ClaimVerdict::Supported);
        };
        let bound = BoundClaim {
            index: 0,
            claim,
            groups: IndexSet::new(),
        };
        let scope = Scope::of_study(self.groups, self.purpose);
        let decision = decide(&bound, &scope, &self.repeats);
        reads.add(&scope);
        match decision {
            Ok(Decision { verdict, why, .. }) => {
                if matches!(verdict, ClaimVerdict::Untested | ClaimVerdict::Undecided) {
                    let why = why.unwrap_or_else(|| "a figure is missing".to_owned());
                    reads.leave_open(verdict, why);
                }
                Ok(verdict)
            }
            // Overrides may have taken away the cells that it is about.
            Err(_) if !self.about.overrides.is_empty() => {
                reads.leave_open(ClaimVerdict::Untested, "its cells are not in this study".to_owned());
                Ok(ClaimVerdict::Untested)
            }
            Err(error) => Err(error),
        }
    }

    /// The deviation of a figure: over repeats, and by the steps of each single run that it rests on.
    fn error(&self, expression: &str, figure: Written, scope: &Scope) -> Result<Option<f64>, base::text::Mistake> {
        // A single repeat has fewer rows, which the expression may count.
        let repeats = if scope.read_means_only() {
            self.repeats.as_slice()
        } else {
            &[]
        };
        let mut numbers = Vec::new();
        for scope in repeats {
            numbers.extend(self.over(scope.clone()).figure(expression)?.map(|one| one.number));
        }
        let deviation = Stat::of(&numbers).and_then(|stat| stat.deviation);
        let mut variance = deviation.map(|deviation| deviation.powi(2));
        for read in scope.read_once() {
            let Some(error) = scope.error_of(&read) else { continue };
            let shifted = self.over(scope.with_shift(read, 1.0 + error)).figure(expression)?;
            if let Some(shifted) = shifted {
                *variance.get_or_insert(0.0) += (shifted.number - figure.number).powi(2);
            }
        }
        Ok(variance.map(f64::sqrt))
    }
}

/// The relative deviation of a figure of time or speed that noise leaves open.
fn noise(figure: Written, error: Option<f64>, scope: &Scope) -> Option<f64> {
    let is_timed = |column: &String| matches!(dimension(column), Dimension::Time | Dimension::Speed);
    let share = error? / figure.number.abs();
    (share > MOST_NOISE && scope.read_columns().iter().any(is_timed)).then_some(share)
}

#[cfg(test)]
mod tests {
    use results::datum::Datum;
    use spec::Origin;

    use super::*;
    use crate::entry::Entry;
    use crate::group::groups;

    /// A run of this rank and seed, with its speed, and the spread of its sixteen timed steps.
    fn run(rank: u64, seed: u64, speed: f64, spread: f64) -> Entry {
        let values = [
            ("cell_id", Datum::from(format!("{rank}-{seed}").as_str())),
            ("group_id", rank.to_string().as_str().into()),
            ("status", "ok".into()),
            ("stack", "candle".into()),
            ("engine", "candle".into()),
            ("rank", rank.into()),
            ("seed", seed.into()),
            ("tokens_per_second", speed.into()),
            ("steps_timed", 16_u64.into()),
            ("step_seconds_spread", spread.into()),
            ("allocated_peak_bytes", (rank * 1024).into()),
        ];
        values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The result of one sentence over these runs.
    fn result(cells: &[Entry], sentence: &str, holds: Option<&str>, otherwise: Option<&str>) -> AnswerResult {
        let about = About {
            answer: vec![AnswerSentence {
                sentence: sentence.into(),
                holds: holds.map(Into::into),
                otherwise: otherwise.map(Into::into),
                origin: Origin::default(),
            }],
            ..About::default()
        };
        let groups = groups(cells, &["rank".to_owned()]);
        answer(&about, &groups, Purpose::Report).unwrap().remove(0)
    }

    const RATIO: &str =
        "It is {{ (mean('tokens_per_second', rank=8) / mean('tokens_per_second', rank=4)) | ratio }} as fast.";

    #[test]
    fn a_figure_of_single_runs_has_the_error_of_their_medians() {
        // 0.929 · 0.04 / √16 of each, and so √2 as much of their quotient.
        let cells = [run(4, 0, 100.0, 0.04), run(8, 0, 150.0, 0.04)];
        let found = result(&cells, RATIO, None, None);
        assert_eq!(found.text, "It is 1.50 ± 0.02× as fast.");
        assert_eq!((found.verdict, found.why), (ClaimVerdict::Supported, None));
        assert_eq!(found.cells, ["8-0", "4-0"]);
        assert_eq!(found.columns, ["tokens_per_second"]);
    }

    #[test]
    fn a_figure_of_repeats_has_their_deviation() {
        let cells = [
            run(4, 0, 100.0, 0.5),
            run(4, 1, 100.0, 0.5),
            run(8, 0, 140.0, 0.5),
            run(8, 1, 160.0, 0.5),
        ];
        assert_eq!(result(&cells, RATIO, None, None).text, "It is 1.50 ± 0.14× as fast.");
        let peak = "{{ mean('allocated_peak_bytes', rank=8) | KiB(0) }}";
        assert_eq!(result(&cells, peak, None, None).text, "8 KiB", "repeats agree");
    }

    #[test]
    fn noise_leaves_a_speed_open() {
        let cells = [run(4, 0, 100.0, 0.04), run(8, 0, 150.0, 0.6)];
        let found = result(&cells, RATIO, None, None);
        assert_eq!(found.text, "It is (too noisy to say) as fast.");
        assert_eq!(found.verdict, ClaimVerdict::Undecided);
        assert_eq!(found.why.unwrap(), "times and speeds leave a figure open by ±14.0%");
    }

    #[test]
    fn a_figure_without_data_is_not_measured() {
        let mut cells = [run(4, 0, 100.0, 0.04), run(8, 0, 150.0, 0.04)];
        cells[1].set("status", "oom".into());
        let found = result(&cells, RATIO, None, None);
        assert_eq!(
            (found.text.as_str(), found.verdict),
            ("It is not measured as fast.", ClaimVerdict::Untested)
        );
        assert_eq!(found.why.unwrap(), "rank 8 is oom");
    }

    #[test]
    fn words_are_judged_by_their_condition() {
        let cells = [run(4, 0, 100.0, 0.04), run(8, 0, 150.0, 0.04)];
        let faster =
            |factor: f64| format!("mean('tokens_per_second', rank=8) > {factor} * mean('tokens_per_second', rank=4)");
        let verdict = |factor, otherwise| {
            let found = result(&cells, "Faster.", Some(&faster(factor)), otherwise);
            (found.text, found.verdict)
        };
        assert_eq!(verdict(1.0, None), ("Faster.".into(), ClaimVerdict::Supported));
        assert_eq!(verdict(2.0, None), ("Faster.".into(), ClaimVerdict::Refuted));
        let slower = Some("It has {{ mean('tokens_per_second', rank=4) | count }}.");
        assert_eq!(
            verdict(2.0, slower),
            ("It has 100 ± 1.".into(), ClaimVerdict::Supported)
        );
        // Another run of a tenth more would turn it.
        assert_eq!(verdict(1.45, None).1, ClaimVerdict::Undecided);
        assert_eq!(verdict(1.55, slower), ("Faster.".into(), ClaimVerdict::Undecided));
    }
}
