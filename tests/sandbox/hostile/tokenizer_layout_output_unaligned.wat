;; expect: 1.15
;; role: tokenizer
;; layout: output=12292

