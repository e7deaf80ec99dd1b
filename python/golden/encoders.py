"""DistilBERT's and BERT's golden numbers: `golden_encoders.json`, two classifiers and their adapters. Called by make.py."""
import math

import peft
import torch
import transformers
from transformers import AutoModelForSequenceClassification, BertConfig, DistilBertConfig

import family
from family import LENGTHS, Family

LABELS = 3


class Encoders(Family):
    # The third micro-batch has the padding token among those that count.
    auto, task, sampled = AutoModelForSequenceClassification, "SEQ_CLS", 2
    recorded = ["losses", "gradient_norms"]
    # Not in float16: PEFT leaves the head in that format, so torch's AdamW keeps its state in it, where 1e-8 is 0.
    runs = {
        "float32": {},
        "bfloat16": dict(dtype=torch.bfloat16),
        "accumulated": dict(accumulate=True),
        "full": dict(adapter=False),
        "full_bfloat16": dict(dtype=torch.bfloat16, adapter=False),
    }
    models = {
        # stored as a classifier's checkpoint; PEFT trains its pre_classifier and classifier whole
        "tiny_distilbert": dict(
            config=DistilBertConfig(
                vocab_size=60, max_position_embeddings=24, n_layers=2, n_heads=4, dim=20, hidden_dim=36, dropout=0.0,
                attention_dropout=0.0, seq_classif_dropout=0.0, pad_token_id=0, num_labels=LABELS,
            ),
            rank=2, alpha=8, targets=["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"],
        ),
        # the adapter is on all linear layers, the pooler's too; PEFT trains the classifier whole
        "tiny_bert": dict(
            config=BertConfig(
                vocab_size=50, max_position_embeddings=24, num_hidden_layers=2, num_attention_heads=2, hidden_size=16,
                intermediate_size=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-6,
                pad_token_id=0, num_labels=LABELS,
            ),
            rank=3, alpha=8,
        ),
    }

    def start_value(self, name, shape, generator):
        if name.endswith("bias"):
            return 0.2 * torch.randn(shape, generator=generator)
        if len(shape) == 1:
            return 1 + 0.2 * torch.randn(shape, generator=generator)
        scale = 0.5 if "embed" in name else 1.5 / math.sqrt(shape[1])
        return scale * torch.randn(shape, generator=generator)

    def make_batches(self, vocab, generator):
        """The padding token 0 also stands within a row of the third."""
        batches = []
        for lengths in LENGTHS:
            ids = torch.randint(1, vocab, (len(lengths), max(lengths)), generator=generator)
            for row, length in enumerate(lengths):
                ids[row, length:] = 0
            if lengths[2] == 2:
                ids[0, 3] = 0
            labels = torch.randint(0, LABELS, (len(lengths),), generator=generator)
            batches.append(dict(ids=ids.tolist(), lengths=lengths, labels=labels.tolist()))
        return batches

    def labels(self, batch, ids, mask):
        return torch.tensor(batch["labels"])

    def weigh(self, model, batch, taken):
        """The mean over the step's samples."""
        count = sum(len(batch["labels"]) for batch in taken)
        return model(**self.inputs(batch)).loss * (len(batch["labels"]) / count)


def write(folder):
    family.write(folder / "golden_encoders.json", [Encoders(folder)], [torch, transformers, peft])
