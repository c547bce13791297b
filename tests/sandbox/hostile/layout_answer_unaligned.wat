;; expect: 1.15
;; role: sampler
;; layout: answer=12290 answer_capacity=64

