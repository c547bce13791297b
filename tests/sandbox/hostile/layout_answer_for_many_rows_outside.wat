;; expect: 1.15
;; role: sampler
;; layout: answer=12288 answer_capacity=4096 max_rows=64

