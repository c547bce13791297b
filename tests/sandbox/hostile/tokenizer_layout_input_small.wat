;; expect: 1.15
;; role: tokenizer
;; layout: input_capacity=100

