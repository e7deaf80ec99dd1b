//! Generation, token after token.

use options::Generation;
use trace::Category;

use super::{Decoder, Tokens};
use crate::configuration::{Configuration, MicroBatchShape};
use crate::dtype::Dtype;
use crate::layout::Layout;
use crate::peft::Prefix;
use crate::tape::Tape;

impl<'t> Decoder<'t> {
    /// transformers' `generate` (`_sample` in `generation/utils.py` of 5.23): the likeliest token, one after the other,
    /// with a cache of keys and values. Several prompts are padded.
    pub(crate) fn generate(&self, tape: &'t Tape, configuration: &Configuration, generation: &Generation) {
        let [batch, prompt] = [generation.batch_size, generation.prompt_tokens].map(|size| size as u32);
        let input = |columns: u32| {
            let layout = Layout::contiguous(&[batch, columns]);
            tape.empty_as(layout, Dtype::Int64, Category::Input)
        };
        let virtual_prompt = self.prompt();
        // Ids, mask and positions of all tokens so far.
        let mut so_far = [input(prompt), input(prompt), input(prompt)];
        let mut past = self.prefix().map_or(0, Prefix::tokens);
        let mut cache = match self.prefix() {
            Some(prefix) => prefix.cache(batch, self.embedding.dtype()),
            None => vec![None; self.blocks.len()],
        };
        let mut _scores = None;
        for token in 0..generation.max_new_tokens {
            let columns = if token == 0 { prompt } else { 1 };
            let (ids, positions) = (input(columns), input(columns));
            let embedded = match virtual_prompt.filter(|_| token == 0) {
                Some(prompt) => prompt.before(self.embed(&ids), &ids).embedded,
                None => self.embed(&ids),
            };
            let micro = MicroBatchShape {
                batch,
                len: embedded.dim_from_last(1),
                padded: batch > 1,
                unpadded: 0,
                apart: 0,
            };
            let tokens = Tokens {
                micro: &micro,
                past,
                // PEFT takes none behind a prompt of its own.
                positions: virtual_prompt.is_none().then_some(positions),
            };
            let normed = self.hidden_states(configuration, embedded, tokens, Some(&mut cache));
            past += micro.len;
            let logits = self.logits(&normed.first_positions(1));
            drop((normed, ids));
            // Those of the token before live until then.
            _scores = Some(logits.like(Dtype::Float32));
            let next = input(1);
            so_far = so_far.map(|all| all.cat(&next, 1));
        }
    }
}
