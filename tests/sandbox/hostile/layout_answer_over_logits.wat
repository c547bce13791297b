;; expect: 1.15
;; role: sampler
;; layout: answer=4096 answer_capacity=64

