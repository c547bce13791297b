;; expect: 1.15
;; role: tokenizer
;; layout: output_capacity=4294967288

