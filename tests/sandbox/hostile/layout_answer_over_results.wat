;; expect: 1.15
;; role: sampler
;; layout: answer=8320 answer_capacity=64

