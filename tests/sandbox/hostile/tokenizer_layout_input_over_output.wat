;; expect: 1.15
;; role: tokenizer
;; layout: input=12288

