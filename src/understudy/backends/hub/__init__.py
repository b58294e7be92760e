"""``hf:NAME``: encoders, captioners and perception models in the hub's format, by transformers."""
